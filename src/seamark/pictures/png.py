"""A PNG file from raw pixels, so that arrays become images without an imaging library."""

from __future__ import annotations

import struct
import zlib
from typing import Final

__all__ = ["png"]

_COLOUR_TYPE: Final = {1: 0, 3: 2, 4: 6}
"""Channels to PNG's colour type: grey, RGB, RGBA."""


def png(pixels: bytes, width: int, height: int, channels: int) -> bytes:
    """Return a PNG file.

    Args:
        pixels: 8-bit samples, row by row from the top, without padding.
        width: Pixels in a row.
        height: Rows.
        channels: 1 (grey), 3 (RGB) or 4 (RGBA).
    """
    line = width * channels
    rows = b"".join(
        b"\0" + pixels[n * line : (n + 1) * line] for n in range(height)
    )  # 0: no filter
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPE[channels], 0, 0, 0)
    parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", zlib.compress(rows, 6)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
