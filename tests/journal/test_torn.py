"""A whole frame stays where it is, whatever tears a write: somebody may have read it."""

from __future__ import annotations

import errno
import shutil

import pytest
from journal_frames import header, points, rows, say, texts
from journals import Kind

from seamark.journal.reader import JournalReader


class TimeIsUpError(TimeoutError):
    """The error of a time limit; an ``OSError``, as many of them are."""


@pytest.fixture
def strike(on_signal):
    """Return a function that has a signal handler raise, here and now."""

    def fail():
        raise TimeIsUpError

    return on_signal(fail)


@pytest.mark.parametrize("room", [0, 10, 48, 50, 95, 96, 130])
def test_a_batch_that_is_half_there_goes_on_with_the_rest(begun, disk, journals, room):
    disk.room = room
    assert say(begun, "a", "b", "c") is False
    assert texts(journals()[0]) == ["before", "a", "b", "c"][: 1 + room // 48]
    disk.room = float("inf")
    assert say(begun, "after") is True
    (frames,) = journals()
    assert texts(frames) == ["before", "a", "b", "c", "after"]
    assert {frame.end - frame.offset for frame in frames[2:5]} == {48}
    times = [frame.t for frame in frames]
    assert times == sorted(set(times))
    assert begun.dropped == {}


def test_only_the_rest_of_a_batch_is_lost(begun, disk, journals, forgetful):
    disk.room = 100
    say(begun, "a", "b", "c")
    assert begun.dropped == {"disk": 1}
    assert texts(journals()[0]) == ["before", "a", "b"]


def test_a_batch_whose_torn_bytes_stay_goes_on_in_another_journal(begun, disk, folder):
    disk.truncate_error, disk.room = errno.EIO, 70
    assert say(begun, "a", "b", "c") is False
    disk.room = float("inf")
    assert begun.append_row({"a": 8.0}, 4) is True
    begun.close()
    found = []
    for journal in folder.journals():
        with JournalReader(journal.path, now_ns=lambda: 2**62) as reader:
            found.append((list(reader.frames()), reader.tail is not None))
    (first, first_torn), (second, second_torn) = sorted(found, key=lambda one: one[0][0].t)
    assert (texts(first), texts(second)) == (["before", "a"], ["b", "c"])
    assert (rows(second), first_torn, second_torn) == (1, True, False)
    assert header(second)["continues"] == header(first)["writer"]
    assert begun.dropped == {}


def test_a_file_that_may_not_grow_is_followed_by_another(begun, disk, journals):
    disk.write_error = errno.EFBIG
    assert say(begun, "a") is False
    disk.free()
    assert say(begun, "b") is True
    assert [texts(frames) for frames in journals()] == [["before"], ["a", "b"]]
    assert begun.dropped == {}


@pytest.mark.parametrize("room", range(0, 200, 8))
def test_a_row_whose_names_are_there_follows_them(writer, disk, journals, room):
    writer.append_row({"x": 0.0}, 0)
    for _ in range(2):
        disk.room = room
        writer.append_row({"a": 1.0, "b": 2.0}, 1)
        disk.room = float("inf")
        writer.append_column("c", [3.0], [1.0])
    for step in (2, 3):
        writer.append_row({"a": 1.0, "b": 2.0}, step)
    (frames,) = journals()
    assert [step for path, step, _ in points(frames) if path in "bx"] == [0, 1, 1, 2, 3]
    names = [frame.payload[4:] for frame in frames if frame.kind == Kind.PATH]
    assert sorted(names) == [b"a", b"b", b"c", b"x"]
    assert sum(frame.kind == Kind.SCHEMA for frame in frames) == 1
    assert writer.dropped == {}


@pytest.mark.parametrize("part", [1, 8, 39, 1000])
@pytest.mark.parametrize("way", ["quick", "slow", "ops"])
def test_a_write_that_a_handler_left_half_is_cut_off(writer, disk, journals, strike, part, way):
    """Signals are handled when the call returns, which may have written a part: no gap stays."""
    for step in range(3):
        writer.append_row({"a": 1.0}, step)
    write = {
        "quick": lambda: writer.append_row({"a": 1.0}, 3),
        "slow": lambda: writer.append_row({"new": 1.0}, 3),
        "ops": lambda: say(writer, "a", "b"),
    }[way]
    disk.room, disk.after = part, strike
    with pytest.raises(TimeIsUpError):
        write()
    disk.room = float("inf")
    writer.append_row({"a": 1.0}, 4)
    writer.append_row({"a": 1.0}, 5)
    (frames,) = journals()  # which sees no gap and no tail
    found = [step for _, step, _ in points(frames)]
    assert found == [0, 1, 2, *([3] if part == 1000 and way != "ops" else []), 4, 5]
    assert writer.dropped == {}


@pytest.mark.parametrize("part", [1, 8, 47, 48, 60, 96, 1000])
def test_waiting_records_are_written_once(begun, disk, journals, strike, part):
    """The write that catches up is left with an exception: nothing is doubled, nothing is lost."""
    disk.room = 0
    say(begun, "a", "b")
    begun.append_row({"x": 1.0}, 1)
    disk.room, disk.after = part, strike
    with pytest.raises(TimeIsUpError):
        say(begun, "lost with its call")
    disk.room = float("inf")
    say(begun, "after")
    (frames,) = journals()
    assert texts(frames) == ["before", "a", "b", "after"]
    assert points(frames) == [("x", 1, 1)]
    assert begun.dropped == {}


def test_ctrl_c_while_catching_up_doubles_nothing(
    open_writer, disk, journals, folder, interrupt_at
):
    """KeyboardInterrupt at any of our own calls: each waiting record is there once, in order."""
    interrupted = 0
    for number in range(1, 200, 3):
        writer = open_writer()
        say(writer, "before")
        disk.room = 0
        for word in ("a", "b", "c"):
            say(writer, word, word.upper())
            writer.append_row({word: 1.0, "all": 1.0}, 1)
        disk.room = float("inf")
        with interrupt_at(number) as hit:
            say(writer, "then")
        interrupted += len(hit)
        say(writer, "after")
        (frames,) = journals()
        found = [text for text in texts(frames) if text != "then"]
        assert found == ["before", "a", "A", "b", "B", "c", "C", "after"]
        assert rows(frames) == 3
        assert writer.dropped == {}
        writer.close()
        shutil.rmtree(folder.path)
    assert interrupted > 50


@pytest.mark.parametrize("part", [0, 10, 40, 10_000])
def test_a_journal_whose_beginning_is_interrupted(writer, disk, folder, journals, strike, part):
    """Either its HEADER is whole and it is gone on with, or there is no file."""
    disk.after = strike
    disk.room = part or float("inf")
    write = disk._write
    if not part:  # before the first byte
        disk._write = lambda _fd, _data: strike() or 0
    with pytest.raises(TimeIsUpError):
        say(writer, "interrupted")
    disk._write, disk.room, disk.after = write, float("inf"), None
    say(writer, "after")
    writer.close()
    (frames,) = journals()
    assert texts(frames) == ["after"]
    assert len(list(folder.journal_dir.iterdir())) == 1


def test_positions_are_where_whole_frames_end(begun, disk, journals, strike):
    """They count waiting records as soon as the disk takes them, and no torn frame."""
    full = begun.positions()
    assert full == {begun.writer: journals()[0][-1].end}
    disk.room = 0
    say(begun, "waits")
    assert begun.positions() == full
    disk.room = float("inf")
    assert begun.positions() == {begun.writer: journals()[0][-1].end}
    disk.room, disk.after = 20, strike
    with pytest.raises(TimeIsUpError):
        say(begun, "torn")
    disk.room = float("inf")
    assert begun.positions() == {begun.writer: journals()[0][-1].end}
    assert texts(journals()[0]) == ["before", "waits"]
    begun.close()
    (frames,) = journals()
    assert begun.positions() == {header(frames)["writer"]: frames[-1].end}
