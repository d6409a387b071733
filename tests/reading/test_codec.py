"""What goes over the wire comes back as it was, or is refused with one clear error."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import msgpack

from seamark.process.liveness import Crash
from seamark.reading.attributes import Attribute, JournalInfo, SeriesSummary, SeriesTail
from seamark.reading.catalog import ChangedRun, Changes
from seamark.reading.codec import Attempts, Overview, SeriesPart, Table, WireError, pack, unpack
from seamark.reading.curves import Curve, Drawing, RunCurve
from seamark.reading.groups import GroupCurve, RunGroup, Spread
from seamark.reading.names import RunName
from seamark.reading.points import FilePoint, HistogramPoint, Points, TextPage, TextPoint
from seamark.reading.rank_words import RankTiming
from seamark.reading.ranks import RankStatus
from seamark.reading.reader import Answer
from seamark.reading.tables import RunsTable, StringList
from seamark.values.aggregates import Keep, Last, Ring
from seamark.values.statistics import Statistics

texts = st.text(max_size=20) | st.sampled_from(["$", "v", "nan", "\x00"])
whole = st.integers(-(1 << 63), (1 << 63) - 1)
numbers = st.floats()
times = st.datetimes(
    timezones=st.sampled_from([timezone.utc, timezone(timedelta(hours=-3, minutes=-30))])
)
moments = st.datetimes(timezones=st.just(timezone.utc))
atoms = st.none() | st.booleans() | texts | st.integers() | numbers | times
sets = st.frozensets(texts, max_size=4).map(set)
string_lists = st.lists(texts, max_size=4).map(StringList)
values = st.recursive(
    atoms | sets | string_lists,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=12,
)
# What of a header or of the record of a file is JSON.
plain = st.recursive(
    st.none() | st.booleans() | texts | st.integers() | numbers,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(texts, inside, max_size=4),
    max_leaves=10,
)
records = st.dictionaries(texts, plain, max_size=4)
maybe = st.none() | texts
sizes = st.integers(0, 6)


def kept(keep, observed):
    for one in observed:
        keep.update(one)
    return keep


finite = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5)
empty = st.builds(Statistics) | st.builds(Last) | st.builds(Ring, st.just(3))
keeps = st.builds(kept, empty, finite)


def floats(size):
    return st.lists(numbers, min_size=size, max_size=size).map(lambda one: np.array(one, "f8"))


def ints(size):
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
        column = st.lists(values | summaries | tails | keeps, min_size=runs, max_size=runs)
        refs = st.lists(st.tuples(texts, texts), min_size=runs, max_size=runs)
        cells = st.fixed_dictionaries(dict.fromkeys(names, column))
        return st.builds(RunsTable, cells, refs, st.none() | whole, whole)

    return st.tuples(sizes, st.lists(texts, unique=True, max_size=4)).flatmap(of)


tables_of_runs = tables()
spreads = st.builds(
    Spread,
    *(whole, whole, numbers, st.none() | numbers, numbers, numbers, st.none() | numbers),
    *(whole, maybe),
)
groups = st.builds(
    RunGroup,
    st.dictionaries(texts, values, max_size=3),
    st.lists(st.tuples(texts, texts), max_size=3),
    st.dictionaries(texts, spreads, max_size=3),
)
crashes = st.builds(Crash, texts, maybe, st.none() | whole, whole, texts)
run_curves = st.builds(RunCurve, texts, texts, texts, drawings(), texts)
group_curves = sizes.flatmap(
    lambda size: st.builds(
        GroupCurve,
        texts,
        st.dictionaries(texts, values, max_size=3),
        st.lists(st.tuples(texts, texts), max_size=3),
        numbers,
        x=floats(size),
        n=ints(size),
        mean=floats(size),
        std=floats(size),
        min=floats(size),
        max=floats(size),
        median=floats(size),
    )
)
bars = st.lists(numbers, max_size=4)
histogram_points = st.builds(HistogramPoint, **at, edges=bars, counts=bars)
text_pages = st.builds(
    TextPage,
    st.lists(st.tuples(whole, texts, text_or_file), max_size=3),
    whole,
    more=st.booleans(),
)
OF: dict[Any, st.SearchStrategy[Any]] = {
    Attribute: st.builds(Attribute, texts, texts, texts, values | summaries | tails | keeps),
    JournalInfo: st.builds(
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
    Points: points,
    TextPoint: st.builds(TextPoint, **at, text=text_or_file),
    FilePoint: st.builds(FilePoint, **at, file=records, name=maybe, description=maybe),
    TextPage: text_pages,
    Curve: curves,
    Drawing: drawings(),
    RunCurve: run_curves,
    RunGroup: groups,
    GroupCurve: group_curves,
    RunName: st.builds(RunName, texts, texts, maybe, whole, trashed=st.booleans()),
    Crash: crashes,
    RankStatus: st.builds(
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
    RankTiming: st.builds(
        RankTiming,
        rank=whole,
        host=maybe,
        pid=st.none() | whole,
        state=maybe,
        why=texts,
        last_seen=st.none() | moments,
        last_step=st.none() | moments,
        steps=whole,
        mean_s=numbers,
        slowdown=numbers,
    ),
    RunsTable: tables_of_runs,
    Overview: st.builds(
        Overview,
        **dict.fromkeys(("project", "run", "name", "state", "reason", "signal"), texts),
        traceback=maybe,
        failed=st.booleans(),
        crash=st.none() | crashes,
        troubles=records,
    ),
    SeriesPart: st.builds(
        SeriesPart, texts, texts, texts, begins=st.booleans(), points=points, curve=curves
    ),
    Table: st.builds(Table, tables_of_runs, st.lists(texts), texts),
    Attempts: st.builds(
        Attempts,
        st.lists(st.tuples(texts, texts, whole), max_size=2),
        st.lists(st.tuples(texts, texts, whole), max_size=2),
        st.lists(
            st.tuples(
                *(texts,) * 3,
                st.lists(st.tuples(whole, numbers, whole, st.none() | numbers), max_size=2),
            ),
            max_size=2,
        ),
    ),
    Changes: st.builds(
        Changes,
        texts,
        reset=st.booleans(),
        runs=st.lists(
            st.builds(ChangedRun, texts, texts, maybe, gone=st.booleans(), paths=st.lists(texts)),
            max_size=2,
        ),
        looked_ns=whole,
    ),
}
LISTS = (Attribute, JournalInfo, TextPoint, FilePoint, RunName, RankStatus)
KINDS: dict[Any, st.SearchStrategy[Any]] = {
    **OF,
    **{list[kind]: st.lists(OF[kind], max_size=3) for kind in LISTS},
    list[HistogramPoint]: st.lists(histogram_points, max_size=3),
    list[tuple[int, str, Any]]: st.lists(st.tuples(whole, texts, text_or_file), max_size=3),
    Any: plain | histogram_points,
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
@settings(max_examples=20)
def test_everything_comes_back_as_it_was(kind, data):
    """Types, NaN, infinities, ints of any length and the bits of arrays survive."""
    value = data.draw(KINDS[kind])
    back = unpack(pack(Answer(value, "s", "3", ["told"], 0)), Answer[kind])
    assert parts(back.answer) == parts(value)
    said = (back.seen, back.next, back.told, back.total, back.unchanged)
    assert said == ("s", "3", ["told"], 0, False)


@given(told=answers, spoil=st.randoms(use_true_random=False), odd=plain)
def test_a_spoilt_answer_is_refused_or_understood(told, spoil, odd):
    """Whatever a server sends, there is an answer or one clear error."""
    kind, value = told
    made = msgpack.decode(pack(Answer(value)))
    places: list[tuple[Any, Any]] = []

    def walk(node):
        found = node.items() if isinstance(node, dict) else enumerate(node)
        for key, one in found:
            places.append((node, key))
            if isinstance(one, dict | list):
                walk(one)

    walk(made)
    node, key = spoil.choice(places)
    node[key] = odd
    with contextlib.suppress(WireError):
        unpack(pack(Answer(made["answer"])), Answer[kind])


@given(told=answers, spoil=st.randoms(use_true_random=False))
def test_spoilt_bytes_are_refused_or_understood(told, spoil):
    """The same where the bytes themselves are others, or end."""
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


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xff",
        b"{}",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        box(b"\xc1"),
        box(b""),
        box(b"", code=2),
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
        msgpack.encode({"path": "p", "family": "f", "type": "t", "value": nested(5000)}),
    ],
    ids=range(23),
)
def test_what_is_not_as_agreed_is_refused(data):
    """Also classes that nobody sends, lengths that are lies, and what is nested without end."""
    with pytest.raises(WireError):
        unpack(data, Attribute)


def test_an_error_says_where_something_is_wrong():
    """Not only that it is."""
    made = pack(Answer([{"path": "p", "family": 3, "type": "t", "value": 1}]))
    with pytest.raises(WireError, match=r"`str`, got `int` - at `\$\.answer\[0\]\.family`"):
        unpack(made, Answer[list[Attribute]])
    made = pack(Answer([{"path": "p", "family": "f", "value": 1}]))
    with pytest.raises(WireError, match=r"missing required field `type` - at `\$\.answer\[0\]`"):
        unpack(made, Answer[list[Attribute]])


def test_columns_of_one_series_are_equally_long():
    """Nobody has to look whether the third column ends before the first."""
    made = msgpack.decode(pack(Points.none()))
    made["step"] = struct.pack("<d", 1.0)
    with pytest.raises(WireError, match="columns of one length"):
        unpack(pack(made), Points)
    made["step"] = b"123"
    with pytest.raises(WireError):
        unpack(pack(made), Points)


def test_a_table_has_a_cell_for_each_column_and_run():
    """And no column twice."""
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


def test_fields_of_a_newer_server_are_passed_over():
    """A server may say more than a client understands."""
    made = msgpack.decode(pack(TextPoint(1.0, "a", 2, 3))) | {"mood": "good"}
    assert unpack(pack(made), TextPoint) == TextPoint(1.0, "a", 2, 3)


def test_what_is_nested_without_end_is_cut():
    """A record of a stranger stops neither who sends it nor who reads it."""
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    attribute = Attribute("p", "json", "json", {"x": 1, "deep": deep})
    assert unpack(pack([attribute]), list[Attribute])[0].value["x"] == 1


def test_what_is_no_text_and_what_is_too_long_for_an_int_is_sent():
    """Beside everything else: journals are written by strangers."""
    value = {"\udfff": {"a"}, "long": 1 << 70, "yes": True}
    made = pack(Answer([Attribute("p\ud800", "json", "json", value)]))
    value = {"?": {"a"}, "long": 1 << 70, "yes": True}
    back = unpack(made, Answer[list[Attribute]]).answer
    assert back == [Attribute("p?", "json", "json", value)]
    some = SeriesPart("p", "r", "\ud800", points=Points.none())
    assert unpack(pack(some), SeriesPart).path == "?"
    assert unpack(pack(Answer({"long": -1 << 70})), Answer[Any]).answer == {"long": -1 << 70}


def test_what_has_no_form_is_an_error_where_it_is_sent():
    """Nothing is sent as something else."""
    for value in ([1j], Attribute("p", "f", "t", [1j]), msgspec.UNSET):
        with pytest.raises(WireError, match="cannot be sent"):
            pack(value)


def test_an_array_that_came_may_be_changed():
    """As those that come from a store."""
    unpack(pack(Points.none()), Points).step.resize(3)
    made = Points(*(np.zeros(1), np.zeros(1)), *(np.zeros(1, "i8"), np.zeros(1, "i8")))
    unpack(pack(made), Points).value[0] = 7.0
    when = datetime(2026, 1, 31, tzinfo=timezone.utc)
    assert unpack(pack(Answer(when)), Answer[datetime]).answer == when
