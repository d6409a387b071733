"""The state of each rank, from what its journals say and whether its process lives."""

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
    """Return a function that saves journals and returns the ranks of the run at a time."""

    def ranks_at(now_ns, *journals):
        for each in journals:
            each.save(folder)
        with Index.open(folder.root, now_ns=lambda: now_ns) as index:
            index.refresh()
            return index.view(folder.project, folder.run).ranks()

    return ranks_at


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


def test_ranks_that_work_and_ranks_that_ended_well_or_badly(journal, statuses):
    journals = [journal(rank) for rank in range(5)]
    journals[1].op("state", state="completed").close()
    journals[2].close()
    journals[3].op("state", state="failed", error={"type": "ValueError", "message": "boom"})
    journals[4].op("state", state="interrupted", signal="SIGTERM").close()
    found = statuses(journals[0].t + S, *journals)
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


def test_a_process_that_is_gone_without_a_word_was_killed(journal, statuses):
    """Seen at once on the same host; the time is that of its last frame."""
    one = journal(1, **GONE).wait(3 * S).heartbeat()
    killed = statuses(one.t + S, journal(0), one)[1]
    assert (killed.state, killed.end_t, killed.last_t) == ("killed", one.t, one.t)
    assert killed.row_t < one.t - 2 * S


def test_a_process_without_a_sign_is_lost_elsewhere_and_hangs_here(journal, statuses):
    """It runs for 90 s after its last heartbeat; here it can be seen that it lives."""
    here, one = journal(0), journal(1, **ELSEWHERE)
    assert told(statuses(one.t + 50 * S, here, one))[1] == (1, "running", "")
    hangs, lost = statuses(one.t + 100 * S)
    assert (hangs.state, lost.state, lost.end_t) == ("hangs", "lost", one.t)


def test_heartbeats_without_rows_are_a_hang(journal, statuses):
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
    found = statuses(zero.t + S, zero, one, slow)
    assert told(found) == [(0, "running", ""), (1, "hangs", ""), (2, "running", "")]
    assert found[1].idle_ns(begun + 120 * S) == pytest.approx(120 * S, rel=0.01)


def test_measurements_and_output_do_not_hide_a_hang(journal, statuses):
    one = journal(0)
    last = one.t
    for number in range(12):
        one.wait(10 * S).row({"monitoring/w/cpu": 5.0, "monitoring/w/memory": 1.0}, number)
        one.sparse({"monitoring/w/cpu": 5.0}, number).column("monitoring/w/gpu", [number], [1.0])
        one.texts("monitoring/w/stderr", [number, "still waiting"]).heartbeat()
    (found,) = statuses(one.t + S, one)
    assert (found.state, found.row_t) == ("hangs", last)


def test_a_rank_that_recorded_nothing_yet_is_running(journal, statuses):
    """The first step may take long: data are read, models compiled."""
    one = journal(1, rows=0)
    for _ in range(20):
        one.wait(30 * S).heartbeat()
    assert told(statuses(one.t + S, one)) == [(1, "running", "")]


def test_a_journal_that_was_continued_is_one_rank(journal, statuses):
    """The newest of a process tells whether it is open, all of them what it said."""
    old = journal(1).frame(11, b'{"reason":"rotate","dropped":{}}')
    assert told(statuses(old.t + S, old)) == [(1, "running", "")]
    new = journal(1, name="r1b", t=old.t + S, rows=0, continues=old.writer).close()
    (found,) = statuses(new.t + S, new)
    assert (found.state, found.writers) == ("completed", (new.writer, old.writer))
    assert found.row_t is not None


@pytest.mark.parametrize("attempt", [0, 1])
def test_ranks_that_ended_before_rank_0_began_are_past(attempt, journal, statuses):
    """An attempt that was restarted, or a run that was opened again, also with fewer ranks."""
    old = [journal(rank, name=f"old{rank}", **GONE) for rank in range(3)]
    later = {"t": old[0].t + 100 * S, "attempt": attempt}
    again = [journal(rank, name=f"new{rank}", **later) for rank in range(2)]
    assert told(statuses(again[0].t + S, *old, *again)) == [(0, "running", ""), (1, "running", "")]


def test_a_rank_may_end_before_rank_0_begins(journal, statuses):
    """It was quicker to start, and was killed meanwhile."""
    one = journal(1, **GONE)
    zero = journal(0, t=one.t + S)
    assert told(statuses(zero.t + S, zero, one)) == [(0, "running", ""), (1, "killed", "")]


def test_helpers_and_later_scripts_are_no_ranks_but_their_rows_count(journal, builder, statuses):
    """A worker of a loader, or somebody who adds a note; but rows of rank 0's child count."""
    helper = builder("helper", rank=0, owner=False, attempt=None, **ALIVE)
    helper.wait(100 * S).row({"y": 1.0}, 0)
    odd = [builder("broken", header=False), builder("odd", rank="x", owner=True, **ALIVE)]
    zero = journal(0).wait(94 * S).heartbeat()
    (found,) = statuses(helper.t + S, helper, *odd, zero)
    assert (found.rank, found.state, found.row_t) == (0, "running", helper.t)


def test_ranks_that_never_recorded_are_missing_after_a_minute(journal, statuses):
    ranks = {"ranks": "all", "world_size": 4}
    one, two = journal(0, **ranks), journal(2, **ranks)
    assert [each.rank for each in statuses(one.t + S, one, two)] == [0, 2]
    found = statuses(one.t + 70 * S)
    assert [each.rank for each in found if each.state == "missing"] == [1, 3]
    for each in (one, two):  # nobody will come any more
        each.op("state", state="completed").close()
    found = statuses(one.t + S, one, two)
    assert [each.state for each in found] == ["completed", "missing"] * 2


def test_the_number_of_ranks_may_be_a_value_of_the_run(journal, statuses):
    one = journal(0, ranks="all", world_size=None).assign(distributed__world_size=2)
    assert [each.rank for each in statuses(one.t + 70 * S, one)] == [0, 1]


@pytest.mark.parametrize("facts", [{"ranks": "zero"}, {}])
def test_where_only_rank_0_records_nobody_is_missing(journal, statuses, facts):
    one = journal(0, world_size=4, **facts)
    assert [each.rank for each in statuses(one.t + 70 * S, one)] == [0]


@pytest.mark.parametrize(
    ("steps", "name", "states"),
    [
        ([5, 4, 5], "x", ["waits", "hangs", "waits"]),
        ([5, 5], "x", ["hangs", "hangs"]),
        ([5, 4], "of {}", ["hangs", "hangs"]),
    ],
    ids=["one is behind", "none is behind", "nothing in common"],
)
def test_the_rank_that_is_behind_hangs_and_the_others_wait(builder, statuses, steps, name, states):
    """They have come to a step that one of them has not; else all of them hang."""
    journals = []
    for rank, count in enumerate(steps):
        made = builder(f"s{rank}", rank=rank, owner=rank == 0, ranks="all", **ALIVE)
        made.op("state", state="running")
        for step in range(8):
            made.wait(S)
            if step < count:
                path = name.format(rank)
                made.row({f"ranks/{rank}/{path}" if rank else path: 1.0}, step)
        journals.append(made.wait(100 * S).heartbeat())
    found = statuses(max(each.t for each in journals) + S, *journals)
    assert told(found) == [(rank, state, "") for rank, state in enumerate(states)]
