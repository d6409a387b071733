"""Write the golden journal of format version 1, from the tables of the format alone.

Nothing of the package is imported: this is a second reading of ``docs/reference/journal.md``.
The file it wrote is committed and never written again; a test compares the two.

Run as ``python generate_v1.py FOLDER``.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from pathlib import Path

UID = bytes.fromhex("00112233445566778899aabbccddeeff")
WRITER = "golden-4711-00112233"
NAME = f"{WRITER}.{UID.hex()}"
START_NS = 1_700_000_000_000_000_000
NAN_BITS = 0x7FF8000000000000

HEADER, OP, PATH, SCHEMA, ROW, SPARSE, COLUMN, TEXT, HISTOGRAM, HEARTBEAT, CLOSE = range(1, 12)
SKIPPABLE, USER_TIME, ZLIB = 1, 2, 4


def doubles(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


def text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def records() -> list[tuple[int, int, int, bytes]]:
    """Return (kind, flags, aux, payload) of every frame."""
    header = {
        "format": 1,
        "seamark": "0.1.0",
        "run": "goldenrun0000001",
        "project": "golden/one",
        "writer": WRITER,
        "continues": None,
        "attempt": 0,
        "positions": None,
        "owner": True,
        "host": "golden",
        "boot": "2f1d0c8e-0000-4000-8000-000000000000",
        "pid": 4711,
        "start": 12345,
        "rank": None,
        "launcher": None,
        "job": None,
        "prior_t": 0,
    }
    atoms = {
        "parameters/lr": ["float", 0.001],
        "parameters/big": ["int", 2**70],
        "parameters/note": ["string", "Grüße \\udc80"],
        "parameters/none": ["null", None],
        "parameters/on": ["bool", True],
        "parameters/worst": ["float", "-inf"],
        "parameters/when": ["datetime", "2026-11-21T08:00:00+01:00"],
        "parameters/layers": ["json", "[64,128,NaN]"],
    }
    many = {f"many/{number:03}": ["int", number] for number in range(200)}
    sparse = struct.pack("<dIIIII", 7.5, 3, 0, 1, 0, 2)
    timed = struct.pack("<dqIII", 9.0, 1_600_000_000_123_456_789, 1, 0, 2)
    column = (
        struct.pack("<II", 3, 4) + doubles(0, 1, 1, 0.5) + doubles(1.5, -2.5, 3.5, float("inf"))
    )
    column_timed = struct.pack("<II", 3, 1) + doubles(2) + doubles(4.5) + struct.pack("<q", -1)
    return [
        (HEADER, 0, 0, text(header)),
        (OP, 0, 0, text({"op": "state", "state": "running"})),
        (OP, 0, 0, text({"op": "assign", "atoms": atoms, "escaped": ["parameters/note"]})),
        (OP, ZLIB, 0, zlib.compress(text({"op": "assign", "atoms": many}))),
        (OP, 0, 0, text({"op": "add", "path": "sys/tags", "values": ["a", "b"]})),
        (OP, 0, 0, text({"op": "remove", "path": "sys/tags", "values": ["b"]})),
        (PATH, 0, 0, struct.pack("<I", 0) + b"train/loss"),
        (PATH, 0, 0, struct.pack("<I", 1) + "train/Gr\u00f6\u00dfe".encode()),
        (SCHEMA, 0, 0, struct.pack("<III", 1, 0, 1)),
        (ROW, 0, 1, doubles(0, 0.5, 1)),
        (ROW, 0, 1, doubles(1) + struct.pack("<Q", NAN_BITS) + doubles(2)),
        (
            ROW,
            USER_TIME,
            1,
            doubles(1) + struct.pack("<q", 1_500_000_000 * 10**9) + doubles(0.25, 3),
        ),
        (PATH, 0, 0, struct.pack("<I", 2) + b"val/acc"),
        (SPARSE, 0, 0, sparse + bytes(-len(sparse) % 8) + doubles(4, 0.125, 0.9)),
        (SPARSE, USER_TIME, 0, timed + bytes(-len(timed) % 8) + doubles(0.95)),
        (PATH, 0, 0, struct.pack("<I", 3) + b"history"),
        (COLUMN, 0, 0, column),
        (COLUMN, USER_TIME, 0, column_timed),
        (TEXT, 0, 0, text({"path": "log", "points": [[0, "first", None], [1, "zweite", 5]]})),
        (
            HISTOGRAM,
            0,
            0,
            text({"path": "weights", "points": [[3, [0.0, 0.5, 1.0], [10, 20], None]]}),
        ),
        (HEARTBEAT, 0, 0, b""),
        (200, SKIPPABLE, 0, b"of a later version, may be skipped"),
        (HEARTBEAT, 0, 0, text({"dropped": {"disk": 3}})),
        (OP, 0, 0, text({"op": "delete", "paths": ["parameters/none"]})),
        (OP, 0, 0, text({"op": "of a later version", "anything": 1})),
        (OP, 0, 0, text({"op": "state", "state": "completed"})),
        (CLOSE, 0, 0, text({"reason": "stop", "dropped": {"disk": 3}})),
    ]


def journal() -> bytes:
    salt = zlib.crc32(UID)
    whole = struct.pack("<8sHHI16s", b"\x89SMK\r\n\x1a\n", 1, 0, 0, UID)
    for number, (kind, flags, aux, payload) in enumerate(records()):
        t = START_NS + number * 1_000_000_000
        body = struct.pack("<IBBHIq", len(payload), kind, flags, 0x5EA3, aux, t)
        body += payload + bytes(-len(payload) % 8)
        whole += struct.pack("<I", zlib.crc32(body, salt)) + body
    return whole


if __name__ == "__main__":
    (Path(sys.argv[1]) / NAME).write_bytes(journal())
