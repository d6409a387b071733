"""A writer when the disk fails, when signals interrupt it, among threads and after a fork."""

from __future__ import annotations

import errno
import logging
import math
import os
import shutil
import threading

import pytest
from journal_frames import header, ops, points, rows, texts, told
from journals import Kind

from seamark.journal import stream as stream_module
from seamark.journal.reader import JournalReader


@pytest.fixture
def warm(unkept, open_writer):
    """A writer whose next row of ``a`` goes the quick way, with no thread beside; see `disk`."""
    writer = open_writer()
    for step in range(3):
        writer.append_row({"a": 1.0}, step)
    return writer


@pytest.mark.usefixtures("forgetful")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE])
def test_a_journal_goes_on_after_a_failed_write(warm, disk, journals, warnings_said, code):
    disk.write_error = code
    for step in range(5):
        warm.append_row({"a": 1.0, "b": 1.0}, step)
        warm.append_row({"a": 1.0}, step)
        warm.append_op({"op": "clear", "path": "x"})
        warm.append_column("c", [1.0, 2.0])
    assert warm.dropped == {"disk": 5 * (2 + 1 + 1 + 2)}
    disk.write_error = 0
    warm.append_row({"a": 2.0}, 9)
    (frames,) = journals()
    assert rows(frames) == 4
    assert told(frames) == [{"disk": 30}]
    (warning,) = warnings_said()
    assert os.strerror(code) in warning
    warm.append_row({"a": 2.0}, 10)
    assert told(journals()[0]) == [{"disk": 30}]


@pytest.mark.parametrize("short", [1, 17, 24, 39])
def test_a_short_write_is_finished(warm, disk, journals, short):
    disk.short = short
    warm.append_row({"a": 1.0}, 3)
    warm.append_op({"op": "clear", "path": "x"})
    disk.free()
    (frames,) = journals()
    assert (rows(frames), len(ops(frames))) == (4, 1)
    assert warm.dropped == {}


@pytest.mark.usefixtures("forgetful")
def test_an_unreachable_folder_is_not_tried_at_every_row(writer, folder, monkeypatch):
    """Opening is tried again once a second at most: no training loop is slowed by a dead disk."""
    folder.root.mkdir()
    (folder.root / "team").touch()  # a file where a folder should be
    tries = []
    real = stream_module.Segment
    monkeypatch.setattr(stream_module, "Segment", lambda *at: tries.append(at) or real(*at))
    monkeypatch.setattr(stream_module, "_REOPEN_S", 3600.0)
    for step in range(50):
        writer.append_row({"a": 1.0}, step)
    assert len(tries) == 1
    assert writer.dropped == {"disk": 50}


@pytest.mark.usefixtures("forgetful")
def test_a_journal_that_cannot_start_leaves_no_file(writer, disk, folder, journals):
    for disk.write_error, disk.room in ((errno.ENOSPC, math.inf), (0, 40)):
        writer.append_row({"a": 1.0}, 0)
        assert folder.journals() == []
    disk.free()
    writer.append_row({"a": 1.0}, 1)
    assert told(journals()[0]) == [{"disk": 2}]


def test_a_file_system_without_fdatasync_is_no_fault(warm, disk):
    name = warm.writer
    disk.sync_error = errno.EINVAL
    warm.append_row({"a": 1.0}, 3)
    warm._upkeep.keep()
    warm.append_row({"a": 1.0}, 4)
    assert warm.writer == name
    assert warm.dropped == {}


def test_a_failed_fdatasync_ends_the_journal(warm, disk, journals, warnings_said):
    warm.append_row({"a": "no"}, 3)
    warm._upkeep.keep(heartbeat=True)
    warm.append_row({"a": "no", "b": 1.0}, 3)
    disk.sync_error = errno.EIO
    warm._upkeep.keep()
    disk.sync_error = 0
    warm.append_row({"a": 1.0}, 3)
    warm.close()
    first, second = journals()
    assert header(second)["continues"] == header(first)["writer"]
    assert rows(second) == 1
    assert told(first) == [{"value": 1}]
    assert told(second)[-1] == {"value": 1, "sync": 1}
    assert any("forced to disk" in text for text in warnings_said())


