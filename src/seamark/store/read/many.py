"""Series of many runs at once: what all of them need of the tables is asked once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.store import schema
from seamark.store.cells import FAMILY_NUMBERS
from seamark.store.read.curve import read_curve
from seamark.store.read.series import Sources, read_floats
from seamark.store.runs import RUNS_AT_ONCE, filled, load_many

if TYPE_CHECKING:
    from seamark.reading.curves import Curve
    from seamark.reading.points import Points
    from seamark.store.runs import Store

__all__ = ["read_many"]

_cells: Final = schema.attribute.c
_SHOWN: Final = sa.select(_cells.run).where(
    _cells.path == sa.bindparam("path"),
    _cells.run.in_([sa.bindparam(f"at{place}") for place in range(RUNS_AT_ONCE)]),
    _cells.visible == 1,
    _cells.family == FAMILY_NUMBERS["float_series"],
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
) -> list[tuple[str, str, Points | Curve]]:
    """Return (run id, path, what was read) of the series that match, in the order of the runs.

    Args:
        store: Which has them.
        connection: Of a transaction of the store.
        refs: (project, run id) of the runs.
        patterns: Paths, or patterns with ``*`` and ``?``.
        attempt: As checked by `seamark.reading.points.check_attempt`.
        sources: Returns what opens the journals of a run.
        progress: Called with the number of runs read and of all.
        points: Read curves of at most so many representative points; None for all points.
    """
    known = _matching(store, connection, patterns)
    parts: list[tuple[str, str, Points | Curve]] = []
    for start in range(0, len(refs), RUNS_AT_ONCE):
        some = refs[start : start + RUNS_AT_ONCE]
        runs = load_many(store, connection, some)
        numbers = [run.number for run in runs.values() if run.number is not None]
        shown = _shown(store, connection, numbers, known)
        for done, ref in enumerate(some, start):
            if progress is not None:
                progress(done, len(refs))
            run = runs.get(ref)
            if run is None or run.number is None:
                continue
            there = shown.get(run.number, set())
            paths = [path for path in known.values() if path in there]
            if not paths:
                continue
            found: Mapping[str, Points | Curve]
            if points is None:
                found = read_floats(store, connection, run, sources(*ref), paths, attempt)
            else:
                found = {
                    path: read_curve(store, connection, run, sources(*ref), path, points, attempt)
                    for path in paths
                }
            parts += [(ref[1], path, found[path]) for path in paths if len(found[path])]
    if progress is not None and refs:
        progress(len(refs), len(refs))
    return parts


def _matching(store: Store, connection: sa.Connection, patterns: Sequence[str]) -> dict[int, str]:
    """Return the paths that match, by number, in the order of the patterns."""
    found: dict[int, str] = {}
    everything: dict[str, int] | None = None
    for pattern in patterns:
        if "*" in pattern or "?" in pattern or "[" in pattern:
            everything = everything or store.numbers.everything(connection)
            matches = [one for one in sorted(everything) if fnmatchcase(one, pattern)]
            found |= {everything[path]: path for path in matches if everything[path] not in found}
        number = store.numbers.number(connection, pattern)
        if number is not None:
            found.setdefault(number, pattern)
    return found


def _shown(
    store: Store, connection: sa.Connection, runs: Collection[int], known: dict[int, str]
) -> dict[int, set[str]]:
    """Return which of the paths show a float series, by number of the run."""
    found: dict[int, set[str]] = {}
    if not runs:
        return found
    asked = filled(runs, RUNS_AT_ONCE)
    for path in known:
        for (run,) in store.database.rows(connection, _SHOWN, path=path, **asked):
            found.setdefault(run, set()).add(known[path])
    return found
