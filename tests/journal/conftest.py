"""A run folder, a clock that is set, writers that are closed, and a disk that fails."""

from __future__ import annotations

import errno
import logging
import math
import os
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import pytest
from clocks import Clock
from journal_frames import say
from own_calls import own

import seamark.journal
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.journal.upkeep import SyncThread
from seamark.journal.writer import JournalWriter


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "root", "team/mnist", "run0")


@pytest.fixture
def open_writer(folder, clock):
    """Return a function that makes writers whose thread does nothing unless asked."""
    made: list[JournalWriter] = []

    def make(**given):
        header = given.pop("header", {"owner": True, "attempt": 0})
        given = {"clock": clock, "sync_s": 3600.0, "heartbeat_s": 3600.0, **given}
        made.append(JournalWriter(given.pop("folder", folder), lambda: dict(header), **given))
        return made[-1]

    yield make
    for writer in made:
        writer.close()


@pytest.fixture
def writer(open_writer):
    return open_writer()


@pytest.fixture
def begun(disk, writer):
    """A writer that wrote one operation to a disk that may fail."""
    say(writer, "before")
    return writer


@pytest.fixture
def journals(folder):
    """Return a function that reads the frames of all journals, oldest journal first."""

    def read():
        found = []
        for journal in folder.journals():
            with JournalReader(journal.path) as reader:
                found.append(list(reader.frames()))
                assert reader.gaps == []
                assert reader.tail is None
        return sorted(found, key=lambda frames: frames[0].t)

    return read


@pytest.fixture
def warnings_said(caplog):
    """Return a function that gives the warnings so far."""
    caplog.set_level(logging.WARNING, "seamark")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "seamark"]


@pytest.fixture
def on_signal():
    """Return a function that sets what a signal handler does and returns what has it run now."""
    before = signal.getsignal(signal.SIGUSR1)

    def handle(do):
        signal.signal(signal.SIGUSR1, lambda *_: do())
        return lambda: os.kill(os.getpid(), signal.SIGUSR1)

    yield handle
    signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def unkept(monkeypatch):
    """Let no thread sync: the test calls `keep` itself."""

    def refused(_keeper):
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setattr(SyncThread, "start", refused)


class Disk:
    """The calls of a writer to the disk, which fail as they are told.

    A write takes the part that there is ``room`` for, or that is ``short`` enough; a record that is
    longer than ``most`` is refused.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: float = math.inf
        self.most: float = math.inf
        self.short: float = math.inf
        self.write_error = self.truncate_error = self.sync_error = 0
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None
        self._write, self._truncate, self._sync = os.write, os.ftruncate, os.fdatasync
        monkeypatch.setattr(os, "write", own(self.write, os.write))
        monkeypatch.setattr(os, "ftruncate", own(self.ftruncate, os.ftruncate))
        sync = own(self.fdatasync, os.fdatasync)
        monkeypatch.setattr("seamark.journal.segment._sync_data", sync)
        monkeypatch.setattr("seamark.journal.stream._REOPEN_S", 0.0)

    def fill(self) -> None:
        self.write_error = errno.ENOSPC

    def free(self) -> None:
        self.write_error, self.room, self.most, self.short = 0, math.inf, math.inf, math.inf

    def write(self, fd: int, data: bytes) -> int:
        if (before := self.before) is not None:
            self.before = None
            before()
        part = data[: int(min(self.room, self.short, len(data)))]
        fail(self.write_error or (0 if part and len(data) <= self.most else errno.ENOSPC))
        written = self._write(fd, part)
        self.room -= written
        if (after := self.after) is not None:
            self.after = None
            after()
        return written

    def ftruncate(self, fd: int, size: int) -> None:
        fail(self.truncate_error)
        self.room += os.fstat(fd).st_size - size
        self._truncate(fd, size)

    def fdatasync(self, fd: int) -> None:
        fail(self.sync_error)
        self._sync(fd)


def fail(code: int) -> None:
    if code:
        raise OSError(code, os.strerror(code))


@pytest.fixture
def disk(monkeypatch, unkept):
    """No thread beside: its first round may come late, and write while faults are being set."""
    return Disk(monkeypatch)


@pytest.fixture
def forgetful(monkeypatch):
    """Let nothing wait in memory: what the disk refuses is lost, as it is beyond the limit."""
    monkeypatch.setattr("seamark.journal.segment.MAX_RECORDS", 0)


@pytest.fixture
def interrupt_at():
    """Return a context in which the nth call of ours raises KeyboardInterrupt, as Ctrl-C does.

    That is where Python looks for signals: on entry of a function, and after a call.
    """
    own_files = str(Path(seamark.journal.__file__).parent)

    @contextmanager
    def interrupting(left):
        def interrupt(frame, event, _):
            nonlocal left
            if event in ("call", "c_return") and frame.f_code.co_filename.startswith(own_files):
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt

        hit: list[bool] = []
        sys.setprofile(interrupt)
        try:
            yield hit
        except KeyboardInterrupt:
            hit.append(True)
        finally:
            sys.setprofile(None)

    return interrupting
