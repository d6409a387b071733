"""Snapshot of a run in one transaction: its visible attributes, and the points of its series.

What is asked for is loaded, and nothing else: of a run with thousands of attributes, asking for one
loads one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.reading.attributes import Attribute, SeriesTail
from seamark.store import schema
from seamark.store.cells import CRASHED, NUMBER_FAMILIES, OPEN, decoded, is_crashed, is_open
from seamark.store.fold.registers import (
    AtomState,
    FileSetState,
    FileState,
    FloatSeriesState,
    RecordState,
    SeriesState,
    SetState,
    StatisticState,
)
from seamark.store.read.forks import line_of
from seamark.store.read.records import read_records
from seamark.store.read.series import read_floats
from seamark.store.silence import state_of_row

if TYPE_CHECKING:
    from seamark.reading.points import Points
    from seamark.store.fold.run_state import JournalState, RunState
    from seamark.store.read.forks import Line, Sources
    from seamark.store.runs import Store, StoredRun

__all__ = ["FLOATS", "Snapshot"]

FLOATS: Final = "float_series"
_FLOATS_AT_ONCE: Final = 64
_cells: Final = schema.attribute.c
_SHOWN: Final = (
    sa.select(schema.path.c.path, _cells.family)
    .join(schema.path, schema.path.c.id == _cells.path)
    .where(_cells.run == sa.bindparam("run"), _cells.visible == 1)
)


@dataclass(slots=True)
class Snapshot:
    """A run in one transaction.

    Attributes:
        store: Where it is.
        connection: Of the transaction.
        run: As loaded.
        now_ns: Time by the clock of the reader, nanoseconds since the Unix epoch.
        sources: Opens its journals.
        others: Returns what opens the journals of another run; None where a fork is read alone.
    """

    store: Store
    connection: sa.Connection
    run: StoredRun
    now_ns: int
    sources: Sources
    others: Callable[[str, str], Sources] | None
    _line: Line | None = None

    @property
    def line(self) -> Line:
        """The run, and the runs that it has points from."""
        if self._line is None:
            self._line = line_of(self.store, self.connection, self.run, self.sources, self.others)
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
        """The journals of the processes that speak for the run."""
        return [one for one in self.state.journals.values() if one.owner]

    def rows(self, statement: Any) -> list[tuple[Any, ...]]:
        """Return the rows that a statement finds of the run."""
        return self.store.database.rows(self.connection, statement, run=self.number)

    def stated(self) -> str:
        """Return the state of the run, ``"crashed"`` if it says it is running and is not."""
        stated, owners = str(self.state.state[1].get("state", "created")), self.owners
        if is_open(stated, owners):
            return state_of_row(OPEN, max(one.seen for one in owners), self.now_ns)
        crashed = is_crashed(stated, owners, self.now_ns, here=self.store.here)
        return CRASHED if crashed else stated

    # ------------------------------------------------------------------ attributes

    def families(self) -> dict[str, str]:
        """Return what each path holds, without reading it; derived attributes are left out."""
        own = {path: NUMBER_FAMILIES[family] for path, family in self.rows(_SHOWN)}
        return own | self.line.families()

    def shown(self, path: str) -> Attribute | None:
        """Return what a path shows; derived attributes are left out."""
        if found := self.of_line(path.__eq__):
            return found[path]
        self.run.state.need([path])
        return self.own(path)

    def own(self, path: str) -> Attribute | None:
        """Return what a path, which is loaded, shows of the run itself.

        The state is kept for further questions, so that the value is a copy.
        """
        shown = self.run.state.surviving(path)
        if not shown:
            return None
        state = shown[0]
        kind, value = state.family, None
        if isinstance(state, AtomState):
            kind, value = state.type, decoded(state.type, copy.deepcopy(state.value))
        elif isinstance(state, SeriesState):
            value = state.summary()
            if state.family != FLOATS:
                value = copy.deepcopy(value)
        elif isinstance(state, FileState):
            value = copy.deepcopy(state.visible())
        elif isinstance(state, RecordState):
            value = copy.deepcopy(state.record)
        elif isinstance(state, FileSetState):
            value = copy.deepcopy(state.visible(self.state.emptied(path)))
        elif isinstance(state, SetState | StatisticState):
            value = state.visible(self.state.emptied(path))
        return Attribute(path, state.family, kind, value)

    def of_line(self, is_meant: Callable[[str], bool]) -> dict[str, Attribute]:
        """Return the series that have points of other runs; all of their points are read."""
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
                found[path] = Attribute(path, FLOATS, FLOATS, state.summary())
        for path, family in families.items():
            if family != FLOATS:
                found[path] = Attribute(path, family, family, self._tail(path, family))
        return found

    def _tail(self, path: str, family: str) -> SeriesTail:
        points = self.points_of(path, family, "latest")
        if not points:
            return SeriesTail(None, 0, math.nan, math.nan)
        (first, *_), (step, value, *_) = points[0], points[-1]
        last = value["file"] if family == "file_series" else value
        return SeriesTail(last, len(points), first, step)

    # ------------------------------------------------------------------ points

    def floats(
        self, paths: Sequence[str], attempt: int | str, limit: int | None = None
    ) -> dict[str, Points]:
        """Return the points of float series, by path."""
        shares = self.line.shares(paths, FLOATS, attempt)
        return read_floats(self.store, self.connection, shares, paths, limit)

    def points_of(
        self, path: str, family: str, attempt: int | str
    ) -> list[tuple[float, Any, int, int]]:
        """Return step, value, time (ns) and attempt of the points of another series."""
        shares = self.line.shares([path], family, attempt)
        if len(shares) == 1:
            self.state.need([path])
            if family not in self.state.attributes.get(path, {}):
                return []
        return read_records(self.store, self.connection, shares, path, family)
