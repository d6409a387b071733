"""Column values of the rows of atoms, series and runs."""

from __future__ import annotations

import contextlib
import json
import math
import operator
from collections.abc import Collection, Iterable
from datetime import datetime, timezone
from typing import Any, Final

from seamark.errors import ValueKindError
from seamark.journal.reader import SETTLE_NS
from seamark.process.liveness import process_alive
from seamark.store.fold.payloads import legible
from seamark.store.fold.registers import (
    FamilyState,
    FileSetState,
    FileState,
    FloatSeriesState,
    RecordState,
    SeriesState,
    StatisticState,
)
from seamark.store.fold.run_state import JournalState, RunState
from seamark.values import decode_atom
from seamark.values.statistics import Statistics

FAMILY_NUMBERS: Final = {
    "atom": 0,
    "float_series": 1,
    "string_series": 2,
    "file_series": 3,
    "histogram_series": 4,
    "string_set": 5,
    "file": 6,
    "file_set": 7,
    "artifact": 8,
    "statistic": 9,
}
NUMBER_FAMILIES: Final = {number: family for family, number in FAMILY_NUMBERS.items()}

_SERVER_HOST: Final = "server"
"""Host of the journals in which a server keeps edits; see `seamark.server.writer`."""
OPEN: Final = "open"
"""State of a live run that may end without a record of its end.

Its header defines silence as ``"ended"``, because its writers never record their end.
"""
UNKNOWN_NS: Final = 0
"""Creation and modification time of a run without a readable journal."""
_EXACT_LIMIT: Final = 1 << 53
_SPECIAL_FLOATS: Final[dict[int | None, float]] = {-1: -math.inf, 1: math.inf, 2: math.nan}
_MAX_WHOLE: Final = (1 << 63) - 1
_MAX_TEXT_CHARS: Final = 4096
"""Number of searchable characters of a string series' last text in a runs table."""
_NO_COLUMNS: Final = (None, None, None, None)
_FIRST_T: Final = operator.attrgetter("first_t")
_LAST_T: Final = operator.attrgetter("last_t")
_SEEN: Final = operator.attrgetter("seen")
_FACTS: Final = ("user", "sys_id", "imported")
"""Facts taken from the first HEADER that has them."""


def _number_columns(value: float) -> tuple[int, float | None]:
    if value - value == 0:
        return 0, value
    return (2 if math.isnan(value) else 1 if value > 0 else -1), None


def instant(text: str, *, local: bool = False) -> int | None:
    """Return an ISO 8601 time, UTC unless ``local``, in microseconds since the epoch, or None."""
    try:
        when = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    if when.tzinfo is None and local:
        with contextlib.suppress(OverflowError, OSError, ValueError):  # out of range
            when = when.astimezone()
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    since = when - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def atom_columns(kind: str, value: Any) -> tuple[int | None, float | None, int | None, str | None]:
    """Return the columns class, number, whole and text of an atom that is not a string."""
    if kind == "float":
        return *_number_columns(value), None, None
    if kind == "bool":
        return 0, float(value), int(value), None
    if kind == "int":
        if -_EXACT_LIMIT < value < _EXACT_LIMIT:
            return 0, float(value), value, None
        whole = value if -_MAX_WHOLE <= value <= _MAX_WHOLE else None
        try:
            return 0, float(value), whole, None if whole is not None else str(value)
        except OverflowError:
            return (1 if value > 0 else -1), None, None, hex(value)
    if kind == "datetime":
        whole = instant(value)
        return (None, None, None, value) if whole is None else (0, whole / 1e6, whole, value)
    return None, None, None, None


def atom_value(
    kind: str,
    klass: int | None,
    number: float | None,
    whole: int | None,
    text: str | None,
    registers: str | None,
) -> Any:
    """Return the value of an atom from its columns, as in the journal (floats as floats)."""
    if kind == "float":
        return number if klass == 0 else _SPECIAL_FLOATS.get(klass)
    if kind == "int":
        return whole if text is None else int(text, 0)
    if kind == "bool":
        return bool(whole)
    if kind == "text":
        return json.loads(registers or "{}")
    return text


def family_columns(run: RunState, path: str, state: FamilyState) -> tuple[Any, ...]:
    """Return the columns class, number, whole and text of a family that is not an atom."""
    if isinstance(state, FloatSeriesState):
        return (*_number_columns(state.last), None, None) if state.count else _NO_COLUMNS
    if isinstance(state, SeriesState):
        text = state.last[:_MAX_TEXT_CHARS] if isinstance(state.last, str) else None
        return None, None, state.count, text
    if isinstance(state, StatisticState):
        found = state.visible(run.emptied(path))
        return (*_number_columns(found.last), None, None) if found.count else _NO_COLUMNS
    if isinstance(state, FileState):
        return None, None, None, str(state.record.get("name", ""))
    if isinstance(state, RecordState):
        return None, None, None, str(state.record.get("hash", ""))
    if isinstance(state, FileSetState):
        return None, None, len(state.visible(run.emptied(path))), None
    return _NO_COLUMNS


