"""What a writer puts into its journal when all goes well; the rest: test_writer_faults.py."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from journal_frames import header, kinds, points, told
from journals import Kind
from own_calls import own

from seamark.errors import ArgumentError
from seamark.journal import rows as rows_module
from seamark.journal import writer as writer_module
from seamark.journal.format import MAX_PAYLOAD_BYTES, ZLIB
from seamark.journal.reader import decode_json
from seamark.journal.writer import wall_clock

START_NS = 1_700_000_000_000_000_000


def test_the_header_is_the_first_frame_and_names_the_journal(open_writer, journals, folder):
    writer = open_writer(header={"owner": True, "pid": 7})
    writer.append_op({"op": "state", "state": "running"})
    found = header(journals()[0])
    assert found == {
        "format": 1,
        "run": "run0",
        "project": "team/mnist",
        "writer": folder.journals()[0].writer,
        "continues": None,
        "prior_t": 0,
        "owner": True,
        "pid": 7,
    }
    assert writer.writer == found["writer"]


def test_close_is_the_last_frame_and_ends_the_file(writer, journals, warnings_said):
    writer.append_row({"a": 1.0}, 0)
    assert writer.close()
    assert writer.close()
    for step in range(5):
        writer.append_row({"a": 1.0}, step)
        writer.append_op({"op": "state", "state": "running"})
    (frames,) = journals()
    assert decode_json(frames[-1].payload) == {"reason": "stop", "dropped": {}}
    assert writer.closed
    assert sum(writer.dropped.values()) == 10
    (warning,) = warnings_said()
    assert "stopped" in warning


@pytest.mark.parametrize(
    ("rows", "schemas"),
    [
        ([{f"s{number:02}": 0.5 for number in range(step, 20)} for step in range(19)], 0),
        ([{"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}] * 3, 2),
        ([{f"s{number}": 0.5} for number in range(300)] * 3, 256),
    ],
    ids=["varying", "other order", "too many"],
)
def test_key_sets_that_come_again_have_schemas_up_to_a_limit(writer, journals, rows, schemas):
    """The 257th key set that comes again stays sparse; nothing is lost by that."""
    assert rows_module.MAX_SCHEMAS == 256
    for step, row in enumerate(rows):
        writer.append_row(row, step)
    (frames,) = journals()
    assert kinds(frames).split().count("schema") == schemas
    assert points(frames) == [
        (path, step, value) for step, row in enumerate(rows) for path, value in row.items()
    ]


@pytest.mark.parametrize(
    "odd",
    ["0.5", None, 1j, object(), np.zeros(2), 10**400],
    ids=lambda odd: type(odd).__name__,
)
@pytest.mark.parametrize("before", [0, 3])
def test_a_value_that_is_no_number_is_left_out(writer, journals, warnings_said, odd, before):
    for step in range(before):
        writer.append_row({"good": 1.5, "odd": 0.0}, step)
    for step in range(3):
        writer.append_row({"good": 1.5, "odd": odd}, step)
    writer.append_row({"good": 2.5, "odd": 0.5}, 3)
    assert journals()[0][-1].kind == (Kind.ROW if before else Kind.SPARSE)
    writer.close()
    (frames,) = journals()
    paths = [path for path, _, _ in points(frames)]
    assert (paths.count("good"), paths.count("odd")) == (before + 4, before + 1)
    assert points(frames)[-2:] == [("good", 3, 2.5), ("odd", 3, 0.5)]
    assert told(frames)[-1] == {"value": 3}
    (warning,) = warnings_said()
    assert "'odd'" in warning


class Unruly(dict):
    """A mapping that cannot be walked, and no number."""

    def __float__(self) -> float:
        raise RuntimeError

    def __iter__(self):
        raise RuntimeError

    def items(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "metrics",
    [
        *({path: 0.5} for path in (1, None, "", "/a", "a//b", "a\x00", "\udc80", "x" * 1025)),
        *({"a": Unruly()}, {"sys/id": None}, Unruly(a=1.0), None, 3, ["a"], "text"),
    ],
    ids=lambda metrics: f"{metrics!r:.20}",
)
def test_append_row_never_raises(writer, metrics):
    writer.append_row(metrics, 0)
    writer.append_row(metrics, 1)
    assert sum(writer.dropped.values()) == 2


@pytest.mark.parametrize("step", [math.nan, math.inf, "3", [1], 10**400, np.zeros(2)], ids=repr)
@pytest.mark.parametrize("before", [0, 3])
def test_a_step_that_is_no_finite_number(writer, journals, step, before):
    for number in range(before):
        writer.append_row({"a": 1.0, "b": 1.0}, number)
    writer.append_row({"a": 1.0, "b": 1.0}, step)
    writer.append_row({"a": 1.0, "b": 1.0}, 7)
    assert writer.dropped == {"step": 2}
    assert [step for _, step, _ in points(journals()[0])][-2:] == [7, 7]


def test_a_step_is_taken_when_it_is_given(writer, journals):
    counter = np.array(255, dtype=np.uint8)
    for _ in range(3):
        writer.append_row({"a": 1.0}, counter)
    counter[...] = 7
    writer.append_row({"a": 1.0})
    assert [step for _, step, _ in points(journals()[0])] == [255, 255, 255, 256]


def test_a_very_long_row_is_split(writer, journals, monkeypatch):
    monkeypatch.setattr(writer_module, "_MAX_ROW_VALUES", 10)
    writer.append_row({"p5": 0.0}, 41)
    writer.append_row({f"p{number}": 1.0 for number in range(25)})
    found = points(journals()[0])[1:]
    assert len(found) == 25
    assert {step for _, step, _ in found} == {42}


def numbered(writer, journals, path):
    return [step for at, step, _ in points(journals()[0]) if at == path]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([5, 5, 3, -2, 0.25, 1e300, 2**53, 0], [5, 5, 3, -2, 0.25, 1e300, 2**53, 0]),
        ([2**53 + 1], [float(2**53 + 1)]),
        ([10, 5, None, -7, None, None], [10, 5, 6, -7, -6, -5]),
    ],
    ids=["given", "too large", "left out"],
)
def test_steps_are_kept_as_given_and_those_left_out_follow(writer, journals, given, kept):
    for step in given:
        writer.append_row({"a": 1.0}, step)
    assert numbered(writer, journals, "a") == kept


def test_a_row_without_step_goes_above_all_its_series(writer, journals):
    """One row has one step: 1 above the largest last step of its paths, whichever way they came."""
    writer.append_row({"a": 1.0}, 10)
    writer.append_column("b", [1.0], [20])
    writer.append_row({"c": 1.0, "a": 1.0})
    writer.append_row({"a": 1.0, "b": 1.0})
    writer.append_row({"a": 1.0, "b": 1.0})
    writer.append_row({"new": 1.0})
    found = {path: numbered(writer, journals, path) for path in ("a", "b", "c", "new")}
    assert found == {"a": [10, 11, 21, 22], "b": [20, 21, 22], "c": [11], "new": [0]}


def test_columns_and_rows_count_on(writer, journals):
    """`extend` without steps goes on from the last step, and rows go on from there."""
    writer.append_column("a", [1.0, 2.0])
    writer.append_row({"a": 3.0})
    writer.append_column("a", [4.0], [10])
    writer.append_column("a", [5.0, 6.0])
    writer.append_row({"a": 7.0})
    assert numbered(writer, journals, "a") == [0, 1, 2, 10, 11, 12, 13]
    steps = [writer.take_step("log", step) for step in (None, None, 7, None, -3, None)]
    assert steps == [0, 1, 7, 8, -3, -2]


def test_forgotten_series_count_from_zero_and_remembered_ones_count_on(writer, journals):
    for _ in range(3):
        writer.append_row({"a/b": 1.0, "ab": 1.0})
    writer.forget("a")
    writer.append_row({"a/b": 1.0})
    writer.append_row({"ab": 1.0})
    for path in ("old", "ab"):
        writer.remember_step(path, 41)  # of what the run held; `ab` was written to since
    writer.append_row({"old": 1.0})
    writer.append_row({"ab": 1.0})
    found = {path: numbered(writer, journals, path) for path in ("a/b", "ab", "old")}
    assert found == {"a/b": [0, 1, 2, 0], "ab": [0, 1, 2, 3, 4], "old": [42]}


def test_long_columns_are_split(writer, journals, monkeypatch):
    monkeypatch.setattr(writer_module, "_MAX_COLUMN_POINTS", 1000)
    writer.append_column("a", list(range(2500)))
    writer.append_column("b", np.arange(2500.0), np.arange(2500.0), np.arange(2500))
    (frames,) = journals()
    assert kinds(frames) == "header path column column column path column column column"
    assert points(frames) == [(p, s, s) for p in "ab" for s in range(2500)]


def test_long_records_are_compressed_and_refused_beyond_the_limit(writer, journals):
    op = {"op": "add", "path": "sys/tags", "values": ["tag"] * 50_000}
    writer.append_op(op)
    with pytest.raises(ArgumentError, match=str(MAX_PAYLOAD_BYTES)):
        writer.append_op({"op": "add", "path": "a", "values": ["x" * MAX_PAYLOAD_BYTES]})
    _, last = journals()[0]
    assert last.flags == ZLIB
    assert decode_json(last.payload) == op
    assert last.end - last.offset < 10_000


def test_a_row_leaves_out_paths_of_other_families(writer, journals):
    """`log_metrics` counts them and keeps the rest, also on the quick way's second row."""
    writer.claim("b", "atom")
    for step in range(3):
        writer.append_row({"a": 1.0, "b": 1.0}, step)
    assert numbered(writer, journals, "a") == [0, 1, 2]
    assert numbered(writer, journals, "b") == []
    assert writer.dropped == {"path": 3}


