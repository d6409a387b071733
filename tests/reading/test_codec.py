"""What goes over the wire comes back as it was, or is refused with one clear error."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import types
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from seamark.reading.attributes import Attribute, JournalInfo, SeriesSummary, SeriesTail
from seamark.reading.catalog import Changes
from seamark.reading.codec import Attempts, Overview, SeriesPart, Table, WireError, pack, unpack
from seamark.reading.curves import Drawing, RunCurve
from seamark.reading.groups import GroupCurve, RunGroup
from seamark.reading.points import FilePoint, HistogramPoint, Points, TextPage, TextPoint
from seamark.reading.ranks import RankStatus
from seamark.reading.reader import Answer
from seamark.reading.tables import RunsTable, StringList
from seamark.values import escape
from seamark.values.aggregates import Keep, Last, Ring
from seamark.values.arrays import Floats, Ints
from seamark.values.statistics import Statistics

texts = st.text(max_size=20) | st.sampled_from(["$", "v", "nan", "\x00"])
whole = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.floats()
times = st.datetimes(
    timezones=st.sampled_from([timezone.utc, timezone(timedelta(hours=-3, minutes=-30))])
)
scalars = st.none() | st.booleans() | texts | st.integers() | numbers
sets = st.frozensets(texts, max_size=4).map(set)
string_lists = st.lists(texts, max_size=4).map(StringList)


def nested_in(inner):
    def more(inside):
        return st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4)

    return st.recursive(inner, more, max_leaves=12)


values = nested_in(scalars | times | sets | string_lists)
plain = nested_in(scalars)  # what of a header or of the record of a file is JSON
sizes = st.integers(0, 6)


def kept(keep, observed):
    for one in observed:
        keep.update(one)
    return keep


finite = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5)
keeps = st.builds(
    kept, st.sampled_from([Statistics, Last, lambda: Ring(3)]).map(lambda k: k()), finite
)


def floats(size):
    return st.lists(numbers, min_size=size, max_size=size).map(lambda one: np.array(one, "f8"))


def ints(size):
    return st.lists(whole, min_size=size, max_size=size).map(lambda one: np.array(one, "i8"))


def built(kind, size):
    """Return a strategy for a class by the types of its fields; its arrays have one size."""
    fields = {name: of(hint, size) for name, hint in get_type_hints(kind).items()}
    return st.builds(kind, **fields | MORE.get(kind, {}))


def of(hint, size=None):
    """Return a strategy for what a type says."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if hint in (Floats, Ints):
        return (floats if hint is Floats else ints)(size)
    if origin in (Union, types.UnionType):
        return st.one_of(*(of(one, size) for one in args))
    if origin is tuple and args[-1] is not ...:
        return st.tuples(*(of(one, size) for one in args))
    if origin in (list, tuple, Sequence):
        found = st.lists(of(args[0]), max_size=3)
        return found.map(tuple) if origin is tuple else found
    if origin in (dict, Mapping):
        return st.dictionaries(texts, of(args[1]), max_size=3)
    return built(hint, size) if size is not None else sizes.flatmap(lambda one: built(hint, one))


def tables():
    def of_shape(shape):
        runs, names = shape
        column = st.lists(
            values | of(SeriesSummary) | of(SeriesTail) | keeps, min_size=runs, max_size=runs
        )
        refs = st.lists(st.tuples(texts, texts), min_size=runs, max_size=runs)
        cells = st.fixed_dictionaries(dict.fromkeys(names, column))
        return st.builds(RunsTable, cells, refs, st.none() | whole, whole)

    return st.tuples(sizes, st.lists(texts, unique=True, max_size=4)).flatmap(of_shape)


SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: whole,
    float: numbers,
    bool: st.booleans(),
    types.NoneType: st.none(),
    datetime: st.datetimes(timezones=st.just(timezone.utc)),
    Any: plain,
    RunsTable: st.deferred(tables),
}
text_or_file = texts | st.dictionaries(texts, plain, max_size=4)
by = {"by": st.dictionaries(texts, values, max_size=3)}
any_floats = sizes.flatmap(floats)
MORE: dict[Any, dict[str, st.SearchStrategy[Any]]] = {
    SeriesTail: {"last": values},
    Attribute: {"value": st.deferred(lambda: values | of(SeriesSummary) | of(SeriesTail) | keeps)},
    TextPage: {"points": st.lists(st.tuples(whole, texts, text_or_file), max_size=3)},
    Drawing: {
        **dict.fromkeys(("plus_inf", "minus_inf"), any_floats),
        "ends": sizes.flatmap(lambda size: st.tuples(floats(size), floats(size))),
    },
    RunGroup: by,
    GroupCurve: by,
}
CLASSES = (
    *(Attribute, JournalInfo, Points, FilePoint, TextPage, RunCurve, RunGroup, GroupCurve),
    *(RankStatus, RunsTable, Overview, SeriesPart, Table, Attempts, Changes),
    *(list[Attribute], list[HistogramPoint]),
)
"""Those that take other ways through the code, or hold other kinds of fields."""
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    **{kind: of(kind) for kind in CLASSES},
    list[tuple[int, str, Any]]: st.lists(st.tuples(whole, texts, text_or_file), max_size=3),
    Any: plain | of(HistogramPoint),
}
answers = st.one_of(*(st.tuples(st.just(kind), one) for kind, one in KINDS.items()))


