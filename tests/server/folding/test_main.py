"""Fold workers: what they fold is what a machine would that has the journals, whatever happens."""

from __future__ import annotations

import functools
import random
import signal
import threading

import pytest
from folding import a_journal, oracle, says
from served import folding
from server_waits import until

from seamark.server.changes import now_at
from seamark.server.database import DatabaseUnreachable
from seamark.server.folding import main as folding_main
from seamark.server.folding import tables, turns
from seamark.server.folding.main import FoldWorker
from seamark.server.folding.tables import Leases
from seamark.server.folding.turns import forget

PROJECT = "team/x"
START_S = 1_790_000_000


def a_training(name, run, seed, attempt=0, **facts):
    """Return a journal with some of everything, a little different for every seed."""
    chance = random.Random(seed)
    journal = a_journal(name, PROJECT, run, attempt=attempt, **facts)
    journal.assign(lr=chance.random(), model="m", seed=seed)
    for step in range(60):
        journal.row({"loss": chance.random(), f"acc{step % 3}": step / 2}, step)
        if step % 7 == 0:
            journal.op("add", path="sys/tags", values=[f"t{chance.randrange(5)}"])
        if step % 11 == 0:
            journal.texts("log", (step, f"line {step} {chance.random()}"))
        if step == 30:
            journal.op("delete", paths=["acc1"])
        if step % 20 == 0:
            journal.heartbeat()
    return journal.close()


@pytest.fixture
def worker(place):
    return FoldWorker(place.databases, place.kept, threading.Event())


def check_reads(place, *runs):
    """Check that runs read as on a machine that has what was sent."""
    for run in runs:
        wanted = oracle(PROJECT, run, place.sent[PROJECT, run])
        assert wanted["loss:points"][0]
        assert says(place.reader(PROJECT, run)) == wanted


def everything_folded(place):
    return all(
        place.positions.folded(project, run) == sum(map(len, journals.values()))
        for (project, run), journals in place.sent.items()
    )


def test_workers_killed_at_random_lose_and_double_nothing(place):
    """Several at once, killed with SIGKILL while journals of several runs come in pieces."""
    chance = random.Random(7)
    runs = {}
    for number in range(4):
        run = f"run{number}"
        first = a_training(f"a{number}", run, number)
        cut = {first.writer: first.ends[40]}
        runs[run] = [first, a_training(f"b{number}", run, number + 100, 1, positions=cut)]
    pieces = []
    for run, journals in runs.items():
        for journal in journals:
            ends = [*sorted(chance.sample(journal.ends[1:-1], 8)), journal.offset]
            pieces.append([(run, journal, end) for end in ends])
    workers = [place.start_worker() for _ in range(2)]
    while pieces:
        some = chance.choice(pieces)
        run, journal, end = some.pop(0)
        place.send(PROJECT, run, journal, end)
        if not some:
            pieces.remove(some)
        if chance.random() < 0.12:
            victim = chance.randrange(len(workers))
            workers[victim].send_signal(signal.SIGKILL)
            workers[victim] = place.start_worker()
    until(lambda: everything_folded(place), 120)
    check_reads(place, *runs)


def test_turns_longer_than_their_leases_end_and_double_nothing(place, monkeypatch):
    monkeypatch.setattr(folding_main, "Leases", functools.partial(Leases, seconds=-1))
    monkeypatch.setattr(turns.fold_turn, "__kwdefaults__", {"most": 500, "more": None})
    place.send(PROJECT, "run0", a_training("one", "run0", 3))
    with folding(place), folding(place), folding(place):
        until(lambda: everything_folded(place))
    check_reads(place, "run0")


def test_run_that_cannot_be_read_holds_up_no_other_and_is_tried_again(place, worker, caplog):
    place.send(PROJECT, "bad", a_training("bad", "bad", 1))
    (name,) = (one.name for one in place.objects.listed(""))
    aside = place.objects.get(name)
    place.objects.delete(name)
    place.send(PROJECT, "good", a_training("good", "good", 2))
    until(lambda: worker.round() or place.positions.folded(PROJECT, "good"))
    assert place.positions.folded(PROJECT, "bad") == 0
    assert "cannot fold" in caplog.text
    place.objects.put(name, aside)
    until(lambda: worker.round() or place.positions.folded(PROJECT, "bad"))
    check_reads(place, "bad")


