"""Histograms of tensors, counted where the tensors are."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

from seamark.process.interrupts import let_pass
from seamark.values._numbers import move, wide_dtype

__all__ = ["histograms"]

_PIECE: Final = 1 << 14
"""Elements that are counted together on the CPU: this many fit into the cache of a core."""

_DEVICE_PIECE: Final = 1 << 22
"""The same on a device; counting takes about 25 bytes of memory for each."""


def histograms(
    tensors: Mapping[str, Any], bins: int = 64
) -> tuple[dict[str, tuple[list[float], list[float]]], dict[str, Exception]]:
    """Return histograms of tensors, with equal bins from the smallest to the largest value.

    They are counted on the device of each tensor, and moved in one transfer from each device. NaN
    and infinities have no place in a histogram and are not counted.

    Args:
        tensors: Of any shape, by name; of a sparse one the stored values count.
        bins: How many bins; 1 where all values are equal.

    Returns:
        (edges, counts) by name, with one edge more than counts; and by name what was wrong with the
        rest.
    """
    rows: dict[str, Any] = {}
    failed: dict[str, Exception] = {}
    for name, tensor in tensors.items():
        try:
            rows[name] = _row(tensor, bins)
        except Exception as error:  # noqa: BLE001 - complex, not yet made, without elements
            let_pass(error)
            failed[name] = error
    moved = move(rows)
    found: dict[str, tuple[list[float], list[float]]] = {}
    for name in rows:
        low, high, *counts = moved.get(name, [1.0, 0.0])
        if low > high:
            failed[name] = ValueError("expected at least one finite value, got none")
        elif low == high:
            found[name] = [low - 0.5, high + 0.5], [sum(counts)]
        else:
            width = (high - low) / bins
            found[name] = [*(low + width * index for index in range(bins)), high], counts
    return found, failed


def _row(tensor: Any, bins: int) -> Any:
    """Return smallest value, largest value and counts, still on the tensor's device."""
    values = tensor.detach()
    if values.is_complex():
        msg = "expected real numbers, got complex ones"
        raise TypeError(msg)
    values = (values.coalesce().values() if values.is_sparse else values).reshape(-1)
    return (_count_on_cpu if values.device.type == "cpu" else _count_on_device)(values, bins)


def _count_on_cpu(values: Any, bins: int) -> Any:
    """Count on the CPU, where numbers may be looked at."""
    torch = sys.modules["torch"]
    low, high, all_finite = math.inf, -math.inf, True
    for piece in values.split(_PIECE):
        least, most = (each.item() for each in piece.double().aminmax())
        if not (math.isfinite(least) and math.isfinite(most)):
            all_finite, part = False, piece[piece.isfinite()].double()
            least, most = (part.min().item(), part.max().item()) if len(part) else (low, high)
        low, high = min(low, least), max(high, most)
    counts = torch.zeros(bins, dtype=torch.int64)
    scale = bins / (high - low) if high > low else 0.0
    for piece in values.split(_PIECE):
        part = piece.double() if all_finite else piece[piece.isfinite()].double()
        index = part.sub(low).mul_(scale).to(torch.int64).clamp_(max=bins - 1)
        counts += index.bincount(minlength=bins)
    return torch.cat([torch.tensor([low, high], dtype=torch.float64), counts.double()])


def _count_on_device(values: Any, bins: int) -> Any:
    """Count on a device, without waiting for it."""
    torch = sys.modules["torch"]
    wide = wide_dtype(values.device)
    inf = math.inf
    low = torch.full((), inf, dtype=wide, device=values.device)
    high, counts = -low, torch.zeros(bins, dtype=wide, device=values.device)
    for piece in values.split(_DEVICE_PIECE):
        part = piece.to(wide)
        finite = part.isfinite()
        low = torch.minimum(low, part.where(finite, inf).amin())
        high = torch.maximum(high, part.where(finite, -inf).amax())
    scale = torch.where(high > low, bins / (high - low), torch.zeros_like(low))
    for piece in values.split(_DEVICE_PIECE):
        part = piece.to(wide)
        finite = part.isfinite()
        # A value without a bin is put into the first one, with the weight 0.
        index = ((part - low) * scale).where(finite, 0).to(torch.int64).clamp(0, bins - 1)
        counts.index_add_(0, index, finite.to(wide))
    return torch.cat([low.reshape(1), high.reshape(1), counts])
