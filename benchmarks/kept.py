"""How many batches and bytes of journals a second are kept, on each engine.

Run ``python benchmarks/kept.py [postgresql://...]``; without a URL it measures SQLite alone. What
is timed is from a batch in memory to its acknowledgement: checking its frames, writing the object
with its fsync, and the transaction that names it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from seamark.journal.format import Kind, dump_json, file_header, frame_bytes, salt_of
from seamark.server.databases import open_databases
from seamark.server.kept import layout
from seamark.server.kept.intake import Intake
from seamark.server.objects import FolderObjects


@dataclass(frozen=True)
class Speed:
    """What was measured.

    Attributes:
        batches_s: Batches a second.
        mib_s: MiB of journals a second.
        cpu_s: Processor time of this process for each second, with all its threads.
        objects: How many objects were written.
        worst_s: The longest that one batch waited, seconds.
    """

    batches_s: float
    mib_s: float
    cpu_s: float
    objects: int
    worst_s: float


def make_journal(run: str, number: int, batches: int, rows: int) -> tuple[str, list[bytes]]:
    """Return a journal's file name and its batches, each with some rows of ten metrics."""
    uid = os.urandom(16)
    writer, salt = f"host-{number}-{uid.hex()[:8]}", salt_of(uid)
    header = {"format": 1, "run": run, "project": "bench/x", "writer": writer}
    t = time.time_ns()
    first = file_header(uid) + frame_bytes(salt, Kind.HEADER, t, dump_json(header))
    found = [first]
    for _ in range(batches - 1):
        frames = []
        for _ in range(rows):
            t += 1
            frames.append(frame_bytes(salt, Kind.ROW, t, os.urandom(88), aux=1))
        found.append(b"".join(frames))
    return f"{writer}.{uid.hex()}", found


def measure(url: str, folder: Path, senders: int = 64, batches: int = 20, rows: int = 100) -> Speed:
    """Have many runs send at once; see `Speed`.

    Args:
        url: Of the databases, as `seamark.server.databases.open_databases` takes it.
        folder: Of the objects; empty.
        senders: How many runs send, each from a thread.
        batches: How many batches each of them sends, one after the other.
        rows: Of ten metrics, in each batch.
    """
    databases = open_databases(url)
    databases.kept.create_tables(layout.metadata)
    objects = FolderObjects(folder)
    intake = Intake(databases.kept, objects)
    runs = [f"run{number:05d}" for number in range(senders)]
    journals = [make_journal(run, number, batches, rows) for number, run in enumerate(runs)]
    waited: list[float] = []

    def send(run: str, name: str, parts: list[bytes]) -> None:
        offset = 0
        for part in parts:
            began = time.perf_counter()
            offset = intake.put("bench/x", run, name, offset, part).offset
            waited.append(time.perf_counter() - began)

    threads = [
        threading.Thread(target=send, args=(run, *journal))
        for run, journal in zip(runs, journals, strict=True)
    ]
    began, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    intake.close()
    size = sum(len(part) for _, parts in journals for part in parts)
    count = sum(1 for _ in objects.listed("journals/"))
    objects.close()
    databases.close()
    return Speed(
        len(waited) / took, size / took / (1 << 20), used / took, count, max(waited, default=0.0)
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        urls = [f"sqlite:///{place / 'databases'}", *sys.argv[1:]]
        for number, url in enumerate(urls):
            for rows in (100, 2000):
                speed = measure(url, place / f"objects{number}-{rows}", rows=rows)
                print(
                    f"{url.split(':')[0]}, 64 runs, {rows} rows of 10 metrics a batch: "
                    f"{speed.batches_s:,.0f} batches/s, {speed.mib_s:,.1f} MiB/s, "
                    f"{speed.cpu_s:.2f} cores, {speed.objects} objects, "
                    f"at most {speed.worst_s:.2f} s"
                )


if __name__ == "__main__":
    main()
