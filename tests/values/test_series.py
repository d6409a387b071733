from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from seamark.values import series_leaves


def test_leaves_of_containers():
    @dataclass
    class Part:
        a: float
        b: list

    found = series_leaves(
        {"x": 1, 2: [3, {"y": "text"}], "p": Part(4.0, [np.array([5.0, 6.0])])}, "t"
    )
    assert found.numbers == {"t/x": 1, "t/2/0": 3, "t/p/a": 4.0, "t/p/b/0/0": 5.0, "t/p/b/0/1": 6.0}
    assert found.texts == {"t/2/1/y": "text"}


def test_values_that_are_neither_number_nor_text_are_left_to_the_row():
    loop = {"a": 1.0}
    loop["loop"] = loop
    matrix = np.ones((2, 2))
    found = series_leaves({"none": None, "matrix": matrix, "loop": loop, "bytes": b"x"}).numbers
    assert (found["none"], found["loop/a"], found["bytes"]) == (None, 1.0, b"x")
    assert found["matrix"] is matrix


def test_tensors_are_numbers_or_left_to_the_row():
    torch = pytest.importorskip("torch")
    found = series_leaves(
        {"a": torch.tensor(2.5, requires_grad=True), "b": torch.arange(2), "none": torch.ones(0)}
    )
    assert found.numbers == {"a": 2.5, "b/0": 0, "b/1": 1}
    odd = series_leaves({"meta": torch.ones(2, device="meta"), "nan": torch.tensor(math.nan)})
    assert math.isnan(odd.numbers["nan"])
    assert "meta" in odd.numbers


@pytest.mark.gpu
def test_device_tensors_move_in_one_transfer(monkeypatch):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    values = {"a": torch.tensor(1.5, device="cuda"), "b": [torch.arange(3, device="cuda")]}
    moves = []
    move = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: moves.append(1) or move(self))
    found = series_leaves(values)
    assert found.numbers == {"a": 1.5, "b/0/0": 0.0, "b/0/1": 1.0, "b/0/2": 2.0}
    assert len(moves) == 1
