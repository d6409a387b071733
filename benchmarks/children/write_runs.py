"""Write finished runs of 100 attributes: ``write_runs.py RUNS [POINTS]``.

The frames are made here and not by a writer, which would force every journal to disk: what is
measured later is reading. 88 parameters, a name, tags, and 10 series of POINTS points (3).
"""

from __future__ import annotations

import random
import struct
import sys
import time
from pathlib import Path

from seamark.journal.folder import RunFolder, journal_name, mint_run_id, writer_id
from seamark.journal.format import Kind, dump_json, file_header, frame_bytes, salt_of

runs, points = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
chance = random.Random(11)
NAMES = ["loss", "acc", "f1", "auc", "recall", "precision", "lr", "norm", "time", "memory"]
SERIES = [f"metrics/{name}" for name in NAMES]
begun_ns = time.time_ns() - 10**15


def parameters() -> dict[str, list[object]]:
    found: dict[str, list[object]] = {"parameters/lr": ["float", chance.choice([0.1, 0.01, 0.001])]}
    for number in range(29):
        found[f"parameters/model/width_{number}"] = ["int", chance.randrange(1024)]
        found[f"parameters/data/name_{number}"] = ["string", f"set-{chance.randrange(100)}"]
        found[f"parameters/optimizer/factor_{number}"] = ["float", chance.random()]
    return found


def write(number: int) -> None:
    folder = RunFolder(Path(".seamark"), "default", mint_run_id())
    folder.journal_dir.mkdir(parents=True)
    uid = chance.randbytes(16)
    salt, writer, t = salt_of(uid), writer_id(uid), begun_ns + number * 10**10
    parts = [file_header(uid)]

    def put(kind: int, payload: bytes, aux: int = 0) -> None:
        nonlocal t
        t += 1_000_000
        parts.append(frame_bytes(salt, kind, t, payload, aux=aux))

    def put_json(kind: int, **record: object) -> None:
        put(kind, dump_json(record))

    put_json(
        Kind.HEADER,
        format=1,
        seamark="0",
        run=folder.run,
        project=folder.project,
        writer=writer,
        attempt=0,
        owner=True,
        host="bench",
        boot=None,
        pid=1,
        start=None,
    )
    put_json(Kind.OP, op="state", state="running")
    name = ["string", f"run {number}"]
    put_json(Kind.OP, op="assign", atoms={"sys/name": name} | parameters())
    put_json(Kind.OP, op="add", path="sys/tags", values=[f"group-{number % 20}"])
    for place, path in enumerate(SERIES):
        put(Kind.PATH, struct.pack("<I", place) + path.encode())
    put(Kind.SCHEMA, struct.pack(f"<I{len(SERIES)}I", 1, *range(len(SERIES))))
    pack = struct.Struct(f"<d{len(SERIES)}d").pack
    for step in range(points):
        put(Kind.ROW, pack(step, *[chance.random() for _ in SERIES]), aux=1)
    put_json(Kind.OP, op="state", state="completed")
    put_json(Kind.CLOSE, reason="stop", dropped={})
    (folder.journal_dir / journal_name(writer, uid)).write_bytes(b"".join(parts))


for number in range(runs):
    write(number)
print("{}")
