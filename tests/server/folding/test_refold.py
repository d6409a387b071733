"""Folding everything again: beside the store that serves, from the objects alone."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from folding import a_journal, oracle, says
from server_waits import until

from seamark.server import databases
from seamark.server.databases import SchemaNewer, open_databases
from seamark.server.folding import refold as refolding
from seamark.server.folding.main import FoldWorker
from seamark.server.folding.refold import refold, refold_server

PROJECT = "team/x"


@pytest.fixture
def folded(place):
    for run in ("run0", "run1"):
        journal = a_journal(run, PROJECT, run, attempt=0).assign(name=run, lr=0.1)
        for step in range(200):
            journal.row({"loss": 1 / (step + 1)}, step)
        place.send(PROJECT, run, journal)
    worker = FoldWorker(place.databases, place.kept, threading.Event())
    until(lambda: worker.round() or not place.kept.unfolded(1))
    return place


def answers(place):
    return {run: says(place.reader(PROJECT, run)) for run in ("run0", "run1")}


def test_refolded_store_says_the_same_and_takes_over(folded, monkeypatch):
    """Beside the one that serves; after a loss of all tables; after an update, by a worker."""
    monkeypatch.setattr(refolding, "_SWITCH_S", 0.0)
    before, old = answers(folded), folded.databases.store_in_use
    assert before["run0"] == oracle(PROJECT, "run0", folded.sent[PROJECT, "run0"])
    seen = []
    name = refold(folded.databases, folded.kept, progress=lambda *both: seen.append(both))
    assert name != old
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] == sum(run.position for run in folded.kept.runs())
    assert (folded.databases.store_in_use, folded.databases.stores()) == (name, [name])
    assert answers(folded) == before

    folded.databases.close()
    for lost in ("kept", *folded.databases.stores()):
        folded.databases._places.drop(lost)
    refold_server(folded.settings)
    folded.databases = open_databases(folded.settings.store)
    assert answers(folded) == before

    with folded.databases.kept.writing() as connection:
        connection.execute(sa.text("UPDATE live SET store = 'store_v1', version = 1"))
    name = folded.databases.store_in_use
    folded.databases.close()
    folded.databases.drop_store(name)
    folded.databases = open_databases(folded.settings.store)
    FoldWorker(folded.databases, folded.kept, threading.Event()).round()
    assert folded.databases.live().name == name
    assert answers(folded) == before


def test_store_of_a_newer_version_is_neither_opened_nor_folded_into(folded, monkeypatch):
    monkeypatch.setattr(databases, "_LIVE_CHECK_S", 0.0)
    with folded.databases.kept.writing() as connection:
        connection.execute(sa.text("UPDATE live SET store = 'store_v1000', version = 1000"))
    with pytest.raises(SchemaNewer, match=r"folded by a newer Seamark .* update Seamark"):
        open_databases(folded.settings.store)
    worker = FoldWorker(folded.databases, folded.kept, threading.Event())
    with pytest.raises(SchemaNewer):
        until(lambda: worker.round() or False, 5)


def test_batch_that_arrives_during_a_refold_is_in_the_new_store(folded, monkeypatch):
    """A worker that still folds into the old store notes runs as folded; the new one has them."""
    late = a_journal("late", PROJECT, "run0", attempt=1).assign(late=1)
    worker = FoldWorker(folded.databases, folded.kept, threading.Event())

    def meanwhile(seconds):
        del seconds
        store = folded.databases.store_at("store_aside")
        old = FoldWorker(folded.databases, folded.kept, threading.Event(), store=lambda: store)
        folded.send(PROJECT, "run0", late)
        until(lambda: old.round() or not folded.kept.unfolded(1))
        store.database.engine.dispose()

    monkeypatch.setattr(refolding.time, "sleep", meanwhile)
    refold(folded.databases, folded.kept)
    monkeypatch.undo()
    worker.round()
    assert says(folded.reader(PROJECT, "run0"))["late"][2] == "1"
