from __future__ import annotations

import json
import math
import subprocess
import sys
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamark.errors import ValueKindError
from seamark.journal.format import dump_json
from seamark.values import Escaped, decode_atom, encode_atom, escape


class Colour(Enum):
    RED = object()


class Level(IntEnum):
    HIGH = 3


class Name(str, Enum):
    ADAM = "adam"


def back(value):
    """What a reader gets: through the strict JSON of the journal, and decoded."""
    kind, kept = json.loads(dump_json(list(encode_atom(value))))
    return decode_atom(kind, kept)


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", 1j, np.complex64(1), lambda: 1, np.void(b"x"), Exception, deque([1])],
    ids=lambda value: type(value).__name__,
)
def test_value_that_cannot_be_kept_is_refused_with_its_type_and_a_way_out(value):
    with pytest.raises(ValueKindError, match=type(value).__name__) as caught:
        encode_atom(value)
    assert "stringify_unsupported" in str(caught.value)


def test_generators_and_endless_or_huge_containers_are_refused_unconsumed():
    numbers = iter([1, 2])
    itself: list[object] = []
    itself.append(itself)
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    for value, told in (
        (numbers, "iterator"),
        ([1, {"optimizer": [object()]}], r"object at \[1\]\.optimizer\[0\]"),
        (itself, "holds itself"),
        (deep, "64 levels"),
        (np.zeros(20_000), "20000 elements"),
    ):
        with pytest.raises(ValueKindError, match=told):
            encode_atom(value)
    assert list(numbers) == [1, 2]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((None, "null"), (True, "bool"), ("", "string"), ("Zürich 🚀", "string")),
        *((number, "int") for number in (0, -(2**63) - 1, 10**6000, -(10**700))),
        *((number, "float") for number in (0.1, -0.0, math.inf, -math.inf, 5e-324)),
        *((value, "json") for value in ({}, [1, [2.5, None, "x", True], {"a": [10**30]}])),
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc), "datetime"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))), "datetime"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_come_back_as_they_were(value, kind):
    found = back(value)
    assert encode_atom(value).type == kind
    assert found == value
    assert type(found) is type(value)
    assert math.copysign(1, found) == math.copysign(1, value) if kind == "float" else True


def test_json_deeper_than_any_that_is_written_is_refused():
    deep = "[" * 63 + "1" + "]" * 63
    assert decode_atom("json", f"[[], {deep}]") == json.loads(f"[[], {deep}]")
    for text in ("[" * 5000 + "]" * 5000, f"[[], [{deep}]]"):
        with pytest.raises(ValueKindError):
            decode_atom("json", text)


def test_nan_comes_back_alone_and_inside_a_list():
    assert math.isnan(back(math.nan))
    found = back([math.nan, math.inf])
    assert math.isnan(found[0])
    assert found[1] == math.inf


inner_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab\ud800\0é"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("xy"), inner),
    max_leaves=20,
)


@given(
    st.integers() | st.floats(allow_nan=False) | st.text() | st.booleans() | st.none(),
    st.lists(inner_values),
)
def test_every_value_and_every_list_comes_back(value, values):
    is_escaped = isinstance(value, str) and isinstance(encode_atom(value).value, Escaped)
    assert back(value) == (escape(value) if is_escaped else value)
    atom = encode_atom(values)
    atom.value.encode()
    assert decode_atom(*atom) == values


@pytest.mark.parametrize(
    ("text", "shown"), [("a\0b", "a\\x00b"), ("x\udcff.bin", "x\\udcff.bin"), ("plain", "plain")]
)
def test_nul_and_lone_surrogates_become_visible_escapes(text, shown):
    """What UTF-8 or SQL refuse is shown, and marked so that nobody takes it for the original."""
    assert escape(text) == shown
    assert isinstance(escape(text), Escaped) == (text != shown)
    assert encode_atom(text).value.encode()


def test_naive_datetime_is_local_time():
    naive = datetime(2026, 6, 1, 12)  # noqa: DTZ001
    found = back(naive)
    assert found == naive.astimezone()
    assert found.utcoffset() is not None
    last = datetime(9999, 12, 31, 23, 59)  # noqa: DTZ001
    assert back(last).utcoffset() is not None


@dataclass
class Layer:
    width: int


UTC = timezone.utc


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((Colour.RED, "Colour.RED"), (Level.HIGH, 3), (Name.ADAM, "adam")),
        *((PurePosixPath("/a/b"), "/a/b"), (Decimal("0.10"), "0.10")),
        *((date(2026, 5, 1), "2026-05-01"), (uuid.UUID(int=5), str(uuid.UUID(int=5)))),
        *(({"b", "a", "c"}, ["a", "b", "c"]), ((1, 2), [1, 2])),
        (
            [Layer(3), {1: "a", "1": "b", None: 0, (1, 2): 5}],
            [{"width": 3}, {"1": "a", "1~": "b", "None": 0, "(1, 2)": 5}],
        ),
        *((np.int8(-3), -3), (np.uint64(2**64 - 1), 2**64 - 1), (np.float16(0.5), 0.5)),
        *((np.longdouble(2.5), 2.5), (np.bool_(1), True), (np.str_("x"), "x")),
        *((np.array(7), 7), (np.array([[1], [2]]), [[1], [2]]), (np.array(["a"]), ["a"])),
        (np.datetime64("NaT", "ns"), None),
        (np.datetime64("2026-01-01T00:00:01"), datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_of_other_types_become_plain_ones(value, expected):
    found = back(value)
    assert (found, type(found)) == (expected, type(expected))
    assert encode_atom({1, "a", None}) == encode_atom({None, "a", 1})


def test_tensors_and_times_of_pandas_become_plain_values():
    torch, pd = pytest.importorskip("torch"), pytest.importorskip("pandas")
    for value, expected in [
        (torch.tensor(2), 2),
        (torch.tensor([[1]]).bool().squeeze(), True),
        (torch.tensor([[1.5, 2.5]], requires_grad=True), [[1.5, 2.5]]),
        (torch.tensor([0.5], dtype=torch.bfloat16), [0.5]),
        (torch.eye(2).to_sparse(), [[1.0, 0.0], [0.0, 1.0]]),
        (pd.Timestamp("2026-01-01", tz="UTC"), datetime(2026, 1, 1, tzinfo=UTC)),
        (pd.NaT, None),
    ]:
        found = back(value)
        assert (found, type(found)) == (expected, type(expected))
    with pytest.raises(ValueKindError, match="cannot be read"):
        encode_atom(torch.ones(2, device="meta"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("int", value) for value in (True, 1.5, "12q")),
        *(("float", value) for value in ("1.5", None)),
        *(("bool", 1), ("string", 5), ("datetime", "yesterday"), ("text", "x"), ("complex", 1)),
        *(("json", value) for value in ("{", "[" * 100_000)),
    ],
)
def test_damaged_atom_is_refused(kind, value):
    with pytest.raises(ValueKindError, match="atom"):
        decode_atom(kind, value)


def test_no_library_is_imported_to_recognise_its_values():
    code = (
        "import sys, seamark.values as v; v.encode_atom([1.5]); v.parameters({'a': object()}, 'p');"
        "v.to_floats({'a': 1});"
        "found = {'numpy', 'torch', 'omegaconf', 'pandas'} & set(sys.modules);"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
