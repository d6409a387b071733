"""Types of values to which a comparison applies, and times in queries."""

from __future__ import annotations

import calendar
import difflib
import re
from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from typing import Final, NamedTuple

from seamark.reading.states import ALIASES, GROUPS, STATES
from seamark.store.cells import instant
from seamark.store.query.expression import AGGREGATES, Comparison, Field, Value

MOMENTS: Final = (
    "a time such as 2026-11-22 or 2026-11-22T10:30, or a time before now: -30m, -2h, -1d, -2w, -1M "
    "(minutes, hours, days, weeks, months)"
)
"""Description of the accepted times."""
_RELATIVE_TIME: Final = re.compile(r"-(\d{1,9})([mhdwM])")
_UNITS_S: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MONTHS: Final = 12
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_US: Final = ((1 << 63) - 1) // 1000
_FIRST_US: Final = -_LAST_US
"""Earliest time of a run in microseconds, because times are 64-bit nanoseconds."""


def moment(text: str, now_ns: int, *, local: bool = False) -> int | None:
    """Return a time in microseconds since the Unix epoch; None if the text is not a time.

    The text is in ISO 8601 (without offset in UTC, or in local time with ``local``), or minutes,
    hours, days, weeks or calendar months before now, as in Neptune: ``"-2h"``, ``"-1M"``.
    """
    ago = _RELATIVE_TIME.fullmatch(text)
    when = (
        instant(text, local=local)
        if ago is None
        else _time_before(now_ns // 1000, int(ago[1]), ago[2])
    )
    return None if when is None else max(_FIRST_US, min(when, _LAST_US))


def _time_before(now_us: int, count: int, unit: str) -> int:
    if unit != "M":
        return now_us - count * _UNITS_S[unit] * 1_000_000
    now = _EPOCH + timedelta(microseconds=now_us)
    year, month = divmod(now.year * _MONTHS + now.month - 1 - count, _MONTHS)
    if year < 1:
        return _FIRST_US
    day = min(now.day, calendar.monthrange(year, month + 1)[1])
    since = now.replace(year=year, month=month + 1, day=day) - _EPOCH
    return since // timedelta(microseconds=1)


SYSTEM: Final = {
    "sys/id": "string",
    "sys/name": "string",
    "sys/description": "string",
    "sys/custom_run_id": "string",
    "sys/owner": "string",
    "sys/parent": "string",
    "sys/hostname": "string",
    "sys/claimed_by": "string",
    "sys/content_hash": "string",
    "sys/start_hash": "string",
    "sys/revision": "int",
    "sys/state": "string",
    "sys/state_detail": "string",
    "sys/crash_reason": "string",
    "sys/creation_time": "datetime",
    "sys/modification_time": "datetime",
    "sys/start_time": "datetime",
    "sys/end_time": "datetime",
    "sys/running_time": "float",
    "sys/trashed": "bool",
    "sys/failed": "bool",
    "sys/tags": "string_set",
    "sys/group_tags": "string_set",
}
"""Types of paths that are valid in queries even if no run has them."""
CHILDREN: Final = "children/"
"""Prefix of paths of the child runs of a run."""
CHILD_AGGREGATES: Final = ("min", "max", "mean", "count")
"""Aggregates of the numbers of child runs."""
NUMERIC: Final = frozenset({"int", "float", "float_series", "statistic"})
TEXTS: Final = frozenset({"string", "string_series"})
SERIES: Final = frozenset({"float_series", "string_series", "file_series", "histogram_series"})
SORTABLE: Final = NUMERIC | TEXTS | {"bool", "datetime", "json", "file", "artifact", "null"}
_SEARCHABLE: Final = TEXTS | {"json", "file", "artifact", "string_set"}
SEARCHES: Final = ("contains", "matches", "not matches")
_SERIES_AGGREGATES: Final = ("last", "count", "first_step", "last_step")
_COUNT_AGGREGATES: Final = ("last", "count")
_NUMBER_SERIES: Final = frozenset({"float_series", "statistic"})
_TYPE_GROUPS: Final = {"float": NUMERIC, "string": TEXTS}
_SIGNS: Final = {"contains": "CONTAINS", "matches": "=~", "not matches": "!~"}
_WORDS: Final = {
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "text": "a long text",
    "datetime": "a time",
    "json": "JSON",
    "null": "a null value",
    "float_series": "a series of numbers",
    "string_series": "a series of texts",
    "file_series": "a series of files",
    "histogram_series": "a series of histograms",
    "string_set": "a set of strings",
    "file": "a file",
    "file_set": "a set of files",
    "artifact": "an artifact",
    "statistic": "a statistic",
}


class Fault(NamedTuple):
    """Error in a query: 0-based position, message, and a hint to append."""

    at: int
    message: str
    hint: str = ""


def _suggest(word: str, words: Collection[str]) -> str:
    found = difflib.get_close_matches(word.lower(), words, 1, 0.5)
    return f"; did you mean {found[0]!r}?" if found else ""


def near_state(word: str) -> str:
    """Return ``"; did you mean ...?"`` for a word similar to a state, otherwise an empty string."""
    alias = ALIASES.get(word.lower())
    return f"; did you mean {alias!r}?" if alias else _suggest(word, STATES)


def words_of(types: Collection[str]) -> str:
    """Return a description of types, such as ``"a number or a text"``."""
    return " or ".join(dict.fromkeys(_WORDS.get(one, one) for one in sorted(types)))


def system_types(path: str) -> frozenset[str] | None:
    """Return the types of a path in `SYSTEM`; None for any other path."""
    kind = SYSTEM.get(path)
    if kind is None:
        return None
    return frozenset({"int", "float"} if kind == "float" else {kind})


def implied_types(field: Field) -> frozenset[str] | None:
    """Return the types implied by a field's aggregate and type; None for any type."""
    if field.aggregate in _COUNT_AGGREGATES:
        kinds = SERIES | {"statistic"}
    elif field.aggregate in _SERIES_AGGREGATES:
        kinds = SERIES
    elif field.aggregate is not None:
        kinds = _NUMBER_SERIES
    elif field.type is None:
        return None
    else:
        return _TYPE_GROUPS.get(field.type, frozenset({field.type}))
    # also accept val/loss:float:min for a series of floats
    return kinds if field.type in (None, "int", "float", "string") else kinds & {str(field.type)}


def matching_types(leaf: Comparison, value: Value | None) -> frozenset[str] | None:
    """Return the types that a comparison with this value can match; None for any type."""
    permitted = implied_types(leaf.field)
    if value is None:
        return permitted
    if leaf.field.aggregate not in (None, "last"):
        return permitted if _is_number(value) and leaf.operator not in SEARCHES else frozenset()
    found = _comparable_types(leaf.operator, value)
    return found if permitted is None else found & permitted


def _is_number(value: Value) -> bool:
    return isinstance(value.value, int | float) and not isinstance(value.value, bool)


def _comparable_types(sign: str, value: Value) -> frozenset[str]:
    if sign in SEARCHES:
        return _SEARCHABLE
    sets = frozenset({"string_set"} if sign == "in" else ())
    if isinstance(value.value, bool):
        return sets | {"bool"} if sign in ("=", "!=", "in") else sets
    if _is_number(value):
        return sets | NUMERIC
    return sets | TEXTS | {"datetime"} if moment(value.text, 0) is not None else sets | TEXTS


def fault(leaf: Comparison, value: Value | None, types: Collection[str]) -> Fault:
    """Return the fault of a comparison at a path with these types, which cannot match."""
    path, sign = leaf.field.path, leaf.operator
    permitted = implied_types(leaf.field)
    if value is None or (permitted is not None and not permitted.intersection(types)):
        return field_fault(leaf.field, types)
    written, got = _SIGNS.get(sign, sign), value.text[:60]
    if leaf.field.aggregate not in (None, "last"):
        types = ["float"]
    known = set(types)
    if sign in SEARCHES:
        return Fault(leaf.at, f"expected = or < for {words_of(known)}, got {written}")
    if isinstance(value.value, bool) and "bool" in known:
        return Fault(leaf.at, f"expected = or != before {value.text}, got {written!r}")
    if known == {"string_set"}:
        return Fault(leaf.at, f"expected CONTAINS or IN for a string set, got {written!r}")
    if known <= _SEARCHABLE - TEXTS:
        return Fault(leaf.at, f"expected CONTAINS or =~ for {words_of(known)}, got {written!r}")
    if not known & (NUMERIC | TEXTS | {"bool", "datetime"}):
        return Fault(
            leaf.field.at,
            f"{path!r} is {words_of(known)}, which supports only IS MISSING and IS NOT MISSING",
        )
    wanted = [
        words
        for words, kinds in (
            ("a number", NUMERIC),
            ("true or false", {"bool"}),
            (MOMENTS, {"datetime"}),
            ("a text in quotes", TEXTS),
        )
        if known & kinds
    ]
    return Fault(value.at, f"expected {' or '.join(wanted)} for {path!r}, got {got!r}")


def field_fault(field: Field, types: Collection[str]) -> Fault:
    """Return the fault of a field whose aggregate or type does not fit these types."""
    subject = f"{field.path!r} is {words_of(types)}"
    if field.aggregate is None:
        return Fault(field.at, f"{subject}, not {words_of([str(field.type)])}")
    if field.aggregate in _SERIES_AGGREGATES or not SERIES.intersection(types):
        return Fault(field.at, f"{subject}, not a series: it has no {field.aggregate}")
    return Fault(field.at, f"{subject}, not of numbers: it has no {field.aggregate}")


def state_fault(leaf: Comparison, value: Value) -> Fault | None:
    """Return the fault of a comparison of ``sys/state``, or None."""
    sign, word = leaf.operator, value.text.lower()
    if sign in SEARCHES:
        return None
    if sign not in ("=", "!=", "in"):
        return Fault(leaf.at, f"expected =, != or IN for a state, got {sign!r}")
    if word in GROUPS:
        each = ", ".join(GROUPS[word])
        message = f"expected a state, got {word!r}, a group that only the argument state accepts"
        return Fault(value.at, message, f"; use IN ({each})")
    if word not in STATES:
        message = f"expected one of {', '.join(STATES)}, got {value.text[:60]!r}"
        return Fault(value.at, message, near_state(word))
    return None


def suffix_fault(word: str, at: int) -> Fault:
    """Return the fault of a word after a colon that is neither an aggregate nor a type."""
    known = ", ".join((*AGGREGATES, "or a type such as float, string, stringSet"))
    return Fault(at, f"expected one of {known}; got {word!r}", _suggest(word, AGGREGATES))
