"""How each rank is doing, from what its journals say and whether its process lives."""

from __future__ import annotations

import os

import pytest

from seamark.index.index import Index
from seamark.process.liveness import boot_id, host_name, process_start

S = 10**9
HERE = {"host": host_name(), "boot": boot_id(), "pid": os.getpid()}
START = process_start(os.getpid())
ALIVE = {**HERE, "start": START}
GONE = {**HERE, "start": (START or 1) - 1}
ELSEWHERE = {"host": "other", "boot": "b", "pid": 7, "start": 1}


@pytest.fixture
def statuses(folder):
    """Return the ranks of the run some time after a moment, both in nanoseconds."""
    opened = []

    def ranks_at(now_ns):
        index = Index.open(folder.root, now_ns=lambda: now_ns)
        opened.append(index)
        index.refresh()
        return index.view(folder.project, folder.run).ranks()

    yield ranks_at
    for index in opened:
        index.close()


@pytest.fixture
def journal(builder):
    """A journal of one rank that said it is running and recorded a row each second."""

    def make(rank, name=None, rows=5, **facts):
        made = builder(name or f"r{rank}", rank=rank, owner=rank == 0, **{**ALIVE, **facts})
        made.op("state", state="running")
        for step in range(rows):
            made.wait(S).row({"x": 1.0}, step)
        return made

    return make


def told(ranks):
    return [(rank.rank, rank.state, rank.why) for rank in ranks]


def test_ranks_that_work_and_ranks_that_stopped(journal, folder, statuses):
    journals = [journal(rank) for rank in range(5)]
    journals[1].op("state", state="completed").close()
    journals[2].close()
    journals[3].op("state", state="failed", error={"type": "ValueError", "message": "boom"})
    journals[4].op("state", state="interrupted", signal="SIGTERM").close()
    for each in journals:
        each.save(folder)
    found = statuses(journals[0].t + S)
    assert told(found) == [
        (0, "running", ""),
        (1, "completed", ""),
        (2, "completed", ""),
        (3, "failed", "ValueError: boom"),
        (4, "interrupted", "SIGTERM"),
    ]
    first = found[0]
    assert (first.host, first.pid, first.end_t) == (HERE["host"], HERE["pid"], None)
    assert first.row_t == first.last_t == journals[0].t
    assert found[3].end_t is not None
    assert first.writers == (journals[0].writer,)


def test_a_process_that_is_gone_without_a_word_was_killed(journal, folder, statuses):
    """Seen at once on the same host; the time is that of its last frame."""
    zero, one = journal(0).save(folder), journal(1, **GONE).wait(3 * S).heartbeat()
    one.save(folder)
    killed = statuses(one.t + S)[1]
    assert (killed.state, killed.end_t, killed.last_t) == ("killed", one.t, one.t)
    assert killed.row_t < one.t - 2 * S
    assert zero.exists()


def test_a_process_without_a_sign_is_lost_elsewhere_and_hangs_here(journal, folder, statuses):
    """It runs for 90 s after its last heartbeat; here it can be seen that it lives."""
    here, one = journal(0), journal(1, **ELSEWHERE)
    here.save(folder)
    one.save(folder)
    assert told(statuses(one.t + 50 * S))[1] == (1, "running", "")
    hangs, lost = statuses(one.t + 100 * S)
    assert hangs.state == "hangs"
    assert (lost.state, lost.end_t) == ("lost", one.t)


def test_heartbeats_without_rows_are_a_hang(journal, folder, statuses):
    """After a minute, or twenty times the usual pause."""
    zero, one = journal(0), journal(1)
    slow = journal(2, rows=0)
    for step in range(4):
        slow.wait(30 * S).row({"x": 1.0}, step)
    for each in (zero, one):
        while each.t < slow.t:
            each.wait(S).row({"x": 1.0}, 9)
    begun = zero.t
    for _ in range(4):
        for each in (zero, one, slow):
            each.wait(30 * S).heartbeat()
        zero.row({"x": 1.0}, 99)
    for each in (zero, one, slow):
        each.save(folder)
    found = statuses(zero.t + S)
    assert told(found) == [(0, "running", ""), (1, "hangs", ""), (2, "running", "")]
    assert found[1].idle_ns(begun + 120 * S) == pytest.approx(120 * S, rel=0.01)


def test_measurements_and_output_do_not_hide_a_hang(journal, folder, statuses):
    one = journal(0)
    last = one.t
    for number in range(12):
        one.wait(10 * S).row({"monitoring/w/cpu": 5.0, "monitoring/w/memory": 1.0}, number)
        one.sparse({"monitoring/w/cpu": 5.0}, number).column("monitoring/w/gpu", [number], [1.0])
        one.texts("monitoring/w/stderr", [number, "still waiting"]).heartbeat()
    one.save(folder)
    (found,) = statuses(one.t + S)
    assert (found.state, found.row_t) == ("hangs", last)