def test_time_rises_strictly(writer, journals, clock):
    """A clock that stands still or falls gives times 1 ns apart, rows of the quick way included."""
    for step in range(10):
        clock.now -= step
        writer.append_row({"a": 1.0}, step)
        writer.append_op({"op": "clear", "path": "b"})
    times = [frame.t for frame in journals()[0]]
    assert times == list(range(START_NS, START_NS + len(times)))


def test_the_wall_clock_does_not_step_with_ntp(monkeypatch):
    clock = wall_clock()
    monkeypatch.setattr(writer_module.time, "time_ns", lambda: 0)
    first = clock()
    assert clock() >= first > 1_600_000_000 * 10**9


def test_a_writer_whose_clock_is_behind_starts_above_the_latest_record(
    open_writer, journals, clock
):
    first = open_writer()
    first.append_row({"a": 1.0}, 0)
    latest = journals()[0][-1].t
    clock.now -= 600 * 10**9
    second = open_writer()
    second.append_row({"a": 2.0}, 1)
    found = journals()[1]
    assert found[0].t == latest + 1
    assert (header(found)["prior_t"], header(found)["continues"]) == (latest, None)


def test_a_host_in_the_year_2099_poisons_nothing(open_writer, journals, clock, warnings_said):
    clock.now += 70 * 365 * 86400 * 10**9
    far = open_writer()
    far.append_row({"a": 1.0}, 0)
    clock.now = START_NS
    near = open_writer()
    near.append_row({"a": 2.0}, 1)
    near.append_row({"a": 2.0}, 2)
    assert journals()[0][0].t == START_NS
    assert [far.writer in text for text in warnings_said()] == [True]


