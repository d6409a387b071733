"""Rows of table B, one by one, with names that say them."""

from __future__ import annotations

import math

import pytest

from seamark.journal.format import Kind, dump_json
from seamark.store.fold.fold import fold
from seamark.store.fold.run_state import JournalState, RunState
from seamark.store.read.derived import troubles


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
        ({"op": "statistic", "path": "s", "part": "p", "kind": "mode", "state": {}}, "kind:"),
        ({"op": "statistic", "path": "s", "part": "", "kind": "last", "state": {}}, "part:"),
        ({"op": "statistic", "path": "s", "part": "p", "kind": "last", "state": 3}, "from_dict"),
        (
            {
                "op": "statistic",
                "path": "s",
                "part": "p",
                "kind": "ring",
                "state": {"size": 1, "count": 2, "values": [1, 2]},
            },
            "values: expected at most 1",
        ),
    ],
)
def test_a_record_that_cannot_be_applied_is_counted_and_passed_over(
    builder, folded, record, complaint
):
    """One odd value never stops a reader, nor takes its neighbours with it."""
    journal = builder().frame(Kind.OP, dump_json(record)).assign(after=1)
    run = folded(journal)
    assert value(run, "after") == 1
    assert run.journals[journal.writer].errors == 1
    assert complaint in run.journals[journal.writer].notes[0][1]
    assert troubles(run, run.conflicts())["fold_errors"] == {journal.writer: 1}


def test_bytes_that_are_no_json_are_counted_and_passed_over(builder, folded):
    """The same for payloads that cannot be decoded at all."""
    journal = (
        builder().frame(Kind.OP, b"{").frame(Kind.TEXT, b"\xff\xfe").frame(Kind.SCHEMA, b"123")
    )
    run = folded(journal.assign(after=1))
    assert value(run, "after") == 1
    assert run.journals[journal.writer].errors == 3


def test_a_row_of_a_schema_that_was_lost_is_counted(builder, folded):
    """A gap may swallow the SCHEMA frame; its rows are then not readable, everything else is."""
    journal = builder().frame(Kind.ROW, bytes(16), aux=5).row({"loss": 1.0}, 0)
    run = folded(journal)
    assert run.journals[journal.writer].errors == 1
    assert run.surviving("loss")[0].summary().count == 1


def test_a_bad_item_does_not_take_the_others_of_its_frame_along(builder, folded):
    """Atoms and elements of one frame stand for themselves."""
    run = folded(builder().op("assign", atoms={"a": ["int", 1], "b": 7, "c": ["bool", True]}))
    assert (value(run, "a"), value(run, "c")) == (1, True)


def test_steps_that_are_not_finite_are_counted_and_their_points_left_out(builder, folded):
    """Whether they come in a row, a sparse row or a column."""
    journal = builder().row({"a": 1.0}, math.nan).row({"a": 2.0}, 1).sparse({"a": 3.0}, math.inf)
    journal.column("a", [2.0, math.nan], [4.0, 5.0])
    run = folded(journal)
    assert run.surviving("a")[0].summary().count == 2
    assert run.journals[journal.writer].errors == 3


def test_text_that_no_database_takes_stands_as_visible_escapes(builder, folded):
    """NUL and lone surrogates of a careless writer."""
    payload = b'{"op":"assign","atoms":{"a":["string","x\\u0000y\\ud800z"]}}'
    assert value(folded(builder().frame(Kind.OP, payload)), "a") == "x\\u0000y\\ud800z"


def test_a_value_carries_its_type_so_that_int_then_float_is_no_conflict(builder, folded):
    """`lr: 1`, then `0.5`, then as text: one family, the last one wins."""
    run = folded(builder().assign(lr=1).assign(lr=0.5).assign(lr="half"))
    assert value(run, "lr") == "half"
    assert run.conflicts() == {}


