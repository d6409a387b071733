"""A writer at rest holds neither a descriptor nor a thread, and may go on at any time."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from journal_frames import header, kinds, ops, rows, told

from seamark.journal import segment as segment_module
from seamark.journal.reader import decode_json


@pytest.fixture
def threads():
    """Return a function that gives the sync threads that this test began."""
    others = threading.enumerate()

    def begun():
        return [
            each
            for each in threading.enumerate()
            if each.name == "seamark-sync" and each not in others
        ]

    return begun


def held(folder):
    """Return the files of the run that this process has open."""
    found = []
    for fd in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.append(str(fd.readlink()))
    return [path for path in found if path.startswith(str(folder.path))]


def test_a_rested_writer_holds_nothing(threads, writer, folder, journals):
    """Its journal ends with CLOSE like one that was stopped, and is on disk."""
    assert writer.rest()
    assert writer.writer is None
    writer.append_row({"a": 1.0}, 0)
    assert held(folder)
    for _ in range(2):
        assert writer.rest() is True
        assert held(folder) == threads() == []
        assert not writer.closed
    writer.close()
    assert writer.rest()
    assert [kinds(frames) for frames in journals()] == ["header path sparse close"]
    assert writer.append_row({"a": 1.0}, 0) is False


def test_it_goes_on_in_a_journal_that_continues(threads, writer, journals):
    facts: dict[str, Any] = {"attempt": 0}
    writer._stream.header = lambda: dict(facts)
    for value in (1.0, 2.0, 3.0):
        writer.append_row({"a": value, "b": value})
    writer.rest()
    facts["attempt"] = 1
    assert writer.append_row({"a": 4.0, "b": 4.0}) is True
    assert threads()
    writer.close()
    first, second = journals()
    assert kinds(first) == "header path path sparse schema row row close"
    assert kinds(second).startswith("header path path schema row")
    assert decode_json(first[-1].payload) == {"reason": "stop", "dropped": {}}
    assert header(second)["continues"] == header(first)["writer"]
    assert header(second)["attempt"] == 1
    assert second[0].t > first[-1].t
    assert second[4].payload[:8] == b"\0\0\0\0\0\0\x08@"  # step 3.0
    assert list(writer.positions()) == [header(frames)["writer"] for frames in journals()]
    assert writer.writers == tuple(writer.positions())


def test_each_journal_tells_the_losses_since_the_last_rest(writer, journals):
    for count in (1, 2):
        for _ in range(count):
            writer.append_row({"a": 1.0, "b": "no"}, 0)
        writer.rest()
    assert [told(frames) for frames in journals()] == [[{"value": 1}], [{"value": 2}]]


def test_waiting_records_are_written_before_the_rest(writer, journals, disk):
    writer.append_row({"a": 1.0}, 0)
    disk.fill()
    writer.append_row({"a": 1.0}, 1)
    assert writer.rest() is False
    assert writer._upkeep.thread is not None
    disk.free()
    assert writer.rest() is True
    assert kinds(journals()[0]) == "header path sparse schema row close"
    assert writer.dropped == {}


def test_a_rest_does_not_wait_for_the_disk(threads, writer, monkeypatch, warnings_said, journals):
    answer = threading.Event()
    monkeypatch.setattr(segment_module, "_sync_data", lambda _fd: answer.wait(60))
    writer.append_row({"a": 1.0}, 0)
    assert writer.rest(timeout_s=0.01) is False
    assert "did not respond" in warnings_said()[0]
    assert writer.append_row({"a": 1.0}, 1) is True
    assert [kinds(frames) for frames in journals()] == [
        "header path sparse close",
        "header path schema row",
    ]
    answer.set()
    assert writer.rest() is True
    for thread in threads():
        thread.join(60)


def test_threads_share_a_writer_that_rests_now_and_then(threads, open_writer, journals):
    writer, done = open_writer(sync_s=0.001, heartbeat_s=0.002), threading.Event()
    counts = [0] * 4

    def work(number):
        while not done.is_set():
            writer.append_row({f"{number}/a": 1.0, f"{number}/b": 2.0}, counts[number])
            writer.append_op({"op": "clear", "path": f"{number}/x"})
            counts[number] += 1

    with ThreadPoolExecutor(4) as pool:
        workers = pool.map(work, range(4))
        for _ in range(8):
            writer.rest()
        done.set()
        list(workers)
    writer.rest()
    assert threads() == []
    found = journals()
    assert sum(map(rows, found)) == sum(counts)
    assert sum(len(ops(frames)) for frames in found) == sum(counts)
    for frames in found:
        times = [frame.t for frame in frames]
        assert times == sorted(set(times))
    assert writer.dropped == {}