def test_a_removed_journal_is_brought_back(warm, folder, journals, warnings_said):
    shutil.rmtree(folder.root)
    warm.append_row({"a": 1.0}, 3)
    warm._upkeep.keep()
    warm.append_row({"a": 1.0}, 4)
    warm._upkeep.keep()
    (frames,) = journals()
    assert rows(frames) == 5
    assert [one.writer for one in folder.journals()] == [warm.writer]
    (warning,) = warnings_said()
    assert "removed" in warning
    (path,) = [journal.path for journal in folder.journals()]
    copy = path.with_name(".copy")  # another file in its place
    copy.write_bytes(path.read_bytes()[:100])
    copy.rename(path)
    warm.append_row({"a": 1.0}, 5)
    warm._upkeep.keep()
    assert rows(journals()[0]) == 6
    shutil.rmtree(folder.root)
    warm.close()  # which does a last round
    assert rows(journals()[0]) == 6
    assert warm.dropped == {}


def test_a_journal_that_cannot_come_back_leaves_nothing(
    warm, folder, disk, journals, warnings_said
):
    shutil.rmtree(folder.root)
    disk.write_error = errno.ENOSPC
    for _ in range(3):
        warm._upkeep.keep()
    assert list(folder.journal_dir.iterdir()) == []
    assert warm.dropped == {"removed": 1}
    assert len(warnings_said()) == 1
    disk.write_error = 0
    warm._upkeep.keep()
    assert rows(journals()[0]) == 3


@pytest.mark.usefixtures("disk")
def test_a_purged_run_is_not_revived(warm, folder, warnings_said):
    folder.purged_mark.parent.mkdir(parents=True, exist_ok=True)
    folder.purged_mark.touch()
    shutil.rmtree(folder.path)
    warm._upkeep.keep()
    warm.append_row({"a": 1.0}, 3)
    warm._upkeep.keep()
    warm.close()
    assert not folder.path.exists()
    assert warm.dropped["disk"] == 1
    assert any("purged" in text for text in warnings_said())


def test_stopping_from_a_signal_handler_does_not_wait(writer, request, journals, on_signal):
    for step in range(3):
        writer.append_row({"a": 1.0}, step)
    keeper, disk = writer._upkeep.thread, request.getfixturevalue("disk")
    disk.before = on_signal(writer.close)
    writer.append_row({"a": 5.0}, 3)
    assert [frame.kind for frame in journals()[0]][-2:] == [Kind.ROW, Kind.CLOSE]
    assert writer.closed
    keeper.join(30)
    assert not keeper.is_alive()


def test_ctrl_c_leaves_the_journal_whole(open_writer, interrupt_at, folder):
    """KeyboardInterrupt at any of our own calls: paths, schemas and rows stay consistent."""
    interrupted = 0
    for number in range(1, 140, 2):
        writer = open_writer()
        with interrupt_at(number) as hit:
            for step in range(4):
                writer.append_row({"a": 1.0, "b": 2.0}, step)
        interrupted += len(hit)
        writer.append_row({"c": 3.0, "b": 4.0}, 9)
        writer.append_row({"c": 3.0, "b": 4.0}, 10)
        writer.append_row({"d": 5.0}, 11)
        assert not writer._guard.busy
        writer.close()
        assert writer.dropped == {}
        (journal,) = [one for one in folder.journals() if one.writer in writer.positions()]
        with JournalReader(journal.path) as reader:
            frames = list(reader.frames())
            assert (reader.gaps, reader.tail, reader.closed) == ([], None, True)
        expected = {("a", 1.0), ("b", 2.0), ("b", 4.0), ("c", 3.0), ("d", 5.0)}
        assert {(path, value) for path, _, value in points(frames)} <= expected
        shutil.rmtree(folder.path)
    assert interrupted > 50


@pytest.mark.usefixtures("forgetful")
def test_a_logging_handler_that_records_does_not_deadlock(warm, disk, journals):
    """People send their log lines into the run: while a warning is logged, others can record."""

    class IntoRun(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            disk.write_error = 0
            other = threading.Thread(target=record_text, args=("other",), daemon=True)
            other.start()
            other.join(30)
            record_text(record.getMessage())

    def record_text(text):
        warm.append_op({"op": "log", "text": text})

    logger, handler = logging.getLogger("seamark"), IntoRun()
    logger.addHandler(handler)
    disk.write_error = errno.ENOSPC
    try:
        warm.append_row({"a": 1.0}, 3)
    finally:
        logger.removeHandler(handler)
    first, second = texts(journals()[0])
    assert first == "other"
    assert "values are being lost" in second
