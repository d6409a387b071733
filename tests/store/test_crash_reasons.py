"""Reasons of crashes and losses of runs, on each engine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seamark.journal.reader import SETTLE_NS
from seamark.process.liveness import process_facts
from seamark.reading.catalog import Selection
from seamark.store.journals import load_losses
from seamark.store.query.sql import reasons_of
from seamark.store.runs import RUNS_AT_ONCE, numbers_of

NOW = 10**18 + 10**14
GONE = {"pid": 2**22 + 1, "start": 1}


@pytest.fixture
def runs(engines, builder, store):
    """Six runs: two crashed here, two elsewhere, one resumed elsewhere, one completed."""

    def journal(number, **facts):
        return builder(f"j{number}", t=10**18 + number * 10**9, **{**process_facts(), **facts})

    far = {"host": "elsewhere"}
    folded = {
        "r0": [journal(0, **GONE).op("state", state="running")],
        "r1": [journal(1, **GONE).op("state", state="running").heartbeat(value=2, disk=3)],
        "r2": [journal(2, **far).op("state", state="running")],
        "r3": [journal(3).op("state", state="completed").close(file=1)],
        # the newest owner counts, whatever helpers do afterwards
        "r4": [
            journal(4, **GONE).op("state", state="running"),
            journal(5, **far).op("state", state="running"),
            journal(6, owner=False, **GONE).assign(note="later"),
        ],
        "r5": [journal(7, **far).op("state", state="running").frame(2, b"no json")],
    }
    for name, journals in folded.items():
        engines.fold(store, name, journals)
    return engines.Tables(store, NOW)


WANTED = {
    "r0": "process gone",
    "r1": "process gone",
    "r2": "heartbeat lost",
    "r4": "heartbeat lost",
    "r5": "heartbeat lost",
}


QUERIES = [
    ('sys/crash_reason = "process gone"', "r0 r1"),
    ('sys/crash_reason != "process gone"', "r2 r4 r5"),
    ('NOT sys/crash_reason = "process gone"', "r2 r3 r4 r5"),
    ('sys/crash_reason IN ("process gone", "heartbeat lost")', "r0 r1 r2 r4 r5"),
    ("sys/crash_reason CONTAINS lost", "r2 r4 r5"),
    ('sys/crash_reason =~ "^p"', "r0 r1"),
    ("sys/crash_reason IS MISSING", "r3"),
    ('sys/crash_reason = "out of memory"', ""),
    ('sys/state = crashed AND sys/crash_reason > "i"', "r0 r1"),
]


def test_queries_and_columns_have_crash_reasons(runs):
    """As any text that some runs have; sorted by it, runs without a reason come last."""
    for query, wanted in QUERIES:
        found = runs.select(Selection(query=query))
        assert " ".join(sorted(run for _, run in found)) == wanted, query
    for ascending, wanted in ((True, {"r2", "r4", "r5"}), (False, {"r0", "r1"})):
        found = runs.select(Selection(sort_by="sys/crash_reason", ascending=ascending))
        names = [run for _, run in found]
        assert set(names[: len(wanted)]) == wanted
        assert names[-1] == "r3"
    for columns in (["sys/crash_reason"], ["sys/crash*"], None):
        rows = runs.table(Selection(), columns).to_rows()
        found = {row["sys/id"]: row.get("sys/crash_reason") for row in rows}
        assert found == {**WANTED, "r3": None}
    assert "sys/crash_reason" not in runs.table(Selection(id="r3"), None).to_rows()[0]


def test_reasons_and_losses_of_many_runs_are_asked_for_at_once(runs, store):
    refs = [("p", run) for run in (*WANTED, "r3", "gone")]
    with store.database.reading() as connection:
        everything = {
            number: run for number, (_, run) in numbers_of(store, connection, refs).items()
        }
        many = [*refs, *(("p", f"no{at}") for at in range(5 * RUNS_AT_ONCE))]
        assert numbers_of(store, connection, many).keys() == everything.keys()
        padded = [*everything, *range(-5 * RUNS_AT_ONCE, 0)]
        losses = load_losses(store, connection, padded)
        assert {everything[number]: lost for number, lost in losses.items()} == {
            "r1": {"dropped": 5},
            "r3": {"dropped": 1},
            "r5": {"errors": 1},
        }
        found = reasons_of(store, connection, padded, NOW)
        told = {everything[number]: why for number, why in found.items()}
        assert WANTED.items() <= told.items()
        assert load_losses(store, connection, []) == {}


def test_a_run_whose_header_says_so_ends_by_falling_silent(engines, builder, store):
    journal = builder("n0", t=10**18, host="far", silence="ended", sys_id="SAN-1")
    journal.op("state", state="running")
    engines.fold(store, "quiet", [journal])
    for later_ns, state in ((45 * 10**9, "running"), (55 * 10**9, "completed")):
        tables = engines.Tables(store, journal.t + later_ns)
        assert tables.select(Selection(query=f"sys/state = {state}")) == [("p", "quiet")]
        assert tables.select(Selection(query="sys/state = crashed")) == []
        for query in ('sys/id = "SAN-1"', "sys/id = quiet", "sys/id IN (a, SAN-1)"):
            assert len(tables.select(Selection(query=query))) == 1
        assert tables.select(Selection(query='sys/id != "SAN-1"')) == []


def test_a_process_that_ended_says_nothing_of_one_that_went_on(engines, builder, store):
    """Its process may live on: what counts is the process that recorded last and did not end."""

    def journal(number, **facts):
        return builder(f"j{number}", t=NOW + number * 10**9, **{**process_facts(), **facts})

    ended = [journal(0).op("state", state="completed").close()]
    killed = [journal(1, **GONE).op("state", state="running")]
    engines.fold(store, "killed", ended + killed)
    engines.fold(store, "lives", [*ended, journal(1).op("state", state="running")])
    between = journal(2).op("state", state="running").close(reason="rotate")
    engines.fold(store, "rotates", [*killed, between])
    now_ns = NOW + 3 * 10**9
    tables = engines.Tables(store, now_ns)
    assert [run for _, run in tables.select(Selection(query="sys/state = crashed"))] == ["killed"]
    far = replace(store, here=False)  # as on a server, which hears of each and sees none
    assert engines.Tables(far, now_ns).select(Selection(query="sys/state = crashed")) == []
    later = engines.Tables(far, NOW + 2 * 10**9 + SETTLE_NS)
    crashed = later.select(Selection(query="sys/state = crashed"))
    assert sorted(run for _, run in crashed) == ["killed", "lives"]
