"""Local index of one root: a cache of its journals that can be rebuilt at any time.

The index is outside the root. See `seamark.index.file` for its database, and
`seamark.index.updater` for its updates from the journals.

The query for changed runs compares the versions and states of all runs with the previous ones. It
detects changes by any process, removed runs and crashes, at no extra cost for folding.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from seamark.index.file import NAME_KEY, IndexFile
from seamark.index.statuses import change_table
from seamark.index.updater import Updater
from seamark.journal.folder import RunFolder, root_inside
from seamark.paths import is_inside, kind_of
from seamark.process.interrupts import quietly
from seamark.reading.catalog import (
    ChangedRun,
    Changes,
    Columns,
    RunField,
    Selection,
    Unknown,
    refuse,
)
from seamark.reading.curves import Look, RunCurve, check_points
from seamark.reading.groups import Key, RunGroups, curves_of_runs, group_table
from seamark.reading.points import Attempt, check_attempt
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable
from seamark.store import schema
from seamark.store.database import Upsert
from seamark.store.journals import load_losses
from seamark.store.query.sql import reasons_of
from seamark.store.query.statements import Chosen, choose, count_runs, state_column
from seamark.store.query.validation import KnownPaths
from seamark.store.read.names import recent_paths, run_names
from seamark.store.read.tables import query_runs
from seamark.store.runs import numbers_of

if TYPE_CHECKING:
    from seamark.index.copies import RunView
    from seamark.index.statuses import Ref, Unread
    from seamark.reading.names import RunName
    from seamark.store.read.inherited import Sources
    from seamark.store.read.many_runs import SeriesCache
    from seamark.store.runs import Store


_CURSOR: Final = re.compile(r"([0-9a-f]{16})\.([0-9]{1,15})\.([0-9]{1,19})")
_change, _run = change_table.c, schema.run.c
_is_same_run: Final = sa.and_(_change.project == _run.project, _change.run == _run.name)
_UPSERT_CHANGE: Final = Upsert(
    change_table, tuple(one.name for one in _change), ("project", "run"), overwrite=True
)
_SELECT_REMOVED: Final = (
    sa.select(_change.project, _change.run)
    .select_from(change_table.outerjoin(schema.run, _is_same_run))
    .where(_run.id.is_(None), _change.gone == 0)
)
_SELECT_LAST: Final = sa.select(sa.func.coalesce(sa.func.max(_change.number), 0))
_SELECT_SINCE: Final = (
    sa.select(_change.project, _change.run, _change.state, _change.gone)
    .where(_change.number > sa.bindparam("since"))
    .order_by(_change.number, _change.project, _change.run)
)
_SELECT_NAME: Final = sa.select(schema.meta.c.value).where(schema.meta.c.key == NAME_KEY)


def changes_since(
    store: Store, cursor: str, project: str | None, now_ns: int, looked_ns: int
) -> Changes:
    """Return the changes of folded runs since a cursor, empty at first; times are in ns."""
    database = store.database
    with database.reading() as connection:
        name = database.query(connection, _SELECT_NAME)[0][0]
        new = _find_changes(store, connection, now_ns)
    if new:  # in one transaction, because other processes may do the same
        with database.writing() as connection:
            new = _find_changes(store, connection, now_ns)
            number = int(database.query(connection, _SELECT_LAST)[0][0]) + 1
            database.run_many(connection, _UPSERT_CHANGE, [(*one, number) for one in new])
    given = _CURSOR.fullmatch(cursor)
    with database.reading() as connection:
        number = int(database.query(connection, _SELECT_LAST)[0][0])
        upto = f"{name}.{number}.{now_ns}"
        if given is None or given[1] != name or int(given[2]) > number:
            return Changes(upto, reset=True, runs=[], looked_ns=looked_ns)
        rows = database.rows(connection, _SELECT_SINCE, since=int(given[2]))
        rows = [row for row in rows if project is None or is_inside(row[0], project)]
        there = [(parent, run) for parent, run, _, gone in rows if not gone]
        paths = recent_paths(store, connection, there, min(int(given[3]), now_ns))
    runs = [
        ChangedRun(parent, run, None if gone else state, bool(gone), paths.get((parent, run), []))
        for parent, run, state, gone in rows
    ]
    return Changes(upto, reset=False, runs=runs, looked_ns=looked_ns)


def _find_changes(store: Store, connection: sa.Connection, now_ns: int) -> list[tuple[Any, ...]]:
    state = state_column(store, connection, now_ns)
    changed = (
        sa.select(_run.project, _run.name, _run.version, state, sa.literal(0))
        .select_from(schema.run.outerjoin(change_table, _is_same_run))
        .where(
            sa.or_(
                _change.run.is_(None),
                _change.version != _run.version,
                _change.state != state,
                _change.gone == 1,
            )
        )
    )
    found = [tuple(row) for row in store.database.query(connection, changed)]
    gone = store.database.query(connection, _SELECT_REMOVED)
    return [*found, *((project, run, 0, "", 1) for project, run in gone)]


_SELECT_RUNS: Final = sa.select(schema.run.c.project, schema.run.c.name).where(
    schema.run.c.kind == sa.bindparam("kind")
)
T = TypeVar("T")


class Index(contextlib.AbstractContextManager["Index"]):
    """Local index of the journals below one root, safe for threads; see `open`.

    After a fork, the child opens the file again. Reading methods return the last folded state; see
    `seamark.reading.catalog.Catalog`.
    """

    def __init__(self, root: Path, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links
        self.now_ns = now_ns
        self._file = IndexFile(self.root)
        self._updater = Updater(self._file, now_ns)
        self._recent: SeriesCache | None = None
        self._last_view: RunView | None = None

    @property
    def where(self) -> str:
        """Path of the root."""
        return str(self.root)

    def nearby_root(self) -> str | None:
        """Return a description of a root inside this folder; None if there is none."""
        inside = root_inside(self.root)
        return None if inside is None else f"the root {inside}"

    @classmethod
    def open(cls, root: Path, *, now_ns: Callable[[], int] = time.time_ns) -> Index:
        """Open the index of a root without folding; the root need not exist.

        The file is recreated if it is missing, damaged or of another version. Raises
        `ArgumentError` if ``SEAMARK_INDEX`` is inside the root.
        """
        index = cls(root, now_ns=now_ns)
        index._file.open()
        return index

    # ------------------------------------------------------------------ the file

    @property
    def file(self) -> Path | None:
        """Path of the index; None if it is held in memory."""
        return self._file.path

    @property
    def store(self) -> Store:
        """Store with the runs."""
        return self._file.store

    def close(self) -> None:
        """Close the file; safe to call twice."""
        with self._updater.lock:
            self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ folding

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Fold all records that this machine wrote before the call; see `Catalog.refresh`."""
        with self._updater.lock:
            self._updater.refresh(project, run, progress)

    def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Empty the index and fold all journals again."""
        with self._updater.lock:
            self._file.replace()
            self._updater.refresh(progress=progress)

    def verify(self, project: str, run: str) -> list[str]:
        """Return the journals whose folded bytes changed; if any, fold the run again."""
        with self._updater.lock:
            return self._updater.verify(project, run)

    def unread(self) -> list[Unread]:
        """Return the folders that could not be read at the last refresh, sorted.

        New runs in them are missing, and known runs are as of the last successful read.
        """
        with self._updater.lock:
            return self._updater.unread.now()

    # ------------------------------------------------------------------ reading

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """Run a block that reads one snapshot of the index; other threads wait until it ends."""
        with self._updater.lock, contextlib.ExitStack() as stack:
            held = self.store
            self._updater.with_recovery(lambda: stack.enter_context(self.store.database.holding()))
            try:
                yield
            finally:
                if held is not self.store:  # replaced: the held one was damaged and closed
                    with quietly(only=(sqlite3.Error, sa.exc.SQLAlchemyError)):
                        stack.close()

    def runs(self, project: str | None = None, kind: str = "run") -> list[Ref]:
        """Return all runs of a project and its sub-projects, or of all projects, sorted."""
        rows = self._read(lambda asked: self.store.database.rows(asked, _SELECT_RUNS, kind=kind))
        return sorted(
            (parent, name) for parent, name in rows if project is None or is_inside(parent, project)
        )

    def names(self, kind: str = "run") -> list[RunName]:
        """Return the names of all runs, newest first."""
        return self._read(lambda connection: run_names(self.store, connection, kind=kind))

    def select(self, selection: Selection, unknown: Unknown = refuse) -> list[Ref]:
        """Return the matching runs, in order."""
        return self._read(lambda asked: self._choose(asked, selection, unknown).refs)

    def _choose(self, connection: sa.Connection, selection: Selection, unknown: Unknown) -> Chosen:
        return choose(self.store, connection, selection, self.now_ns(), unknown, counted=False)

    def count(self, selection: Selection) -> int:
        """Return the number of matching runs, regardless of ``limit`` and ``offset``."""
        return self._read(lambda asked: count_runs(self.store, asked, selection, self.now_ns()))

    def table(
        self,
        selection: Selection,
        columns: Columns = None,
        unknown: Unknown = refuse,
    ) -> RunsTable:
        """Return a table of the matching runs; see `seamark.store.read.tables.query_runs`."""
        wanted = columns
        if isinstance(columns, Iterable) and not isinstance(columns, str):
            wanted = list(columns)  # a damaged index repeats the query

        def answer(connection: sa.Connection) -> RunsTable:
            now = self.now_ns()
            return query_runs(
                self.store, connection, selection, wanted, now, unknown, counted=False
            )

        table = self._read(answer)
        table.count = partial(self.count, selection)
        return table

    def fields(
        self, selection: Selection, contains: str = "", unknown: Unknown = refuse
    ) -> list[RunField]:
        """Return the paths of the matching runs, sorted."""
        from seamark.store.read.names import run_fields

        def answer(connection: sa.Connection) -> list[RunField]:
            chosen = self._choose(connection, selection, unknown)
            return run_fields(self.store, connection, chosen.numbers, contains)

        return self._read(answer)

    def groups(
        self,
        selection: Selection,
        by: Sequence[str],
        columns: Sequence[str] = (),
        unknown: Unknown = refuse,
    ) -> RunGroups:
        """Return the matching runs, grouped by equal values of the columns ``by``."""
        selection.check()
        every = replace(selection, limit=None, offset=0)
        table = self.table(every, list(dict.fromkeys([*by, *columns])), unknown)
        found = group_table(table, by, columns)
        start, limit = selection.offset, selection.limit
        end = None if limit is None else start + limit
        return RunGroups(found[start:end], len(found))

    def changes(self, cursor: str = "", project: str | None = None) -> Changes:
        """Return the runs that changed since a cursor."""
        updater = self._updater
        return updater.with_recovery(
            lambda: changes_since(self.store, cursor, project, self.now_ns(), updater.looked_ns)
        )

    def losses(self, refs: Sequence[Ref]) -> dict[Ref, dict[str, int]]:
        """Return the counts of lost records by run; see `load_losses`."""
        return self._by_ref(refs, load_losses)

    def crash_reasons(self, crashed: Sequence[Ref]) -> dict[Ref, str]:
        """Return the crash reasons by run; see `seamark.process.liveness.CRASH_REASONS`."""
        return self._by_ref(
            crashed, lambda store, asked, numbers: reasons_of(store, asked, numbers, self.now_ns())
        )

    def _by_ref(
        self,
        refs: Sequence[Ref],
        question: Callable[[Store, sa.Connection, Sequence[int]], Mapping[int, T]],
    ) -> dict[Ref, T]:
        def answer(connection: sa.Connection) -> dict[Ref, T]:
            numbers = numbers_of(self.store, connection, refs)
            found = question(self.store, connection, list(numbers))
            return {numbers[number]: one for number, one in found.items()}

        return self._read(answer) if refs else {}

    def series(
        self,
        refs: Sequence[Ref],
        patterns: Sequence[str],
        attempt: Attempt = "latest",
        progress: Callable[[int, int], None] | None = None,
        points: int | None = None,
        unknown: Unknown | None = None,
    ) -> SeriesTable | CurveTable:
        """Return the points or curves of matching float series of runs."""
        from seamark.index.copies import open_journal
        from seamark.store.read.many_runs import SeriesCache, read_many

        chosen = check_attempt(attempt)
        if points is not None:
            check_points(points)

        def sources(project: str, run: str) -> Sources:
            return partial(open_journal, RunFolder(self.root, project, run))

        def answer(connection: sa.Connection) -> SeriesTable | CurveTable:
            if self._recent is None:
                self._recent = SeriesCache()
            parts = read_many(
                self.store,
                connection,
                refs,
                patterns,
                chosen,
                sources,
                progress,
                points,
                self._recent,
            )
            if unknown is not None:
                found = {path for _, _, path, _ in parts}
                checks = KnownPaths(self.store, connection, unknown)
                for pattern in patterns:
                    if not any(one == pattern or fnmatchcase(one, pattern) for one in found):
                        checks.check_series(pattern)
            rows = [part[1:] for part in parts]
            return SeriesTable(rows) if points is None else CurveTable(rows)

        return self._read(answer)

    def curves(
        self,
        refs: Sequence[Ref],
        paths: Sequence[str],
        look: Look | None = None,
        attempt: Attempt = "latest",
        since: Mapping[Key, str] | None = None,
    ) -> list[RunCurve]:
        """Return the drawings of series of several runs."""
        wanted = look or Look()
        wanted.check()
        check_attempt(attempt)
        return curves_of_runs(refs, self.view, paths, wanted, attempt, since)

    def series_of(
        self, refs: Sequence[Ref], is_meant: Callable[[str], bool]
    ) -> dict[Ref, set[str]]:
        """Return the float series of runs that ``is_meant`` accepts."""
        from seamark.store.read.many_runs import series_of

        return self._read(lambda connection: series_of(self.store, connection, refs, is_meant))

    def _read(self, question: Callable[[sa.Connection], T]) -> T:
        def ask() -> T:
            with self.store.database.reading() as connection:
                return question(connection)

        return self._updater.with_recovery(ask)

    def paths(self) -> list[str]:
        """Return all paths that runs have or had, sorted."""
        return sorted(self._read(self.store.numbers.everything))

    def view(self, project: str, run: str) -> RunView:
        """Return a view of a run as of the last refresh; raise `RunNotFoundError` if missing."""
        with self._updater.lock:
            self._updater.number_of((project, run))
        return self._view((project, run))

    def fresh_view(self, project: str, run: str) -> RunView:
        """Refresh a run and return its view; raise `RunNotFoundError` if it is missing."""
        ref = project, run
        if kind_of(project, run) in ("model_version", "artifact"):
            self.refresh(project)  # its number depends on the other versions
        with self._updater.lock:
            self._updater.refresh(project, run)
            known = self._file.statuses.runs.get(ref)
            if known is not None and known.parent:
                self._updater.refresh_ancestors(ref, known.parent)
            elif known is None:
                self._updater.number_of(ref)
        return self._view(ref)

    def _view(self, ref: Ref) -> RunView:
        from seamark.index.copies import RunView

        view = self._last_view
        if view is None or (view.project, view.name) != ref:
            folder, file = RunFolder(self.root, *ref), self._file
            view = RunView(folder, lambda: file.store, self._updater.with_recovery, self.now_ns)
            self._last_view = view
        return view
