"""Format of a journal: file header, frames and limits, and the checked decoding of its records.

See ``docs/reference/journal.md``, table A. Everything is little-endian and every frame starts at
a multiple of 8 bytes. A frame is::

    0  u32 crc      crc32(frame[4:end], salt), padding included; salt = crc32(uid)
    4  u32 length   payload bytes
    8  u8  kind     9 u8 flags     10 u16 mark     12 u32 aux (row: schema number, else 0)
    16 i64 t        nanoseconds since the Unix epoch, strictly increasing within a file
    24 payload, zero-padded to a multiple of 8

Decoded records have the types and ranges of ``docs/reference/journal.md``, table C; null is the
same as absent.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

from seamark.errors import ArgumentError
from seamark.journal.safe import parts_of

MAGIC: Final = b"\x89SMK\r\n\x1a\n"
MAJOR: Final = 1
MINOR: Final = 0
FILE_HEADER: Final = struct.Struct("<8sHHI16s")
FILE_HEADER_BYTES: Final = FILE_HEADER.size
FRAME_HEADER: Final = struct.Struct("<IIBBHIq")
"""crc, length, kind, flags, mark, aux, t."""
FRAME_HEADER_BYTES: Final = FRAME_HEADER.size
FRAME_BODY: Final = struct.Struct("<IBBHIq")
"""Frame header without the crc; the crc covers these fields and the payload."""
FRAME_HEAD: Final = struct.Struct("<IBBHI")
"""Fields between crc and t; for a row, all of them are known in advance."""
MARK: Final = 0x5EA3
MAX_PAYLOAD_BYTES: Final = 16 * 1024 * 1024
MAX_JSON_DEPTH: Final = 64
LONG_TEXT: Final = 4 << 20
"""Strings with more characters than this are stored as blobs; see `is_long`."""
_MIN_ESCAPED_TEXT: Final = 2 << 20
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_MIN_COMPRESSED_BYTES: Final = 1 << 16
SKIPPABLE: Final = 1
"""Flag: readers may skip the frame if its kind is unknown to them."""
USER_TIME: Final = 2
"""Flag: the payload also contains a time given by the user (ns since the epoch)."""
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
    """Return the start value of all CRCs in the journal with this uid (16 bytes)."""
    return zlib.crc32(uid)


def file_header(uid: bytes) -> bytes:
    """Return the file header of a journal, its first 32 bytes."""
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
    """Return one frame; ``t`` in nanoseconds since the Unix epoch, ``salt`` from `salt_of`.

    ``aux`` is the schema number of a row, else 0. Raises ValueError for a payload longer than
    `MAX_PAYLOAD_BYTES`.
    """
    length = len(payload)
    if length > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"frame: expected a payload of at most {MAX_PAYLOAD_BYTES} bytes, got {length}"
        )
    body = FRAME_BODY.pack(length, kind, flags, MARK, aux, t) + payload + bytes(-length % 8)
    return zlib.crc32(body, salt).to_bytes(4, "little") + body


def close_frame(salt: int, t: int) -> bytes:
    """Return the CLOSE frame of a journal without lost records."""
    return frame_bytes(salt, Kind.CLOSE, t, dump_json({"reason": "stop", "dropped": {}}))


def time_of(frame: bytes) -> int:
    """Return the time of a frame in nanoseconds since the Unix epoch."""
    return int.from_bytes(frame[16:24], "little", signed=True)


def dump_json(value: Any) -> bytes:
    """Return ``value`` as compact strict JSON in UTF-8, without NaN tokens; see table C."""
    return _ENCODER.encode(value).encode()


def packed_json(value: Any) -> tuple[bytes, int]:
    """Return a value as compact strict JSON, compressed if it is long, and its frame's flags."""
    payload = _ENCODER.encode(value).encode()
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ArgumentError(
            f"record: expected at most {MAX_PAYLOAD_BYTES} bytes of JSON, got {len(payload)}"
        )
    return (
        (zlib.compress(payload, 1), ZLIB) if len(payload) > _MIN_COMPRESSED_BYTES else (payload, 0)
    )