def test_run_whose_clock_is_hours_off_lives_while_it_is_heard_of(place, clock):
    """It is crashed 90 s later, by the clock of the server."""
    clock.now = START_S * 10**9
    worker = FoldWorker(place.databases, place.kept, threading.Event(), clock)
    for run, hours in (("ahead", 5), ("behind", -5)):
        journal = a_journal(run, PROJECT, run, t=clock.now + hours * 3600 * 10**9, attempt=0)
        journal.op("state", state="running").row({"loss": 1.0}, 0)
        place.send(PROJECT, run, journal)
        until(lambda run=run: worker.round() or place.positions.folded(PROJECT, run))
        reader = place.reader(PROJECT, run)
        assert [reader.state, *(rank.state for rank in reader.ranks())] == ["running"] * 2
    clock.now += 91 * 10**9
    for run in ("ahead", "behind"):
        reader = place.reader(PROJECT, run)
        assert [reader.state, *(rank.state for rank in reader.ranks())] == ["crashed", "lost"]
        crash = reader.crash()
        assert (crash.reason, crash.last_t) == ("heartbeat lost", START_S * 10**9)
    place.send(PROJECT, "behind", journal.wait(95 * 10**9).heartbeat())
    until(lambda: worker.round() or place.reader(PROJECT, "behind").state == "running")
    assert place.reader(PROJECT, "ahead").state == "crashed"


def test_run_that_waits_to_be_folded_is_not_crashed(place, clock):
    clock.now = START_S * 10**9
    worker = FoldWorker(place.databases, place.kept, threading.Event(), clock)
    journals = {}
    for run in ("sends", "silent"):
        journal = journals[run] = a_journal(run, PROJECT, run, t=clock.now, attempt=0)
        journal.op("state", state="running").row({"loss": 1.0}, 0)
        place.send(PROJECT, run, journal)
        until(lambda run=run: worker.round() or place.positions.folded(PROJECT, run))
    store = place.databases.store()

    def change():
        with store.database.reading() as connection:
            return now_at(store.database, connection, place.now_ns())[0]

    before = change()
    for run in ("sends", "silent"):  # nothing is folded from here on
        place.send(PROJECT, run, journals[run].row({"loss": 0.5}, 1))
    for step in range(2, 8):
        clock.now += 25 * 10**9
        place.send(PROJECT, "sends", journals["sends"].wait(25 * 10**9).row({"loss": 1.0}, step))
    worker.note_overdue_activity(store)
    assert change() > before  # who asks again does not get what he has
    sends, silent = place.reader(PROJECT, "sends"), place.reader(PROJECT, "silent")
    assert len(sends.points("loss", "all").step) == 1
    assert (sends.state, silent.state) == ("running", "crashed")
    until(lambda: worker.round() or everything_folded(place))
    assert len(place.reader(PROJECT, "sends").points("loss", "all").step) == 8


def test_run_that_the_store_lost_is_folded_by_the_next_worker(place):
    """After a loss of power, the store may lack what the tables beside it call folded."""
    if place.databases.is_sqlite:
        for database in (place.databases.kept, place.databases.account):
            with database.writing() as connection:
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
    for run in ("run0", "run1"):
        place.send(PROJECT, run, a_training("one", run, 3))
    for run in ("run0", "run1"):
        worker = FoldWorker(place.databases, place.kept, threading.Event())
        while worker.round():
            pass
        assert everything_folded(place)
        forget(place.databases.store(), PROJECT, run)
        assert place.kept.unfolded(9) == []
    FoldWorker(place.databases, place.kept, threading.Event()).round()
    check_reads(place, "run0", "run1")


def test_worker_whose_tables_were_dropped_ends(place, worker):
    """What it knows of the store is not so any more; the supervisor starts it again."""
    worker.round()
    place.send(PROJECT, "run0", a_training("one", "run0", 3))
    tables.metadata.drop_all(place.databases.store().database.engine)
    with pytest.raises(DatabaseUnreachable, match="folding restarts"):
        worker.run()
