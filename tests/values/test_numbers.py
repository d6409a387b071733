from __future__ import annotations

import math
from datetime import datetime, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from seamark.errors import ArgumentError, ValueKindError
from seamark.values import shown, to_float, to_floats, to_step, to_time_ns


@pytest.mark.parametrize(
    "value",
    [
        *("1.5", b"1", None, 1j, [1], np.str_("1"), np.complex64(1), np.ones(2), 10**400, object()),
        *(np.datetime64("2026"), np.array(["a"]), datetime(2026, 1, 1, tzinfo=timezone.utc)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_that_is_no_real_number_is_refused(value):
    with pytest.raises(ValueKindError, match="one real number"):
        to_float(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((1, 1.0), (True, 1.0), (2**53 + 1, 2.0**53), (np.float32(0.1), float(np.float32(0.1)))),
        *((np.int64(-3), -3.0), (np.bool_(1), 1.0), (np.float32(np.inf), math.inf)),
        *((np.longdouble(1.5), 1.5), (np.array([[2.5]]), 2.5)),
        *((Decimal("0.5"), 0.5), (Fraction(1, 4), 0.25)),
    ],
    ids=repr,
)
def test_numbers_of_every_type_become_floats(value, expected):
    found = to_float(value)
    assert found == expected
    assert type(found) is float


def test_tensors_with_one_number():
    torch = pytest.importorskip("torch")
    assert to_float(torch.tensor(0.5, requires_grad=True)) == 0.5
    assert to_float(torch.tensor([[3]])) == 3.0
    assert to_float(torch.tensor(1.5, dtype=torch.bfloat16)) == 1.5
    assert to_float(torch.nn.Parameter(torch.tensor(2.0))) == 2.0
    for refused in (torch.ones(2), torch.tensor(1j), torch.ones((), device="meta")):
        with pytest.raises(ValueKindError):
            to_float(refused)


def test_row_keeps_its_order_and_names_values_that_are_no_numbers():
    found, failed = to_floats({"b": 1, "x": "no", "a": np.float32(2), "y": None})
    assert list(found.items()) == [("b", 1.0), ("a", 2.0)]
    assert set(failed) == {"x", "y"}
    assert all(isinstance(error, ValueKindError) for error in failed.values())


@pytest.mark.gpu
def test_device_tensors_move_in_one_transfer():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    row = {f"m{n}": torch.tensor(n, device="cuda", dtype=torch.float32) for n in range(20)}
    row |= {"int": torch.tensor(2**40, device="cuda"), "no": torch.ones(2).cuda()}
    row["cpu"] = torch.tensor(0.5)
    with torch.profiler.profile() as profile:
        found, failed = to_floats(row)
    copy = "Memcpy DtoH (Device -> Pageable)"
    copies = [event for event in profile.events() if event.name == copy]
    assert found == {**{f"m{n}": float(n) for n in range(20)}, "int": 2.0**40, "cpu": 0.5}
    assert set(failed) == {"no"}
    assert len(copies) == 1


@pytest.mark.parametrize("step", [math.nan, math.inf, "1", None, [1], 1j, 10**5000], ids=type)
def test_step_that_is_no_finite_number_is_refused(step):
    with pytest.raises(ArgumentError, match="step: expected a finite number"):
        to_step(step)
    assert [to_step(step) for step in (0, -3, 1.5, np.int64(7), Decimal(2))] == [0, -3, 1.5, 7, 2]


def test_times_are_exact_nanoseconds():
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    for given, expected in [
        (None, None),
        (datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=timezone.utc), 1767225600_123456_000),
        (1767225600, 1767225600_000000_000),
        (1.5, 1_500_000_000),
        (-0.5, -500_000_000),
        (np.datetime64("1970-01-01T00:00:01"), 1_000_000_000),
        (naive, int(naive.timestamp()) * 10**9),
    ]:
        assert to_time_ns(given) == expected


@pytest.mark.parametrize(
    "timestamp",
    [math.nan, "now", 1e30, True, datetime.max.replace(tzinfo=timezone.utc), object(), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_timestamp_that_is_no_time_is_refused(timestamp):
    with pytest.raises(ArgumentError, match="timestamp"):
        to_time_ns(timestamp)


def test_text_of_a_value_in_a_message_is_bounded():
    """Whatever it is: it takes no time and raises nothing. Of a path its name is seen, too."""

    class Counted(list):
        seen = 0

        def __repr__(self):
            type(self).seen += 1
            return "[]"

    class Odd:
        def __repr__(self):
            raise RuntimeError

    assert shown([Counted()] * 100_000).startswith("list: [[], [],")
    assert Counted.seen < 100
    assert shown(Odd()) == "Odd"
    assert shown("a" * 10**6) == "str: '" + "a" * 199
    assert shown("folder/" * 20 + "name") == "str: '" + "folder/" * 20 + "name'"