def series_columns(state: SeriesState) -> tuple[Any, ...]:
    """Return the low, high, mean, count, first and last step of a series."""
    if not state.count:
        return None, None, None, 0, None, None
    spread: tuple[Any, ...] = (None, None, None)
    if isinstance(state, FloatSeriesState) and state.min <= state.max:
        spread = (state.min, state.max, state.mean)
    return *spread, state.count, state.first_step, state.last_step


def statistic_columns(run: RunState, path: str, state: StatisticState) -> tuple[Any, ...]:
    """Return the columns of a statistic, as of a series without steps."""
    found = state.visible(run.emptied(path))
    spread: tuple[Any, ...] = (None, None, None)
    if isinstance(found, Statistics) and found.count:
        spread = (found.min, found.max, found.mean)
    return *spread, found.count, None, None


def running_ns(journals: Iterable[JournalState], started: int | None) -> int:
    """Return the total time in which at least one owner wrote since ``started``, in nanoseconds."""
    if started is None:
        return 0
    spans = [
        (max(one.first_t, started), one.last_t)
        for one in journals
        if one.owner and one.first_t is not None
    ]
    total, end = 0, None
    for first, last in sorted(spans):
        start = first if end is None or first > end else end
        total += max(0, last - start)
        end = last if end is None else max(end, last)
    return total


def run_columns(run: RunState) -> dict[str, Any]:
    """Return the derived columns of a run's row. Times are ns since the Unix epoch."""
    journals = list(run.journals.values())
    owners = [one for one in journals if one.owner]
    dated = [one for one in journals if one.first_t is not None]
    facts: dict[str, Any] = {}
    begins = []
    for journal in sorted(dated, key=_FIRST_T, reverse=True):
        header = journal.header
        for name in _FACTS:
            facts[name] = header.get(name) or facts.get(name)
        # The clock of a later writer (a resumed training, an edit on a server) may be behind, so
        # its time is used only if there is no other. The journal of an edit that was made before
        # the run was folded has no "prior_t".
        is_edit = "rank" not in header and header.get("host") == _SERVER_HOST
        begins.append((2 if header.get("prior_t") else int(is_edit), journal.first_t))
    created = min(begins, default=(0, UNKNOWN_NS))[1]
    state = run.state[1].get("state", "created")
    since = run.started
    if since is None and run.state[1].get("state") != "created":  # no record of its start
        since = created or None
    trashed = run.surviving("sys/trashed") if "sys/trashed" in run.attributes else []
    return {
        "state": OPEN if is_open(state, owners) else state,
        "owner": legible(facts.get("user") or ""),
        "sys_id": legible(facts.get("sys_id")),
        "created": created,
        "started": since if facts.get("imported") else run.started,
        "ended": max(map(_LAST_T, owners), default=None),
        "detail": run.state[1].get("detail"),
        "modified": max(map(_LAST_T, journals), default=UNKNOWN_NS),
        "running": min(running_ns(journals, since), _MAX_WHOLE),
        "beat": max(map(_SEEN, last_owners(owners)), default=0),
        "trashed": int(bool(trashed) and getattr(trashed[0], "value", False) is True),
    }


def is_open(state: str, owners: Collection[JournalState]) -> bool:
    """Return whether silence ends a run that is recorded as running; see `OPEN`."""
    if state != "running" or not owners:
        return False
    newest = max(owners, key=_SEEN)
    return newest.header.get("silence") == "ended"


def is_live(journal: JournalState, now_ns: int, *, here: bool = True) -> bool:
    """Return whether the writer of a journal is known to be alive."""
    alive = process_alive(journal.header) if here else None
    is_fresh = journal.seen >= now_ns - SETTLE_NS
    return not journal.closed and (is_fresh if alive is None else alive)


def is_crashed(owners: Collection[JournalState], now_ns: int, *, here: bool = True) -> bool:
    """Return whether a run that is recorded as running no longer runs."""
    fresh = [one for one in last_owners(owners) if one.seen >= now_ns - SETTLE_NS]
    return not fresh or (here and all(process_alive(one.header) is False for one in fresh))


def last_owners(owners: Collection[JournalState]) -> list[JournalState]:
    """Return the journals that determine whether a run is still alive.

    A closed journal does not show whether later writers are alive, even if its process is.
    """
    last = max(map(_LAST_T, [one for one in owners if not one.closed]), default=-1)
    return [one for one in owners if not one.closed or one.last_t > last]


def decoded(kind: str, value: Any) -> Any:
    """Return the Python value of an atom, or the value unchanged if it cannot be decoded."""
    try:
        return decode_atom(kind, value)
    except ValueKindError:
        return value
