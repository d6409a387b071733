from __future__ import annotations

import math

import numpy as np
import pytest

from seamark.values import _numbers, histograms

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_counts_are_those_of_numpy(dtype):
    values = (torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 100).to(dtype)
    found, failed = histograms({"a": values.reshape(10, 100)}, bins=16)
    edges, counts = found["a"]
    wanted, _ = np.histogram(values.double().numpy(), bins=edges)
    assert not failed
    assert edges == sorted(edges)
    assert counts == wanted.tolist()
    assert (edges[0], edges[-1]) == (values.min().item(), values.max().item())


def test_values_without_a_place_are_not_counted():
    values = torch.tensor([math.nan, 1.0, math.inf, 2.0, -math.inf])
    (edges, counts) = histograms({"a": values}, bins=2)[0]["a"]
    assert (edges, counts) == ([1.0, 1.5, 2.0], [1.0, 1.0])
    assert histograms({"a": torch.full((3,), 7.0)})[0]["a"] == ([6.5, 7.5], [3.0])
    sparse = torch.sparse_coo_tensor([[1, 5]], [1.0, 2.0], (9,), check_invariants=True)
    assert sum(histograms({"a": sparse})[0]["a"][1]) == 2  # not the zeros that nobody stored
    double = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    histograms({"a": double})
    assert double.tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("hole", [math.nan, math.inf, -math.inf, 2.0])
def test_both_ways_of_counting_agree_at_once_and_in_pieces(hole, monkeypatch):
    values = torch.randn(100, generator=torch.Generator().manual_seed(0))
    values[::7] = hole
    here = histograms({"a": values})
    monkeypatch.setattr(_numbers, "_CPU_CHUNK", 7)
    assert histograms({"a": values}) == here
    monkeypatch.setattr(_numbers, "_count_on_cpu", _numbers._count_on_device)
    assert histograms({"a": values}) == here


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.float8_e4m3fn])
def test_short_numbers_have_histograms(dtype):
    ((edges, counts),) = histograms({"a": torch.tensor([0.0, 1.0, 1.0]).to(dtype)})[0].values()
    assert (edges[0], edges[-1], counts[0], counts[-1]) == (0.0, 1.0, 1.0, 2.0)


def test_tensors_without_a_histogram_are_named():
    tensors = {
        "ok": torch.ones(1), "nan": torch.tensor([math.nan]), "none": torch.ones(0),
        "complex": torch.ones(1, dtype=torch.complex64), "other": "text",
    }  # fmt: skip
    found, failed = histograms(tensors)
    assert set(found) == {"ok"}
    assert set(failed) == {"nan", "none", "complex", "other"}
