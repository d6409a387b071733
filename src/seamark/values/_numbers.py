"""Numbers on their way into a series: values, steps and times. The quick path comes first."""

from __future__ import annotations

import functools
import math
import sys
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, ValueKindError
from seamark.values._foreign import is_array, is_numpy_scalar, is_tensor, numpy_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "move",
    "shown",
    "to_float",
    "to_floats",
    "to_step",
    "to_time_ns",
    "waits",
    "wide_dtype",
]

_NO_NUMBERS: Final = (str, bytes, bytearray, complex, datetime)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NS: Final = 1_000_000_000
_MAX_NS: Final = 2**63 - 1


def to_float(value: Any) -> float:
    """Return a number as a float.

    Args:
        value: A bool, int, float, NumPy scalar, tensor or array with one element, or anything else
            with ``__float__``, such as a Decimal. NaN and infinities are numbers. Ints beyond 2^53
            are rounded.

    Raises:
        ValueKindError: If it is no real number, or too large for a float.
    """
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]  # its type is exactly float
    if kind is int or kind is bool:
        return _from_int(value)
    return _how(kind)(value)  # type: ignore[arg-type]  # typeshed asks for Hashable


def _from_int(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise _no_float(value, "an int over 1.8e308") from error


@functools.lru_cache(maxsize=256)
def _how(kind: type) -> Callable[[Any], float]:
    """Return what converts values of a type; a metric has the same type at every step."""
    if issubclass(kind, _NO_NUMBERS):
        return _refuse
    if is_numpy_scalar(kind):
        return _from_numpy
    if is_array(kind):
        return _from_array
    return _from_object if hasattr(kind, "__float__") or hasattr(kind, "__index__") else _refuse


def _refuse(value: Any) -> float:
    raise _no_float(value)


def _from_numpy(value: Any) -> float:
    if value.dtype.kind not in "biufV":  # V: the short floats of ml_dtypes
        raise _no_float(value)
    return _from_object(value)


def _from_array(value: Any) -> float:
    try:
        return to_float(value.item())
    except Exception as error:
        raise _no_float(value) from error


def _from_object(value: Any) -> float:
    try:
        return float(value)
    except Exception as error:
        raise _no_float(value) from error


def _no_float(value: Any, what: str | None = None) -> ValueKindError:
    kind = type(value)
    shape = getattr(value, "shape", None) if is_array(kind) else None
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    given = what or (name if shape is None else f"{name} of shape {tuple(shape)}")
    return ValueKindError(f"value: expected one real number, got {given}")


def to_floats(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Exception]]:
    """Return the numbers among ``values`` as floats, and the errors of the others.

    Tensors on a device are stacked there and moved in one transfer, so that a row of metrics costs
    one synchronisation with the device rather than one a metric.

    Returns:
        The floats in the order of ``values``, and by name what was wrong with the rest.
    """
    moved = _moved(values) if "torch" in sys.modules else {}
    found: dict[str, float] = {}
    failed: dict[str, Exception] = {}
    for name, value in values.items():
        if name in moved:
            found[name] = moved[name]
            continue
        try:
            found[name] = to_float(value)
        except ValueKindError as error:
            failed[name] = error
    return found, failed


def _moved(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of one-element tensors that lie on a device, moved together."""
    waiting = {
        name: value
        for name, value in values.items()
        if is_tensor(type(value)) and waits(value) and value.numel() == 1
    }
    return {name: found[0] for name, found in move(waiting).items()} if len(waiting) > 1 else {}


def waits(tensor: Any) -> bool:
    """Tell whether reading a tensor's numbers would wait for a device."""
    try:
        return tensor.device.type not in {"cpu", "meta"} and not tensor.is_complex()
    except Exception:  # noqa: BLE001 - half-made; it gets its own error later
        return False


def move(tensors: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the numbers of tensors that lie on devices, in one transfer from each device.

    Those of a device whose tensors cannot be joined are left out.
    """
    by_device: dict[Any, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        by_device.setdefault(tensor.device, {})[name] = tensor.detach()
    found: dict[str, list[float]] = {}
    for device, group in by_device.items():
        found |= _joined(device, group)
    return found


def wide_dtype(device: Any) -> Any:
    """Return the widest floating type of a device; Apple's have no float64."""
    torch = sys.modules["torch"]
    return torch.float32 if device.type == "mps" else torch.float64


def _joined(device: Any, tensors: dict[str, Any]) -> dict[str, list[float]]:
    torch = sys.modules["torch"]
    wide = wide_dtype(device)
    try:
        row = torch.cat([each.reshape(-1).to(wide) for each in tensors.values()]).tolist()
    except Exception:  # noqa: BLE001 - cannot be joined; one by one then
        return {}
    found, start = {}, 0
    for name, tensor in tensors.items():
        found[name] = row[start : start + tensor.numel()]
        start += tensor.numel()
    return found


def to_step(step: Any) -> float:
    """Return a step as a float.

    Args:
        step: A finite real number; steps may repeat, fall, and lie between integers.

    Raises:
        ArgumentError: If it is anything else.
    """
    try:
        found = to_float(step)
    except ValueKindError:
        found = math.nan
    if not math.isfinite(found):
        msg = f"step: expected a finite number, got {shown(step)}"
        raise ArgumentError(msg)
    return found


def to_time_ns(timestamp: float | datetime | None) -> int | None:
    """Return a time given by the user in nanoseconds since the Unix epoch.

    Args:
        timestamp: Seconds since the epoch, or a datetime (a naive one is local time), or None.

    Raises:
        ArgumentError: If it is anything else, not finite, or beyond the years 1678 to 2262.
    """
    if timestamp is None:
        return None
    try:
        found = _nanoseconds(timestamp)
    except (ValueKindError, ValueError, OverflowError, OSError, TypeError):
        found = None
    if found is None or abs(found) > _MAX_NS:
        msg = (
            "timestamp: expected seconds since 1970 or a datetime between 1678 and 2262, "
            f"got {shown(timestamp)}"
        )
        raise ArgumentError(msg)
    return found


def shown(value: Any) -> str:
    """Return type and text of a value for a message; the text of some values is refused."""
    try:
        return f"{type(value).__name__}: {value!r:.80}"
    except Exception:  # noqa: BLE001 - ints of over 4300 digits, and whatever people write
        return type(value).__name__


def _nanoseconds(timestamp: Any) -> int | None:
    kind = type(timestamp)
    if is_numpy_scalar(kind):
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
