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
odd = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**70, 10**23, 10**400]),
    st.sampled_from([0.0, -0.0, 0.5, 1e308, 5e-324, -1e300]),
    st.sampled_from(
        ["", "x", "..", "/etc/passwd", "../../x", "\x00", "\ud800", "é" * 300, "0" * 64]
    ),
    st.sampled_from([SHA, "nan", "inf", "0x1f", "zz", "a\nb", "\x1b[31m", "=1+1", "[" * 99_999]),
    st.sampled_from(
        [[], {}, [1], [[1]], {"": None}, {"sha256": 7, "size": []}, [None] * 5, {"a": 1}]
    ),
    st.sampled_from(
        [{"sha256": SHA, "size": 4}, {"sha256": SHA, "size": 2**62}, {"../x": [4, SHA]}]
    ),
)


def mostly(usual):
    """Return what is usual, and now and then something odd."""
    return st.integers(0, 11).flatmap(lambda at: odd if at == 7 else usual)


def record(**keys):
    """Return objects with these keys, each of them right or odd."""
    return st.fixed_dictionaries({key: mostly(each) for key, each in keys.items()})


def some(**keys):
    """Return objects with some of these keys, each of them right or odd."""
    return st.fixed_dictionaries({}, optional={key: mostly(each) for key, each in keys.items()})


words = st.sampled_from(["x", "y.txt", "../x", "/x", "a/b", "last.ckpt"])
sizes = st.sampled_from([0, 4, 5, 2**40])
digests = st.sampled_from([SHA, "0" * 64])
members = st.dictionaries(words, st.tuples(sizes, digests).map(list), max_size=2)
files = some(
    name=words,
    ext=words,
    size=sizes,
    sha256=digests,
    ref=st.sampled_from(["/etc/passwd", "s3://b/x", "file:///etc/hostname", "{run}/blobs/" + SHA]),
    mtime_ns=st.integers(0, 2**62),
    inode=st.integers(0, 2**62),
    staged=st.sampled_from(["ab", "cd"]),
    dir=st.just(True),  # noqa: FBT003 - a value of the record
    members=members,
    token=words,
    source=st.sampled_from(["/etc/passwd", "/dev/zero"]),
    lost=st.sampled_from(["gone", "changed"]),
)
steps = st.sampled_from([0, 1, 2.5, -3])
times = st.sampled_from([None, 0, 1_790_000_000_000_000_000])
texts = st.one_of(st.text(max_size=5), st.just({"sha256": SHA, "size": 4}))
paths = mostly(st.sampled_from(PATHS))
atoms = st.tuples(
    mostly(st.sampled_from(["int", "float", "bool", "string", "datetime", "null", "json", "text"])),
    odd,
).map(list)
ops = st.one_of(
    record(op=st.just("assign"), atoms=st.dictionaries(st.sampled_from(PATHS), atoms, max_size=4)),
    record(op=st.sampled_from(["delete"]), paths=st.lists(paths, max_size=2)),
    record(op=st.sampled_from(["clear"]), path=paths),
    record(op=st.sampled_from(["add", "remove", "assign_set"]), path=paths, values=st.lists(words)),
    record(op=st.sampled_from(["file", "own", "digest"]), path=paths, token=words, file=files),
    record(op=st.just("files"), path=paths, members=st.dictionaries(words, files, max_size=3)),
    record(op=st.just("unfiles"), path=paths, names=st.lists(words)),
    record(
        op=st.just("artifact"),
        path=paths,
        kind=words,
        hash=words,
        references=st.lists(mostly(words), max_size=2),
        files=st.lists(record(path=words, size=sizes, sha256=digests), max_size=2),
    ),
    record(op=st.just("file_point"), path=paths, step=steps, file=files, time=times, name=words),
    record(
        op=st.just("state"),
        state=st.sampled_from(["running", "failed", "completed"]),
        error=record(type=words, message=words),
        signal=words,
    ),
    record(op=st.just("checkpoint"), mark=sizes),
    odd,
)
points = st.lists(
    mostly(st.tuples(mostly(steps), mostly(texts), mostly(times)).map(list)), max_size=3
)
bins = st.lists(
    mostly(
        st.tuples(mostly(steps), mostly(st.just([0, 1])), mostly(st.just([1])), times).map(list)
    ),
    max_size=2,
)
headers = some(
    run=words,
    writer=words,
    attempt=st.integers(0, 3),
    positions=st.dictionaries(st.sampled_from(["host-1-w0", "w"]), odd, max_size=2),
    owner=st.booleans(),
    host=st.just(process_facts()["host"]),
    boot=st.just(process_facts()["boot"]),
    user=words,
    pid=st.sampled_from([1, os.getpid()]),
    start=st.integers(0, 9),
    rank=st.integers(0, 2),
    lineage=words,
    job=words,
    restarts=st.integers(0, 2),
)
jsons = st.one_of(
    st.tuples(st.just(Kind.OP), ops),
    st.tuples(st.just(Kind.OP), ops),
    st.tuples(st.just(Kind.TEXT), record(path=paths, points=points)),
    st.tuples(st.just(Kind.HISTOGRAM), record(path=paths, points=bins)),
    st.tuples(
        st.sampled_from([Kind.HEARTBEAT, Kind.CLOSE]),
        record(reason=words, dropped=st.dictionaries(words, odd, max_size=2)),
    ),
    st.tuples(st.just(Kind.HEADER), headers),
)
raws = st.one_of(
    st.tuples(
        st.sampled_from([Kind.PATH, Kind.SCHEMA, Kind.ROW, Kind.SPARSE, Kind.COLUMN, Kind.OP, 77]),
        st.one_of(st.binary(min_size=1, max_size=40), st.just(b"\xff\xfe[\x00]\x00")),
    ),
    st.sampled_from(
        [
            (Kind.PATH, struct.pack("<I", 0) + b"loss"),
            (Kind.SCHEMA, struct.pack("<III", 0, 0, 0)),
            (Kind.ROW, struct.pack("<ddd", 1, 2, float("nan"))),
            (Kind.COLUMN, struct.pack("<IIdd", 0, 1, 1.0, 2.0)),
            (Kind.SPARSE, struct.pack("<dIIIId", 1.0, 1, 0, 0, 0, 5.0)),
            (Kind.OP, b'{"op":"assign","atoms":{"n":["float",NaN]}}'),
            (Kind.OP, b'{"op":"assign","atoms":{"s":["string","\xed\xa0\x80"]}}'),
            (Kind.OP, '{"op":"assign","atoms":{"u":["int",1]}}'.encode("utf-16")),
        ]
    ),
)
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
@example([({}, [((Kind.TEXT, {"path": "a", "points": [[0, "x", 10**23]]}), 1, False)])])
@example([({}, [((Kind.HEARTBEAT, {"dropped": {"x": int("9" * 4300)}}), 1, False)] * 2)])
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
