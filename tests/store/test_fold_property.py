"""Whatever happens to the order in which frames arrive, the visible state is that of the oracle."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seamark.store.fold.fold import fold
from seamark.store.fold.registers import NEVER
from seamark.store.fold.run_state import JournalState, RunState

PATHS = ("a", "a/b", "a/b/c", "d", "d/e")
ROW = ("row", {"a": 1.0}, 0.0)
VALUES = (0.0, -0.0, 1.0, 1.5, -2.25, 1e300, -1e300, 1e-320, 0.1, math.nan, math.inf, -math.inf)

paths = st.sampled_from(PATHS)
steps = st.sampled_from([0.0, 1.0, 1.5, 2.0, 7.0, -3.0])
values = st.one_of(st.sampled_from(VALUES), st.floats(-1e6, 1e6))
words = st.sampled_from(["x", "y", "z"])
states = st.sampled_from([{"sha256": "0" * 64}, {"staged": "s"}])
file = st.builds(lambda name, state: {"name": name, "size": 1, **state}, words, states)
done = words.map(lambda name: {"name": f"done {name}", "size": 2, "sha256": "1" * 64})
counts = st.lists(st.integers(0, 9), min_size=1, max_size=3)
bars = st.builds(lambda step, each: (step, list(range(len(each) + 1)), each), steps, counts)
metrics = st.dictionaries(paths, values, min_size=1, max_size=3)
ints = st.integers(0, 9).map(lambda number: ["int", number])
statistics = st.integers(1, 9).map(
    lambda number: {"count": number, "last": number, "size": 3, "values": [number]}
)
some_words = st.lists(words, min_size=1, max_size=2)


def op(name, **fields):
    """Return a strategy of operations with these fields."""
    return st.tuples(st.just("op"), st.fixed_dictionaries({"op": st.just(name), **fields}))


actions = st.one_of(
    st.tuples(st.just("row"), metrics, steps),
    st.tuples(st.just("row"), metrics, steps),
    st.tuples(st.just("sparse"), metrics, steps),
    st.tuples(st.just("column"), paths, st.lists(st.tuples(steps, values), min_size=1, max_size=4)),
    st.tuples(st.just("texts"), paths, st.lists(st.tuples(steps, words), min_size=1, max_size=2)),
    st.tuples(st.just("histograms"), paths, st.lists(bars, max_size=2)),
    st.tuples(st.just("wait"), st.integers(0, 12)),
    st.tuples(st.just("heartbeat")),
    op("assign", atoms=st.dictionaries(paths, ints, min_size=1, max_size=3)),
    op("delete", paths=st.lists(paths, min_size=1, max_size=2)),
    op("clear", path=paths),
    op("add", path=paths, values=some_words),
    op("remove", path=paths, values=some_words),
    op("assign_set", path=paths, values=st.lists(words, max_size=2)),
    op("own", path=paths, file=file),
    op("digest", path=paths, file=done, token=st.sampled_from(["t0", "t1", "t2", "t3"])),
    op("file", path=paths, file=file),
    op("files", path=paths, members=st.dictionaries(words, file, min_size=1, max_size=2)),
    op("unfiles", path=paths, names=some_words),
    op("artifact", path=paths, hash=words, kind=st.just("tracked"), files=st.just([])),
    op("file_point", path=paths, step=steps, file=file),
    op(
        "statistic",
        path=paths,
        part=words,
        kind=st.sampled_from(["last", "ring"]),
        state=statistics,
    ),
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
        for what, *content in todo:
            if what == "op":
                token = {"token": f"t{next(tokens)}"} if content[0]["op"] == "own" else {}
                journal.op(**content[0], **token)
            elif what == "column":
                journal.column(content[0], *map(list, zip(*content[1], strict=True)))
            elif what in ("texts", "histograms"):
                getattr(journal, what)(content[0], *content[1])
            else:
                getattr(journal, what)(*content)
        journals.append(journal)
    return journals


def summary(found):
    """Return the summary of a float series in the oracle's words."""
    names = ("last", "min", "max", "mean", "count")
    return {
        **{name: getattr(found, name) for name in names},
        "nan": found.nan_count,
        "inf": found.inf_count,
        "steps": (found.first_step, found.last_step),
    }


def in_words(family, value, kind):
    """Return a visible value in the oracle's words; ``kind`` is the type of an atom."""
    if family == "float_series":
        return summary(value)
    if family.endswith("_series"):
        steps = (value.first_step, value.last_step)
        return {"last": value.last, "count": value.count, "steps": steps}
    if family == "statistic":
        return (value.kind, value.to_dict()) if value.count else None
    return [kind, value] if family == "atom" else value


def value_of(run, path, state):
    if state.family == "atom":
        return state.value
    if state.family == "artifact":
        return state.record["hash"]
    if state.family == "file" or state.family.endswith("_series"):
        return state.visible(NEVER)
    return state.visible(run.emptied(path))


def shown(run):
    return {
        path: (
            state.family,
            in_words(state.family, value_of(run, path, state), getattr(state, "type", None)),
        )
        for path, state in run.visible()
    }


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
@example(history=[(0, 0, False, [ROW, ("op", {"op": "delete", "paths": ["a"]}), ROW])], seed=0)
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