def is_long(text: str) -> bool:
    """Return whether a string is stored as a blob. In JSON, a character takes 1 to 6 bytes."""
    length = len(text)
    return length > LONG_TEXT or (
        length > _MIN_ESCAPED_TEXT and len(dump_json(text)) > 2 * LONG_TEXT
    )


WHOLE: Final = 1 << 63
"""Exclusive upper limit of sizes, offsets and times: the int64 range of databases and NumPy."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_MAX_FACT_LENGTH: Final = 4096
"""Maximum length of a string in a header, in characters; command lines are stored as digests."""
Check = type | Callable[[Any], bool]
"""Type of a value, or function that returns whether a value is valid."""


def whole(value: Any, limit: int = WHOLE) -> bool:
    """Return whether a value is an integer of at least 0 and below ``limit``; booleans are not."""
    return type(value) is int and 0 <= value < limit


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_name_below(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(parts_of(value, "inside"))
    except ArgumentError:
        return False


def _are_members(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(pair, list)
        and len(pair) == 2  # noqa: PLR2004 - size and digest
        and (pair[0] is None or whole(pair[0]))
        and (pair[1] is None or _is_digest(pair[1]))
        for pair in value.values()
    )


_FILE: Final[dict[str, Check]] = {
    "name": str,
    "ext": str,
    "size": whole,
    "sha256": _is_digest,
    "ref": str,
    "inside": _is_name_below,
    "mtime_ns": lambda value: type(value) is int and -WHOLE <= value < WHOLE,
    "inode": lambda value: whole(value, 1 << 64),
    "staged": str,
    "dir": bool,
    "members": _are_members,
    "token": str,
    "source": str,
    "changed": bool,
    "lost": str,
}


def file_of(value: Any) -> dict[str, Any]:
    """Return a FILE record without unknown keys; TypeError or ValueError if it is invalid."""
    return _checked(value, _FILE, "file")


def digest_of_text(value: Any) -> dict[str, Any]:
    """Return ``sha256`` and ``size`` of a text stored as a blob; else TypeError or ValueError."""
    found = _checked(value, {"sha256": _is_digest, "size": whole}, "text")
    if len(found) != 2:  # noqa: PLR2004 - both keys
        raise ValueError(f"text: expected sha256 and size, got {value!r:.60}")
    return found


def _checked(value: Any, checks: Mapping[str, Check], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{what}: expected an object, got {value!r:.60}")
    found = {key: value[key] for key in checks if value.get(key) is not None}
    for key, each in found.items():
        check = checks[key]
        is_valid = isinstance(each, check) if isinstance(check, type) else check(each)
        if not is_valid:
            raise ValueError(f"{what}: invalid value of {key}: {each!r:.60}")
    return found


# -------------------------------------------------------------------- HEADER


_FIELD_TYPES: Final[dict[str, type]] = {
    **dict.fromkeys(("run", "project", "writer", "continues", "user", "host", "boot"), str),
    **dict.fromkeys(("launcher", "job", "argv", "process", "lineage", "seamark"), str),
    **dict.fromkeys(("sys_id", "silence", "ended", "ended_how"), str),
    **dict.fromkeys(("attempt", "rank", "restarts", "ordinal", "format"), int),
    **dict.fromkeys(("pid", "start", "prior_t", "ended_at"), int),
    "owner": bool,
    "positions": dict,
    "cgroup": list,
}
_FIELD_RANGES: Final = {
    **dict.fromkeys(("attempt", "rank", "restarts", "ordinal", "format"), range(1 << 31)),
    **dict.fromkeys(("pid", "start", "prior_t", "ended_at"), range(WHOLE)),
}
_TIMES: Final = range(-WHOLE, WHOLE)


def sound_header(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a HEADER record without the values that have a wrong type or range."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        kind = type(value)
        if value is not None and kind is not _FIELD_TYPES.get(key, kind):
            continue
        if kind in (dict, list) and key not in _FIELD_TYPES:
            continue
        if kind is str and len(value) > _MAX_FACT_LENGTH:
            continue
        if kind is int and value not in _FIELD_RANGES.get(key, _TIMES):
            continue
        found[key] = value
    if (lengths := found.get("positions")) is not None:
        found["positions"] = {name: at for name, at in lengths.items() if whole(at)}
    return found