def test_damaged_journals_do_not_stop_a_new_one(writer, folder, clock):
    folder.journal_dir.mkdir(parents=True)
    (folder.journal_dir / "garbage").write_bytes(os.urandom(5000))
    (folder.journal_dir / "empty").touch()
    (folder.journal_dir / "folder").mkdir()
    writer.append_row({"a": 1.0}, 0)
    assert writer.dropped == {}


def test_heartbeats(writer, journals):
    writer._upkeep.keep(heartbeat=True)
    writer.append_row({"a": 1.0}, 0)
    writer._upkeep.keep()
    writer._upkeep.keep(heartbeat=True)
    writer.append_row({"a": "no"}, 0)
    writer._upkeep.keep(heartbeat=True)
    writer.append_row({"a": "no", "b": "no"}, 0)
    writer._upkeep.keep(heartbeat=True)
    beats = [frame.payload for frame in journals()[0] if frame.kind == Kind.HEARTBEAT]
    assert beats == [b"", b'{"dropped":{"value":1}}', b'{"dropped":{"value":3}}']


def test_the_thread_beats_by_itself_and_is_gone_after_close(open_writer, journals):
    writer = open_writer(sync_s=0.001, heartbeat_s=0.001)
    writer.append_row({"a": 1.0}, 0)
    thread = writer._upkeep.thread
    while not any(frame.kind == Kind.HEARTBEAT for frame in journals()[0]):
        thread.join(0.001)
    assert thread.daemon
    writer.close()
    assert not thread.is_alive()


def test_sync_forces_what_is_new(writer, monkeypatch, folder):
    synced = []
    data = own(lambda fd: synced.append("data"), os.fdatasync)
    monkeypatch.setattr("seamark.journal.segment._sync_data", data)
    place = own(lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())), os.fsync)
    monkeypatch.setattr(os, "fsync", place)
    monkeypatch.setattr("seamark.journal.upkeep.SyncThread.start", lambda self: None)
    for step in range(3):
        writer.append_row({"a": 1.0}, step)
    assert synced == []
    writer._upkeep.keep()
    assert synced.count("data") == 1
    assert str(folder.journal_dir) in synced
    synced.clear()
    writer._upkeep.keep()
    assert synced == []
    writer.append_row({"a": 1.0}, 4)
    writer._upkeep.keep()
    assert synced == ["data"]


def test_rotation(open_writer, journals, monkeypatch):
    monkeypatch.setattr(writer_module, "ROTATE_BYTES", 600)
    writer = open_writer()
    expected = []
    for step in range(60):
        writer.append_row({"a": 0.5 * step, "b": 1.0}, step)
        expected += [("a", step, 0.5 * step), ("b", step, 1.0)]
        writer._upkeep.keep()
    found = journals()
    assert len(found) > 4
    assert [point for frames in found for point in points(frames)] == expected
    for before, after in pairwise(found):
        assert decode_json(before[-1].payload)["reason"] == "rotate"
        assert header(after)["continues"] == header(before)["writer"]
        assert header(after)["prior_t"] == before[-1].t < after[0].t
    assert set(writer.positions()) == {header(frames)["writer"] for frames in found}
