"""Points that a run inherits from the run that it was forked from.

They are read through it and never copied: a series begins with the points of the parent up to the
step of the fork. Own points that begin earlier replace those of the parent, so that copied points
are not shown twice. The name of the parent is untrusted: it is sought in the project of the fork
alone, where a reader of one run may read all, and no run is visited twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.folder import hashed_run_id
from seamark.store import schema
from seamark.store.cells import NUMBER_FAMILIES
from seamark.store.database import any_of, in_parts
from seamark.store.fold.registers import NEVER, Key
from seamark.store.runs import load_many

if TYPE_CHECKING:
    from seamark.journal.safe import Source
    from seamark.store.fold.run_state import Fork
    from seamark.store.runs import Store, StoredRun

__all__ = ["GENERATIONS", "Line", "Share", "Sources", "ancestors_of", "line_of", "possible_parents"]

Sources = Callable[[str], "Source"]
"""Opens a journal by its file name.

Raises:
    OSError: If it cannot be opened.
"""

GENERATIONS: Final = 100
"""How many runs are looked at, one forked from the other."""
_NEVER_INHERITED: Final = ("monitoring/", "profiling/", "sys/")
"""What a process says of itself and its machine, whose steps are no steps of the training."""
_PATHS_AT_ONCE: Final = 50
_cell, _series = schema.attribute.c, schema.series.c
_SHOWN: Final = (
    sa.select(_cell.path, _cell.family, _series.first_step, _cell.t)
    .join(
        schema.series,
        sa.and_(
            _series.run == _cell.run,
            _series.path == _cell.path,
            _series.family == _cell.family,
        ),
        isouter=True,
    )
    .where(_cell.run == sa.bindparam("run"), _cell.visible == 1)
)
_SHOWN_AT: Final = _SHOWN.where(any_of(_cell.path, _PATHS_AT_ONCE))
_SERIES: Final = frozenset({"float_series", "string_series", "file_series", "histogram_series"})


class Ancestor(NamedTuple):
    """A run that a fork has points from, and the step at which the nearer run was forked."""

    run: StoredRun
    step: float


@dataclass(frozen=True, slots=True)
class Share:
    """Points that some series take from one run: the run itself, or one it was forked from.

    Attributes:
        run: Run as loaded; its journals are not read beyond their offsets.
        attempt: Attempt as checked by `seamark.reading.points.check_attempt`.
        ends: Last step by path; None for all points.
        emptied: Key up to which nearer runs deleted points, by path.
    """

    run: StoredRun
    sources: Sources
    attempt: int | str
    ends: Mapping[str, float] | None = None
    emptied: Mapping[str, Key] = field(default_factory=dict)

    def end(self, path: str) -> float:
        """Return the last shown step of a series."""
        return math.inf if self.ends is None else self.ends.get(path, -math.inf)

    def after(self, path: str) -> Key:
        """Return the key up to which points of a series were deleted."""
        return max(self.run.state.emptied(path), self.emptied.get(path, NEVER))


class _Shown(NamedTuple):
    family: str
    first_step: float | None
    t: int


def possible_parents(project: str, name: str) -> list[str]:
    """Return the possible ids of a parent that a fork names."""
    return list(dict.fromkeys((name, hashed_run_id(project, name))))


def ancestors_of(
    store: Store, connection: sa.Connection, ref: tuple[str, str], fork: Fork | None
) -> tuple[list[Ancestor], str | None]:
    """Return the ancestors of a run, the nearest first, and the name of a missing one."""
    project, seen = ref[0], {ref[1]}
    found: list[Ancestor] = []
    while fork is not None:
        meant = [(project, name) for name in possible_parents(project, fork.parent)]
        there = load_many(store, connection, meant)
        parent = next((there[one] for one in meant if one in there), None)
        if parent is None or parent.name in seen or len(found) >= GENERATIONS:
            return found, fork.parent
        found.append(Ancestor(parent, fork.step))
        seen.add(parent.name)
        fork = parent.state.fork
    return found, None


def line_of(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    others: Callable[[str, str], Sources] | None,
) -> Line:
    """Return a run with its ancestors; ``others`` is None if no other run can be read."""
    if run.state.fork is None or others is None:
        return Line(store, connection, run, sources)
    found, lacking = ancestors_of(store, connection, (run.project, run.name), run.state.fork)
    return Line(store, connection, run, sources, found, others, lacking)


class Line:
    """A run and its ancestors, the nearest first, and the name of a missing or repeated one."""

    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        run: StoredRun,
        sources: Sources,
        ancestors: Sequence[Ancestor] = (),
        others: Callable[[str, str], Sources] | None = None,
        lacking: str | None = None,
    ) -> None:
        self.run, self.ancestors, self.lacking = run, ancestors, lacking
        self._store, self._connection = store, connection
        self._sources, self._others = sources, others

    def shares(self, paths: Iterable[str], family: str, attempt: int | str) -> list[Share]:
        """Return the runs of which series are made, the run itself first.

        ``attempt`` concerns the run itself; of the others everything is read, or what is shown.
        """
        found = [Share(self.run, self._sources, attempt)]
        if not self.ancestors or attempt == "replaced" or self._others is None:
            return found
        ends = dict.fromkeys((path for path in paths if _is_inherited(path)), math.inf)
        emptied: dict[str, Key] = {}
        nearer = self.run
        for run, step in self.ancestors:
            shown = self._shown(nearer, ends)
            for path in list(ends):
                own = shown.get(path)
                if own is not None and own.family != family:
                    del ends[path]
                    continue
                ends[path] = _end(min(ends[path], step), own)
                emptied[path] = max(emptied.get(path, NEVER), nearer.state.emptied(path))
            sources = self._others(run.project, run.name)
            which = "all" if attempt == "all" else "latest"
            found.append(Share(run, sources, which, dict(ends), dict(emptied)))
            nearer = run
        return found

    def families(self) -> dict[str, str]:
        """Return the families of series with points of other runs, by path."""
        found: dict[str, str] = {}
        if not self.ancestors:
            return found
        nearer, shown, least = [self.run], self._shown(self.run), math.inf
        families = {path: one.family for path, one in shown.items()}
        begun: dict[str, float] = {}
        for run, step in self.ancestors:
            for path, one in shown.items():
                if one.first_step is not None:
                    begun[path] = min(begun.get(path, math.inf), one.first_step)
            least, shown = min(least, step), self._shown(run)
            for path, one in shown.items():
                if one.first_step is None or not _is_inherited(path):
                    continue
                if one.family not in _SERIES or families.setdefault(path, one.family) != one.family:
                    continue
                gone = max(each.state.emptied(path)[0] for each in nearer)
                before = begun.get(path, math.inf)
                if one.first_step <= least and one.first_step < before and one.t > gone:
                    found[path] = one.family
            nearer.append(run)
        return found

    def _shown(self, run: StoredRun, paths: Iterable[str] | None = None) -> dict[str, _Shown]:
        store, connection = self._store, self._connection
        if paths is None:
            rows = store.database.rows(connection, _SHOWN, run=run.number)
            names = store.numbers.paths(connection, [row[0] for row in rows])
        else:
            known = store.numbers.known(connection, list(paths))
            names = {number: path for path, number in known.items()}
            rows = []
            for some in in_parts(names, _PATHS_AT_ONCE):
                rows += store.database.rows(connection, _SHOWN_AT, run=run.number, **some)
        return {
            names[path]: _Shown(NUMBER_FAMILIES[family], first_step, t or 0)
            for path, family, first_step, t in rows
        }


def _is_inherited(path: str) -> bool:
    return not path.startswith(_NEVER_INHERITED)


def _end(step: float, own: _Shown | None) -> float:
    if own is None or own.first_step is None or own.first_step > step:
        return step
    return math.nextafter(own.first_step, -math.inf)
