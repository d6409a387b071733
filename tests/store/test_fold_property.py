"""Whatever happens to the order in which frames arrive, the visible state is that of the oracle."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seamark.store.fold.fold import fold
from seamark.store.fold.registers import NEVER, FloatSeriesState, SeriesState
from seamark.store.fold.run_state import JournalState, RunState

PATHS = ("a", "a/b", "a/b/c", "d", "d/e")
VALUES = (0.0, -0.0, 1.0, 1.5, -2.25, 1e300, -1e300, 1e-320, 0.1, math.nan, math.inf, -math.inf)

paths = st.sampled_from(PATHS)
steps = st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0, -3.0])
values = st.one_of(st.sampled_from(VALUES), st.floats(-1e6, 1e6))
words = st.sampled_from(["x", "y", "z"])
states = st.sampled_from([{"sha256": "0" * 64}, {"staged": "s"}])
file = st.builds(lambda name, state: {"name": name, "size": 1, **state}, words, states)
counts = st.lists(st.integers(0, 9), min_size=1, max_size=3)
metrics = st.dictionaries(paths, values, min_size=1, max_size=3)

actions = st.one_of(
    st.tuples(st.just("row"), metrics, steps),
    st.tuples(st.just("row"), metrics, steps),
    st.tuples(st.just("sparse"), metrics, steps),
    st.tuples(st.just("column"), paths, st.lists(st.tuples(steps, values), min_size=1, max_size=4)),
    st.tuples(st.just("texts"), paths, st.lists(st.tuples(steps, words), min_size=1, max_size=2)),
    st.tuples(st.just("histograms"), paths, st.lists(st.tuples(steps, counts), max_size=2)),
    st.tuples(st.just("assign"), st.dictionaries(paths, st.integers(0, 9), min_size=1, max_size=3)),
    st.tuples(st.just("delete"), st.lists(paths, min_size=1, max_size=2)),
    st.tuples(st.just("clear"), paths),
    st.tuples(st.just("add"), paths, st.lists(words, min_size=1, max_size=2)),
    st.tuples(st.just("remove"), paths, st.lists(words, min_size=1, max_size=2)),
    st.tuples(st.just("assign_set"), paths, st.lists(words, max_size=2)),
    st.tuples(st.just("own"), paths, file),
    st.tuples(st.just("digest"), paths, st.integers(0, 5)),
    st.tuples(st.just("file"), paths, file),
    st.tuples(st.just("files"), paths, st.dictionaries(words, file, min_size=1, max_size=2)),
    st.tuples(st.just("unfiles"), paths, st.lists(words, min_size=1, max_size=2)),
    st.tuples(st.just("artifact"), paths, words),
    st.tuples(st.just("file_point"), paths, steps, file),
    st.tuples(
        st.just("statistic"), paths, words, st.sampled_from(["last", "ring"]), st.integers(1, 9)
    ),
    st.tuples(st.just("clock"), st.integers(0, 12)),
    st.tuples(st.just("heartbeat")),
)

histories = st.lists(
    st.tuples(
        st.integers(0, 40),  # where its clock stands
        st.sampled_from([None, 0, 0, 1, 2]),  # attempt
        st.booleans(),  # does it name positions?
        st.lists(actions, max_size=12),
    ),
    min_size=1,
    max_size=4,
)


def build(builder, history, rng):
    """Return the journals of a history; later attempts go on from random frames of earlier ones."""
    journals: list[Any] = []
    tokens = itertools.count()
    for number, (clock, attempt, named, todo) in enumerate(history):
        positions = None
        if attempt and named:
            positions = {one.writer: rng.choice(one.ends) for one in journals if rng.random() < 0.8}
        journal = builder(f"w{number}", t=1000 + clock, attempt=attempt, positions=positions)
        for action in todo:
            extra = (next(tokens),) if action[0] == "own" else ()
            write(journal, *action, *extra)
        journals.append(journal)
    return journals


def write(journal, what, *given):  # noqa: C901, PLR0912 - a case an action
    if what in ("row", "sparse"):
        getattr(journal, what)(*given)
    elif what == "column":
        journal.column(given[0], *map(list, zip(*given[1], strict=True)))
    elif what == "texts":
        journal.texts(given[0], *given[1])
    elif what == "histograms":
        bars = [(step, list(range(len(counts) + 1)), counts) for step, counts in given[1]]
        journal.histograms(given[0], *bars)
    elif what == "assign":
        journal.op("assign", atoms={path: ["int", value] for path, value in given[0].items()})
    elif what == "delete":
        journal.op("delete", paths=given[0])
    elif what == "own":
        journal.op("own", path=given[0], file=given[1], token=f"t{given[2]}")
    elif what == "digest":
        done = {"name": f"done {given[1]}", "size": 2, "sha256": "1" * 64}
        journal.op("digest", path=given[0], token=f"t{given[1]}", file=done)
    elif what == "artifact":
        record = {"kind": "tracked", "files": [], "references": []}
        journal.op("artifact", path=given[0], hash=given[1], **record)
    elif what == "file_point":
        journal.op("file_point", path=given[0], step=given[1], file=given[2])
    elif what == "statistic":
        _, part, kind, number = given
        state = {"count": number, "last": number, "size": 3, "values": [number]}
        journal.op("statistic", path=given[0], part=part, kind=kind, state=state)
    elif what == "clear":
        journal.op("clear", path=given[0])
    elif what == "clock":
        journal.wait(given[0])
    elif what == "heartbeat":
        journal.heartbeat()
    else:
        names = {"file": "file", "files": "members", "unfiles": "names"}
        journal.op(what, path=given[0], **{names.get(what, "values"): given[1]})


def summary(found):
    """Return the summary of a float series in the oracle's words."""
    names = ("last", "min", "max", "mean", "count")
    return {
        **{name: getattr(found, name) for name in names},
        "nan": found.nan_count,
        "inf": found.inf_count,
        "steps": (found.first_step, found.last_step),
    }


