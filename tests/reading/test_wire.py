"""What goes over the wire comes back as it was, or is refused with one clear error."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seamark.reading.wire import Rows, WireError, decode, decode_list, dumps, encode, loads

from seamark.errors import SeamarkError
from seamark.process.crashes import Crash
from seamark.reading.attributes import Attribute, JournalInfo, SeriesSummary, SeriesTail
from seamark.reading.curves import Curve, Drawing
from seamark.reading.names import RunName
from seamark.reading.points import FilePoint, HistogramPoint, Points, TextPage, TextPoint
from seamark.reading.ranks import RankStatus
from seamark.reading.stragglers import RankTiming
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable, StringList

# Also what no valid UTF-8 is: journals are written by strangers.
texts = st.text(st.characters(), max_size=20) | st.sampled_from(["$", "v", "\ud800", "nan", "\x00"])
whole = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.floats()
times = st.datetimes(
    timezones=st.sampled_from([timezone.utc, timezone(timedelta(hours=-3, minutes=-30))])
)
atoms = st.none() | st.booleans() | texts | st.integers() | numbers | times
sets = st.frozensets(texts, max_size=4).map(set)
string_lists = st.lists(texts, max_size=4).map(StringList)
values = st.recursive(
    atoms | sets | string_lists,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=12,
)
records = st.dictionaries(texts, values, max_size=4)
maybe = st.none() | texts
sizes = st.integers(0, 6)


def floats(size: int):
    return st.lists(numbers, min_size=size, max_size=size).map(lambda one: np.array(one, "f8"))


def ints(size: int):
    return st.lists(whole, min_size=size, max_size=size).map(lambda one: np.array(one, "i8"))


def arrays(kind, names_f8, names_i8, **more):
    def of(size):
        return st.builds(
            kind,
            **{name: floats(size) for name in names_f8},
            **{name: ints(size) for name in names_i8},
            **more,
        )

    return sizes.flatmap(of)


points = arrays(Points, ("step", "value"), ("time_ns", "attempt"))
curves = arrays(
    Curve,
    ("first_step", "last_step", "min", "max", "min_step", "max_step", "mean"),
    ("count", "nan_count", "inf_count"),
    width=numbers,
)
any_floats = sizes.flatmap(floats)
ends = sizes.flatmap(lambda size: st.tuples(floats(size), floats(size)))


def drawings():
    def of(curve):
        size = len(curve)
        return st.builds(
            Drawing,
            st.just(curve),
            floats(size),
            st.none() | floats(size),
            any_floats,
            any_floats,
            whole,
            whole,
            falls=st.booleans(),
            ends=ends,
        )

    return curves.flatmap(of)


counts = st.dictionaries(texts, whole, max_size=3)
text_or_file = texts | records
at = {"step": numbers, "time_ns": whole, "attempt": whole}
of_series = {"count": whole, "first_step": numbers, "last_step": numbers}
summaries = st.builds(
    SeriesSummary,
    **of_series,
    **dict.fromkeys(("last", "min", "max", "mean"), numbers),
    **dict.fromkeys(("nan_count", "inf_count"), whole),
)
tails = st.builds(SeriesTail, last=values, **of_series)


def tables():
    def of(shape):
        runs, names = shape
        column = st.lists(values, min_size=runs, max_size=runs)
        refs = st.lists(st.tuples(texts, texts), min_size=runs, max_size=runs)
        cells = st.fixed_dictionaries(dict.fromkeys(names, column))
        return st.builds(RunsTable, cells, refs, whole, whole)

    return st.tuples(sizes, st.lists(texts, unique=True, max_size=4)).flatmap(of)


def long(kind, part):
    return st.builds(kind, st.lists(st.tuples(texts, texts, part), max_size=3))


everything = st.one_of(
    values,
    st.lists(numbers),
    st.lists(st.integers()),
    st.builds(Attribute, texts, texts, texts, values | summaries | tails),
    st.builds(
        JournalInfo,
        writer=texts,
        file=texts,
        header=records,
        offset=whole,
        last_t=whole,
        closed=st.booleans(),
        gaps=st.lists(st.tuples(whole, whole), max_size=3),
        dropped=counts,
        errors=whole,
        notes=st.lists(st.tuples(whole, texts), max_size=3),
        stopped=maybe,
        unknown=counts,
    ),
    points,
    st.builds(TextPoint, **at, text=text_or_file),
    st.builds(FilePoint, **at, file=records, name=maybe, description=maybe),
    st.builds(HistogramPoint, **at, edges=st.lists(numbers), counts=st.lists(numbers)),
    st.builds(
        TextPage,
        st.lists(st.tuples(whole, texts, text_or_file), max_size=3),
        whole,
        more=st.booleans(),
    ),
    curves,
    drawings(),
    st.builds(RunName, texts, texts, maybe, whole, trashed=st.booleans()),
    st.builds(Crash, texts, maybe, st.none() | whole, whole, texts),
    st.builds(
        RankStatus,
        rank=whole,
        host=maybe,
        pid=st.none() | whole,
        writers=st.lists(texts, max_size=3).map(tuple),
        state=texts,
        why=texts,
        first_t=whole,
        last_t=whole,
        row_t=st.none() | whole,
        end_t=st.none() | whole,
    ),
    st.builds(
        RankTiming,
        rank=whole,
        host=maybe,
        pid=st.none() | whole,
        state=maybe,
        why=texts,
        last_seen=st.none() | times,
        last_step=st.none() | times,
        steps=whole,
        mean_s=numbers,
        slowdown=numbers,
    ),
    tables(),
    long(SeriesTable, points),
    long(CurveTable, curves),
)


def parts(value):
    """What a value is made of, to compare: also NaN equals itself, and 1 is not 1.0 nor True."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return kind, value.dtype.name, value.tobytes()
    if isinstance(value, float):
        return kind, repr(value)
    if isinstance(value, dict):
        return kind, [(key, parts(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return kind, [parts(one) for one in value]
    if dataclasses.is_dataclass(value):
        return kind, [parts(getattr(value, one.name)) for one in dataclasses.fields(value)]
    if isinstance(value, RunsTable):
        cells = [parts(value[column]) for column in value.columns]
        return kind, value.columns, cells, value.refs, value.total, value.offset
    if isinstance(value, SeriesTable | CurveTable):
        return kind, [parts(one) for one in value.parts]
    return kind, value


@given(value=everything, plain_arrays=st.booleans())
def test_everything_comes_back_as_it_was(value, plain_arrays) -> None:
    """Types, NaN, infinities, long ints and the bits of arrays survive, in both forms of arrays."""
    data = dumps(value, plain_arrays=plain_arrays)
    json.loads(data.decode(), parse_constant=pytest.fail)  # what other languages read, too
    back = loads(data)
    if plain_arrays:  # in which all NaN are alike
        assert parts(loads(dumps(back))) == parts(back)
        assert dumps(back, plain_arrays=True) == data
    else:
        assert parts(back) == parts(value)


@given(value=everything)
def test_without_orjson_the_same_is_said(value) -> None:
    """It is an extra of the server: whoever does without it says the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "orjson", None)
        without = dumps(value)
    assert without.isascii()
    assert json.loads(without) == json.loads(dumps(value))


names = st.builds(
    RunName,
    project=texts,
    run=texts,
    name=maybe,
    created_ns=st.integers(),
    trashed=st.booleans(),
    sys_id=maybe,
)


@given(given=st.lists(names, max_size=6), plain_arrays=st.booleans())
def test_rows_arrive_as_a_list(given, plain_arrays) -> None:
    """Long lists of one class go field by field, also where a number is too long for an array."""
    assert loads(dumps({"a": Rows(RunName, given)}, plain_arrays=plain_arrays)) == {"a": given}


def test_rows_are_whole_and_of_a_known_class() -> None:
    """Nobody has to look whether the third field ends before the first."""
    made = encode(Rows(RunName, [RunName("p", "r", None, 1, trashed=False)]))
    for spoil in (
        {"of": "Rows"},
        {"v": []},
        {"v": {**made["v"], "run": []}},
        {"v": {**made["v"], "run": [1]}},
        {"v": {"run": ["r"]}},
    ):
        with pytest.raises(WireError):
            decode({**made, **spoil})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=10,
)


@given(value=everything, spoil=st.randoms(use_true_random=False), odd=json_values)
def test_a_spoilt_answer_is_refused_or_understood(value, spoil, odd) -> None:
    """Whatever a server sends, there is an answer or one clear error."""
    made = encode(value)
    places = []

    def walk(node):
        keys = (
            node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        )
        for key in keys:
            places.append((node, key))
            walk(node[key])

    made = json.loads(json.dumps([made]))
    walk(made)
    node, key = spoil.choice(places)
    node[key] = odd
    with contextlib.suppress(WireError):
        decode(made)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"\xff",
        b"[" * 100_000,
        b'{"$": "os.system", "v": "true"}',
        b'{"$": ["Points"]}',
        b'{"$": "Points"}',
        b'{"$": "int", "v": "ten"}',
        b'{"$": "float", "v": "1"}',
        b'{"$": "datetime", "v": "yesterday"}',
        b'{"$": "set", "v": [[]]}',
        b'{"$": "f8", "v": "AAAA"}',
        b'{"$": "f8", "v": "%%"}',
        b'{"$": "i8", "v": [1.5]}',
        b'{"$": "i8", "v": [9223372036854775808]}',
        b'{"$": "TextPoint", "step": 0.0, "text": 3, "time_ns": 0, "attempt": 0}',
        b'{"$": "RunsTable", "columns": ["a"], "cells": [], "refs": [], "total": 0, "offset": 0}',
    ],
)
def test_what_is_not_as_agreed_is_refused(data) -> None:
    """Also what Python's JSON takes and no other does, and classes that nobody sends."""
    with pytest.raises(WireError):
        loads(data)


def test_columns_of_one_series_are_equally_long() -> None:
    """Nobody has to look whether the third column ends before the first."""
    made = encode(Points.none())
    made["step"] = {"$": "f8", "v": [1.0]}
    with pytest.raises(WireError, match="belong together"):
        decode(made)


def test_another_class_than_was_asked_for_is_refused() -> None:
    """An answer about something else is none."""
    assert decode(encode(Points.none()), Points).step.dtype == np.float64
    with pytest.raises(SeamarkError, match="expected Curve"):
        decode(encode(Points.none()), Curve)
    with pytest.raises(WireError):
        decode_list(encode([Points.none(), 3]), Points)


def test_fields_of_a_newer_server_are_passed_over() -> None:
    """A server may say more than a client understands."""
    made = encode(TextPoint(1.0, "a", 2, 3)) | {"mood": "good"}
    assert decode(made) == TextPoint(1.0, "a", 2, 3)


def test_what_is_nested_without_end_is_cut() -> None:
    """A record of a stranger stops neither who sends it nor who reads it."""
    deep: list = []
    for _ in range(900):
        deep = [deep]
    assert loads(dumps({"x": 1, "deep": deep}))["x"] == 1


def test_what_has_no_form_is_an_error_where_it_is_sent() -> None:
    """Nothing is sent as something else."""
    with pytest.raises(WireError, match="complex"):
        dumps([1j])


def test_an_array_that_came_may_be_changed() -> None:
    """As those that come from a store."""
    loads(dumps(np.arange(3.0)))[0] = 7.0
    assert loads(dumps(datetime(2026, 1, 31, tzinfo=timezone.utc))).year == 2026
