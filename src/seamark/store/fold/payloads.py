"""What frames hold, checked: every function raises on content that does not fit, and says why."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from seamark.journal._format import USER_TIME, Kind
from seamark.journal.reader import decode_json

__all__ = [
    "ATOM_TYPES",
    "atom_of",
    "file_of",
    "histogram_of_point",
    "legible",
    "list_of",
    "record_points",
    "step_of",
    "text_of",
    "text_of_point",
    "unpack_sparse",
]

ATOM_TYPES: Final = {
    "int": int,
    "float": float,
    "bool": bool,
    "string": str,
    "datetime": str,
    "null": type(None),
    "json": str,
    "text": dict,
}
_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")


def record_points(
    kind: int, payload: bytes, path: str
) -> Iterator[tuple[int, float, Any, int | None]]:
    """Yield index, step, value and the caller's time (ns) of one series' points in one record.

    Points that the fold refused are passed over; the value of a file point is its file, name and
    description.

    Args:
        kind: TEXT, HISTOGRAM or OP.
        payload: Of the frame.
        path: Of the series.
    """
    try:
        record = decode_json(payload)
        if b"\\u" in payload:
            record = legible(record)
        if record.get("path") != path:
            return
        if kind == Kind.OP:
            if record.get("op") == "file_point":
                extra = {name: record.get(name) for name in ("name", "description")}
                yield (
                    0,
                    step_of(record["step"]),
                    {"file": file_of(record["file"]), **extra},
                    record.get("time"),
                )
            return
        points, place = list_of(record["points"]), 2 if kind == Kind.TEXT else 3
    except (ValueError, TypeError, KeyError, AttributeError):
        return
    value = text_of_point if kind == Kind.TEXT else histogram_of_point
    for index, point in enumerate(points):
        try:
            time = point[place] if len(point) > place else None
            yield index, step_of(point[0]), value(point), time if isinstance(time, int) else None
        except (ValueError, TypeError, KeyError, IndexError):
            continue


def text_of_point(point: list[Any]) -> str | dict[str, Any]:
    """Return a text, or the record of the blob that holds a very long one."""
    return point[1] if isinstance(point[1], dict) else text_of(point[1])


def histogram_of_point(point: list[Any]) -> list[list[float]]:
    """Return edges and counts of a point.

    Raises:
        ValueError: If there is not one edge more than counts.
    """
    edges, counts = [float(edge) for edge in point[1]], [float(count) for count in point[2]]
    if len(edges) != len(counts) + 1:
        msg = f"histogram: expected one edge more than counts, got {len(edges)} and {len(counts)}"
        raise ValueError(msg)
    return [edges, counts]


def unpack_sparse(payload: bytes, flags: int) -> tuple[float, tuple[int, ...], tuple[float, ...]]:
    """Return step, numbers of paths and values of a SPARSE payload.

    Raises:
        ValueError: If its length does not fit.
    """
    (step,) = struct.unpack_from("<d", payload)
    start = 16 if flags & USER_TIME else 8
    (size,) = struct.unpack_from("<I", payload, start)
    values = start + 8 + ((4 * size + 7) & ~7)
    if values + 8 * size != len(payload):
        msg = f"sparse row: expected {values + 8 * size} bytes, got {len(payload)}"
        raise ValueError(msg)
    return (
        step,
        struct.unpack_from(f"<{size}I", payload, start + 8),
        struct.unpack_from(f"<{size}d", payload, values),
    )


def legible(value: Any) -> Any:
    """Return JSON with NUL and lone surrogates, which no database takes, as visible escapes."""
    if isinstance(value, str):
        return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", value)
    if isinstance(value, list):
        return [legible(item) for item in value]
    if isinstance(value, dict):
        return {legible(name): legible(item) for name, item in value.items()}
    return value


def atom_of(kind: str, value: Any) -> Any:
    """Return the value of an atom that JSON could not write as it is."""
    if kind == "float" and (value in ("nan", "inf", "-inf") or type(value) is int):
        return float(value)
    if kind == "int" and isinstance(value, str):  # longer than JSON readers take
        return int(value, 16)
    msg = f"expected a value of type {kind}, got {value!r:.60}"
    raise TypeError(msg)


def text_of(value: Any) -> str:
    """Return a string.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(value, str):
        msg = f"expected a string, got {value!r:.60}"
        raise TypeError(msg)
    return value


def list_of(value: Any) -> list[Any]:
    """Return a list.

    Raises:
        TypeError: If it is none.
    """
    if not isinstance(value, list):
        msg = f"expected a list, got {value!r:.60}"
        raise TypeError(msg)
    return value


def file_of(value: Any) -> dict[str, Any]:
    """Return a FILE record.

    Raises:
        TypeError: If it is no object.
    """
    if not isinstance(value, dict):
        msg = f"file: expected an object, got {value!r:.60}"
        raise TypeError(msg)
    return value


def step_of(value: Any) -> float:
    """Return a step.

    Raises:
        ValueError: If it is no finite number.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        msg = f"step: expected a finite number, got {value!r:.60}"
        raise ValueError(msg)
    return float(value)
