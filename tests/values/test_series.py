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


def test_tensors_are_numbers_or_left_to_the_row():
    torch = pytest.importorskip("torch")
    found = series_leaves(
        {"a": torch.tensor(2.5, requires_grad=True), "b": torch.arange(2), "none": torch.ones(0)}
    )
    assert found.numbers == {"a": 2.5, "b/0": 0, "b/1": 1}
    odd = series_leaves({"meta": torch.ones(2, device="meta"), "nan": torch.tensor(math.nan)})
    assert math.isnan(odd.numbers["nan"])
    assert "meta" in odd.numbers
