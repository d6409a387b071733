"""The local index of one root: a cache of what its journals say, to use and to throw away.

It lies outside the root (`seamark.store.schema.index_path`). One process at a time folds what is
new, under a lock that nobody waits for; the others read what is there. Whatever goes wrong with the
file, it is made again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa

from seamark.errors import RunNotFoundError
from seamark.journal.folder import RunFolder, iter_runs, purged_ids
from seamark.store import schema
from seamark.store.glance import Glance
from seamark.store.ingest import I63, TABLES_OF_RUN, RunFolding
from seamark.store.lock import exclusive
from seamark.store.records import Conflict, PathNumbers, load_run
from seamark.store.state import SeriesSummary, SeriesTail
from seamark.store.view import (
    Attribute,
    FilePoint,
    HistogramPoint,
    JournalInfo,
    Points,
    RunView,
    TextPoint,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.store.run_state import RunState

__all__ = [
    "Attribute",
    "FilePoint",
    "HistogramPoint",
    "Index",
    "JournalInfo",
    "Points",
    "RunView",
    "SeriesSummary",
    "SeriesTail",
    "TextPoint",
]

_MOMENT_S: Final = 0.25
"""How long a refresh of many runs waits for another one, seconds: most are over in a moment."""
_LOCK_S: Final = 10.0
"""How long to wait for the right to make the file anew, seconds."""
log = logging.getLogger("seamark")
T = TypeVar("T")
_inherited: list[Any] = []
"""Connections of the parent process, kept from being closed here."""


class Known(NamedTuple):
    """A run as the index has it: number, mtime of its journal folder, what its journals were like.

    Journals are (file, size, mtime, inode, retry).
    """

    number: int
    listed: int
    journals: list[tuple[str, int, int, int, int]]


class Index:
    """What the journals below one root say, folded; see `open`.

    Safe to use from several threads; after a fork the child opens the file anew.

    Attributes:
        root: Absolute root folder.
        file: Where the index lies; None if it is held in memory.
        stale_s: Age in seconds of what is read here if another process held the lock at the last
            `refresh`, else None.
    """

    def __init__(self, root: Path, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links
        self.stale_s: float | None = None
        self.file: Path | None = None
        self.now_ns = now_ns
        self.lock = threading.RLock()
        self.numbers = PathNumbers()
        self._overlay: dict[tuple[str, str], RunState] = {}
        self._glance: Glance | None = None
        self._engine: sa.Engine | None = None
        self._connection: sa.Connection | None = None
        self._pid = 0

    @classmethod
    def open(cls, root: Path, *, now_ns: Callable[[], int] = time.time_ns) -> Index:
        """Open the index of a root, made anew if it is missing, damaged or of another version.

        Folds nothing.

        Args:
            root: Root folder; it need not exist.
            now_ns: Clock, nanoseconds since the Unix epoch.

        Raises:
            ArgumentError: If ``SEAMARK_INDEX`` points into the root.
        """
        index = cls(root, now_ns=now_ns)
        index._connect()
        return index

    # ------------------------------------------------------------------ the file

    @property
    def connection(self) -> sa.Connection:
        """The connection; not inherited by a forked child, which gets its own."""
        if self._connection is None or self._pid != os.getpid():
            self._connect()
        assert self._connection is not None  # noqa: S101 - made in the line above
        return self._connection

    def _connect(self) -> None:
        if self._pid not in (
            0,
            os.getpid(),
        ):  # SQLite connections must not cross a fork, nor be closed behind it
            _inherited.append((self._engine, self._connection))
            self._engine = self._connection = None
            self.lock = threading.RLock()
        self._pid = os.getpid()
        self.numbers.forget()
        self._overlay.clear()
        target = schema.index_path(self.root)
        try:
            opened = self._inside_root(target) or self._open_file(target)
        except (OSError, sqlite3.Error, sa.exc.DBAPIError) as error:
            log.debug(
                "seamark: the index %s cannot be used, it is held in memory: %s", target, error
            )
            opened = True
        if self._connection is None or not opened:
            self.file = None
            self._use(None)
            self._create_tables()

    def _inside_root(self, target: Path) -> bool:
        return os.path.realpath(target).startswith(os.path.realpath(self.root) + os.sep)

    def _open_file(self, target: Path) -> bool:
        if self._try_open(target):
            return True
        target.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(target, _LOCK_S) as mine:
            if not mine:
                return False
            if self._try_open(target):  # somebody else made it in the meantime
                return True
            if self._connection is not None:  # sound, of another version
                self._create_tables()
                with contextlib.suppress(
                    sa.exc.DBAPIError
                ):  # readers of that version may still be there
                    self.connection.exec_driver_sql("VACUUM")
                return True
            for suffix in ("-wal", "-shm", "-journal", ""):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{target}{suffix}")  # noqa: PTH108
            target.touch()
            self._use(target)
            self._create_tables()
        return True

    def _try_open(self, target: Path) -> bool:
        """Open the file; True if it is an index of this root and version.

        It stays open if it is sound and only of another version or root.
        """
        self._disconnect()
        if not target.exists():
            return False
        if not (os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        try:
            self._use(target)
            facts: dict[str, str] = dict(
                self.connection.exec_driver_sql("SELECT key, value FROM meta").fetchall()
            )
        except (sqlite3.Error, sa.exc.DBAPIError) as error:
            if "no such table" in str(error):
                return False
            self._disconnect()
            if _damaged(error):
                return False
            raise
        return facts.get("schema") == schema.SCHEMA_VERSION and facts.get("root") == str(self.root)

    def _use(self, file: Path | None) -> None:
        self._engine = schema.connect(file)
        self._connection = self._engine.connect()
        self._glance = None
        self.file = file

    def _disconnect(self) -> None:
        if self._connection is not None and self._pid == os.getpid():
            self._connection.close()
        if self._engine is not None and self._pid == os.getpid():
            self._engine.dispose()
        self._engine = self._connection = None

    def _create_tables(self) -> None:
        """Empty the file and make the tables, in one transaction."""
        connection = self.connection
        with schema.transaction(connection):
            found = connection.exec_driver_sql(
                "SELECT type, name FROM sqlite_master"
                " WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            )
            for kind, name in found.fetchall():
                quoted = name.replace('"', '""')
                connection.exec_driver_sql(f'DROP {kind} "{quoted}"')
            schema.metadata.create_all(connection, checkfirst=False)
            connection.execute(
                sa.insert(schema.meta),
                [
                    {"key": "schema", "value": schema.SCHEMA_VERSION},
                    {"key": "root", "value": str(self.root)},
                ],
            )
        self.numbers.forget()

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        with self.lock:
            self._disconnect()

    def __del__(self) -> None:
        """Close the file of an index that nobody closed."""
        with contextlib.suppress(Exception):
            if self._pid != os.getpid():
                _inherited.append((self._engine, self._connection))
            self._disconnect()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def rebuild(self, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Throw everything away and fold all journals again.

        Args:
            progress: See `refresh`.
        """
        with self.lock:
            self._replace()
            self.refresh(progress=progress)

    def _replace(self) -> None:
        file = self.file
        self._disconnect()
        if file is not None:
            with exclusive(file, _LOCK_S) as mine:
                if mine:
                    for suffix in ("-wal", "-shm", "-journal", ""):
                        with contextlib.suppress(OSError):
                            os.unlink(f"{file}{suffix}")  # noqa: PTH108
        self._connect()

    def healing(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; make the file again if it turns out to be unusable."""
        try:
            return work()
        except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
            if _damaged(error):
                log.debug("seamark: the index %s is damaged and made again: %s", self.file, error)
                self._replace()
            elif self.file is not None and _unwritable(error):
                log.warning(
                    "seamark: the index %s cannot be written, it is held in memory: %s",
                    self.file,
                    error,
                )
                self._disconnect()
                self._use(None)
                self._create_tables()
            else:
                raise
            self._refresh(None, None, None)
            return work()

    # ------------------------------------------------------------------ folding

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Fold what is new since the last time.

        If another process is folding and not done in a moment, this returns and `stale_s` says how
        old the index is; a single run that was asked for is then folded in memory, so that what was
        written before the call is seen in any case.

        Args:
            project: Only this project and its sub-projects; None for all.
            run: Only this run of the project (``".project"``: the project's own log).
            progress: Called with the number of runs done and the number of runs to fold.
        """
        with self.lock:
            self.healing(lambda: self._refresh(project, run, progress))

    def _refresh(
        self, project: str | None, run: str | None, progress: Callable[[int, int], None] | None
    ) -> None:
        self._overlay.clear()
        with (
            exclusive(self.file, _MOMENT_S if run is None else 0.0)
            if self.file
            else contextlib.nullcontext(enter_result=True) as mine
        ):
            self.stale_s = None if mine else self._age_s()
            if run is not None and project is not None:
                self._refresh_one(RunFolder(self.root, project, run), store=mine)
            elif mine:
                self._refresh_many(project, progress)

    def _age_s(self) -> float:
        row = self.connection.exec_driver_sql(
            "SELECT value FROM meta WHERE key = 'folded_at'"
        ).fetchone()
        return (self.now_ns() - int(row[0])) / 1e9 if row else float("inf")

    def _refresh_one(self, folder: RunFolder, *, store: bool) -> None:
        known = self._known(folder.project, folder.run).get((folder.project, folder.run))
        change = self._changed(folder.project, folder.run, known)
        if change is None:
            return
        if not change:
            if known is not None and store:
                self._forget(known.number)
            return
        self._fold_run(folder, known, store=store)

    def _refresh_many(
        self, project: str | None, progress: Callable[[int, int], None] | None
    ) -> None:
        begun_ns, version = time.time_ns(), self._version()
        glance = self._glance if self._glance and self._glance.holds(project, version) else None
        known = glance.known if glance else self._known(project)
        work: list[tuple[RunFolder, Known | None]] = []
        folders: list[str] = []
        forgotten = False
        purged = {
            parent: purged_ids(self.root, parent) for parent in {parent for parent, _ in known}
        }
        self._glance = None
        for (parent, name), facts in (glance.due if glance else known).items():
            change = self._changed(parent, name, facts)
            if change is False or name in purged[parent]:
                forgotten = True
                self._forget(facts.number)
            elif change:
                work.append((RunFolder(self.root, parent, name), facts))
        if glance is None or glance.may_have_new_runs():
            work += [(folder, None) for folder in self._new_runs(project, known, folders)]
        for done, (folder, found) in enumerate(work):
            if progress is not None:
                progress(done, len(work))
            self._fold_run(folder, found, store=True)
        if progress is not None and work:
            progress(len(work), len(work))
        self._note_time(anything=bool(work))
        if not (work or forgotten):
            self._glance = glance or Glance(project, known, folders, version, begun_ns)

    def _version(self) -> int:
        """Return a number that changes when another connection writes to the index."""
        return int(self.connection.exec_driver_sql("PRAGMA data_version").scalar_one())

    def _new_runs(
        self, project: str | None, known: Mapping[tuple[str, str], Known], walked: list[str]
    ) -> list[RunFolder]:
        names = {f"{parent}/{name}" for parent, name in known}
        found = []
        purged: dict[str, set[str]] = {}
        try:
            for folder in iter_runs(self.root, project, names, walked):
                if (folder.project, folder.run) in known:
                    continue
                if folder.project not in purged:
                    purged[folder.project] = purged_ids(self.root, folder.project)
                if folder.run not in purged[folder.project]:
                    found.append(folder)
        except OSError as error:
            log.warning("seamark: %s cannot be listed: %s", self.root, error)
        return found

    def _note_time(self, *, anything: bool) -> None:
        """Remember when the index was up to date; once a second is enough."""
        if anything or self._age_s() > 1:
            now = str(self.now_ns())
            with contextlib.suppress(sa.exc.OperationalError), schema.transaction(self.connection):
                self.connection.exec_driver_sql("DELETE FROM meta WHERE key = 'folded_at'")
                self.connection.exec_driver_sql(
                    "INSERT INTO meta (key, value) VALUES ('folded_at', ?)", (now,)
                )

    def _known(self, project: str | None, run: str | None = None) -> dict[tuple[str, str], Known]:
        where = "name <> '.project'"
        values: tuple[str, ...] = ()
        if run is not None:
            where, values = "project = ? AND name = ?", (str(project), run)
        elif project is not None:  # "0" is the character after "/"
            where, values = (
                f"{where} AND (project = ? OR (project > ? AND project < ?))",
                (project, f"{project}/", f"{project}0"),
            )
        cursor = self.connection.connection.cursor()
        known: dict[tuple[str, str], Known] = {}
        by_number: dict[int, Known] = {}
        of_runs = f"SELECT id, project, name, listed FROM run WHERE {where}"  # noqa: S608 - our words
        for number, parent, name, listed in cursor.execute(of_runs, values):
            known[parent, name] = by_number[number] = Known(number, listed, [])
        inside = f" WHERE run IN (SELECT id FROM run WHERE {where})" if values else ""  # noqa: S608
        of_journals = f"SELECT run, file, size, mtime, inode, retry FROM journal{inside}"  # noqa: S608
        for number, *look in cursor.execute(of_journals, values):
            if number in by_number:
                by_number[number].journals.append(tuple(look))
        return known

    def _changed(self, project: str, name: str, known: Known | None) -> bool | None:
        """Return True if a run has something to fold, None if not, False if its folder is gone.

        Strings and bare ``os.stat``: this is done for every known run each time.
        """
        folder = f"{self.root}/{project}/{name}/journal"
        stat = os.stat
        try:
            listed = stat(folder).st_mtime_ns
            if known is None or listed != known.listed:
                return True
            now = 0
            for file, size, mtime, inode, retry in known.journals:
                found = stat(f"{folder}/{file}")
                if (
                    found.st_size != size
                    or found.st_mtime_ns != mtime
                    or found.st_ino & I63 != inode
                ):
                    return True
                if retry:
                    now = now or self.now_ns()
                    if now > retry:
                        return True
        except (FileNotFoundError, NotADirectoryError):
            return False if known is None or not os.path.isdir(folder) else True  # noqa: PTH112, SIM211
        except OSError:
            return None  # cannot be seen at the moment; what is known stays
        return None

    def _forget(self, number: int) -> None:
        self._glance = None
        connection = self.connection
        with schema.transaction(connection):
            for table in TABLES_OF_RUN:
                connection.exec_driver_sql(f"DELETE FROM {table} WHERE run = ?", (number,))  # noqa: S608
            connection.exec_driver_sql("DELETE FROM run WHERE id = ?", (number,))

    def _fold_run(self, folder: RunFolder, known: Known | None, *, store: bool) -> None:
        self._glance = None
        for _ in range(3):  # a conflict means that somebody else was faster: look again
            try:
                folding = RunFolding(self, folder, known)
                folding.run()
                if not store:
                    self._overlay[folder.project, folder.run] = folding.state
                    return
                folding.save()
            except Conflict:
                known = self._known(folder.project, folder.run).get((folder.project, folder.run))
            except OSError as error:  # cannot be seen at the moment; what is known stays
                log.warning("seamark: %s cannot be read: %s", folder.path, error)
                return
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                log.exception("seamark: run %s/%s cannot be folded", folder.project, folder.run)
                return
            else:
                return

    # ------------------------------------------------------------------ reading

    def runs(self, project: str | None = None) -> list[tuple[str, str]]:
        """Return (project, run id) of every run, or of a project and its sub-projects; sorted."""
        with self.lock:
            return sorted(self.healing(lambda: self._known(project)))

    def near_paths(self, path: str) -> list[str]:
        """Return paths that end like one that no run has, as ``a/val/loss`` for ``val/loss``."""
        known = self.numbers.paths(self.connection)
        if path in known or path.startswith("sys/"):
            return []
        return sorted(one for one in known if one.endswith(f"/{path}"))

    def view(self, project: str, run: str) -> RunView:
        """Return one run as it was last refreshed.

        Raises:
            RunNotFoundError: If the index has no such run.
        """
        with self.lock:
            state = self._overlay.get((project, run))
            number = self.healing(lambda: self.run_number(project, run))
            stored = state is None
            if state is None:
                if number is None:
                    where = f"project {project!r} below {str(self.root)!r}"
                    msg = f"run {run!r} does not exist in {where}"
                    raise RunNotFoundError(msg)
                found = number
                state = self.healing(lambda: load_run(self.connection, self.numbers, found))
            return RunView(self, RunFolder(self.root, project, run), state, number, stored=stored)

    def run_number(self, project: str, run: str) -> int | None:
        """Return the number of a run in the index, or None."""
        row = self.connection.exec_driver_sql(
            "SELECT id FROM run WHERE project = ? AND name = ?", (project, run)
        )
        found = row.fetchone()
        return None if found is None else int(found[0])


def _damaged(error: BaseException) -> bool:
    """Tell whether an error of SQLite means that the file is no good; other errors may pass."""
    words = (
        "malformed",
        "not a database",
        "unsupported file format",
        "disk I/O error",
        "no such table",
        "no such column",
    )
    return any(word in str(error) for word in words)


def _unwritable(error: BaseException) -> bool:
    return any(word in str(error) for word in ("is full", "readonly", "unable to open"))
