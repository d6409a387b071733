"""Journals as the page about them describes their bytes, read without the package.

See ``docs/reference/journal.md``: table A has the bytes, table C the records. Nothing here is
shared with the reader of the package, so that neither can hide a fault of the other.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

_FILE_HEADER = struct.Struct("<8sHHI16s")
_FRAME_HEADER = struct.Struct("<IIBBHIq")
_MAGIC = b"\x89SMK\r\n\x1a\n"
_MARK = 0x5EA3
_MOST_BYTES = 16 << 20
_USER_TIME = 2
_ZLIB = 4


class Kind(IntEnum):
    HEADER = 1
    OP = 2
    PATH = 3
    SCHEMA = 4
    ROW = 5
    SPARSE = 6
    COLUMN = 7
    TEXT = 8
    HISTOGRAM = 9
    HEARTBEAT = 10
    CLOSE = 11


class Frame(NamedTuple):
    """One frame of a file, from an offset to the end; `aux` is the number of a row's schema."""

    offset: int
    end: int
    t: int
    kind: int
    flags: int
    aux: int
    payload: bytes

    @property
    def record(self):
        """The JSON of the payload; an empty one is an empty object."""
        return json.loads(self.payload or b"{}")


class Point(NamedTuple):
    """One point of a float series; `time` is the user's if there is one, else the frame's."""

    step: float
    value: float
    time: int


class Journal:
    """The frames of one file up to the first that is not sound, and the rest of its bytes."""

    def __init__(self, path):
        self.path = path
        data = path.read_bytes()
        magic, major, _, zero, uid = _FILE_HEADER.unpack_from(data)
        assert (magic, major, zero) == (_MAGIC, 1, 0), f"{path}: no journal of version 1"
        self.frames = []
        end = _FILE_HEADER.size
        while frame := _frame(data, end, zlib.crc32(uid)):
            self.frames.append(frame)
            end = frame.end
        self.rest = data[end:]

    @property
    def header(self):
        assert self.frames[0].kind == Kind.HEADER
        return self.frames[0].record

    @property
    def closed(self):
        return not self.rest and self.frames[-1].kind == Kind.CLOSE

    @property
    def writer(self):
        return self.path.name.rpartition(".")[0]

    def ops(self):
        return [frame.record for frame in self.frames if frame.kind == Kind.OP]


def points_in(frames):
    """Return the points of float series among the frames of a journal, each with its path."""
    paths = {}
    schemas = {}
    found = []
    for frame in frames:
        if frame.kind in (Kind.PATH, Kind.SCHEMA):
            (number,) = struct.unpack_from("<I", frame.payload)
            known = paths if frame.kind == Kind.PATH else schemas
            assert number not in known, "a number has one meaning in a journal"
            if frame.kind == Kind.PATH:
                paths[number] = frame.payload[4:].decode()
            else:
                schemas[number] = [
                    paths[no] for (no,) in struct.iter_unpack("<I", frame.payload[4:])
                ]
        elif frame.kind in (Kind.ROW, Kind.SPARSE):
            found += _row(frame, paths, schemas)
        elif frame.kind == Kind.COLUMN:
            found += _column(frame, paths)
    return found


def _frame(data, at, salt):
    """Return the frame at an offset; None if it is not whole, or not sound."""
    if len(data) - at < _FRAME_HEADER.size:
        return None
    crc, length, kind, flags, mark, aux, t = _FRAME_HEADER.unpack_from(data, at)
    begin = at + _FRAME_HEADER.size
    end = begin + length + -length % 8
    empty = length == 0 and kind != Kind.HEARTBEAT
    if mark != _MARK or kind == 0 or length > _MOST_BYTES or empty or end > len(data):
        return None
    if zlib.crc32(data[at + 4 : end], salt) != crc:
        return None
    payload = data[begin : begin + length]
    if flags & _ZLIB:
        payload = zlib.decompress(payload)
    return Frame(at, end, t, kind, flags, aux, payload)


def _row(frame, paths, schemas):
    payload, at, time = frame.payload, 8, frame.t
    (step,) = struct.unpack_from("<d", payload)
    if frame.flags & _USER_TIME:
        (time,) = struct.unpack_from("<q", payload, at)
        at += 8
    if frame.kind == Kind.ROW:
        names = schemas[frame.aux]
    else:
        size, zero = struct.unpack_from("<II", payload, at)
        assert zero == 0
        names = [paths[number] for number in struct.unpack_from(f"<{size}I", payload, at + 8)]
        at += 8 + 4 * size + -4 * size % 8
    assert len(payload) == at + 8 * len(names)
    values = struct.unpack_from(f"<{len(names)}d", payload, at)
    return [(name, Point(step, value, time)) for name, value in zip(names, values, strict=True)]


def _column(frame, paths):
    number, size = struct.unpack_from("<II", frame.payload)
    numbers = struct.unpack_from(f"<{2 * size}d", frame.payload, 8)
    times = [frame.t] * size
    if frame.flags & _USER_TIME:
        times = [*struct.unpack_from(f"<{size}q", frame.payload, 8 + 16 * size)]
    points = zip(numbers[:size], numbers[size:], times, strict=True)
    return [(paths[number], Point(*point)) for point in points]


def folder_of(run):
    """Return the folder of a run; a path is taken for one."""
    return run if isinstance(run, Path) else Path(run.root, run.project, run.id)


def journal_files(run):
    """Return the files of a run's journals, sorted by name; of a run or its folder."""
    folder = folder_of(run) / "journal"
    if not folder.is_dir():
        return []
    return sorted(
        one for one in folder.iterdir() if re.fullmatch(r"[^.].*\.[0-9a-f]{32}", one.name)
    )


def journals(run):
    """Return the journals of a run, the oldest first; of a run or its folder."""
    found = [Journal(path) for path in journal_files(run)]
    return sorted(found, key=lambda one: one.frames[0].t)


def headers(run):
    return [journal.header for journal in journals(run)]


def records(run, *kinds):
    frames = [frame for journal in journals(run) for frame in journal.frames if frame.kind in kinds]
    return [frame.record for frame in sorted(frames, key=lambda frame: frame.t)]


def operations(run):
    return records(run, Kind.OP)
