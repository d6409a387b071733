"""Values of runs in one line, as commands and notebooks show them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from seamark.reading.artifacts import source_label
from seamark.reading.attributes import SeriesTail
from seamark.reading.words import (
    clean,
    float_text,
    human_bytes,
    human_number,
    human_time,
    int_text,
    plural,
)
from seamark.values.aggregates import Keep
from seamark.values.statistics import Statistics

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute

__all__ = ["file_name", "file_text", "last_text", "short_text", "value_text"]

_MOST_BYTES: Final = 1 << 63
"""No file is larger; a record may say anything."""
_DIGITS: Final = 8
"""How much of a digest is shown."""


def value_text(value: Any, *, exact: bool) -> str:
    """Return a value in one line, safe to print.

    Args:
        value: A decoded atom, or a set of strings.
        exact: Numbers with all digits that they need, times as ISO 8601, instead of what is quickly
            read.
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return float_text(value) if exact else human_number(value, 6)
    if isinstance(value, int):
        return int_text(value) if exact else human_number(value)
    if isinstance(value, datetime):
        return value.isoformat() if exact else human_time(value)
    if isinstance(value, set | frozenset):
        return ", ".join(clean(str(item)) for item in sorted(value))
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, SeriesTail):
        return f"{plural(value.count, 'point')}, last: {last_text(value)}"
    if isinstance(value, Statistics) and value.count:
        mean, std = (value_text(one, exact=exact) for one in (value.mean, value.std))
        return f"{mean} ± {std}, {plural(value.count, 'observation')}"
    if isinstance(value, Keep):
        last = value_text(value.last, exact=exact)
        return f"{last}, {plural(value.count, 'observation')}"
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def short_text(attribute: Attribute, *, exact: bool) -> str:
    """Return what an attribute holds in one line; see `value_text`."""
    value = attribute.value
    if attribute.type == "text" and isinstance(value, Mapping):
        return f"text of {human_bytes(value.get('size', 0))}"
    if attribute.family in ("file", "file_set"):
        return file_text(value, exact=exact)
    if attribute.family == "artifact":
        if "of" in value:
            return clean(f"{value.get('kind')}: {source_label(value['of'])}")
        return f"artifact of {plural(len(value.get('files') or ()), 'file')}"
    return value_text(value, exact=exact)


def last_text(tail: SeriesTail) -> str:
    """Return the last point of a series of texts, files or histograms in one line."""
    last = tail.last
    if isinstance(last, Mapping):
        last = str(last.get("name") or last.get("ext") or "file")
    elif isinstance(last, Sequence) and last and not isinstance(last, str):
        last = f"{len(last[-1])} bins"
    return clean(last or "")


def file_name(record: Mapping[str, Any]) -> str:
    """Return what a file is called, with its extension."""
    name, ending = str(record.get("name") or "file"), record.get("ext")
    return name if not ending or name.endswith(f".{ending}") else f"{name}.{ending}"


def file_text(value: Any, *, exact: bool) -> str:
    """Return what a file is called, how large it is and how its digest begins; of a set how many.

    Args:
        value: The record of the file, or records by name.
        exact: The whole digest.
    """
    if not isinstance(value, Mapping):
        return value_text(value, exact=exact)
    if all(isinstance(member, Mapping) for member in value.values()):
        return plural(len(value), "file")
    parts = [str(value.get("name") or value.get("ref") or "file")]
    if isinstance(value.get("size"), int) and abs(value["size"]) < _MOST_BYTES:
        parts.append(human_bytes(value["size"]))
    if isinstance(value.get("sha256"), str):
        parts.append(value["sha256"] if exact else value["sha256"][:_DIGITS])
    if "lost" in value:
        parts.append(f"lost: {value['lost']}")
    return clean(" ".join(parts))
