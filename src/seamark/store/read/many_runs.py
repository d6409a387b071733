"""Reading series of many runs with few statements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from seamark.journal.safe import Source
from seamark.reading.catalog import Ref
from seamark.reading.curves import Curve
from seamark.reading.points import Points
from seamark.store import schema
from seamark.store.cells import FAMILY_NUMBERS
from seamark.store.database import among
from seamark.store.ingest import UNREADABLE
from seamark.store.query.expression import matcher
from seamark.store.read.curve import read_curve
from seamark.store.read.inherited import Line, Sources
from seamark.store.read.series import read_floats
from seamark.store.runs import RUNS_AT_ONCE, Place, Store, StoredRun, load_many, places_of

_MAX_SERIES_POINTS: Final = 4096
_MAX_POINTS: Final = 1 << 20
"""Maximum number of cached points, 32 bytes each; a series counts as at least eight points."""
_cells: Final = schema.attribute.c
_shown_floats: Final = (
    among(_cells.path, name="paths"),
    among(_cells.run, name="runs"),
    _cells.visible == 1,
    _cells.family == FAMILY_NUMBERS["float_series"],
)
_SELECT_SERIES: Final = sa.select(_cells.run, _cells.path).where(*_shown_floats)
_series: Final = schema.series.c
_chunk: Final = schema.chunk.c
_SELECT_LENGTHS: Final = (
    sa.select(_cells.run, _cells.path, _series.count)
    .join(
        schema.series,
        sa.and_(
            _series.run == _cells.run,
            _series.path == _cells.path,
            _series.family == _cells.family,
        ),
    )
    .where(*_shown_floats)
)
_SELECT_PACKED: Final = (
    sa.select(_chunk.run, _chunk.path, sa.func.sum(_chunk.count))
    .where(among(_chunk.path, name="paths"), among(_chunk.run, name="runs"))
    .group_by(_chunk.run, _chunk.path)
)


class SeriesCache:
    """Cache of short series; the version of a run invalidates its entries."""

    def __init__(self) -> None:
        self._cached: OrderedDict[tuple[int, int | str, str], tuple[int, Points]] = OrderedDict()
        self._points = 0

    def get(self, run: int, version: int, attempt: int | str, path: str) -> Points | None:
        """Return a copy of a cached series, or None."""
        found = self._cached.get((run, attempt, path))
        if found is None or found[0] != version:
            return None
        return _copy(found[1])

    def put(self, run: int, version: int, attempt: int | str, path: str, points: Points) -> None:
        """Cache a copy of a short series, because the caller may change the original."""
        if len(points) > _MAX_SERIES_POINTS:
            return
        key = (run, attempt, path)
        before = self._cached.pop(key, None)
        self._points += len(points) - (len(before[1]) if before else 0)
        self._cached[key] = (version, _copy(points))
        while self._points > _MAX_POINTS or len(self._cached) > _MAX_POINTS // 8:
            _, (_, oldest) = self._cached.popitem(last=False)
            self._points -= len(oldest)


def _copy(points: Points) -> Points:
    return Points(
        points.step.copy(), points.value.copy(), points.time_ns.copy(), points.attempt.copy()
    )


def read_many(
    store: Store,
    connection: sa.Connection,
    refs: Sequence[tuple[str, str]],
    patterns: Sequence[str],
    attempt: int | str,
    sources: Callable[[str, str], Sources],
    progress: Callable[[int, int], None] | None = None,
    points: int | None = None,
    recent: SeriesCache | None = None,
) -> list[tuple[str, str, str, Points | Curve]]:
    """Return (project, run id, path, points or curve) of the matching series, grouped by run.

    ``attempt`` is a result of `seamark.reading.points.check_attempt`. ``sources`` returns a
    function that opens the journals of a run. ``progress`` gets the number of runs read and the
    total. With ``points``, curves with at most this number of points are read.
    """
    reading = _SeriesReader(store, connection, attempt, sources, points, recent or SeriesCache())
    known = _matching_paths(store, connection, patterns)
    parts: list[tuple[str, str, str, Points | Curve]] = []
    for start in range(0, len(refs), RUNS_AT_ONCE):
        some = refs[start : start + RUNS_AT_ONCE]
        found = reading.series(some, known)
        for done, ref in enumerate(some, start):
            if progress is not None:
                progress(done, len(refs))
            series = found(ref)
            parts += [(*ref, path, one) for path, one in series.items() if len(one)]
    if progress is not None and refs:
        progress(len(refs), len(refs))
    return parts


def series_of(
    store: Store,
    connection: sa.Connection,
    refs: Sequence[Ref],
    is_meant: Callable[[str], bool],
) -> dict[Ref, set[str]]:
    """Return the float series of runs that ``is_meant`` accepts, without reading points."""
    everything = store.numbers.everything(connection)
    known = {number: path for path, number in everything.items() if is_meant(path)}
    found: dict[Ref, set[str]] = {}
    for start in range(0, len(refs), RUNS_AT_ONCE):
        places = places_of(store, connection, refs[start : start + RUNS_AT_ONCE])
        there = {one.number: ref for ref, one in places.items()}
        for ref, line in _lines(store, connection, places).items():
            found.setdefault(ref, set()).update(filter(is_meant, _floats_of(line)))
        for run, path in _rows(store, connection, _SELECT_SERIES, there, known):
            found.setdefault(there[run], set()).add(known[path])
    return found


def lengths_of(
    store: Store, connection: sa.Connection, refs: Sequence[Ref], patterns: Sequence[str]
) -> dict[Ref, dict[str, int]]:
    """Return the number of points that `read_many` would read of each series.

    Accepts at most `RUNS_AT_ONCE` runs. No points are read. Packed points of other attempts are
    counted, because they are unpacked, too.
    """
    places = places_of(store, connection, refs)
    known = _matching_paths(store, connection, patterns)
    there = {one.number: ref for ref, one in places.items()}
    found = dict[Ref, dict[str, int]]((ref, {}) for ref in refs)
    found |= _lengths(store, connection, there, known)
    for ref, line in _lines(store, connection, places).items():
        inherited_paths, own = _floats_of(line), found[ref]
        above = {int(run.number or 0): (run.project, run.name) for run, _ in line.ancestors}
        for lengths in _lengths(store, connection, above, known).values():
            own |= {
                path: own.get(path, 0) + lengths[path]
                for path in lengths
                if path in inherited_paths
            }
        found[ref] = {path: own[path] for path in known.values() if path in own}
    return found


def _lengths(
    store: Store, connection: sa.Connection, there: Mapping[int, Ref], known: Mapping[int, str]
) -> dict[Ref, dict[str, int]]:
    rows = _rows(store, connection, _SELECT_LENGTHS, there, known)
    counts = {(run, path): int(count or 0) for run, path, count in rows}
    for run, path, packed in _rows(store, connection, _SELECT_PACKED, there, known):
        if (run, path) in counts:
            counts[run, path] = max(counts[run, path], int(packed))
    return {
        ref: {
            path: counts[run, number] for number, path in known.items() if (run, number) in counts
        }
        for run, ref in there.items()
    }


def _rows(
    store: Store,
    connection: sa.Connection,
    statement: Any,
    runs: Collection[int],
    paths: Collection[int],
) -> list[tuple[Any, ...]]:
    return store.database.rows(connection, statement, runs=list(runs), paths=list(paths))


def _lines(store: Store, connection: sa.Connection, places: Mapping[Ref, Place]) -> dict[Ref, Line]:
    forks = load_many(store, connection, [ref for ref, one in places.items() if one.fork])
    found = {}
    for ref, run in forks.items():
        found[ref] = Line(store, connection, run, lambda *_: _refuse_to_open)
    return found


def _refuse_to_open(name: str) -> Source:
    raise FileNotFoundError(name)


def _floats_of(line: Line) -> set[str]:
    return {path for path, family in line.families().items() if family == "float_series"}


class _SeriesReader:
    def __init__(
        self,
        store: Store,
        connection: sa.Connection,
        attempt: int | str,
        sources: Callable[[str, str], Sources],
        points: int | None,
        recent: SeriesCache,
    ) -> None:
        self.store = store
        self.connection = connection
        self.attempt = attempt
        self.sources = sources
        self.points = points
        self.recent = recent

    def series(
        self, refs: Sequence[Ref], known: Mapping[int, str]
    ) -> Callable[[Ref], Mapping[str, Points | Curve]]:
        store, connection = self.store, self.connection
        places = places_of(store, connection, refs)
        numbers = [number for number, *_ in places.values()]
        shown = _visible_series(store, connection, numbers, known)
        kept: dict[Ref, dict[str, Points]] = {}
        if self.points is None:
            for ref, (number, version, fork) in places.items():
                if fork is not None:
                    continue
                there = shown.get(number, [])
                found = {p: self.recent.get(number, version, self.attempt, p) for p in there}
                if None not in found.values():
                    kept[ref] = found  # type: ignore[assignment]  # none is None
        runs = load_many(store, connection, [ref for ref in places if ref not in kept])

        def read(ref: Ref) -> Mapping[str, Points | Curve]:
            if ref in kept:
                return kept[ref]
            run = runs.get(ref)
            if run is None or run.number is None:
                return {}
            paths = shown.get(run.number, [])
            if run.state.fork is not None:
                series = {*paths, *_floats_of(Line(store, connection, run, self.sources))}
                paths = [path for path in known.values() if path in series]
            return self._read(run, paths)

        return read

    def _read(self, run: StoredRun, paths: Sequence[str]) -> Mapping[str, Points | Curve]:
        if not paths:
            return {}
        store, connection, attempt = self.store, self.connection, self.attempt
        line = Line(store, connection, run, self.sources)
        shares = line.shares(paths, "float_series", attempt)
        if self.points is not None:
            return {
                path: read_curve(store, connection, shares, path, self.points) for path in paths
            }
        found = read_floats(store, connection, shares, paths)
        if line.ancestors:
            return found  # ancestors may change although this run does not
        if any(one.stopped == UNREADABLE for one in run.state.journals.values()):
            return found  # missing points may be readable next time
        for path, points in found.items():
            self.recent.put(run.number or 0, run.version, attempt, path, points)
        return found


def _matching_paths(
    store: Store, connection: sa.Connection, patterns: Sequence[str]
) -> dict[int, str]:
    found: dict[int, str] = {}
    everything: dict[str, int] | None = None
    for pattern in patterns:
        if "*" in pattern or "?" in pattern or "[" in pattern:
            everything = everything or store.numbers.everything(connection)
            matches = sorted(filter(matcher(pattern), everything))
            found |= {everything[path]: path for path in matches if everything[path] not in found}
        number = store.numbers.number(connection, pattern)
        if number is not None:
            found.setdefault(number, pattern)
    return found


def _visible_series(
    store: Store, connection: sa.Connection, runs: Collection[int], known: Mapping[int, str]
) -> dict[int, list[str]]:
    held = set(_rows(store, connection, _SELECT_SERIES, runs, known))
    return {run: [path for number, path in known.items() if (run, number) in held] for run in runs}
