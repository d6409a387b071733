"""Sealing many small files, beside what only hashes or only copies them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness import Bench, Result, Sample, child, middle, spread

_SIZE = 10_000
_MOST = 3.0


def sealing(bench: Bench) -> Iterator[Result]:
    """Measure `add_dir` and `save` of 10,000 files of 10 kB."""
    count = bench.count(10_000)
    with tempfile.TemporaryDirectory(prefix="seamark-bench-") as work:
        data = Path(work) / "data"
        for number in range(count):
            file = data / f"{number % 100:03d}" / f"{number:05d}.bin"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(os.urandom(_SIZE))
        turns = iter(range(1_000))

        def run(contestant: str) -> Sample:
            # A folder of its own that stays till the end: ext4 takes long to make a file where
            # others have just been removed, whoever makes it.
            empty = Path(work) / f"{next(turns)}"
            empty.mkdir()
            return child("seal_artifact.py", contestant, data, empty)

        taken = bench.interleaved(
            {
                "sha256sum": lambda: run("sha256sum"),
                "cp": lambda: run("cp"),
                "seamark": lambda: run("seamark"),
            }
        )
    cpu = {who: middle(samples, "seal_cpu_ms") for who, samples in taken.items()}
    titles = {
        "sha256sum": "sha256sum, of all files",
        "cp": "cp -r",
        "seamark": "**Seamark**, `add_dir` and `save`",
    }
    table = [
        [
            titles[who],
            spread(samples, "seal_cpu_ms", ".0f"),
            spread(samples, "seal_ms", ".0f"),
            f"{cpu[who] / cpu['sha256sum']:.2f}",
        ]
        for who, samples in taken.items()
    ]
    table.append(
        [
            "**Seamark**, `download`, each file compared with its digest",
            spread(taken["seamark"], "read_cpu_ms", ".0f"),
            spread(taken["seamark"], "read_ms", ".0f"),
            f"{middle(taken['seamark'], 'read_cpu_ms') / cpu['sha256sum']:.2f}",
        ]
    )
    ratio = cpu["seamark"] / cpu["sha256sum"]
    both = cpu["seamark"] / (cpu["sha256sum"] + cpu["cp"])
    yield Result(
        "seal-artifact",
        f"Sealing an artifact of {count:,} files of 10 kB",
        f"bound by hashing: ≤ {_MOST:.0f} x the CPU of sha256sum",
        f"{ratio:.2f} x sha256sum; {both:.2f} x sha256sum and cp together",
        ratio <= _MOST,
        ["", "CPU ms [min..max]", "ms [min..max]", "CPU ÷ sha256sum"],
        table,
        "Sealing copies the files, too, and forces the copies to disk before it returns; the "
        "other two do not. Files are in the page cache, and the process has sealed one small "
        "artifact before.",
        bench.rounds,
    )
