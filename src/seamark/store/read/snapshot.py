"""Snapshot of a run in one transaction: visible and derived attributes."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from seamark.paths import kind_of
from seamark.process.liveness import Crash
from seamark.reading.attributes import CHANGES, DETAIL, INHERITED, Attribute, SeriesTail
from seamark.reading.points import Points, time_of
from seamark.reading.states import ACTIVE_STATES, CRASHED
from seamark.store import schema
from seamark.store.cells import (
    NUMBER_FAMILIES,
    OPEN,
    UNKNOWN_NS,
    decoded,
    is_crashed,
    is_open,
    run_columns,
)
from seamark.store.fold.registers import AtomState, FloatSeriesState, Key
from seamark.store.fold.run_state import JournalState, RunState
from seamark.store.read.inherited import TAGS, Inherited, Line, Sources, inherited_tags
from seamark.store.read.names import ALIASES, VERSION, version_aliases, version_numbers
from seamark.store.read.records import read_records
from seamark.store.read.series import read_floats, read_last
from seamark.store.runs import Store, StoredRun
from seamark.store.schema import state_of_row

_cells: Final = schema.attribute.c
_SELECT_OWNER: Final = sa.select(schema.run.c.owner).where(schema.run.c.id == sa.bindparam("run"))
_SELECT_HIDDEN: Final = (
    sa.select(_cells.path).distinct().where(_cells.run == sa.bindparam("run"), _cells.visible == 0)
)
_COPY_PREFIX: Final = "journal/"
"""Prefix of the file names of diverged copies among the conflicts."""
DERIVED_BELOW: Final = ("sys/", "monitoring/seamark/", TAGS)
"""Prefixes of the paths of derived attributes."""


def _known_times(facts: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for path, moment in (("creation", facts["created"]), ("modification", facts["modified"])):
        if moment != UNKNOWN_NS:
            yield f"sys/{path}_time", "datetime", time_of(moment)


def _changes(entries: Iterable[tuple[Key, str, Any]]) -> list[dict[str, Any]]:
    found = []
    for (t, _, _), kind, value in entries:
        plain = value if kind == "datetime" else decoded(kind, value)
        found.append({"value": plain, "time": time_of(t).isoformat()})
    return found


def gaps_of(journal: JournalState) -> list[tuple[int, int]]:
    """Return the ranges (offset, length) of a journal without valid frames, including its end."""
    gaps = [*journal.gaps, journal.tail] if journal.tail else journal.gaps
    return [(offset, length) for offset, length in gaps]


def problems(run: RunState, conflicts: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the problems of a folded run, by name, without empty ones."""
    journals = sorted(run.journals.values(), key=lambda journal: journal.writer)
    dropped: dict[str, int] = {}
    for journal in journals:
        for reason, count in journal.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    copies = {f"{_COPY_PREFIX}{name}": [one.file] for one in journals for name in one.diverged}
    found = {
        "dropped": dropped,
        "conflicts": {**conflicts, **copies},
        "gaps": {
            journal.writer: gaps
            for journal in journals
            if (gaps := [list(gap) for gap in gaps_of(journal)])
        },
        "fold_errors": {journal.writer: journal.errors for journal in journals if journal.errors},
        "newer": [journal.writer for journal in journals if journal.stopped == "newer"],
    }
    return {name: value for name, value in found.items() if value}


FLOATS: Final = "float_series"
_FLOATS_AT_ONCE: Final = 64
_SELECT_VISIBLE: Final = (
    sa.select(schema.path.c.path, _cells.family)
    .join(schema.path, schema.path.c.id == _cells.path)
    .where(_cells.run == sa.bindparam("run"), _cells.visible == 1)
)