def plain(run, path, state):
    """Return what a family shows, in the oracle's words."""
    if isinstance(state, FloatSeriesState):
        return summary(state.visible(NEVER))
    if isinstance(state, SeriesState):
        found = state.visible(NEVER)
        return {
            "last": found.last,
            "count": found.count,
            "steps": (found.first_step, found.last_step),
        }
    if state.family == "atom":
        return [state.type, state.value]
    if state.family == "file":
        return state.visible(NEVER)
    if state.family == "artifact":
        return state.record["hash"]
    found = state.visible(run.emptied(path))
    if state.family == "statistic":
        return (found.kind, found.to_dict()) if found.count else None
    return found


def shown(run):
    return {path: (state.family, plain(run, path, state)) for path, state in run.visible()}


def same(left, right):
    """Compare with NaN equal to itself and 0.0 equal to -0.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)


def advance(run, journals, ends):
    """Fold every journal up to its end, as the index does it, and return the run."""
    for journal, end in zip(journals, ends, strict=True):
        if end >= journal.ends[0]:
            state = run.journals.get(journal.writer)
            if state is None:
                state = run.add_journal(JournalState(journal.writer, journal.uid), journal.header)
            if (block := journal.block(state.offset, end)) is not None:
                fold(run, journal.writer, block)
    return advance(run.restarted(), journals, ends) if run.needs_refold else run


@settings(max_examples=2 * settings.default.max_examples)
@given(history=histories, seed=st.integers(0, 2**32))
@example(
    history=[
        (0, 0, False, [("row", {"a": 1.0}, 0.0), ("delete", ["a"]), ("row", {"a": 2.0}, 0.0)])
    ],
    seed=0,
)
@pytest.mark.once
def test_any_order_and_any_batches_end_in_the_state_of_the_oracle(builder, oracle, history, seed):
    """After every batch, whichever journal it came from, the state is that of what has arrived."""
    rng = random.Random(seed)
    journals = build(builder, history, rng)
    ends, run = [0] * len(journals), RunState()
    order = [at for at, journal in enumerate(journals) for _ in range(min(4, len(journal.ends)))]
    rng.shuffle(order)
    for at in order:
        later = [end for end in journals[at].ends if end > ends[at]]
        if later:
            ends[at] = rng.choice(later)
        run = advance(run, journals, ends)
        assert same(shown(run), oracle.expected(journals, ends))
    ends = [journal.offset for journal in journals]
    run = advance(run, journals, ends)
    assert same(shown(run), oracle.expected(journals, ends))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
    st.randoms(),
)
def test_means_of_floats_are_rounded_once_in_whatever_batches_they_come(numbers, rng):
    from fractions import Fraction

    def mean_of(parts):
        state = FloatSeriesState()
        t = 0
        for part in parts:
            times = np.arange(t, t + len(part))
            state.extend(b"u", times, times.astype(np.float64), np.array(part))
            t += len(part)
        return state.mean

    cut = rng.randrange(len(numbers) + 1)
    halves = [part for part in (numbers[:cut], numbers[cut:]) if part]
    exact = float(sum(map(Fraction, numbers)) / len(numbers))
    assert mean_of([numbers]) == mean_of(halves) == mean_of([[one] for one in numbers]) == exact
