"""The bytes of a journal: file header, frames, kinds and limits.

See ``docs/explanation/journal.md``, table A. Everything is little-endian and every frame starts at
a multiple of 8 bytes. A frame is::

    0  u32 crc      crc32(frame[4:end], salt), padding included; salt = crc32(uid)
    4  u32 length   payload bytes
    8  u8  kind     9 u8 flags     10 u16 mark     12 u32 aux (row: schema number, else 0)
    16 i64 t        nanoseconds since the Unix epoch, strictly increasing within a file
    24 payload, zero-padded to a multiple of 8
"""

from __future__ import annotations

import json
import struct
import zlib
from enum import IntEnum
from typing import Any, Final

__all__ = [
    "FILE_HEADER_BYTES",
    "FRAME_HEADER_BYTES",
    "LONG_TEXT",
    "MAGIC",
    "MAJOR",
    "MARK",
    "MAX_JSON_DEPTH",
    "MAX_PAYLOAD_BYTES",
    "MINOR",
    "SKIPPABLE",
    "USER_TIME",
    "ZLIB",
    "Kind",
    "dump_json",
    "file_header",
    "frame_bytes",
    "is_long",
    "padded",
    "parse_file_header",
    "salt_of",
    "time_of",
]

MAGIC: Final = b"\x89SMK\r\n\x1a\n"
MAJOR: Final = 1
MINOR: Final = 0
FILE_HEADER: Final = struct.Struct("<8sHHI16s")
FILE_HEADER_BYTES: Final = FILE_HEADER.size

FRAME_HEADER: Final = struct.Struct("<IIBBHIq")
"""crc, length, kind, flags, mark, aux, t."""
FRAME_HEADER_BYTES: Final = FRAME_HEADER.size
FRAME_BODY: Final = struct.Struct("<IBBHIq")
"""The same without the crc, which covers it."""
FRAME_HEAD: Final = struct.Struct("<IBBHI")
"""What is between the crc and t; of a row all of it is known beforehand."""

MARK: Final = 0x5EA3
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
MAX_JSON_DEPTH: Final = 64
LONG_TEXT: Final = 4 << 20
"""A string of more characters than this is kept as a blob; see `is_long`."""
_LONG_IF_ESCAPED: Final = 2 << 20
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

SKIPPABLE: Final = 1
"""Flag: a reader that does not know this kind may pass over it."""
USER_TIME: Final = 2
"""Flag: the payload holds a time given by the user (ns since the epoch), beside the frame's own."""
ZLIB: Final = 4
"""Flag: the payload is compressed with zlib."""


class Kind(IntEnum):
    """Kind of a frame; 0 is never valid."""

    HEADER = 1
    OP = 2
    PATH = 3
    SCHEMA = 4
    ROW = 5
    SPARSE = 6
    COLUMN = 7
    TEXT = 8
    HISTOGRAM = 9
    HEARTBEAT = 10
    CLOSE = 11


def salt_of(uid: bytes) -> int:
    """Return the start value of every CRC in the journal with this uid (16 bytes)."""
    return zlib.crc32(uid)


def file_header(uid: bytes) -> bytes:
    """Return the 32 bytes that open a journal file."""
    return FILE_HEADER.pack(MAGIC, MAJOR, MINOR, 0, uid)


def parse_file_header(data: bytes) -> tuple[int, int, bytes] | None:
    """Return (major, minor, uid) of a journal's first 32 bytes, or None if they are damaged."""
    if len(data) < FILE_HEADER_BYTES:
        return None
    magic, major, minor, zero, uid = FILE_HEADER.unpack_from(data)
    return (major, minor, uid) if magic == MAGIC and zero == 0 else None


def padded(length: int) -> int:
    """Return ``length`` rounded up to a multiple of 8."""
    return (length + 7) & ~7


def frame_bytes(
    salt: int, kind: int, t: int, payload: bytes, *, flags: int = 0, aux: int = 0
) -> bytes:
    """Return one whole frame.

    Args:
        salt: See `salt_of`.
        kind: One of `Kind`.
        t: Time of the frame, nanoseconds since the Unix epoch.
        payload: At most `MAX_PAYLOAD_BYTES` bytes.
        flags: Any of `SKIPPABLE`, `USER_TIME` and `ZLIB`.
        aux: The schema number of a row, else 0.

    Raises:
        ValueError: If the payload is longer than the limit.
    """
    length = len(payload)
    if length > MAX_PAYLOAD_BYTES:
        msg = f"frame: expected a payload of at most {MAX_PAYLOAD_BYTES} bytes, got {length}"
        raise ValueError(msg)
    body = FRAME_BODY.pack(length, kind, flags, MARK, aux, t) + payload + bytes(-length % 8)
    return zlib.crc32(body, salt).to_bytes(4, "little") + body


def time_of(frame: bytes) -> int:
    """Return when a whole frame was made, nanoseconds since the Unix epoch."""
    return int.from_bytes(frame[16:24], "little", signed=True)


def dump_json(value: Any) -> bytes:
    """Return ``value`` as compact strict JSON in UTF-8, without NaN tokens; see table C."""
    return _ENCODER.encode(value).encode()


def is_long(text: str) -> bool:
    """Return whether a string is kept as a blob: in JSON, a character has 1 to 6 bytes."""
    length = len(text)
    return length > LONG_TEXT or (
        length > _LONG_IF_ESCAPED and len(dump_json(text)) > 2 * LONG_TEXT
    )
