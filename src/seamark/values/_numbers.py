"""Conversion of numbers, steps and times of series; histograms of tensors."""

from __future__ import annotations

import functools
import math
import os
import reprlib
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any, Final

from seamark.errors import ArgumentError, SeamarkError, ValueKindError
from seamark.process.interrupts import let_pass, quietly, raised_by_signal_handler
from seamark.values.arrays import is_array, is_numpy_scalar, is_tensor, numpy_scalar

_CPU_CHUNK: Final = 1 << 14
"""Number of elements counted at a time on the CPU, which fit into a core's cache."""
_DEVICE_CHUNK: Final = 1 << 22
"""Number of elements counted at a time on a device; each needs about 25 bytes of memory."""


def histograms(
    tensors: Mapping[str, Any], bins: int = 64
) -> tuple[dict[str, tuple[list[float], list[float]]], dict[str, Exception]]:
    """Return (edges, counts) by name, with n + 1 edges for n counts, and the errors by name.

    Bins have equal width, from the smallest to the largest value (a single bin if all values are
    equal). They are counted on the device of each tensor, with one transfer for each device. NaN
    and infinities are not counted; for a sparse tensor only stored values are.
    """
    rows: dict[str, Any] = {}
    failed: dict[str, Exception] = {}
    for name, tensor in tensors.items():
        try:
            rows[name] = _histogram_row(tensor, bins)
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


def _histogram_row(tensor: Any, bins: int) -> Any:
    values = tensor.detach()
    if values.is_complex():
        raise TypeError("expected real numbers, got complex ones")
    values = (values.coalesce().values() if values.is_sparse else values).reshape(-1)
    return (_count_on_cpu if values.device.type == "cpu" else _count_on_device)(values, bins)


def _count_on_cpu(values: Any, bins: int) -> Any:
    """Count on the CPU, where values can be read without a transfer."""
    torch = sys.modules["torch"]
    low, high, all_finite = math.inf, -math.inf, True
    for piece in values.split(_CPU_CHUNK):
        least, most = (each.item() for each in piece.double().aminmax())
        if not (math.isfinite(least) and math.isfinite(most)):
            all_finite, part = False, piece[piece.isfinite()].double()
            least, most = (part.min().item(), part.max().item()) if len(part) else (low, high)
        low, high = min(low, least), max(high, most)
    counts = torch.zeros(bins, dtype=torch.int64)
    scale = bins / (high - low) if high > low else 0.0
    for piece in values.split(_CPU_CHUNK):
        part = piece.double() if all_finite else piece[piece.isfinite()].double()
        index = part.sub(low).mul_(scale).to(torch.int64).clamp_(max=bins - 1)
        counts += index.bincount(minlength=bins)
    return torch.cat([torch.tensor([low, high], dtype=torch.float64), counts.double()])


def _count_on_device(values: Any, bins: int) -> Any:
    """Count on a device without synchronizing with it."""
    torch = sys.modules["torch"]
    wide = wide_dtype(values.device)
    inf = math.inf
    low = torch.full((), inf, dtype=wide, device=values.device)
    high, counts = -low, torch.zeros(bins, dtype=wide, device=values.device)
    for piece in values.split(_DEVICE_CHUNK):
        part = piece.to(wide)
        finite = part.isfinite()
        low = torch.minimum(low, part.where(finite, inf).amin())
        high = torch.maximum(high, part.where(finite, -inf).amax())
    scale = torch.where(high > low, bins / (high - low), torch.zeros_like(low))
    for piece in values.split(_DEVICE_CHUNK):
        part = piece.to(wide)
        finite = part.isfinite()
        # A value without a bin goes to the first one, with weight 0.
        index = ((part - low) * scale).where(finite, 0).to(torch.int64).clamp(0, bins - 1)
        counts.index_add_(0, index, finite.to(wide))
    return torch.cat([low.reshape(1), high.reshape(1), counts])


NUMERIC: Final[set[type]] = {float, int, bool}
"""Types that are packed as floats without conversion; NumPy types are added on first use."""
Converted = tuple[dict[str, float], dict[str, Exception]]
"""Result of `to_floats`: numbers by name and errors by name."""
_NO_NUMBERS: Final = (str, bytes, bytearray, complex, datetime)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NS: Final = 1_000_000_000
_MAX_NS: Final = 2**63 - 1


def to_float(value: Any) -> float:
    """Convert a number, a one-element tensor or array, or an object with ``__float__`` to a float.

    NaN and infinities are accepted. Ints beyond 2^53 are rounded. Raises ValueKindError if it is
    not a real number, or too large for a float.
    """
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]  # its type is exactly float
    if kind is int or kind is bool:
        return _from_object(value)
    return _converter(kind)(value)  # type: ignore[arg-type]  # typeshed asks for Hashable


@functools.lru_cache(maxsize=256)
def _converter(kind: type) -> Callable[[Any], float]:
    if issubclass(kind, _NO_NUMBERS):
        return _refuse
    if is_numpy_scalar(kind):
        return _from_numpy
    if is_tensor(kind):
        return _from_tensor
    if is_array(kind):
        return _from_array
    return _from_object if hasattr(kind, "__float__") or hasattr(kind, "__index__") else _refuse


def _from_tensor(value: Any) -> float:
    return _from_array(value)


def _from_array(value: Any) -> float:
    try:
        number = value.item()
        return number if type(number) is float else to_float(number)
    except Exception as error:
        if raised_by_signal_handler(error):
            raise
        raise _no_float(value) from error


def _refuse(value: Any) -> float:
    raise _no_float(value)


def _from_numpy(value: Any) -> float:
    if value.dtype.kind not in "biufV":  # V: the small floats of ml_dtypes
        raise _no_float(value)
    found = _from_object(value)
    NUMERIC.add(type(value))
    return found


