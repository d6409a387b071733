"""Answers as JSON say what the values are, as far as JSON can, and stay JSON whatever they are."""

from __future__ import annotations

import base64
import json
import math
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from seamark.reading.points import Points, TextPoint
from seamark.reading.reader import Answer
from seamark.reading.tables import RunsTable, StringList
from seamark.server.answering import to_json

NOON = "2026-01-31T12:00:00+00:00"
ONE = {"$": "dict", "v": {"$": 1}}
WHOLE = {"answer": [], "seen": "tag", "next": "3", "told": ["no run has 'x'"], "total": 0}


def told(value, *, plain_arrays=False):
    data = to_json(value, plain_arrays=plain_arrays)
    return json.loads(data.decode(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1.0),
        ("\ud800 \x00", "\ud800 \x00"),
        ([True, None, {"a": [{"$": 1}], "": ()}], [True, None, {"a": [ONE], "": []}]),
        ((1 << 53) - 1, (1 << 53) - 1),
        (1 << 53, {"$": "int", "v": "0x20000000000000"}),
        (-(1 << 70), {"$": "int", "v": hex(-(1 << 70))}),
        (math.nan, {"$": "float", "v": "nan"}),
        ({"b", "a"}, ["a", "b"]),
        (StringList(["b", "a"]), ["b", "a"]),
        (datetime(2026, 1, 31, 12, tzinfo=timezone.utc), {"$": "datetime", "v": NOON}),
        (
            TextPoint(1.0, {"$": 1}, 2, 3),
            {"$": "TextPoint", "step": 1.0, "text": ONE, "time_ns": 2, "attempt": 3},
        ),
        (
            RunsTable({"a": [1]}, [("p", "r")], 1, 0),
            {"$": "RunsTable", "columns": ["a"], "cells": [[1]], "refs": [["p", "r"]]}
            | {"total": 1, "offset": 0},
        ),
        (Answer(*WHOLE.values()), WHOLE),
        (Answer(unchanged=True), {"unchanged": True}),
    ],
)
def test_value_has_exactly_this_form(value, expected):
    found = told(value)
    assert found == expected
    assert type(found) is type(expected)


def test_arrays_are_bytes_or_numbers():
    columns = ([0.0, 1.0], [math.nan, 0.5], [1, 2], [0, -1])
    points = Points(*map(np.array, columns))
    found = told([("p", points)])[0][1]
    assert found["$"] == "Points"
    assert base64.b64decode(found["value"]["v"]) == points.value.tobytes()
    assert [found[name]["$"] for name in ("value", "attempt")] == ["f8", "i8"]
    found = told(points, plain_arrays=True)
    assert found["value"] == {"$": "f8", "v": ["nan", 0.5]}
    assert found["attempt"] == {"$": "i8", "v": [0, -1]}


def test_endless_nesting_is_cut_and_unknown_types_are_errors():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert told({"x": 1, "deep": deep})["x"] == 1
    with pytest.raises(TypeError, match="complex"):
        to_json([1j])
