"""Memory in the training process, and the import: targets 11 and 12."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from harness import Bench, Result, Sample, child, middle, spread


def memory(bench: Bench) -> Iterator[Result]:
    """Measure resident memory over many calls with the same paths."""
    cases = {
        "10 metrics, always the same": ("same", bench.count(1_000_000)),
        "random 10 of 1,000 series, sets that never repeat": ("varied", bench.count(300_000)),
    }
    table, most = [], 0.0
    for case, arguments in cases.items():
        grown = child("sizes.py", "memory", *arguments)
        most = max(most, grown["grown_kib"])
        table.append(
            [
                case,
                f"{grown['calls']:,}",
                f"{grown['grown_kib']:.0f}",
                f"{grown['resident_mib']:.0f}",
            ]
        )
    yield Result(
        "memory",
        "Memory in the training process",
        "grows with the number of distinct paths only",
        f"{most:.0f} KiB more after the last call than after the 20,000th",
        most <= 1024,
        ["calls of", "calls", "growth, KiB", "resident, MiB"],
        table,
        "Met means under 1 MiB.",
    )


def import_time(bench: Bench) -> Iterator[Result]:
    """Measure a whole process that imports Seamark, over one that imports nothing."""
    taken = bench.interleaved(
        {
            "python": partial(_import),
            "import seamark": partial(_import, "seamark"),
            "from seamark import init_run": partial(_import, "seamark:init_run"),
        },
        max(10, bench.rounds),
    )
    used = taken["from seamark import init_run"]
    over_s = middle(used, "wall_s") - middle(taken["python"], "wall_s")
    heavy = used[0]["heavy"]
    yield Result(
        "import",
        "`import seamark` over bare Python",
        "≤ 0.15 s; no torch, no pandas, no SQLAlchemy",
        f"{over_s:.3f} s; {', '.join(heavy) or 'none of them'}",
        over_s <= 0.15 and not heavy,
        ["process", "wall s [min..max]"],
        [[name, spread(own, "wall_s", ".3f")] for name, own in taken.items()],
        note="Names of the package are loaded when they are first asked for; the last one counts.",
        rounds=max(10, bench.rounds),
    )


def _import(*modules: str) -> Sample:
    begun = time.perf_counter()
    sample = child("one_import.py", *modules)
    return sample | {"wall_s": time.perf_counter() - begun}
