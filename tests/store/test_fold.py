"""Rows of table B, one by one."""

from __future__ import annotations

import itertools
import math

import pytest
from journal_builder import START

from seamark.journal.format import Kind, dump_json
from seamark.store.fold.fold import fold
from seamark.store.fold.registers import NEVER
from seamark.store.fold.run_state import JournalState, RunState
from seamark.store.read.snapshot import problems


@pytest.fixture
def folded(builder):
    """Fold journals in the order given and return the run."""

    def fold_all(*journals):
        run = RunState()
        for journal in journals:
            run.add_journal(JournalState(journal.writer, journal.uid), journal.header)
            fold(run, journal.writer, journal.block())
        return run

    return fold_all


def value(run, path):
    state = run.surviving(path)[0]
    return state.value if state.family == "atom" else state.visible(run.emptied(path))


def statistic(part, kind, state):
    return {"op": "statistic", "path": "s", "part": part, "kind": kind, "state": state}


def test_a_record_of_earlier_versions_is_no_problem(builder, folded):
    record = {"op": "series_config", "path": "s", "min": 0.0, "max": 1.0, "unit": "m"}
    journal = builder().frame(Kind.OP, dump_json(record)).assign(after=1)
    run = folded(journal)
    assert value(run, "after") == 1
    assert run.journals[journal.writer].errors == 0


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"op": "teleport"}, "unknown op"),
        ({"no": "op"}, "KeyError"),
        ({"op": "assign", "atoms": {"a": ["int", "x"]}}, "ValueError"),
        ({"op": "assign", "atoms": {"a": ["float", None]}}, "type float"),
        ({"op": "assign", "atoms": {"a": ["complex", 1]}}, "complex"),
        ({"op": "assign", "atoms": {"": ["int", 1]}}, "expected a path"),
        ({"op": "assign", "atoms": 3}, "AttributeError"),
        ({"op": "add", "path": "t", "values": "abc"}, "expected a list"),
        ({"op": "add", "path": "t", "values": [3]}, "expected a string"),
        ({"op": "file", "path": "f", "file": 3}, "expected an object"),
        ({"op": "state", "state": "flying"}, "unknown state"),
        ({"op": "file_point", "path": "f", "step": "x", "file": {}}, "finite number"),
        ({"op": "delete", "paths": [3]}, "path or namespace"),
        ({"op": "clear", "path": None}, "expected a path"),
        (statistic("p", "mode", {}), "kind:"),
        (statistic("", "last", {}), "part:"),
        (statistic("p", "last", 3), "from_dict"),
        (
            statistic("p", "ring", {"size": 1, "count": 2, "values": [1, 2]}),
            "values: expected at most 1",
        ),
    ],
)
def test_a_record_that_cannot_be_applied_is_counted(builder, folded, record, complaint):
    """One odd value never stops a reader, nor takes its neighbours with it."""
    journal = builder().frame(Kind.OP, dump_json(record)).assign(after=1)
    run = folded(journal)
    assert value(run, "after") == 1
    assert run.journals[journal.writer].errors == 1
    assert complaint in run.journals[journal.writer].notes[0][1]
    assert problems(run, run.conflicts())["fold_errors"] == {journal.writer: 1}


def test_damaged_frames_and_items_are_counted_and_passed_over(builder, folded):
    """Frames whose payload cannot be decoded; a row whose SCHEMA was lost in a gap; atoms of a
    frame, which stand for themselves; and steps that are not finite, however they come.
    """
    journal = builder().frame(Kind.OP, b"{").frame(Kind.TEXT, b"\xff\xfe")
    journal.frame(Kind.SCHEMA, b"123").frame(Kind.ROW, bytes(16), aux=5)
    journal.op("assign", atoms={"b": ["int", 1], "c": 7, "d": ["bool", True]})
    journal.row({"a": 1.0}, math.nan).row({"a": 2.0}, 1).sparse({"a": 3.0}, math.inf)
    journal.column("a", [2.0, math.nan], [4.0, 5.0])
    run = folded(journal)
    assert (value(run, "b"), value(run, "d")) == (1, True)
    assert run.surviving("a")[0].visible(NEVER).count == 2
    assert run.journals[journal.writer].errors == 3 + 1 + 1 + 3


def test_two_families_on_one_path_are_both_kept_and_the_loser_is_named(builder, folded):
    """Between processes the later operation decides; after a delete, what comes then."""
    one, two = builder("one", t=100).assign(a=1), builder("two", t=200).row({"a": 1.0}, 0)
    for order in ((one, two), (two, one)):
        run = folded(*order)
        assert run.surviving("a")[0].family == "float_series"
        assert run.conflicts() == {"a": ["atom"]}
        assert problems(run, run.conflicts())["conflicts"] == {"a": ["atom"]}
    late = builder("late", t=300).op("delete", paths=["a"]).assign(a=2)
    assert [state.family for state in folded(one, two, late).surviving("a")] == ["atom"]


def test_only_owners_set_the_state(builder, folded):
    owner = builder("owner", t=100).op("state", state="completed")
    guest = builder("guest", t=200, owner=False).op("state", state="running")
    assert folded(owner, guest).state[1] == {"state": "completed"}


def test_counts_of_losses_are_totals_of_a_journal(builder, folded):
    journal = builder().heartbeat(disk=2).heartbeat().heartbeat(disk=3, value=1)
    other = builder("other").close(disk=10)
    run = folded(journal, other)
    assert problems(run, run.conflicts())["dropped"] == {"disk": 13, "value": 1}
    assert [run.journals[one.writer].closed for one in (journal, other)] == [False, True]


def test_unknown_kinds_that_may_be_skipped_are_remembered(builder, folded):
    run = folded(builder().unknown().unknown().assign(a=1))
    assert next(iter(run.journals.values())).unknown == {"77": 2}
    assert value(run, "a") == 1


@pytest.mark.parametrize("many", [3, 30])
def test_changes_of_parameters_are_the_same_in_every_order_of_journals(builder, folded, many):
    """Of many the newest are kept; of one that was deleted only what came after."""
    journals = [builder("a"), builder("b"), builder("c")]
    for number in range(-5, many):
        journal = journals[number % 3]
        journal.t = START + 10 * (number + 10)
        if number == -1:
            journal.op("delete", paths=["parameters"])
        else:
            journal.assign(**{"parameters/lr": number, "parameters/x": 1, "lr": number})
    for order in itertools.permutations(journals):
        changes = folded(*order).changes().items()
        found = {path: [value for _, _, value in told] for path, told in changes}
        assert found == {"parameters/lr": list(range(many))[-21:]}
