"""Packing of columns of numbers: one codec byte, then the data that this codec needs.

Nothing is lost: what `unpack` returns is bit for bit what `pack` was given. Integers (times,
offsets, most steps) are kept as differences in as few bytes as they need; floats that came from
float32 in four; the bytes of equal weight are put side by side (a byte shuffle), because that is
where they are alike, and compressed with zstd.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import zstandard

from seamark.store.damage import DamageError

if TYPE_CHECKING:
    from seamark.values.arrays import Floats, Ints

__all__ = [
    "is_progression",
    "join_parts",
    "pack_floats",
    "pack_ints",
    "packed_first",
    "packed_stride",
    "split_parts",
    "unpack_floats",
    "unpack_ints",
]

_CRC_BYTES: Final = 4
_LEVEL: Final = 3
_EXACT: Final = float(1 << 53)
_HEAD: Final = struct.Struct("<BBxxIqq")
"""Codec, bytes a number, count, first value, smallest difference."""


class Codec(IntEnum):
    """Encoding of the data after the codec byte; a number is never reused for another codec."""

    STRIDE = 1  # first value and difference say it all
    DELTA = 2  # differences less the smallest one, shuffled and compressed
    FLOAT32 = 3  # float64 that are float32 exactly, shuffled and compressed
    FLOAT64 = 4


def _shuffled(numbers: np.ndarray[Any, Any]) -> bytes:
    width = numbers.dtype.itemsize
    planes = np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, width).T)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(planes.tobytes())


def _unshuffled(
    data: bytes, count: int, width: int, out: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any]:
    """Return ``count`` unsigned integers of ``width`` bytes, or ``out`` filled with their bytes."""
    raw = zstandard.ZstdDecompressor().decompress(data, max_output_size=max(1, count * width))
    planes = np.frombuffer(raw, np.uint8).reshape(width, count)
    numbers = np.empty(count, np.dtype(f"<u{width}")) if out is None else out
    into = numbers.view(np.uint8).reshape(count, width)
    for plane in range(width):
        into[:, plane] = planes[plane]
    return numbers


def pack_ints(values: Ints) -> bytes:
    """Pack int64 numbers (N,)."""
    count = len(values)
    if not count:
        return _HEAD.pack(Codec.STRIDE, 0, 0, 0, 0)
    first = int(values[0])
    with np.errstate(over="ignore"):
        steps = np.diff(values)  # wraps around where it must, and back in unpack_ints
    least, most = (int(steps.min()), int(steps.max())) if count > 1 else (0, 0)
    if least == most:
        return _HEAD.pack(Codec.STRIDE, 0, count, first, least)
    spread = (steps - np.int64(least)).view(np.uint64)
    width = next(width for width in (1, 2, 4, 8) if most - least < 1 << (8 * width))
    return _HEAD.pack(Codec.DELTA, width, count, first, least) + _shuffled(
        spread.astype(f"<u{width}")
    )


def packed_first(data: bytes) -> int:
    """Return the first of the numbers that `pack_ints` was given."""
    first: int = _HEAD.unpack_from(data)[3]
    return first


def is_progression(values: Floats) -> bool:
    """Return whether numbers are a progression of whole ones, as `packed_stride` tells it."""
    if not len(values):
        return False
    whole = _whole(values)
    if whole is None:
        return False
    steps = np.diff(whole)
    return bool((steps == steps[:1]).all())


def packed_stride(data: bytes) -> tuple[int, int] | None:
    """Return the first number and the difference if the numbers are known to be a progression."""
    codec, _, _, first, difference = _HEAD.unpack_from(data)
    return (first, difference) if codec == Codec.STRIDE else None


def unpack_ints(data: bytes, out: Ints | None = None) -> Ints:
    """Return what `pack_ints` was given, in ``out`` (N,) if that is given."""
    codec, width, count, first, least = _HEAD.unpack_from(data)
    values = np.empty(count, np.int64) if out is None else out
    if codec == Codec.STRIDE:
        values[:] = np.arange(count, dtype=np.int64)
        values *= np.int64(least)
        values += np.int64(first)
        return values
    values[0] = first
    steps = _unshuffled(data[_HEAD.size :], count - 1, width)
    signed = steps.view(np.int64) if width == values.itemsize else steps
    np.add(signed, np.int64(least), out=values[1:], dtype=np.int64, casting="unsafe")
    return np.cumsum(values, out=values)


def _whole(values: Floats) -> Ints | None:
    """Return the same numbers as integers if all are whole and none is -0.0."""
    with np.errstate(invalid="ignore"):
        if not (np.abs(values) < _EXACT).all():
            return None
        whole = values.astype(np.int64)
    same = whole.astype(np.float64).view(np.int64) == values.view(np.int64)
    return whole if same.all() else None


def pack_floats(values: Floats) -> bytes:
    """Pack float64 numbers (N,), NaNs with their bits."""
    values = np.ascontiguousarray(values, np.float64)
    whole = _whole(values)
    if whole is not None:
        return pack_ints(whole)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = values.astype(np.float32)
        same = (narrow.astype(np.float64).view(np.int64) == values.view(np.int64)).all()
    if same:
        return _HEAD.pack(Codec.FLOAT32, 4, len(values), 0, 0) + _shuffled(narrow)
    return _HEAD.pack(Codec.FLOAT64, 8, len(values), 0, 0) + _shuffled(values)


def unpack_floats(data: bytes, out: Floats | None = None) -> Floats:
    """Return what `pack_floats` was given, in ``out`` (N,) if that is given."""
    codec, width, count, _, _ = _HEAD.unpack_from(data)
    values = np.empty(count) if out is None else out
    if codec in (Codec.STRIDE, Codec.DELTA):
        values[:] = unpack_ints(data)
    elif codec == Codec.FLOAT32:
        values[:] = _unshuffled(data[_HEAD.size :], count, width).view(np.float32)
    else:
        _unshuffled(data[_HEAD.size :], count, width, values)
    return values


def join_parts(parts: Sequence[bytes]) -> bytes:
    """Return byte strings as one that `split_parts` takes apart again, behind their CRC-32."""
    joined = b"".join(len(part).to_bytes(4, "little") + part for part in parts)
    return zlib.crc32(joined).to_bytes(_CRC_BYTES, "little") + joined


def split_parts(data: bytes) -> list[bytes]:
    """Return what `join_parts` was given.

    A database checks little of what it gives back, and wrong bytes would unpack into wrong numbers.

    Raises:
        DamageError: If it is not what was joined.
    """
    if zlib.crc32(memoryview(data)[_CRC_BYTES:]) != int.from_bytes(data[:_CRC_BYTES], "little"):
        msg = f"{len(data)} packed bytes are not what was stored"
        raise DamageError(msg)
    parts, pos = [], _CRC_BYTES
    while pos < len(data):
        end = pos + 4 + int.from_bytes(data[pos : pos + 4], "little")
        parts.append(data[pos + 4 : end])
        pos = end
    return parts