@pytest.mark.parametrize("number", [2**63, -(2**63), 2**64, 10**30, 10**400])
def test_ints_beyond_64_bit_survive_exactly(builder, folded, number):
    """As JSON numbers, and in hexadecimal where JSON readers stop."""
    journal = builder().op("assign", atoms={"a": ["int", number], "b": ["int", hex(number)]})
    assert value(folded(journal), "a") == value(folded(journal), "b") == number


def test_two_families_on_one_path_are_both_kept_and_the_loser_is_named(builder, folded):
    """Between processes the later operation decides; after a delete, what comes then."""
    one, two = builder("one", t=100).assign(a=1), builder("two", t=200).row({"a": 1.0}, 0)
    for order in ((one, two), (two, one)):
        run = folded(*order)
        assert run.surviving("a")[0].family == "float_series"
        assert run.conflicts() == {"a": ["atom"]}
        assert troubles(run, run.conflicts())["conflicts"] == {"a": ["atom"]}
    late = builder("late", t=300).op("delete", paths=["a"]).assign(a=2)
    assert [state.family for state in folded(one, two, late).surviving("a")] == ["atom"]


def test_deleting_a_namespace_hides_what_is_below_it_and_nothing_beside_it(builder, folded):
    """`a` covers `a/b`, not `ab`."""
    journal = builder().assign(a__b=1, ab=2, a=3).op("delete", paths=["a"]).assign(a__c=4)
    run = folded(journal)
    assert [path for path, _ in run.visible()] == ["a/c", "ab"]


def test_what_was_deleted_and_appended_again_starts_empty(builder, folded):
    """Points before the delete do not count in the new life."""
    run = folded(builder().row({"a": 5.0}, 9).op("delete", paths=["a"]).row({"a": 1.0}, 0))
    found = run.surviving("a")[0].summary()
    assert (found.count, found.last, found.max, found.last_step) == (1, 1.0, 1.0, 0.0)
    assert not run.needs_refold


def test_a_delete_between_points_that_were_counted_asks_for_another_pass(builder, folded):
    """Counting up cannot take points back; the journals can."""
    points = builder("points", t=100).row({"a": 1.0}, 0).wait(100).row({"a": 2.0}, 1)
    late = builder("late", t=150).op("delete", paths=["a"])
    assert folded(points, late).needs_refold
    assert not folded(late, points).needs_refold


@pytest.mark.parametrize(("deleter", "hidden"), [("a-writer", 0), ("z-writer", 1)])
def test_at_the_same_nanosecond_the_uid_decides(builder, folded, deleter, hidden):
    """Order is (time, uid, index), so that two hosts agree without a word."""
    points = builder("m-writer", t=100)
    points.row({"a": 1.0}, 0)
    delete = builder(deleter, t=points.t - 2).op("delete", paths=["a"])
    assert delete.t == points.t
    for order in ((points, delete), (delete, points)):
        assert len(folded(*order).surviving("a")) == 1 - hidden


def test_a_cleared_series_stays_and_is_empty(builder, folded):
    """Clear empties, delete removes."""
    run = folded(builder().row({"a": 1.0}, 0).op("clear", path="a"))
    assert run.surviving("a")[0].summary().count == 0
    run = folded(builder().op("add", path="t", values=["x"]).op("clear", path="t"))
    assert value(run, "t") == set()


def test_tags_are_last_writer_wins_for_every_element(builder, folded):
    """A remove on one host and an add on another meet element by element."""
    one = builder("one", t=100).op("add", path="t", values=["x", "y"])
    two = builder("two", t=200).op("remove", path="t", values=["x"])
    three = builder("three", t=150).op("add", path="t", values=["x", "z"])
    for order in ((one, two, three), (three, two, one), (two, three, one)):
        assert value(folded(*order), "t") == {"y", "z"}


