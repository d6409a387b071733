"""Journals that somebody made up: every CRC is right, and nothing else need be."""

from __future__ import annotations

import contextlib
import json
import logging.handlers
import os
import struct
import tempfile
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import app
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
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

# What stands where something else is expected.
BLOB_OF = {"sha256": SHA, "size": 4}
ODD = [
    *(None, True, False, 0.0, -0.0, 0.5, 1e308, 5e-324, -1e300),
    *(0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**70, 10**23, 10**400),
    *("", "x", "..", "/etc/passwd", "../../x", "\x00", "\ud800", "é" * 300, "0" * 64),
    *(SHA, "nan", "inf", "0x1f", "zz", "a\nb", "\x1b[31m", "=1+1", "[" * 99_999),
    *([], {}, [1], [[1]], {"": None}, {"sha256": 7, "size": []}, [None] * 5, {"a": 1}),
    *(BLOB_OF, {**BLOB_OF, "size": 2**62}, {"../x": [4, SHA]}),
]
odd = st.sampled_from(ODD)


def mostly(usual):
    """Return what is usual, or one of a list of that, and now and then something odd."""
    if not isinstance(usual, st.SearchStrategy):
        usual = st.sampled_from(usual if isinstance(usual, list) else [usual])
    return st.integers(0, 11).flatmap(lambda at: odd if at == 7 else usual)


def record(**keys):
    """Return objects with these keys, each of them right or odd."""
    return st.fixed_dictionaries({key: mostly(each) for key, each in keys.items()})


def some(**keys):
    """Return objects with some of these keys, each of them right or odd."""
    return st.fixed_dictionaries({}, optional={key: mostly(each) for key, each in keys.items()})


def row(*columns):
    return mostly(st.tuples(*columns).map(list))


words = st.sampled_from(["x", "y.txt", "../x", "/x", "a/b", "last.ckpt"])
sizes = st.sampled_from([0, 4, 5, 2**40])
large = st.integers(0, 2**62)
digests = st.sampled_from([SHA, "0" * 64])
files = some(
    **dict.fromkeys(("name", "ext", "token"), words),
    **dict.fromkeys(("mtime_ns", "inode"), large),
    size=sizes,
    sha256=digests,
    staged=["ab", "cd"],
    dir=True,
    ref=["/etc/passwd", "s3://b/x", "file:///etc/hostname", "{run}/blobs/" + SHA],
    members=st.dictionaries(words, st.tuples(sizes, digests).map(list), max_size=2),
    source=["/etc/passwd", "/dev/zero"],
    lost=["gone", "changed"],
)
steps = mostly([0, 1, 2.5, -3])
times = st.sampled_from([None, 0, 1_790_000_000_000_000_000])
texts = mostly(st.one_of(st.text(max_size=5), st.just(BLOB_OF)))
paths = mostly(list(PATHS))
types = mostly(["int", "float", "bool", "string", "datetime", "null", "json", "text"])
atoms = st.dictionaries(st.sampled_from(PATHS), st.tuples(types, odd).map(list), max_size=4)
of_artifact = record(path=words, size=sizes, sha256=digests)
ops = st.one_of(
    record(op="assign", atoms=atoms),
    record(op="delete", paths=st.lists(paths, max_size=2)),
    record(op="clear", path=paths),
    record(op=["add", "remove", "assign_set"], path=paths, values=st.lists(words)),
    record(op=["file", "own", "digest"], path=paths, token=words, file=files),
    record(op="files", path=paths, members=st.dictionaries(words, files, max_size=3)),
    record(op="unfiles", path=paths, names=st.lists(words)),
    record(
        op="artifact",
        path=paths,
        kind=words,
        hash=words,
        references=st.lists(mostly(words), max_size=2),
        files=st.lists(of_artifact, max_size=2),
    ),
    record(op="file_point", path=paths, step=steps, file=files, time=times, name=words),
    record(
        op="state",
        state=["running", "failed", "completed"],
        error=record(type=words, message=words),
        signal=words,
    ),
    record(op="checkpoint", mark=sizes),
    odd,
)
points = st.lists(row(steps, texts, mostly(times)), max_size=3)
bins = st.lists(row(steps, mostly([[0, 1]]), mostly([[1]]), times), max_size=2)
headers = some(
    **dict.fromkeys(("run", "writer", "user", "lineage", "job"), words),
    attempt=[0, 1, 2, 3],
    rank=[0, 1, 2],
    restarts=[0, 1, 2],
    start=[*range(9)],
    **{key: process_facts()[key] for key in ("host", "boot")},
    pid=[1, os.getpid()],
    owner=[True, False],
    positions=st.dictionaries(st.sampled_from(["host-1-w0", "w"]), odd, max_size=2),
)
ends = record(reason=words, dropped=st.dictionaries(words, odd, max_size=2))
jsons = st.one_of(
    *[st.tuples(st.just(Kind.OP), ops)] * 2,
    st.tuples(st.just(Kind.TEXT), record(path=paths, points=points)),
    st.tuples(st.just(Kind.HISTOGRAM), record(path=paths, points=bins)),
    st.tuples(st.sampled_from([Kind.HEARTBEAT, Kind.CLOSE]), ends),
    st.tuples(st.just(Kind.HEADER), headers),
)
kinds = [Kind.PATH, Kind.SCHEMA, Kind.ROW, Kind.SPARSE, Kind.COLUMN, Kind.OP, 77]
RAWS = [
    (Kind.PATH, struct.pack("<I", 0) + b"loss"),
    (Kind.SCHEMA, struct.pack("<III", 0, 0, 0)),
    (Kind.ROW, struct.pack("<ddd", 1, 2, float("nan"))),
    (Kind.COLUMN, struct.pack("<IIdd", 0, 1, 1.0, 2.0)),
    (Kind.SPARSE, struct.pack("<dIIIId", 1.0, 1, 0, 0, 0, 5.0)),
    (Kind.OP, b'{"op":"assign","atoms":{"n":["float",NaN]}}'),
    (Kind.OP, b'{"op":"assign","atoms":{"s":["string","\xed\xa0\x80"]}}'),
    (Kind.OP, '{"op":"assign","atoms":{"u":["int",1]}}'.encode("utf-16")),
]
payloads = st.one_of(st.binary(min_size=1, max_size=40), st.just(b"\xff\xfe[\x00]\x00"))
raws = st.one_of(st.tuples(st.sampled_from(kinds), payloads), st.sampled_from(RAWS))
ticks = st.sampled_from([1, 1, 1, 10**18, -(10**18), 2**62, -(2**63)])
frames = st.lists(st.tuples(st.one_of(jsons, jsons, raws), ticks, st.booleans()), max_size=10)


