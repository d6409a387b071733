"""Write one finished run of a very long series: ``write_long.py POINTS``.

The frames are made here, half a million points each. One value among them is a spike.
"""

from __future__ import annotations

import itertools
import json
import struct
import sys
import time
from pathlib import Path

import numpy as np

from seamark.journal.folder import RunFolder, journal_name, mint_run_id, writer_id
from seamark.journal.format import Kind, dump_json, file_header, frame_bytes, salt_of

PART, SPIKE = 500_000, 1e6
points = int(sys.argv[1])
folder, uid = RunFolder(Path(".seamark"), "default", mint_run_id()), bytes(range(16))
folder.journal_dir.mkdir(parents=True)
salt, writer, t = salt_of(uid), writer_id(uid), itertools.count(time.time_ns() - 10**12, 1_000_000)
spike_at = points * 7 // 9
chance = np.random.default_rng(11)
with (folder.journal_dir / journal_name(writer, uid)).open("wb") as file:
    file.write(file_header(uid))

    def put(kind: int, payload: bytes) -> None:
        file.write(frame_bytes(salt, kind, next(t), payload))

    header = {"format": 1, "seamark": "0", "run": folder.run, "project": folder.project}
    header |= {"writer": writer, "attempt": 0, "owner": True, "host": "bench", "boot": None}
    put(Kind.HEADER, dump_json(header | {"pid": 1, "start": None}))
    put(Kind.OP, dump_json({"op": "state", "state": "running"}))
    put(Kind.PATH, struct.pack("<I", 0) + b"train/loss")
    for start in range(0, points, PART):
        step = np.arange(start, min(start + PART, points), dtype="<f8")
        value = 1 / (1 + step / points) + chance.normal(0, 0.01, len(step))
        if start <= spike_at < start + len(step):
            value[spike_at - start] = SPIKE
        put(
            Kind.COLUMN,
            struct.pack("<II", 0, len(step)) + step.tobytes() + value.astype("<f8").tobytes(),
        )
    put(Kind.OP, dump_json({"op": "state", "state": "completed"}))
    put(Kind.CLOSE, dump_json({"reason": "stop", "dropped": {}}))
print(json.dumps({"run": folder.run, "spike_step": spike_at, "spike": SPIKE}))
