"""The quick way of append_row: the same records as the slow way, whatever the values are."""

from __future__ import annotations

import struct
import sys
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from seamark.journal._format import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.journal.reader import Frame
    from seamark.journal.writer import JournalWriter

    Make = Callable[..., JournalWriter]
    Read = Callable[[], list[list[Frame]]]


class Onlooker:
    """Stands in for a tensor on a device: sums with it stay there, a read of it is a transfer."""

    def __init__(self, value: float) -> None:
        self.value = value
        self.added = 0

    def __radd__(self, other: object) -> Onlooker:
        self.added += 1
        return self

    def __add__(self, other: object) -> Onlooker:
        self.added += 1
        return self

    def __float__(self) -> float:
        return self.value


def row_values(read: Read, count: int) -> list[tuple[float, ...]]:
    rows = [frame for frame in read()[0] if frame.kind in (Kind.ROW, Kind.SPARSE)]
    return [struct.unpack(f"<{count}d", row.payload[-8 * count :]) for row in rows]


@pytest.mark.parametrize(
    "value",
    [
        1,
        True,
        2**70,
        -0.0,
        1e308,
        float("inf"),
        np.float64(0.1),
        np.float32(0.1),
        np.int8(-3),
        np.bool_(1),
        np.array(2.5),
        np.array([2.5]),
        Decimal("0.1"),
        Fraction(1, 3),
        Onlooker(4.0),
    ],
    ids=lambda value: f"{type(value).__name__}-{value}"[:20],
)
def test_quick_and_slow_rows_hold_the_same(open_writer: Make, journals: Read, value: Any) -> None:
    """A number is the same float64 in the first rows, which are slow, and in later, quick ones."""
    writer = open_writer()
    for step in range(4):
        writer.append_row({"a": 1.5, "b": value, "c": 1e308}, step)
    found = row_values(journals, 3)
    expected = float(value.item() if isinstance(value, np.ndarray) else value)
    assert found == [(1.5, expected, 1e308)] * 4
    assert not writer.dropped


def test_sums_that_overflow_are_numbers_still(open_writer: Make, journals: Read) -> None:
    """What a row adds up to is nobody's business: NaN, infinities and huge values are values."""
    writer = open_writer()
    values = {"a": 1e308, "b": 1e308, "c": float("-inf"), "d": float("inf")}
    for step in range(3):
        writer.append_row(values, step)
    assert row_values(journals, 4) == [tuple(values.values())] * 3


@pytest.mark.parametrize("odd", ["0.5", None, 1j, [1.0], np.ones(3)], ids=repr)
def test_what_turns_odd_later_is_left_out(open_writer: Make, journals: Read, odd: Any) -> None:
    """A key set of numbers may hold something else one day; the rest of the row is kept."""
    writer = open_writer()
    for step in range(3):
        writer.append_row({"a": 1.0, "b": 2.0}, step)
    writer.append_row({"a": 3.0, "b": odd}, 3)
    writer.append_row({"a": 4.0, "b": 5.0}, 4)
    assert writer.dropped == {"value": 1}
    last, odd_one = journals()[0][-1], journals()[0][-2]
    assert last.kind == Kind.ROW
    assert struct.unpack("<2d", last.payload[-16:]) == (4.0, 5.0)
    assert struct.unpack("<d", odd_one.payload[-8:]) == (3.0,)


def test_tensors_are_not_added_up_at_every_step(open_writer: Make) -> None:
    """Whether a row is plain is found out by a sum; key sets with tensors pay that once."""
    writer = open_writer()
    tensor = Onlooker(0.5)
    for step in range(10):
        writer.append_row({"a": tensor, "b": tensor}, step)
    assert tensor.added <= 2


def test_a_key_set_that_held_a_tensor_is_quick_again(
    open_writer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row with a tensor does not make later rows of plain numbers slow."""
    writer = open_writer()
    for step in range(3):
        writer.append_row({"a": 1.0}, step)
    writer.append_row({"a": Onlooker(1.0)}, 3)
    monkeypatch.setattr(writer, "_append_row_slowly", lambda *_: pytest.fail("went the slow way"))
    writer.append_row({"a": 1.0}, 4)


def test_tensors_on_a_device_are_moved_together(
    open_writer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a schema is known, a row of device tensors costs one transfer."""
    torch = pytest.importorskip("torch")
    assert "torch" in sys.modules
    transfers = SimpleNamespace(count=0)
    join = torch.cat

    def counted(tensors: Any) -> Any:
        transfers.count += 1
        return join(tensors)

    monkeypatch.setattr(torch, "cat", counted)
    monkeypatch.setattr("seamark.values._numbers.waits", lambda _tensor: True)
    writer = open_writer()
    metrics = {"a": torch.tensor(1.0), "b": torch.tensor(2.0), "c": torch.tensor(3.0)}
    for step in range(5):
        writer.append_row(metrics, step)
    assert transfers.count == 5
