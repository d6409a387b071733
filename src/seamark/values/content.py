"""Digest that identifies an experiment by its parameters and the version of its code."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["CONTENT", "VERSION", "content_hash", "is_parameter"]

CONTENT: Final = "sys/content_hash"
VERSION: Final = "source_code/version"
"""Where a run has the version of its code."""

_OWN: Final = "parameters/"
_DIGITS: Final = 32
_DECIMAL_BITS: Final = 2048
"""Larger integers are written in hexadecimal: Python writes at most 4,300 decimal digits."""
_NO_NUMBER: Final = re.compile("NaN|Infinity")


def is_parameter(path: str) -> bool:
    """Return whether a path is one of a run's parameters."""
    return path.startswith(_OWN) or "hyperparams/" in path


def content_hash(atoms: Mapping[str, tuple[str, Any]]) -> str | None:
    """Return a digest that is equal for runs with the same parameters and the same code.

    ``atoms`` are type and value by path, as the journal has them, with secrets hidden. The digest
    has 32 hexadecimal digits; None without parameters.
    """
    found = [
        [path, kind, _plain(kind, value)]
        for path, (kind, value) in sorted(atoms.items())
        if is_parameter(path)
    ]
    if not found:
        return None
    version = atoms.get(VERSION, ("null", None))
    text = json.dumps([found, version[1] if version[0] == "string" else None])
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _plain(kind: str, value: Any) -> Any:
    """Return a value in a form in which equal values have equal texts."""
    if kind == "float":
        return repr(float(value))
    if kind == "int":
        number = int(value, 0) if isinstance(value, str) else int(value)
        return number if number.bit_length() <= _DECIMAL_BITS else hex(number)
    if kind == "text":
        return [value.get("sha256"), value.get("size")] if isinstance(value, dict) else None
    if kind == "json" and isinstance(value, str) and _NO_NUMBER.search(value):
        try:
            return json.dumps(_finite(json.loads(value)), separators=(",", ":"))
        except (ValueError, RecursionError):
            return value
    return value


def _finite(value: Any) -> Any:
    """Return a value with NaN and infinities as their names, as in documents."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return value
