"""What a writer does with records that the disk refuses: they wait, bounded, and are written."""

from __future__ import annotations

import pytest
from journal_frames import header, ops, points, say, texts
from journals import Kind

from seamark.journal import segment
from seamark.run.lifecycle import Lifecycle
from seamark.run.ranks import EveryRank
from seamark.run.recorder import Recorder

SECOND = 10**9


def steps(frames):
    return [step for _, step, _ in points(frames)]


def test_waiting_records_are_written_in_order_with_their_times(writer, disk, clock, journals):
    start = clock.now
    say(writer, "before")
    disk.fill()
    for second in (1, 2, 3):
        clock.now = start + second * SECOND
        say(writer, str(second))
        writer.append_row({"a": 1.0}, second)
    disk.free()
    clock.now = start + 60 * SECOND
    say(writer, "after")
    (frames,) = journals()
    assert texts(frames) == ["before", "1", "2", "3", "after"]
    assert steps(frames) == [1, 2, 3]
    times = [frame.t for frame in frames]
    assert times == sorted(set(times))
    made = [frame.t for frame in frames if frame.kind == Kind.OP]
    assert [(t - start) // SECOND for t in made] == [0, 1, 2, 3, 60]
    assert writer.dropped == {}


def test_steps_left_out_go_on_while_rows_wait(writer, disk, journals):
    writer.append_row({"a": 1.0})
    disk.fill()
    for _ in range(3):
        writer.append_row({"a": 1.0})
    writer.append_op({"op": "log", "text": "x" * 5000})
    writer.append_row({"a": 1.0})
    disk.free()
    disk.most = 1000  # the rows, but not the text in their midst
    writer.append_row({"a": 1.0})
    assert steps(journals()[0]) == [0, 1, 2, 3]
    disk.free()
    writer.append_row({"a": 1.0})
    (frames,) = journals()
    assert steps(frames) == [0, 1, 2, 3, 4, 5, 6]
    assert texts(frames) == ["x" * 5000]


def test_a_series_that_was_deleted_while_it_waited_starts_anew(writer, disk, journals):
    disk.fill()
    for _ in range(3):
        writer.append_row({"a": 1.0})
    writer.append_op({"op": "delete", "paths": ["a"], "text": ""})
    writer.forget("a")
    writer.append_row({"a": 1.0})
    disk.free()
    for _ in range(3):
        writer.append_row({"a": 1.0})
    assert steps(journals()[0]) == [0, 1, 2, 0, 1, 2, 3]


def test_bytes_that_wait_are_bounded(writer, disk, monkeypatch):
    monkeypatch.setattr(segment, "MAX_BYTES", 1000)
    disk.fill()
    for _ in range(5):
        say(writer, "x" * 300)
    assert writer.dropped == {"disk": 2}


def test_a_large_record_does_not_hold_up_small_ones(begun, disk, journals):
    disk.most = 1000
    begun.append_column("a", [1.0] * 10_000)
    say(begun, "small")
    assert texts(journals()[0]) == ["before", "small"]
    assert begun.dropped == {"disk": 10_000}


def test_a_large_record_waits_where_there_is_no_journal(writer, disk, journals):
    disk.fill()
    writer.append_column("a", [1.0] * 10_000)
    say(writer, "b")
    disk.free()
    writer._upkeep.keep()
    (frames,) = journals()
    assert [frame.kind for frame in frames][1:] == [Kind.PATH, Kind.COLUMN, Kind.OP]
    assert writer.dropped == {}


@pytest.mark.parametrize("before", [[], ["before"]], ids=["no journal", "an open journal"])
def test_an_attempt_that_begins_meanwhile_has_its_own_journal(writer, disk, journals, before):
    facts = {"attempt": 0}
    writer._stream.header = lambda: dict(facts)
    say(writer, *before)
    disk.fill()
    say(writer, "old")
    facts["attempt"] = 1
    writer.rotate()
    say(writer, "new")
    disk.free()
    writer._upkeep.keep()
    first, second = journals()
    assert [header(frames)["attempt"] for frames in (first, second)] == [0, 1]
    assert (texts(first), texts(second)) == ([*before, "old"], ["new"])
    assert first[-1].kind == Kind.CLOSE
    assert header(second)["continues"] == header(first)["writer"]


def test_records_that_wait_at_the_end_are_counted(begun, disk, journals, warnings_said):
    disk.fill()
    begun.append_row({"a": 1.0, "b": 2.0}, 0)
    say(begun, "waits")
    begun.close()
    assert begun.dropped == {"disk": 3}
    assert any("values are being lost" in text for text in warnings_said())
    disk.free()
    (frames,) = journals()
    assert (texts(frames), frames[-1].kind) == (["before"], Kind.OP)


@pytest.mark.usefixtures("unkept")  # a child has no sync thread of its parent
def test_a_forked_child_leaves_waiting_records_to_its_parent(writer, disk, journals):
    disk.fill()
    say(writer, "parent")
    writer.after_fork()
    disk.free()
    say(writer, "child")
    assert [texts(frames) for frames in journals()] == [["child"]]


def test_a_rank_that_starts_on_a_full_disk_keeps_its_own_records(folder, disk, journals):
    """Records that it leaves to rank 0 are not written; its answers say which were."""
    policy = EveryRank(disabled=False)
    policy.apart = 1
    recorder = Recorder(
        folder,
        "online",
        Lifecycle(),
        policy,
        header=dict,
        start=lambda: recorder.open(),  # noqa: PLW0108 - made in this very line
    )
    assert recorder.values.record_op({"op": "delete", "paths": ["a"]}) is False
    disk.fill()
    recorder.values.record_op({"op": "state", "state": "running"})
    writer = recorder.writer
    assert writer is not None
    own = f"monitoring/{writer.writer}/pid"
    recorder.values.assign_quietly({own: 7, "lr": 0.1})
    assert recorder.row({"a": 1.0}, 3) is False
    disk.free()
    assert recorder.row({"a": 1.0}, 4) is True
    assert writer.append_column(recorder.series_path("b"), [1.0], None, None) is True
    recorder.close("stop", 30.0)
    (frames,) = journals()
    assert ops(frames)[1] == {"op": "assign", "atoms": {own: ["int", 7]}}
    found = [("ranks/1/a", 3, 1), ("ranks/1/a", 4, 1), ("ranks/1/b", 0, 1)]
    assert points(frames) == found