def test_a_rank_that_recorded_nothing_yet_is_running(journal, folder, statuses):
    one = journal(1, rows=0)
    for _ in range(20):
        one.wait(30 * S).heartbeat()
    one.save(folder)
    assert told(statuses(one.t + S)) == [(1, "running", "")]


def test_a_journal_that_was_continued_is_one_rank(journal, folder, statuses):
    old = journal(1).frame(11, b'{"reason":"rotate","dropped":{}}')
    old.save(folder)
    assert told(statuses(old.t + S)) == [(1, "running", "")]
    new = journal(1, name="r1b", t=old.t + S, rows=0, continues=old.writer).close()
    new.save(folder)
    (found,) = statuses(new.t + S)
    assert found.state == "completed"
    assert found.writers == (new.writer, old.writer)
    assert found.row_t is not None


@pytest.mark.parametrize("attempt", [0, 1])
def test_ranks_that_ended_before_rank_0_began_are_past(attempt, journal, folder, statuses):
    """An attempt that was restarted, or a run that was opened again, also with fewer ranks."""
    for rank in range(3):
        journal(rank, name=f"old{rank}", **GONE).save(folder)
    later = {"t": journal(0).t + 100 * S, "attempt": attempt}
    again = [journal(rank, name=f"new{rank}", **later) for rank in range(2)]
    for each in again:
        each.save(folder)
    assert told(statuses(again[0].t + S)) == [(0, "running", ""), (1, "running", "")]


def test_a_rank_may_end_before_rank_0_begins(journal, folder, statuses):
    one = journal(1, **GONE)
    one.save(folder)
    zero = journal(0, t=one.t + S)
    zero.save(folder)
    assert told(statuses(zero.t + S)) == [(0, "running", ""), (1, "killed", "")]


def test_helpers_and_later_scripts_are_no_ranks_but_their_rows_count(
    journal, builder, folder, statuses
):
    zero = journal(0)
    zero.save(folder)
    helper = builder("helper", rank=0, owner=False, attempt=None, **ALIVE)
    helper.wait(100 * S).row({"y": 1.0}, 0)
    helper.save(folder)
    builder("broken", header=False).save(folder)
    builder("odd", rank="x", owner=True, **ALIVE).save(folder)
    zero.wait(94 * S).heartbeat().save(folder)
    (found,) = statuses(helper.t + S)
    assert (found.rank, found.state, found.row_t) == (0, "running", helper.t)


def test_ranks_that_never_recorded_are_missing_after_a_minute(journal, folder, statuses):
    one = journal(0, ranks="all", world_size=4)
    one.save(folder)
    journal(2, ranks="all", world_size=4).save(folder)
    assert [each.rank for each in statuses(one.t + S)] == [0, 2]
    found = statuses(one.t + 70 * S)
    assert [(each.rank, each.state) for each in found if each.rank in (1, 3)] == [
        (1, "missing"),
        (3, "missing"),
    ]
    for rank in (0, 2):  # nobody will come any more
        ended = journal(rank, ranks="all", world_size=4).op("state", state="completed").close()
        ended.save(folder)
    assert [each.state for each in statuses(ended.t + S)] == ["completed", "missing"] * 2


def test_the_number_of_ranks_may_be_a_value_of_the_run(journal, folder, statuses):
    one = journal(0, ranks="all", world_size=None)
    one.assign(distributed__world_size=2).save(folder)
    assert [each.rank for each in statuses(one.t + 70 * S)] == [0, 1]


@pytest.mark.parametrize("facts", [{"ranks": "zero"}, {}])
def test_where_only_rank_0_records_nobody_is_missing(journal, folder, statuses, facts):
    one = journal(0, world_size=4, **facts)
    one.save(folder)
    assert [each.rank for each in statuses(one.t + 70 * S)] == [0]


def standing(builder, folder, rank, steps, name="x"):
    """Save a journal of a rank that recorded so many steps and beats on; return its end."""
    made = builder(f"s{rank}", rank=rank, owner=rank == 0, ranks="all", **ALIVE)
    made.op("state", state="running")
    for step in range(8):
        made.wait(S)
        if step < steps:
            made.row({f"ranks/{rank}/{name}" if rank else name: 1.0}, step)
    made.wait(100 * S).heartbeat().save(folder)
    return made.t


def test_the_rank_that_is_behind_hangs_and_the_others_wait(builder, folder, statuses):
    now = max(standing(builder, folder, rank, 4 if rank == 1 else 5) for rank in range(3))
    assert told(statuses(now + S)) == [(0, "waits", ""), (1, "hangs", ""), (2, "waits", "")]


@pytest.mark.parametrize(("behind", "name"), [(0, "x"), (1, "of {}")])
def test_where_no_rank_is_behind_all_hang(builder, folder, statuses, behind, name):
    """Who is to blame cannot be told; nor from series that have nothing in common."""
    now = max(
        standing(builder, folder, rank, 5 - rank * behind, name.format(rank)) for rank in range(2)
    )
    assert told(statuses(now + S)) == [(0, "hangs", ""), (1, "hangs", "")]
