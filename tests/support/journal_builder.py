"""Journals written by hand, every time chosen, what they say in plain Python, and their folding."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

from seamark.journal.folder import journal_name, split_journal_name
from seamark.journal.format import (
    FILE_HEADER_BYTES,
    SKIPPABLE,
    USER_TIME,
    ZLIB,
    Kind,
    dump_json,
    file_header,
    frame_bytes,
    salt_of,
)
from seamark.journal.frames import walk
from seamark.journal.reader import Block
from seamark.store.database import retry
from seamark.store.ingest import Folding

START = 1_790_000_000_000_000_000
"""Time of the first frame unless a test says otherwise, nanoseconds since the Unix epoch."""


class Said(NamedTuple):
    """One record of a journal, for oracles that must not look at bytes."""

    offset: int
    t: int
    what: str
    value: Any


class JournalBuilder:
    """One journal; every method appends one record and returns the builder."""

    def __init__(
        self, name="one", *, t=START, attempt=0, positions=None, owner=True, header=True, **facts
    ):
        self.uid = name.encode().ljust(16, b"\0")[:16]
        self.writer = f"host-1-{name}"
        self.salt = salt_of(self.uid)
        self.t = t
        self._data = bytearray(file_header(self.uid))  # bytes would be copied for every frame
        self.said = []
        self.ends = []
        self.hidden = set()
        """Offsets of points that an oracle takes for hidden, beside what headers say."""
        self.header = {
            "writer": self.writer,
            "attempt": attempt,
            "positions": positions,
            "owner": owner,
            "host": "host",
            "boot": None,
            "pid": 1,
            "start": None,
            **facts,
        }
        self._paths = {}
        self._schemas = {}
        if header:
            self.frame(Kind.HEADER, dump_json(self.header))

    @property
    def file(self):
        return journal_name(self.writer, self.uid)

    @property
    def offset(self):
        return len(self._data)

    @property
    def data(self):
        return bytes(self._data)

    @data.setter
    def data(self, data):
        self._data[:] = data

    def wait(self, ns):
        self.t += ns
        return self

    def frame(self, kind, payload, *, flags=0, aux=0, said=None):
        self.t += 1
        what, value = said or ("", None)
        self.said.append(Said(self.offset, self.t, what, value))
        self._data += frame_bytes(self.salt, kind, self.t, payload, flags=flags, aux=aux)
        self.ends.append(self.offset)
        return self

    def op(self, op, **record):
        record = {"op": op, **record}
        return self.frame(Kind.OP, dump_json(record), said=("op", record))

    def assign(self, **atoms):
        """Assign ints, floats, strings and bools; ``a__b`` is the path ``a/b``."""
        names = {int: "int", float: "float", str: "string", bool: "bool", type(None): "null"}
        pairs = {
            path.replace("__", "/"): [names[type(value)], value] for path, value in atoms.items()
        }
        return self.op("assign", atoms=pairs)

    def number(self, path):
        if path not in self._paths:
            self._paths[path] = len(self._paths)
            payload = struct.pack("<I", self._paths[path]) + path.encode()
            self.frame(Kind.PATH, payload)
        return self._paths[path]

    def row(self, metrics, step, *, time=None, packed=False):
        paths = tuple(metrics)
        numbers = [self.number(path) for path in paths]
        if paths not in self._schemas:
            self._schemas[paths] = len(self._schemas)
            payload = struct.pack(f"<{len(numbers) + 1}I", self._schemas[paths], *numbers)
            self.frame(Kind.SCHEMA, payload)
        user = b"" if time is None else struct.pack("<q", time)
        payload = struct.pack("<d", step) + user + struct.pack(f"<{len(paths)}d", *metrics.values())
        flags = 0 if time is None else USER_TIME
        if packed:
            import zlib

            payload, flags = zlib.compress(payload), flags | ZLIB
        points = [(path, step, value, time) for path, value in metrics.items()]
        return self.frame(
            Kind.ROW, payload, flags=flags, aux=self._schemas[paths], said=("points", points)
        )

    def sparse(self, metrics, step, *, time=None):
        numbers = [self.number(path) for path in metrics]
        user = b"" if time is None else struct.pack("<q", time)
        names = struct.pack(f"<II{len(numbers)}I", len(numbers), 0, *numbers)
        names += bytes(-len(names) % 8)
        payload = struct.pack("<d", step) + user + names
        payload += struct.pack(f"<{len(numbers)}d", *metrics.values())
        points = [(path, step, value, time) for path, value in metrics.items()]
        flags = 0 if time is None else USER_TIME
        return self.frame(Kind.SPARSE, payload, flags=flags, said=("points", points))

    def column(self, path, steps, values, times=None):
        size = len(steps)
        payload = struct.pack("<II", self.number(path), size)
        payload += struct.pack(f"<{2 * size}d", *steps, *values)
        if times is not None:
            payload += struct.pack(f"<{size}q", *times)
        points = [
            (path, step, value, times[at] if times else None)
            for at, (step, value) in enumerate(zip(steps, values, strict=True))
        ]
        flags = 0 if times is None else USER_TIME
        return self.frame(Kind.COLUMN, payload, flags=flags, said=("points", points))

    def texts(self, path, *points):
        record = {"path": path, "points": [[*point, None][:3] for point in points]}
        return self.frame(Kind.TEXT, dump_json(record), said=("texts", record))

    def histograms(self, path, *points):
        record = {"path": path, "points": [[*point, None][:4] for point in points]}
        return self.frame(Kind.HISTOGRAM, dump_json(record), said=("histograms", record))

    def heartbeat(self, **dropped):
        payload = dump_json({"dropped": dropped}) if dropped else b""
        return self.frame(Kind.HEARTBEAT, payload)

    def unknown(self, *, skippable=True):
        return self.frame(77, b"from the future", flags=SKIPPABLE if skippable else 0)

    def close(self, **dropped):
        return self.frame(Kind.CLOSE, dump_json({"reason": "stop", "dropped": dropped}))

    # what readers get

    def block(self, start=0, end=None):
        """Return the whole frames between two offsets as a reader gives them."""
        base = max(start, FILE_HEADER_BYTES)
        data = bytes(self._data[base:end])
        frames, stop, _ = walk(data, self.salt)
        return Block(base, data, frames, base + stop) if len(frames) else None

    def save(self, folder, end=None):
        """Write the journal, or its beginning, into a run folder."""
        path = (folder if isinstance(folder, Path) else folder.path) / "journal" / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._data[:end])
        return path


def fold_run(store, project, run, sources, now_ns):
    """Fold what is new of a run, of all of its journals, and save it."""
    journals = {uid: name for name in sources if (uid := split_journal_name(name)[1])}

    def fold():
        folding = Folding(store, project, run, lambda name: sources[name](), now_ns)
        folding.add_journals(journals)
        folding.fold()
        if folding.changed:
            folding.save()

    retry(fold)