def parts(value):
    """What a value is made of, to compare: also NaN equals itself, and 1 is not 1.0 nor True."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return kind, value.dtype.name, value.tobytes()
    if isinstance(value, float):
        return kind, repr(value)
    if isinstance(value, dict):
        return kind, [(key, parts(one)) for key, one in value.items()]
    if isinstance(value, Keep):
        return kind, parts(value.state_dict())
    if isinstance(value, list | tuple):
        return kind, [parts(one) for one in value]
    if dataclasses.is_dataclass(value):
        return kind, [parts(getattr(value, one.name)) for one in dataclasses.fields(value)]
    if isinstance(value, RunsTable):
        cells = [parts(value[column]) for column in value.columns]
        return kind, value.columns, cells, value.refs, value.known_total, value.offset
    return kind, value


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
@settings(max_examples=10)
def test_answers_survive_the_wire_bit_by_bit(kind, data):
    value = data.draw(KINDS[kind])
    back = unpack(pack(Answer(value, "s", "3", ["told"], 0)), Answer[kind])
    assert parts(back.answer) == parts(value)
    said = (back.seen, back.next, back.told, back.total, back.unchanged)
    assert said == ("s", "3", ["told"], 0, False)


@given(told=answers, spoil=st.randoms(use_true_random=False))
def test_changed_or_cut_bytes_are_refused_or_understood(told, spoil):
    kind, value = told
    data = bytearray(pack(Answer(value)))
    for _ in range(spoil.randrange(1, 4)):
        data[spoil.randrange(len(data))] = spoil.randrange(256)
    with contextlib.suppress(WireError):
        unpack(bytes(data[: spoil.choice([len(data), spoil.randrange(len(data))])]), Answer[kind])


def box(content, name="", code=1):
    """Return an attribute whose value is an extension."""
    inside = msgpack.encode([name, content]) if name else content
    value = msgpack.Ext(code, inside)
    return msgpack.encode({"path": "p", "family": "f", "type": "t", "value": value})


def nested(levels):
    found: Any = None
    for _ in range(levels):
        found = msgpack.Ext(1, msgpack.encode(["tuple", [found]]))
    return found


def test_malformed_data_is_refused():
    """Also classes that nobody sends, lengths that are lies, and what is nested without end."""
    endless = {"path": "p", "family": "f", "type": "t", "value": nested(5000)}
    for data in (
        *(b"", b"\xc1", b"\xff", b"{}", b"\x91" * 100_000),
        *(kind + b"\xff\xff\xff\xff" for kind in (b"\xdd", b"\xdf", b"\xc6")),
        *(box(b"\xc1"), box(b""), box(b"", code=2)),
        box("true", "os.system"),
        box({}, "Points"),
        box("ten", "int"),
        box(10, "int"),
        box("yesterday", "datetime"),
        box([[]], "set"),
        box([1], "StringList"),
        box({}, "SeriesSummary"),
        box({"count": "x"}, "Statistics"),
        box({"count": -1}, "Last"),
        box([], "Ring"),
        msgpack.encode(endless),
    ):
        with pytest.raises(WireError):
            unpack(data, Attribute)


def test_columns_and_tables_of_wrong_lengths_are_refused():
    made = msgpack.decode(pack(Points.none()))
    for step, said in ((struct.pack("<d", 1.0), "columns of equal length"), (b"123", "step")):
        with pytest.raises(WireError, match=said):
            unpack(pack(made | {"step": step}), Points)
    made = msgpack.decode(pack(RunsTable({"a": [1]}, [("p", "r")], 1, 0)))
    for spoil in (
        {"cells": []},
        {"cells": [[]]},
        {"refs": []},
        {"columns": ["a", "a"], "cells": [[1], [1]]},
        {"refs": [["p"]]},
    ):
        with pytest.raises(WireError):
            unpack(pack(made | spoil), RunsTable)


def test_unknown_fields_are_ignored_and_deep_nesting_is_cut():
    made = msgpack.decode(pack(TextPoint(1.0, "a", 2, 3))) | {"mood": "good"}
    assert unpack(pack(made), TextPoint) == TextPoint(1.0, "a", 2, 3)
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    attribute = Attribute("p", "json", "json", {"x": 1, "deep": deep})
    assert unpack(pack([attribute]), list[Attribute])[0].value["x"] == 1


def test_surrogates_and_long_integers_are_sent():
    value = {"\udfff": {"a"}, "long": 1 << 70, "yes": True}
    made = pack(Answer([Attribute("p\ud800", "json", "json", value)]))
    value = {"?": {"a"}, "long": 1 << 70, "yes": True}
    back = unpack(made, Answer[list[Attribute]]).answer
    assert back == [Attribute("p?", "json", "json", value)]
    some = SeriesPart("p", "r", "\ud800", points=Points.none())
    assert unpack(pack(some), SeriesPart).path == "?"
    assert unpack(pack({"escaped": escape("a\0")}), dict[str, str]) == {"escaped": "a\\x00"}
    assert unpack(pack(Answer({"long": -1 << 70})), Answer[Any]).answer == {"long": -1 << 70}


def test_received_arrays_are_writable():
    unpack(pack(Points.none()), Points).step.resize(3)
    made = Points(*(np.zeros(1), np.zeros(1)), *(np.zeros(1, "i8"), np.zeros(1, "i8")))
    unpack(pack(made), Points).value[0] = 7.0
    when = datetime(2026, 1, 31, tzinfo=timezone.utc)
    assert unpack(pack(Answer(when)), Answer[datetime]).answer == when
