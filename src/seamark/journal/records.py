"""The records that decide what is opened, written and counted, checked at one gate.

A record with a valid CRC may still hold anything: anybody who can write a file can compute one.
What passes here has the types and ranges of ``docs/explanation/journal.md``, table C, so that
nobody behind it has to ask again. Keys with null are as good as absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from seamark.errors import ArgumentError
from seamark.journal.safe import parts_of

__all__ = ["WHOLE", "digest_of_text", "file_of", "sound_header", "whole"]

WHOLE: Final = 1 << 63
"""Sizes, offsets and times are below this: what databases and NumPy hold."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST_FACT: Final = 4096
"""Characters of a string in a header; command lines are kept as digests."""

Check = Callable[[Any], bool]


def whole(value: Any, limit: int = WHOLE) -> bool:
    """Return whether a value is an integer from 0 on, below a limit; booleans are none."""
    return type(value) is int and 0 <= value < limit


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name_below(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(parts_of(value, "inside"))
    except ArgumentError:
        return False


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_time(value: Any) -> bool:
    return type(value) is int and -WHOLE <= value < WHOLE


def _is_inode(value: Any) -> bool:
    return whole(value, 1 << 64)


def _are_members(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(pair, list)
        and len(pair) == 2  # noqa: PLR2004 - size and digest
        and (pair[0] is None or whole(pair[0]))
        and (pair[1] is None or _is_digest(pair[1]))
        for pair in value.values()
    )


_FILE: Final[dict[str, Check]] = {
    "name": _is_text,
    "ext": _is_text,
    "size": whole,
    "sha256": _is_digest,
    "ref": _is_text,
    "inside": _is_name_below,
    "mtime_ns": _is_time,
    "inode": _is_inode,
    "staged": _is_text,
    "dir": _is_flag,
    "members": _are_members,
    "token": _is_text,
    "source": _is_text,
    "changed": _is_flag,
    "lost": _is_text,
}


def file_of(value: Any) -> dict[str, Any]:
    """Return a FILE record, without the keys that this version does not know.

    Raises:
        TypeError: If it is not an object.
        ValueError: If one of its values is of another type, or out of range.
    """
    return _checked(value, _FILE, "file")


def digest_of_text(value: Any) -> dict[str, Any]:
    """Return what stands for a text that is kept as a blob: ``sha256`` and ``size``.

    Raises:
        TypeError: If it is not an object.
        ValueError: If it is not exactly that.
    """
    found = _checked(value, {"sha256": _is_digest, "size": whole}, "text")
    if len(found) != 2:  # noqa: PLR2004 - both of them
        msg = f"text: expected sha256 and size, got {value!r:.60}"
        raise ValueError(msg)
    return found


def _checked(value: Any, checks: Mapping[str, Check], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"{what}: expected an object, got {value!r:.60}"
        raise TypeError(msg)
    found = {key: value[key] for key in checks if value.get(key) is not None}
    for key, each in found.items():
        if not checks[key](each):
            msg = f"{what}: {key} cannot be {each!r:.60}"
            raise ValueError(msg)
    return found


# -------------------------------------------------------------------- HEADER


_KINDS: Final[dict[str, type]] = {
    **dict.fromkeys(("run", "project", "writer", "continues", "user", "host", "boot"), str),
    **dict.fromkeys(("launcher", "job", "argv", "process", "lineage", "seamark"), str),
    **dict.fromkeys(("sys_id", "silence"), str),
    **dict.fromkeys(("attempt", "rank", "restarts", "ordinal", "format"), int),
    **dict.fromkeys(("pid", "start", "prior_t"), int),
    "owner": bool,
    "positions": dict,
}
_RANGES: Final = {
    **dict.fromkeys(("attempt", "rank", "restarts", "ordinal", "format"), range(1 << 31)),
    **dict.fromkeys(("pid", "start", "prior_t"), range(WHOLE)),
}
_TIMES: Final = range(-WHOLE, WHOLE)


def sound_header(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a HEADER record in which every value has its type and range.

    A value that has not counts as null, as if the key were not there: one odd fact does not take
    the others with it. Positions that are none are left out one by one. Keys of newer versions
    stay if they are plain values.
    """
    found: dict[str, Any] = {}
    for key, value in record.items():
        kind = type(value)
        if value is not None and kind is not _KINDS.get(key, kind):
            continue
        if kind in (dict, list) and key not in _KINDS:
            continue
        if kind is str and len(value) > _LONGEST_FACT:
            continue
        if kind is int and value not in _RANGES.get(key, _TIMES):
            continue
        found[key] = value
    if (lengths := found.get("positions")) is not None:
        found["positions"] = {name: at for name, at in lengths.items() if whole(at)}
    return found