def craft(folder, journals):
    """Write the journals, with a blob and a staged file that they may name."""
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


@contextlib.contextmanager
def no_tracebacks():
    """Check that there was no run which a reader could not make sense of: those are logged."""
    errors = logging.handlers.BufferingHandler(1000)
    errors.setLevel(logging.ERROR)
    logging.getLogger("seamark").addHandler(errors)
    try:
        yield
    finally:
        logging.getLogger("seamark").removeHandler(errors)
    assert not errors.buffer, logging.Formatter().format(errors.buffer[0])


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
    ("stragglers", "crafted"),
    ("fsck", "--finish"),
    ("reindex",),
)


SERIES_OF_ONE_PATH = (
    (Kind.HISTOGRAM, {"path": "a", "points": [[0, [0, 1], [1]]]}),
    (Kind.TEXT, {"path": "a", "points": [[0, "x"]]}),
    (Kind.OP, {"op": "file_point", "path": "a", "step": 0, "file": {}}),
)


@pytest.mark.once
@settings(
    max_examples=5,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes; the blob is printed
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(st.tuples(headers, frames), min_size=1, max_size=3))
@example([({"attempt": 2**70, "owner": 7, "positions": {"w": "x"}, "rank": "0"}, [])])
@example([({}, [((Kind.OP, {"op": "file", "path": "a", "file": {"members": [1]}}), 1, False)])])
@example([({}, [((Kind.OP, {"op": "file", "path": "a", "file": {"sha256": 7}}), 1, False)])])
@example([({}, [((Kind.TEXT, {"path": "a", "points": [[0, "x", 10**23], [None, 7]]}), 1, False)])])
@example([({}, [((Kind.HEARTBEAT, {"dropped": {"x": int("9" * 4300)}}), 1, False)] * 2)])
@example([({}, [((Kind.TEXT, {"path": "a", "points": 7}), 1, False)])])
@example([({}, [(SERIES_OF_ONE_PATH[0], 1, False)])])
@example([({}, [(frame, 1, False) for frame in SERIES_OF_ONE_PATH])])
@example([({}, [((Kind.HEARTBEAT, {}), tick, False) for tick in (-(2**63), 2**63, 2**63)])])
def test_crafted_journals_harm_no_reader(journals):
    """No traceback, no hang, and nothing written but below the target of a download."""
    with tempfile.TemporaryDirectory() as place, no_tracebacks():
        home = Path(place).resolve()
        folder = RunFolder(home / "root", "p", "crafted")
        craft(folder, journals)
        before = listed(home)
        read_all_of_it(folder, home / "target")
        for words in COMMANDS:
            done = CliRunner().invoke(app, [*words, "--root", str(folder.root)])
            told = (SystemExit, type(None), SeamarkError)
            assert isinstance(done.exception, told), (words, repr(done.exception))
        ours = ("target", "root/p/crafted/")
        new = {name for name in listed(home) - before if not name.startswith(ours)}
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
