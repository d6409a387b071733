"""Purging: what an owner removes is gone for good, also while it is being sent."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("fastapi")

from folding import Place, a_journal, eventually, says

from seamark.server.failures import Rejected
from seamark.server.folding.main import FoldWorker
from seamark.server.purging import is_purged, purge
from seamark.server.writer import ServerWriter

PROJECT = "team/x"


@pytest.fixture
def place(account_url, tmp_path):
    """Databases, objects and intake of a server."""
    made = Place(tmp_path / "server", account_url)
    yield made
    made.close()


def away(place, run):
    """Purge a run."""
    databases = place.databases
    purge(databases.account, place.kept, databases.store(), PROJECT, run, who="a", now_ns=1)


def test_a_purge_while_it_is_sent_and_folded_leaves_nothing(place):
    """Batches that come after it are refused, and no fold brings back what was there."""
    place.start_worker()
    journal = a_journal("one", PROJECT, "run0", attempt=0)
    refused = threading.Event()

    def send():
        try:
            for step in range(100_000):  # until it is refused
                journal.row({"loss": float(step)}, step)
                place.send(PROJECT, "run0", journal)
        except Rejected:
            refused.set()

    sender = threading.Thread(target=send)
    sender.start()
    eventually(lambda: place.positions.folded(PROJECT, "run0"))
    away(place, "run0")
    sender.join()
    assert refused.is_set()
    assert is_purged(place.databases.account, PROJECT, "run0")
    assert place.kept.journals(PROJECT, "run0") == {}
    other = a_journal("two", PROJECT, "run1").assign(a=1)
    position = place.send(PROJECT, "run1", other)
    assert place.positions.wait_for((PROJECT, "run1"), position, 60) == 0
    eventually(lambda: says(place.reader(PROJECT, "run0")) == {})
    with pytest.raises(Rejected, match="was purged here"):
        place.intake.take(PROJECT, "run0", journal.file, 0, journal.data)
    away(place, "run0")  # again, as after one that was cut short


def test_edits_go_behind_all_that_a_run_holds(place):
    """From several workers at once, and also where a writer's clock is ahead."""
    worker = FoldWorker(place.databases, place.kept, threading.Event())
    ahead = place.now_ns() + 1800 * 10**9
    journal = a_journal("one", PROJECT, "run0", t=ahead, attempt=0).assign(sys__name="old")
    place.send(PROJECT, "run0", journal)
    eventually(lambda: worker.round() or place.positions.folded(PROJECT, "run0"))
    writers = [
        ServerWriter("instance", place.kept, place.intake.take, place.databases.store, place.now_ns)
        for _ in range(3)
    ]

    def edit(number):
        for one in range(5):
            tags = {"op": "add", "path": "sys/tags", "values": [f"t{number}-{one}"]}
            writers[number].record(PROJECT, "run0", [tags])

    threads = [threading.Thread(target=edit, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    renamed = {"op": "assign", "atoms": {"sys/name": ["string", "new"]}}
    trashed = {"op": "assign", "atoms": {"sys/trashed": ["bool", True]}}
    position = writers[0].record(PROJECT, "run0", [renamed, trashed])
    eventually(lambda: worker.round() or place.positions.folded(PROJECT, "run0") >= position)
    reader = place.reader(PROJECT, "run0")
    assert reader.attribute("sys/name").value == "new"
    assert reader.attribute("sys/trashed").value is True
    assert len(reader.attribute("sys/tags").value) == 15
    assert len(place.kept.journals(PROJECT, "run0")) == 2
    assert [rank.rank for rank in reader.ranks()] == [0]
    assert reader.problems() == {}


def test_an_edit_by_a_clock_that_is_behind_moves_no_creation_date(place):
    """By hours, and also before anything of the run was folded."""
    began = place.now_ns()
    journal = a_journal("one", PROJECT, "run0", t=began, attempt=0).assign(sys__name="old")
    place.send(PROJECT, "run0", journal)
    behind = ServerWriter(
        "instance", place.kept, place.intake.take, place.databases.store, lambda: began - 10**14
    )
    worker = FoldWorker(place.databases, place.kept, threading.Event())
    for name in ("before it is folded", "after"):
        behind.record(PROJECT, "run0", [{"op": "assign", "atoms": {"sys/name": ["string", name]}}])
        eventually(lambda: not worker.round())
        [created] = [
            one.value
            for one in place.reader(PROJECT, "run0").attributes()
            if one.path == "sys/creation_time"
        ]
        assert created.timestamp() * 1e9 == pytest.approx(began, abs=1e6)