def test_a_digest_completes_its_own_upload_and_never_an_older_one(builder, folded):
    """The upload decides which file a path shows, not whose bytes were ready last."""
    journal = builder()
    journal.op("own", path="f", file={"name": "old", "staged": "1"}, token="1")
    journal.op("own", path="f", file={"name": "new", "staged": "2"}, token="2")
    run = folded(journal)
    assert run.surviving("f")[0].visible() == {"name": "new", "staged": "2", "pending": True}
    journal.op("digest", path="f", token="2", file={"name": "new", "sha256": "2" * 64})
    journal.op("digest", path="f", token="1", file={"name": "old", "sha256": "1" * 64})
    assert folded(journal).surviving("f")[0].visible() == {"name": "new", "sha256": "2" * 64}


def test_a_digest_after_a_delete_does_not_bring_the_file_back(builder, folded):
    """It finishes an upload; it is none."""
    journal = builder().op("own", path="f", file={"name": "x", "staged": "1"}, token="1")
    journal.op("delete", paths=["f"]).op("digest", path="f", token="1", file={"sha256": "1" * 64})
    assert folded(journal).surviving("f") == []


def test_only_owners_have_a_state(builder, folded):
    """A command-line tool that adds a tag to a run does not set it running."""
    owner = builder("owner", t=100).op("state", state="completed")
    guest = builder("guest", t=200, owner=False).op("state", state="running")
    assert folded(owner, guest).state[1] == {"state": "completed"}


def test_heartbeats_and_close_carry_totals(builder, folded):
    """Counts of losses are totals of the journal, so the last one stands."""
    journal = builder().heartbeat(disk=2).heartbeat().heartbeat(disk=3, value=1)
    other = builder("other").close(disk=10)
    run = folded(journal, other)
    assert troubles(run, run.conflicts())["dropped"] == {"disk": 13, "value": 1}
    assert [run.journals[one.writer].closed for one in (journal, other)] == [False, True]


def test_unknown_kinds_that_may_be_skipped_are_remembered(builder, folded):
    """A later version finds them when it folds again."""
    run = folded(builder().unknown().unknown().assign(a=1))
    assert next(iter(run.journals.values())).unknown == {"77": 2}
    assert value(run, "a") == 1


class TestAttempts:
    """A later attempt hides what earlier ones recorded after the positions it went on from."""

    def test_points_after_the_checkpoint_are_hidden(self, builder, folded):
        """The rows that the resumed training writes again take their place."""
        first = builder("first", t=100).row({"a": 1.0}, 0)
        saved = first.offset
        first.row({"a": 2.0}, 1).assign(note="kept")
        second = builder("second", t=500, attempt=1, positions={first.writer: saved})
        second.row({"a": 3.0}, 1)
        for order in ((first, second), (second, first)):
            run = folded(*order)
            if run.needs_refold:
                continue
            assert run.surviving("a")[0].summary().mean == 2.0
            assert value(run, "note") == "kept"

    def test_a_header_that_comes_after_counted_points_asks_for_another_pass(self, builder, folded):
        """Counting up cannot take points back."""
        first = builder("first", t=100).row({"a": 1.0}, 0).row({"a": 2.0}, 1)
        second = builder("second", t=500, attempt=1, positions={first.writer: first.ends[0]})
        assert folded(first, second).needs_refold
        assert not folded(second, first).needs_refold

    def test_a_journal_that_the_positions_do_not_name_is_hidden_whole(self, builder, folded):
        """It began after the checkpoint."""
        first = builder("first", attempt=0).row({"a": 1.0}, 0)
        second = builder("second", attempt=1, positions={})
        assert folded(second, first).surviving("a")[0].summary().count == 0

    def test_without_positions_nothing_is_hidden(self, builder, folded):
        """A restart that loaded no checkpoint says nothing about earlier points."""
        first = builder("first", attempt=0).row({"a": 1.0}, 0)
        second = builder("second", attempt=1, positions=None)
        assert folded(second, first).surviving("a")[0].summary().count == 1

    def test_a_journal_of_no_attempt_is_never_hidden(self, builder, folded):
        """What a helper or a script added stays."""
        first = builder("first", attempt=None).row({"a": 1.0}, 0)
        second = builder("second", attempt=1, positions={})
        assert folded(second, first).surviving("a")[0].summary().count == 1