def _from_object(value: Any) -> float:
    try:
        return float(value)
    except Exception as error:
        if raised_by_signal_handler(error):
            raise
        raise _no_float(value) from error


def _no_float(value: Any) -> ValueKindError:
    kind = type(value)
    given = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if kind is int:
        given = "an int over 1.8e308"
    elif is_array(kind):
        given = f"{given} of shape {tuple(value.shape)}"
    return ValueKindError(f"value: expected one real number, got {given}")


def to_floats(values: Mapping[str, Any]) -> Converted:
    """Return the numbers among ``values`` as floats, in order, and the errors of the others.

    Tensors on a device are stacked there and moved in one transfer, so that a row of metrics costs
    one synchronization with the device instead of one for each metric.
    """
    found: dict[str, float] = {}
    failed: dict[str, Exception] = {}
    waiting: dict[str, Any] = {}
    for name, value in values.items():
        kind = type(value)
        if kind is float:
            found[name] = value
            continue
        convert = _converter(kind)  # type: ignore[arg-type]  # typeshed asks for Hashable
        if convert is _from_tensor and needs_transfer(value) and value.numel() == 1:
            waiting[name] = value
            found[name] = math.nan  # placeholder that keeps the order
            continue
        try:
            found[name] = convert(value)
        except ValueKindError as error:
            failed[name] = error
    moved = move(waiting) if len(waiting) > 1 else {}
    for name, value in waiting.items():
        try:
            found[name] = moved[name][0] if name in moved else to_float(value)
        except ValueKindError as error:
            del found[name]
            failed[name] = error
    return found, failed


def needs_transfer(tensor: Any) -> bool:
    """Return whether reading the values of a tensor waits for a device."""
    try:
        if tensor.is_cpu:  # fast path: called for every tensor
            return False
        return tensor.device.type not in {"cpu", "meta"} and not tensor.is_complex()
    except Exception as error:  # incomplete tensor; its conversion reports the error
        if raised_by_signal_handler(error):
            raise
        return False


def move(tensors: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the values of tensors, with one transfer for each device; skip those not joinable."""
    by_device: dict[Any, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        by_device.setdefault(tensor.device, {})[name] = tensor.detach()
    found: dict[str, list[float]] = {}
    for device, group in by_device.items():
        with quietly():  # the caller converts those that cannot be joined one by one
            wide = wide_dtype(device)
            parts = [tensor.reshape(-1).to(wide) for tensor in group.values()]
            numbers = iter(sys.modules["torch"].cat(parts).tolist())
            for name, tensor in group.items():
                found[name] = list(islice(numbers, tensor.numel()))
    return found


def wide_dtype(device: Any) -> Any:
    """Return the widest float type of a device; Apple devices have no float64."""
    torch = sys.modules["torch"]
    return torch.float32 if device.type == "mps" else torch.float64


def to_step(step: Any) -> float:
    """Return a finite step, or a datetime in seconds since the epoch; else raise ArgumentError."""
    try:
        timed = isinstance(step, datetime)
        found = (to_time_ns(step) or 0) / _NS if timed else to_float(step)
    except (ValueKindError, ArgumentError):
        found = math.nan
    if not math.isfinite(found):
        raise argument_error(step, "step", "a finite number")
    return found


def to_time_ns(timestamp: float | datetime | None) -> int | None:
    """Convert a time (seconds since the Unix epoch, or a datetime) to nanoseconds since the epoch.

    A naive datetime is local time. Raises ArgumentError for other types, for non-finite values, and
    outside the years 1678 to 2262.
    """
    if timestamp is None:
        return None
    try:
        found = _nanoseconds(timestamp)
    except (ValueKindError, ValueError, OverflowError, OSError, TypeError) as error:
        let_pass(error)
        found = None
    if found is None or abs(found) > _MAX_NS:
        raise argument_error(
            timestamp, "timestamp", "seconds since 1970 or a datetime between 1678 and 2262"
        )
    return found


class _ShortRepr(reprlib.Repr):
    """Fast repr of values, truncated for large ones."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxlong = 2 * _MAX_NAME + 8
        self.maxlevel = 3

    def repr_instance(self, x: Any, level: int) -> str:
        return repr(x)  # the base class would suppress exceptions of signal handlers


_MAX_TEXT: Final = 80
_MAX_NAME: Final = 200
"""Maximum length of a string or path in a message, in characters."""
_REPR: Final = _ShortRepr()


def shown(value: Any) -> str:
    """Return type and repr of a value for a message; only the type if repr fails."""
    with quietly():  # ints of over 4300 digits, and faulty __repr__ methods
        longest = _MAX_NAME if isinstance(value, (str, os.PathLike)) else _MAX_TEXT
        return f"{type(value).__name__}: {_REPR.repr(value)[:longest]}"
    return type(value).__name__


def argument_error(
    given: object, what: str, expected: str, kind: type[SeamarkError] = ArgumentError
) -> SeamarkError:
    """Return the error for an argument: the expected and the given value."""
    return kind(f"{what}: expected {expected}, got {shown(given)}")


def _nanoseconds(timestamp: Any) -> int | None:
    kind = type(timestamp)
    if kind is not float and is_numpy_scalar(kind):
        timestamp = numpy_scalar(timestamp)
        kind = type(timestamp)
    if isinstance(timestamp, datetime):
        aware = timestamp if timestamp.tzinfo is not None else timestamp.astimezone()
        return (aware - _EPOCH) // timedelta(microseconds=1) * 1000
    if kind is bool:
        return None
    if isinstance(timestamp, int):
        return timestamp * _NS
    fraction, whole = math.modf(to_float(timestamp))
    return int(whole) * _NS + round(fraction * _NS)
