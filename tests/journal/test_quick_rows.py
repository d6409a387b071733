"""The quick way of append_row: the same records as the slow way, whatever the values are."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from seamark.journal.format import Kind
from seamark.values import to_floats


def row_values(read, count):
    rows = [frame for frame in read()[0] if frame.kind in (Kind.ROW, Kind.SPARSE)]
    return [struct.unpack(f"<{count}d", row.payload[-8 * count :]) for row in rows]


@pytest.mark.parametrize(
    "value",
    [
        *(1, True, 2**70, -0.0, 1e308, float("inf"), Decimal("0.1"), Fraction(1, 3)),
        *(np.float64(0.1), np.float32(0.1), np.int8(-3), np.int64(3), np.bool_(1)),
        *(np.array(2.5), np.array([2.5])),
    ],
    ids=lambda value: f"{type(value).__name__}-{value}"[:20],
)
def test_quick_and_slow_rows_hold_the_same_values(writer, journals, value):
    """The first rows are slow, later ones quick."""
    for step in range(4):
        writer.append_row({"a": 1.5, "b": value, "c": 1e308}, step)
    found = row_values(journals, 3)
    expected = float(value.item() if isinstance(value, np.ndarray) else value)
    assert found == [(1.5, expected, 1e308)] * 4
    assert not writer.dropped


def no_slow_way(writer, monkeypatch):
    monkeypatch.setattr(writer, "_append_slowly", lambda *_: pytest.fail("went the slow way"))


@pytest.mark.parametrize("step", [np.int64(7), np.float32(7), np.uint8(7), np.array(7), 7, None])
@pytest.mark.parametrize(("time_ns", "kind"), [(None, float), (-5, np.int16), (7, Fraction)])
def test_numbers_of_any_kind_go_the_quick_way(writer, journals, monkeypatch, step, time_ns, kind):
    metrics = {"a": kind(3), "b": 1.5}
    for _ in range(2):
        assert writer.append_row(metrics, step, time_ns)
    no_slow_way(writer, monkeypatch)
    assert writer.append_row(metrics, step, time_ns)
    second, third = journals()[0][-2:]
    assert (third.kind, third.flags, third.aux) == (second.kind, second.flags, second.aux)
    assert third.payload[8:] == second.payload[8:]
    assert struct.unpack("<d", third.payload[:8]) == (2.0 if step is None else 7.0,)
    # The number that follows is that of a step which its owner may have changed in place.
    assert writer.append_row({"a": 3.0, "b": 1.5})
    assert struct.unpack("<d", journals()[0][-1].payload[:8]) == (3.0 if step is None else 8.0,)


def test_tensors_go_the_quick_way(writer, journals, monkeypatch):
    torch = pytest.importorskip("torch")
    metrics = {
        "a": torch.tensor(1.0, requires_grad=True),
        "b": 2.0,
        "c": torch.tensor([3]),
        "d": torch.tensor([True])[0],
        "e": np.float32(5),
        "f": torch.tensor(6.0, dtype=torch.bfloat16),
    }
    for step in range(2):
        writer.append_row(metrics, step)
    no_slow_way(writer, monkeypatch)
    assert writer.append_row(metrics, 2)
    assert row_values(journals, 6) == [(1.0, 2.0, 3.0, 1.0, 5.0, 6.0)] * 3


@pytest.mark.parametrize("odd", ["tensor of two", "complex"])
def test_device_tensors_stay_under_their_names(monkeypatch, odd):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("seamark.values._numbers.needs_transfer", lambda _tensor: True)
    bad = torch.tensor([1.0, 2.0]) if odd == "tensor of two" else torch.tensor(1j)
    row = {"a": torch.tensor(1.0), "b": bad, "c": 3.0, "d": torch.tensor(4)}
    found, failed = to_floats(row)
    assert list(found.items()) == [("a", 1.0), ("c", 3.0), ("d", 4.0)]
    assert set(failed) == {"b"}


def test_tensors_on_a_device_are_moved_together(writer, monkeypatch):
    torch = pytest.importorskip("torch")
    transfers, join = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda tensors: transfers.append(1) or join(tensors))
    monkeypatch.setattr("seamark.values._numbers.needs_transfer", lambda _tensor: True)
    metrics = {"a": torch.tensor(1.0), "b": torch.tensor(2.0), "c": torch.tensor(3.0)}
    for step in range(5):
        writer.append_row(metrics, step)
    assert len(transfers) == 5
