"""Journals that somebody made up: every CRC is right, and nothing else need be."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import logging
import os
import struct
import zlib

import pytest
from command import outcome_of
from journal_builder import JournalBuilder
from recording import QUIET

from seamark import init_project, init_run
from seamark.errors import SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.format import ZLIB, Kind
from seamark.journal.reader import JournalReader
from seamark.process.liveness import process_facts

BLOB = b"blob"
SHA = "fa2c8cc4f28176bbeed4b736df569a34c79cd3723e9ec42f9674b4d46ac6b8b8"
PATHS = (
    *("a", "a/b", "model", "loss", "/x", "x/", "//"),
    *(f"sys/{name}" for name in ("name", "tags", "trashed", "failed", "hostname", "state")),
    *(f"monitoring/{name}" for name in ("seamark/gaps", "seamark/dropped", "host-1-w0/traceback")),
    *("profiling/own_time_s", "distributed/world_size", "source_code/git/commit"),
)

BLOB_OF = {"sha256": SHA, "size": 4}
ODD = [
    *(None, True, False, 0.0, -0.0, 0.5, 1e308, 5e-324, -1e300),
    *(0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**70, 10**23, 10**400),
    *("", "x", "..", "/etc/passwd", "../../x", "\x00", "\ud800", "é" * 300, "0" * 64),
    *(SHA, "nan", "inf", "0x1f", "zz", "a\nb", "\x1b[31m", "=1+1", "[" * 99_999),
    *([], {}, [1], [[1]], {"": None}, {"sha256": 7, "size": []}, [None] * 5, {"a": 1}),
    *(BLOB_OF, {**BLOB_OF, "size": 2**62}, {"../x": [4, SHA]}),
]
"""What stands where something else is expected."""

FILES = [
    {"name": "x", "ext": "txt", **BLOB_OF},
    {"name": "y.txt", "size": 4, "staged": "ab", "mtime_ns": 1, "inode": 1},
    {"dir": True, "staged": "cd", "members": {"a/b": [4, SHA], "../x": [2**40, "0" * 64]}},
    {"name": "../x", "size": 4, "ref": "{run}/blobs/" + SHA},
    {"ref": "s3://b/x", "source": "/etc/passwd"},
    {"ext": "/x", "lost": "changed"},
]
OPS = [
    *({"op": "assign", "atoms": {path: ["int", 1]}} for path in PATHS),
    *({"op": "assign", "atoms": {kind: [kind, 1]}} for kind in ("float", "string", "json", "text")),
    *({"op": op, "path": "sys/tags", "values": ["x"]} for op in ("add", "remove", "assign_set")),
    *({"op": "file", "path": "model", "file": file} for file in FILES),
    {"op": "own", "path": "model", "token": "t", "file": FILES[1]},
    {"op": "digest", "path": "model", "token": "t", "file": FILES[0]},
    {"op": "files", "path": "a", "members": {"x": FILES[0], "../x": FILES[1]}},
    {"op": "unfiles", "path": "a", "names": ["x"]},
    {"op": "artifact", "path": "model", "kind": "x", "hash": "x", "references": ["/x"]},
    {"op": "artifact", "path": "model", "files": [{"path": "../x", **BLOB_OF}]},
    {"op": "file_point", "path": "a", "step": 1, "file": FILES[0], "time": 0, "name": "x"},
    {"op": "state", "state": "failed", "error": {"type": "x", "message": "y"}, "signal": "x"},
    {"op": "delete", "paths": ["a", "loss"]},
    {"op": "clear", "path": "loss"},
    {"op": "checkpoint", "mark": 5},
]
HEADERS = [
    {"run": "x", "writer": "x", "user": "x", "lineage": "x", "job": "x", "owner": True},
    {"attempt": 2, "rank": 1, "restarts": 1, "positions": {"host-1-w0": 5, "w": 7}},
    {**{key: process_facts()[key] for key in ("host", "boot")}, "pid": os.getpid(), "start": 3},
]
SERIES_OF_ONE_PATH = [
    (Kind.HISTOGRAM, {"path": "a", "points": [[0, [0, 1], [1]]]}),
    (Kind.TEXT, {"path": "a", "points": [[0, "x"]]}),
    (Kind.OP, {"op": "file_point", "path": "a", "step": 0, "file": {}}),
]
USUAL = [
    *((Kind.OP, op) for op in [*OPS, None, [], 7]),
    *((Kind.HEADER, header) for header in HEADERS),
    (Kind.TEXT, {"path": "a", "points": [[0, "x"], [2.5, BLOB_OF, 1_790_000_000_000_000_000]]}),
    (Kind.HISTOGRAM, {"path": "a", "points": [[0, [0, 1], [1]], [1, [0, 1, 2], [1, 2], None]]}),
    (Kind.HEARTBEAT, {"reason": "x", "dropped": {"disk": 3}}),
    (Kind.PATH, struct.pack("<I", 0) + b"loss"),
    (Kind.SCHEMA, struct.pack("<III", 0, 0, 0)),
    (Kind.ROW, struct.pack("<ddd", 1, 2, float("nan"))),
    (Kind.COLUMN, struct.pack("<IIdd", 0, 1, 1.0, 2.0)),
    (Kind.SPARSE, struct.pack("<dIIIId", 1.0, 1, 0, 0, 0, 5.0)),
    *((kind, b"\xff\xfe[\x00]\x00") for kind in (Kind.PATH, Kind.SCHEMA, Kind.ROW, Kind.OP, 77)),
    (Kind.OP, b'{"op":"assign","atoms":{"n":["float",NaN]}}'),
    (Kind.OP, b'{"op":"assign","atoms":{"s":["string","\xed\xa0\x80"]}}'),
    (Kind.OP, '{"op":"assign","atoms":{"u":["int",1]}}'.encode("utf-16")),
]


def places(value, above=()):
    if isinstance(value, dict | list):
        for step in value if isinstance(value, dict) else range(len(value)):
            yield (*above, step)
            yield from places(value[step], (*above, step))


def spoilt(usual, odd):
    """Yield each record as it is, and with something odd in each of its places in turn."""
    paths = itertools.cycle(PATHS)
    for kind, value in usual:
        yield kind, value
        for *above, last in places(value):
            found = copy.deepcopy(value)
            if "path" in found:
                found["path"] = next(paths)
            inside = found
            for step in above:
                inside = inside[step]
            inside[last] = next(odd)
            yield kind, found


def craft(folder, journals):
    for place, name in ((folder.blobs_dir, SHA), (folder.staging_dir, "ab")):
        place.mkdir(parents=True)
        (place / name).write_bytes(BLOB)
    for number, (header, rest) in enumerate(journals):
        journal = JournalBuilder(f"w{number}", header=False)
        everything = [((Kind.HEADER, header), 1, False), *rest]
        for (kind, value), tick, packed in everything:
            payload = value
            if not isinstance(value, bytes):
                payload = json.dumps(value).replace("{run}", str(folder.path)).encode()
            payload = zlib.compress(payload) if packed else payload
            journal.t = max(-(2**63), min(2**63 - 2, journal.t + tick))
            journal.frame(kind, payload, flags=ZLIB if packed else 0)
        journal.save(folder)


def read_all_of_it(folder, target):
    """Read the run in every way; what is wrong with it is an error of ours, and never another."""
    run = init_run("p", with_id=folder.run, root=folder.root, mode="read-only", **QUIET)
    run.fetch()
    run.get_structure()
    target.mkdir()
    for attribute in run.session.recorded.attributes():
        try:
            handler = run[attribute.path]
        except SeamarkError:  # a path that the grammar refuses, and no reader can ask for
            continue
        for verb in ("fetch", "fetch_last", "fetch_points", "fetch_hash", "fetch_bytes"):
            with contextlib.suppress(SeamarkError):
                getattr(handler, verb)()
        for verb in ("fetch_extension", "fetch_files_list", "list_fileset_files"):
            with contextlib.suppress(SeamarkError, KeyError):
                getattr(handler, verb)()
        for verb in ("download", "download_last"):
            with contextlib.suppress(SeamarkError, FileExistsError, IsADirectoryError):
                getattr(handler, verb)(str(target))
    with init_project("p", root=folder.root) as project:
        project.fetch_runs_table().to_rows()
        project.fetch_runs_table(columns=["*"]).to_rows()
        project.fetch_series(["loss", "a", "a/b"]).to_rows()
    run.stop()


def listed(place):
    return {path.relative_to(place).as_posix() for path in place.rglob("*")}


COMMANDS = (
    ("ls", "--json"),
    ("ls", "--trashed", "-c", "*"),
    ("show", "crafted"),
    ("show", "crafted", "--json"),
    ("show", "crafted", "a"),
    ("fsck", "--blobs"),
    ("export", "crafted", "-f", "json"),
    ("export", "crafted", "-w", "series", "--attempt", "all"),
    ("export", "crafted", "-w", "texts"),
    ("export", "crafted", "-w", "attributes"),
    ("plot", "crafted", "loss"),
    ("show", "crafted", "--ranks"),
    ("fsck", "--finish"),
    ("reindex",),
)


def journals_of(*records, header=None, ticks=(1,)):
    ticks = itertools.cycle(ticks)
    frames = [(record, next(ticks), number % 3 == 2) for number, record in enumerate(records)]
    return [(header or {}, frames)]


def journals_to_read(count=5):
    """Return what was found wrong once, and so many journals of all spoilt records."""
    far = (-(2**63), 2**63, 2**63)
    odd = itertools.cycle(ODD)
    records = list(spoilt(USUAL, odd))
    headers = [found for _, found in spoilt([(Kind.HEADER, one) for one in HEADERS], odd)]
    return [
        journals_of(header={"attempt": 2**70, "owner": 7, "positions": {"w": "x"}, "rank": "0"}),
        journals_of((Kind.OP, {"op": "file", "path": "a", "file": {"members": [1]}})),
        journals_of((Kind.OP, {"op": "file", "path": "a", "file": {"sha256": 7}})),
        journals_of((Kind.TEXT, {"path": "a", "points": [[0, "x", 10**23], [None, 7]]})),
        journals_of(*[(Kind.HEARTBEAT, {"dropped": {"x": int("9" * 4300)}})] * 2),
        journals_of((Kind.TEXT, {"path": "a", "points": 7})),
        journals_of(SERIES_OF_ONE_PATH[0]),
        journals_of(*SERIES_OF_ONE_PATH),
        journals_of(*[(Kind.HEARTBEAT, {})] * 3, ticks=far),
        *(journals_of(*records[at::count], header=headers[at]) for at in range(count)),
        [journals_of(header=header)[0] for header in headers],
    ]


@pytest.mark.once
@pytest.mark.parametrize("journals", journals_to_read())
def test_crafted_journals_harm_no_reader(journals, tmp_path, caplog):
    """No traceback, no hang, and nothing written but below the target of a download."""
    folder = RunFolder(tmp_path / "root", "p", "crafted")
    craft(folder, journals)
    before = listed(tmp_path)
    read_all_of_it(folder, tmp_path / "target")
    for words in COMMANDS:
        done = outcome_of(*words, "--root", str(folder.root))
        told = (SystemExit, type(None), SeamarkError)
        assert isinstance(done.exception, told), (words, repr(done.exception))
    # A run which a reader cannot make sense of is logged.
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []
    ours = ("target", "root/p/crafted/")
    new = {name for name in listed(tmp_path) - before if not name.startswith(ours)}
    assert not new
    assert listed(folder.path) >= {"journal", "blobs"}
    if (folder.path / ".staging/ab").exists():
        assert (folder.path / ".staging/ab").read_bytes() == BLOB


def test_header_values_that_are_unsound_count_as_null(tmp_path):
    header = {"attempt": 2**70, "rank": -1, "pid": "1", "host": 5, "boot": "b", "start": True}
    header |= {"owner": "yes", "positions": {"a": 1, "b": "2", "c": -1}, "new": 1}
    path = JournalBuilder("w", **header, deep={"a": []}).save(RunFolder(tmp_path, "p", "r"))
    with JournalReader(path) as reader:
        found = reader.header()
    assert found == {"writer": "host-1-w", "boot": "b", "positions": {"a": 1}, "new": 1}