@dataclass(slots=True)
class Snapshot:
    """Data of one run in one transaction."""

    store: Store
    connection: sa.Connection
    run: StoredRun
    now_ns: int
    sources_of: Callable[[str, str], Sources]
    _line: Line | None = None

    @property
    def line(self) -> Line:
        """Run with the ancestors from which it inherits points."""
        if self._line is None:
            self._line = Line(self.store, self.connection, self.run, self.sources_of)
        return self._line

    @property
    def state(self) -> RunState:
        """State of the run."""
        return self.run.state

    @property
    def number(self) -> int:
        """Number of the run."""
        return self.run.number or 0

    @property
    def owners(self) -> list[JournalState]:
        """Journals of the processes that own the run."""
        return [one for one in self.state.journals.values() if one.owner]

    def rows(self, statement: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement about the run."""
        return self.store.database.rows(self.connection, statement, run=self.number)

    def derived_state(self) -> str:
        """Return the state; ``"crashed"`` if the run is recorded as running but no longer runs."""
        current, owners = str(self.state.state[1].get("state", "created")), self.owners
        if is_open(current, owners):
            return state_of_row(OPEN, max(one.seen for one in owners), self.now_ns)
        if current == "running" and is_crashed(owners, self.now_ns, here=self.store.here):
            return CRASHED
        return current

    # ------------------------------------------------------------------ attributes

    def families(self) -> dict[str, str]:
        """Return the family at each path, without derived attributes and without reading values."""
        own = {path: NUMBER_FAMILIES[family] for path, family in self.rows(_SELECT_VISIBLE)}
        return own | self.line.families()

    def own(self, path: str) -> Attribute | None:
        """Return a copy of the run's own attribute at a loaded path."""
        shown = self.run.state.surviving(path)
        if not shown:
            return None
        state = shown[0]
        value = state.visible(self.run.state.emptied(path))
        if state.family != FLOATS:
            value = copy.deepcopy(value)
        if isinstance(state, AtomState):
            return Attribute(path, "atom", state.type, decoded(state.type, value))
        return Attribute(path, state.family, state.family, value)

    def inherited_series(self, is_meant: Callable[[str], bool]) -> dict[str, Attribute]:
        """Return the accepted series with points of ancestors; all their points are read."""
        found: dict[str, Attribute] = {}
        if self.run.state.fork is None:
            return found
        families = {path: one for path, one in self.line.families().items() if is_meant(path)}
        floats = [path for path, family in families.items() if family == FLOATS]
        for start in range(0, len(floats), _FLOATS_AT_ONCE):
            some = floats[start : start + _FLOATS_AT_ONCE]
            for path, points in self.floats(some, "latest").items():
                state = FloatSeriesState()
                if len(points):
                    state.extend(b"", points.time_ns, points.step, points.value)
                found[path] = Attribute(path, FLOATS, FLOATS, state.visible())
        for path, family in families.items():
            if family != FLOATS:
                found[path] = Attribute(path, family, family, self._load_tail(path, family))
        return found

    def _load_tail(self, path: str, family: str) -> SeriesTail:
        points = self.points_of(path, family, "latest")
        if not points:
            return SeriesTail(None, 0, math.nan, math.nan)
        (first, *_), (step, value, *_) = points[0], points[-1]
        last = value["file"] if family == "file_series" else value
        return SeriesTail(last, len(points), first, step)

    # ------------------------------------------------------------------ derived attributes

    def derived(self, crash: Crash | None) -> Iterator[tuple[str, str, Any]]:
        """Yield the derived attributes of the run, as (path, type, value)."""
        run, ref = self.state, (self.run.project, self.run.name)
        kind = kind_of(*ref)
        run.need(["sys/trashed"])
        facts = run_columns(run)
        ((owner,),) = self.rows(_SELECT_OWNER)
        yield "sys/id", "string", facts["sys_id"] or self.run.name
        yield "sys/owner", "string", facts["owner"] or str(owner)
        if kind in ("run", "project"):
            current = self.derived_state()
            yield "sys/state", "string", current
            yield "sys/running_time", "float", facts["running"] / 1e9
            if facts["detail"] is not None:
                yield DETAIL, "string", facts["detail"]
            if facts["started"] is not None:
                yield "sys/start_time", "datetime", time_of(facts["started"])
            if facts["ended"] is not None and current not in ACTIVE_STATES:
                yield "sys/end_time", "datetime", time_of(facts["ended"])
        if crash is not None:
            yield "sys/crash_reason", "string", crash.reason
        yield from _known_times(facts)
        if not run.surviving("sys/trashed"):
            yield "sys/trashed", "bool", False
        if kind in ("model_version", "artifact"):
            if found := version_aliases(self.store, self.connection, [ref]).get(ref):
                yield ALIASES, "json", found
            if number := version_numbers(self.store, self.connection, [ref]).get(ref):
                yield VERSION, "int", number
        yield from self._derive_from_all()

    def _derive_from_all(self) -> Iterator[tuple[str, str, Any]]:
        run, tags = self.state, self._tags()
        for path, one in tags.items():
            yield path, one.type, one.value
        if tags:
            yield INHERITED, "json", self._tag_edits(tags)
        for name, value in self._problems(tags).items():
            yield f"monitoring/seamark/{name}", "json", value
        if run.changed:
            run.need(run.changed)
            if changes := run.changes():
                yield (
                    CHANGES,
                    "json",
                    {path: _changes(entries) for path, entries in changes.items()},
                )

    def problems(self) -> dict[str, Any]:
        """Return the problems of the run, by name, without empty ones."""
        return self._problems(self._tags())

    def _tags(self) -> Mapping[str, Inherited]:
        ref = self.run.project, self.run.name
        return dict(inherited_tags(self.store, self.connection, [ref])).get(ref, {})

    def _tag_edits(self, tags: Mapping[str, Inherited]) -> dict[str, dict[str, Any]]:
        self.state.need(tags)
        found: dict[str, dict[str, Any]] = {}
        for path, one in tags.items():
            tag = {"value": one.value, "project": one.project}
            if (own := self.own(path)) is not None:
                tag["own"] = own.value if own.family == "atom" else f"<{own.family}>"
            found[path[len(TAGS) :]] = tag
        return found

    def _problems(self, tags: Mapping[str, Inherited]) -> dict[str, Any]:
        found = problems(self.state, self._conflicts())
        if self.line.missing_ancestor is not None:
            found["fork"] = {"lacking": self.line.missing_ancestor}
        other = {
            key: one
            for key, one in self._tag_edits(tags).items()
            if "own" in one
            and repr(one["own"]) != repr(one["value"])  # 1 differs from True, and NaN equals NaN
        }
        return {**found, "tags": other} if other else found

    def _conflicts(self) -> dict[str, list[str]]:
        rows = self.rows(_SELECT_HIDDEN)
        paths = self.store.numbers.paths(self.connection, [number for (number,) in rows])
        self.state.need(paths.values())
        return self.state.conflicts()

    # ------------------------------------------------------------------ points

    def floats(
        self, paths: Sequence[str], attempt: int | str, limit: int | None = None
    ) -> dict[str, Points]:
        """Return the points of float series, by path."""
        shares = self.line.shares(paths, FLOATS, attempt)
        if limit is None:
            return read_floats(self.store, self.connection, shares, paths)
        return read_last(self.store, self.connection, shares, paths, limit)

    def points_of(
        self, path: str, family: str, attempt: int | str
    ) -> list[tuple[float, Any, int, int]]:
        """Return (step, value, time in ns, attempt) of a string, file or histogram series."""
        shares = self.line.shares([path], family, attempt)
        if len(shares) == 1:
            self.state.need([path])
            if family not in self.state.attributes.get(path, {}):
                return []
        return read_records(self.store, self.connection, shares, path, family)
