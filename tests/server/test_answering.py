"""Answers as JSON say what the values are, as far as JSON can, and stay JSON whatever they are."""

from __future__ import annotations

import base64
import json
import math
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")

from hypothesis import given
from hypothesis import strategies as st

from seamark.reading.names import RunName
from seamark.reading.points import Points, TextPage, TextPoint
from seamark.reading.reader import Answer
from seamark.reading.tables import RunsTable, StringList
from seamark.server.answering import to_json
from seamark.values.aggregates import Last

texts = st.text(st.characters(), max_size=10) | st.sampled_from(["$", "\ud800", "\x00"])
times = st.datetimes(timezones=st.just(timezone.utc)).map(lambda one: one.replace(fold=0))
values = st.recursive(
    st.none() | st.booleans() | texts | st.integers() | st.floats() | times,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(texts, inside, max_size=3),
    max_leaves=10,
)


def told(value, *, plain_arrays=False):
    data = to_json(value, plain_arrays=plain_arrays)
    return json.loads(data.decode(), parse_constant=pytest.fail)


def meant(told):
    """Return the value of something without a class of ours."""
    if isinstance(told, list):
        return [meant(one) for one in told]
    if not isinstance(told, dict):
        return told
    if "$" not in told:
        return {key: meant(one) for key, one in told.items()}
    value = told["v"]
    return {
        "float": lambda: float(value),
        "int": lambda: int(value, 16),
        "datetime": lambda: datetime.fromisoformat(value),
        "dict": lambda: {key: meant(one) for key, one in value.items()},
    }[told["$"]]()


@given(value=values)
def test_values_can_be_told_from_their_json(value):
    """Also what JSON has no form for, beside dicts that look like it."""
    assert repr(meant(told(value))) == repr(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1.0),
        ((1 << 53) - 1, (1 << 53) - 1),
        (1 << 53, {"$": "int", "v": "0x20000000000000"}),
        (-(1 << 70), {"$": "int", "v": hex(-(1 << 70))}),
        (math.nan, {"$": "float", "v": "nan"}),
        (-math.inf, {"$": "float", "v": "-inf"}),
        ({"$": 1}, {"$": "dict", "v": {"$": 1}}),
        ({"b", "a"}, ["a", "b"]),
        (StringList(["b", "a"]), ["b", "a"]),
        (
            datetime(2026, 1, 31, 12, tzinfo=timezone.utc),
            {"$": "datetime", "v": "2026-01-31T12:00:00+00:00"},
        ),
        (
            TextPoint(1.0, {"$": 1}, 2, 3),
            {
                "$": "TextPoint",
                "step": 1.0,
                "text": {"$": "dict", "v": {"$": 1}},
                "time_ns": 2,
                "attempt": 3,
            },
        ),
        (TextPage([(1, "p", "t")], 5, more=False), None),
        (Last(), None),
        (
            RunsTable({"a": [1]}, [("p", "r")], 1, 0),
            {
                "$": "RunsTable",
                "columns": ["a"],
                "cells": [[1]],
                "refs": [["p", "r"]],
                "total": 1,
                "offset": 0,
            },
        ),
    ],
)
def test_every_value_says_what_it_is(value, expected):
    found = told(value)
    if expected is None:
        assert found["$"] == type(value).__name__
    else:
        assert found == expected
        assert type(found) is type(expected)


def test_an_answer_says_only_what_there_is_to_say():
    assert told(Answer(None)) == {"answer": None}
    whole = {"answer": [], "seen": "tag", "next": "3", "told": ["no run has 'x'"], "total": 0}
    assert told(Answer(*whole.values())) == whole
    assert told(Answer(unchanged=True)) == {"unchanged": True}
    name = RunName("p", "r", None, 1, trashed=False)
    assert told(Answer([name]))["answer"][0]["$"] == "RunName"


def test_arrays_are_bytes_or_numbers():
    points = Points(
        np.array([0.0, 1.0]),
        np.array([math.nan, 0.5]),
        np.array([1, 2]),
        np.array([0, -1]),
    )
    found = told([("p", points)])[0][1]
    assert found["$"] == "Points"
    assert base64.b64decode(found["value"]["v"]) == points.value.tobytes()
    assert [found[name]["$"] for name in ("value", "attempt")] == ["f8", "i8"]
    found = told(points, plain_arrays=True)
    assert found["value"] == {"$": "f8", "v": ["nan", 0.5]}
    assert found["attempt"] == {"$": "i8", "v": [0, -1]}


def test_what_is_nested_without_end_is_cut():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert told({"x": 1, "deep": deep})["x"] == 1


def test_what_has_no_form_is_an_error_where_it_is_sent():
    with pytest.raises(TypeError, match="complex"):
        to_json([1j])
