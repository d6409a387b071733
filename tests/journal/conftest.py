"""What tests of the journal share: a run folder, a clock that is set, writers that are closed."""

from __future__ import annotations

import logging

import pytest

from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.journal.upkeep import SyncThread
from seamark.journal.writer import JournalWriter
from seamark.run.lifecycle import Lifecycle
from seamark.run.ranks import EveryRank
from seamark.run.recorder import Recorder

START_NS = 1_700_000_000_000_000_000


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = START_NS

    def __call__(self) -> int:
        return self.now


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
    """Return a function that gives what was said to people so far."""
    caplog.set_level(logging.WARNING, "seamark")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "seamark"]


@pytest.fixture
def unkept(monkeypatch):
    """Let no thread sync what the test wants to see failing; the test calls `keep` itself."""

    def refused(_keeper):
        msg = "can't start new thread"
        raise RuntimeError(msg)

    monkeypatch.setattr(SyncThread, "start", refused)


class SecondRank(EveryRank):
    """The policy of rank 1 where all ranks record."""

    apart = 1


@pytest.fixture
def second_rank(folder):
    """Return the recorder of rank 1, which has recorded nothing yet."""
    recorder = Recorder(
        folder,
        "online",
        Lifecycle(),
        SecondRank(disabled=False),
        header=dict,
        start=lambda: recorder.open(),  # noqa: PLW0108 - made in this very line
    )
    return recorder
