"""The local index of one root: a cache of what its journals say, to use and to throw away.

It lies outside the root (`seamark.index.place`). A reader folds what is new; two processes
that do so at once share the work, because each saves a run only if nobody else did meanwhile.
Whatever goes wrong with the file, it is made again.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import sqlalchemy as sa

from seamark.errors import RunNotFoundError
from seamark.index import looks, place
from seamark.index.lock import exclusive
from seamark.index.looks import Known, Looks, Ref
from seamark.journal.folder import PROJECT_LOG, RunFolder, is_run_id, iter_runs, purged_ids
from seamark.journal.root import root_inside
from seamark.paths import MODELS, home_of, is_inside, kind_of, projects_above
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly
from seamark.reading.catalog import Columns, RunField, Unknown, Wanted, refuse
from seamark.reading.curves import Look, RunCurve, check_points
from seamark.reading.drawn import Key, curves_of_runs
from seamark.reading.groups import RunGroups, group_table
from seamark.reading.points import Attempt, check_attempt
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable
from seamark.store import schema
from seamark.store.damage import DamageError
from seamark.store.database import Database, memory_engine
from seamark.store.path_numbers import PathNumbers
from seamark.store.query.choosing import choose, count_runs
from seamark.store.query.crash_reasons import reasons_of
from seamark.store.query.known import KnownPaths
from seamark.store.query.selection import Selection
from seamark.store.query.snapshots import Snapshots
from seamark.store.read.names import run_names
from seamark.store.read.tables import query_runs
from seamark.store.runs import (
    Conflict,
    Store,
    forget_run,
    load_journals,
    load_losses,
    numbers_of,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.index.refresh import Refresh
    from seamark.index.view import RunView
    from seamark.reading.changes import Changes
    from seamark.reading.names import RunName
    from seamark.store.read.many import Recent
    from seamark.store.read.series import Sources

__all__ = ["Index", "Unread", "is_damaged"]

_chance: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_LOCK_S: Final = 10.0
"""How long to wait for the lock under which the file is made again, seconds."""
_BUSY_MS: Final = 1000
"""How long one run that is asked for waits until others have written, milliseconds."""
_TRIES: Final = 5
_SHARED: Final = 16
"""From this many runs on, processes that fold at once take them in different orders."""
_BATCH: Final = 64
"""How many runs are saved together: most of what a database does for one it does for all."""
_FACTS: Final = sa.select(schema.meta.c.key, schema.meta.c.value)
_TOLD: Final = 3
"""So many folders are named in a warning."""
_LONG: Final = 300
_RUNS: Final = sa.select(schema.run.c.project, schema.run.c.name).where(
    schema.run.c.kind == sa.bindparam("kind")
)
_DIR_FD: Final = os.stat in os.supports_dir_fd

log = logging.getLogger("seamark")
T = TypeVar("T")
_inherited: list[Any] = []
"""Connections of the parent process, kept from being closed here."""


class Unread(NamedTuple):
    """A folder that cannot be looked into.

    Attributes:
        path: Of a project, a run, or the root.
        why: In the words of the system.
    """

    path: str
    why: str


class Index:
    """Local index of the journals below one root; see `open`.

    Safe to use from several threads; after a fork the child opens the file again.

    Attributes:
        root: Absolute root folder.
        file: Path of the index; None if it is held in memory.
    """

    def __init__(self, root: Path, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - resolve() would follow links
        self.file: Path | None = None
        self.now_ns = now_ns
        self.lock = threading.RLock()
        self._store: Store | None = None
        self._looks = Looks()
        self._aside: dict[Ref, Store] = {}
        self._recent: Recent | None = None
        self._snapshots = Snapshots()
        self._looked_ns = 0
        self._unread: dict[str, str] = {}
        self._was_unread = False
        self._pid = 0
        fork.register(self.after_fork)

    def after_fork(self) -> None:
        """Take a new lock in a forked child.

        Another thread may have been reading: nobody is left there to let go of the old one.
        """
        self.lock = threading.RLock()

    @property
    def where(self) -> str:
        """The root."""
        return str(self.root)

    def place_meant(self) -> str | None:
        """Return the root that lies in this folder, in words; None if there is none."""
        inside = root_inside(self.root)
        return None if inside is None else f"the root {inside}"

    @classmethod
    def open(cls, root: Path, *, now_ns: Callable[[], int] = time.time_ns) -> Index:
        """Open the index of a root, built again if it is missing, damaged or of another version.

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
    def store(self) -> Store:
        """The store; not inherited by a forked child, which gets its own."""
        if self._store is None or self._pid != os.getpid():
            self._connect()
        assert self._store is not None  # noqa: S101 - made in the line above
        return self._store

    def _connect(self) -> None:
        if self._pid not in (0, os.getpid()):
            # SQLite connections must not cross a fork, nor be closed behind it
            _inherited.append(self._store)
            self._store = None
        self._pid = os.getpid()
        self._aside.clear()
        target = place.index_path(self.root)
        try:
            opened = self._is_inside_root(target) or self._open_file(target)
        except (OSError, sqlite3.Error, sa.exc.DBAPIError) as error:
            log.debug(
                "seamark: the index %s cannot be used, using one in memory: %s", target, error
            )
            opened = False
        if self._store is None or not opened:
            self._hold_in_memory()

    def _hold_in_memory(self) -> None:
        self._disconnect()
        self._use(_store_in_memory(), None)

    def _is_inside_root(self, target: Path) -> bool:
        return os.path.realpath(target).startswith(os.path.realpath(self.root) + os.sep)

    def _open_file(self, target: Path) -> bool:
        if self._try_open(target):
            return True
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive(target, _LOCK_S) as mine:
            if not mine:
                return False
            if self._try_open(target):  # somebody else made it in the meantime
                return True
            self._disconnect()
            place.remove_file(target)
            place.make_file(target)
            self._use(_store_on(place.file_engine(target)), target)
            self._create_tables()
            place.keep_private(target)
            place.remove_old_files(target)
        return True

    def _try_open(self, target: Path) -> bool:
        """Open the file; True if it is an index of this root and version."""
        self._disconnect()
        if not target.exists():
            return False
        if not (os.access(target, os.W_OK) and os.access(target.parent, os.W_OK)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        place.keep_private(target)
        try:
            self._use(_store_on(place.file_engine(target)), target)
            with self.store.database.reading() as connection:
                facts = dict(self.store.database.rows(connection, _FACTS))
        except (sqlite3.Error, sa.exc.DBAPIError) as error:
            self._disconnect()
            if is_damaged(error):
                return False
            raise
        return facts.get("schema") == schema.SCHEMA_VERSION and facts.get("root") == str(self.root)

    def _use(self, store: Store, file: Path | None) -> None:
        self._store = store
        self._looks = Looks()
        self._recent = None  # runs have other numbers now
        self.file = file

    def _disconnect(self) -> None:
        if self._pid == os.getpid():
            for ref in list(self._aside):
                self._drop_aside(ref)
            if self._store is not None:
                self._store.database.engine.dispose()
        self._store = None

    def _drop_aside(self, ref: Ref) -> None:
        if (store := self._aside.pop(ref, None)) is not None:
            store.database.engine.dispose()

    def _create_tables(self) -> None:
        database = self.store.database
        database.create_tables(schema.metadata, looks.metadata)
        with database.writing() as connection:
            for key, value in (("schema", schema.SCHEMA_VERSION), ("root", str(self.root))):
                connection.execute(sa.insert(schema.meta).values(key=key, value=value))

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        with self.lock:
            self._disconnect()

    def __del__(self) -> None:
        """Close the file of an index that nobody closed."""
        with contextlib.suppress(Exception):
            if self._pid != os.getpid():
                _inherited.append(self._store)
                self._store = None
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
                    place.remove_file(file)
        self._connect()

    def healing(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; make the file again if it turns out to be unusable."""
        try:
            return work()
        except (sa.exc.DatabaseError, sqlite3.DatabaseError, DamageError) as error:
            if isinstance(error, DamageError) or is_damaged(error):
                log.debug("seamark: the index %s is damaged, rebuilding it: %s", self.file, error)
                self._replace()
            elif self.file is not None and _unwritable(error):
                log.warning(
                    "seamark: the index %s cannot be written, using one in memory: %s",
                    self.file,
                    error,
                )
                self._hold_in_memory()
            else:
                raise
            self._refresh_many(None, None)
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

        What any process of this machine recorded before the call is seen after it.

        Args:
            project: Only this project and its sub-projects; None for all.
            run: Only this run of the project (``".project"``: the project's own log).
            progress: Called with the number of runs done and the number of runs to fold.
        """
        with self.lock:
            begun_ns = self.now_ns()
            before = self._forget_unread(project, run)
            if run is not None and project is not None:
                self.healing(lambda: self._refresh_run(project, run))
            else:
                self.healing(lambda: self._refresh_many(project, progress))
                projects = _projects(self._looks.runs, project)
                above = sorted(
                    {each for one in projects for each in projects_above(one, "")}
                    | set(self._walked(project))
                )
                self.healing(lambda: self._refresh_logs(above))
                self._looked_ns = begun_ns
            self._tell_unread(before)

    # ------------------------------------------------------------------ what cannot be read

    def unread(self) -> list[Unread]:
        """Return what could not be looked into when it was refreshed last, sorted.

        New runs in there are not known, others are as they were when they could be read.
        """
        with self.lock:
            return self._unread_now()

    def _unread_now(self) -> list[Unread]:
        """Return what cannot be looked into, without what lies in another such folder."""
        found = self._unread
        return [
            Unread(path, why)
            for path, why in sorted(found.items())
            if not any(above in found for above in _folders_above(path, str(self.root)))
        ]

    def _forget_unread(self, project: str | None, run: str | None) -> set[str]:
        """Return what was known to be unreadable, and forget it where it is looked at again."""
        before = set(self._unread)
        self._was_unread = bool(before)
        place = "/".join(filter(None, (str(self.root), project, run)))
        for path in before:
            if path == place or path.startswith(f"{place}/"):
                del self._unread[path]
        return before

    def _note_unread(self, path: str | Path, error: OSError) -> None:
        let_pass(error)
        self._unread[str(path)] = error.strerror or str(error)

    def _tell_unread(self, before: Container[str]) -> None:
        """Say what cannot be looked into, once as long as it is the same."""
        found = self._unread_now()
        if all(one.path in before for one in found):
            return
        told = ", ".join(f"{_shortened(one.path)} ({one.why})" for one in found[:_TOLD])
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        denied = os.strerror(errno.EACCES) in {one.why for one in found}
        log.warning(
            "seamark: %s cannot be read, so that new runs in there are missing and others are as "
            "they were: %s%s (%ssee: seamark fsck)",
            "one folder" if len(found) == 1 else f"{len(found)} folders",
            told,
            more,
            "give yourself the right to: chmod -R u+rX; " if denied else "",
        )

    def _walked(self, project: str | None) -> Iterator[str]:
        """Yield the projects whose folders were listed, also those without a run."""
        for folder in self._looks.folders.get(project, ()):
            path = os.path.relpath(folder, self.root)
            path = path.replace(os.sep, "/")
            if path != os.curdir and home_of(path) == path:
                yield path

    def _refresh_run(self, project: str, run: str) -> None:
        """Fold one run, and what the projects say of themselves from which it inherits."""
        logs = [(above, PROJECT_LOG) for above in projects_above(project, run)]
        database = self.store.database
        with database.reading() as connection:
            refs = ((project, run), *logs)
            known = {ref: Looks.one(database, connection, ref) for ref in refs}
        for ref in refs:
            if ref not in logs or known[ref] is not None or self._is_folder(ref):
                self._refresh_one(ref, known[ref])

    def _refresh_logs(self, projects: Iterable[str]) -> None:
        """Fold what projects say of themselves: what is in them and below inherits from it."""
        for project in projects:
            ref = (project, PROJECT_LOG)
            if self._is_folder(ref) or ref in self._looks.runs:
                self._refresh_one(ref, self._known(ref))

    def _is_folder(self, ref: Ref) -> bool:
        """Return whether there are journals of a run or a project's own log."""
        try:
            found = os.stat(looks.journal_folder(self.root, ref))  # noqa: PTH116 - quick
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:  # no path leads there, so that nobody made it
                self._note_unread(RunFolder(self.root, *ref).path, error)
            return False
        return stat.S_ISDIR(found.st_mode)

    def _refresh_one(self, ref: Ref, known: Known | None) -> None:
        self._drop_aside(ref)
        change: bool | None = True
        if known is not None:
            known.rests = False  # of one run, every file is looked at
            change = self._look(ref, known)
        if change is False and known is not None:
            self._forget([(ref, known.number)])
        elif change:
            try:
                with self._busy_timeout(_BUSY_MS):
                    self._fold(ref, known)
            except (sqlite3.OperationalError, sa.exc.OperationalError) as error:
                if not _locked(error):
                    raise
                self._fold_aside(ref)

    def _known(self, ref: Ref) -> Known | None:
        with self.store.database.reading() as connection:
            return Looks.one(self.store.database, connection, ref)

    def _look(self, ref: Ref, known: Known) -> bool | None:
        folder = looks.journal_folder(self.root, ref)
        return looks.look_at(known, folder, self.now_ns(), unread=self._unread_of(ref))

    def _unread_of(self, ref: Ref) -> Callable[[OSError], None]:
        """Return what notes that a run cannot be looked into."""
        return lambda error: self._note_unread(RunFolder(self.root, *ref).path, error)

    @contextlib.contextmanager
    def _busy_timeout(self, milliseconds: int) -> Iterator[None]:
        """Wait less long than usual for other processes that write."""
        if self.file is None:
            yield
            return
        self._set_busy_timeout(milliseconds)
        try:
            yield
        finally:
            self._set_busy_timeout(int(place.BUSY_S * 1000))

    def _set_busy_timeout(self, milliseconds: int) -> None:
        with self.store.database.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA busy_timeout={milliseconds}")

    def _fold_aside(self, ref: Ref) -> None:
        """Fold one run in memory: others write to the file all the time."""
        from seamark.index.refresh import Refresh

        store, folder = _store_in_memory(), RunFolder(self.root, *ref)
        try:
            refresh = Refresh(store, folder, None, self.now_ns)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:  # what is known of it stays
            self._note_unread(folder.path, error)
            return
        with store.database.writing() as connection:
            refresh.write(connection)
        self._aside[ref] = store

    def _refresh_many(
        self, project: str | None, progress: Callable[[int, int], None] | None
    ) -> None:
        known = self._sync()
        purged = _Purged(self.root)
        work = self._changed_runs(project, known, purged)
        work += self._new_runs(project, known, purged)
        if len(work) > _SHARED:
            _chance.shuffle(work)  # another process may be at the same
        batch: list[Ref] = []
        for done, ref in enumerate(work):
            if progress is not None:
                progress(done, len(work))
            batch.append(ref)
            if len(batch) == _BATCH or done == len(work) - 1:
                self._fold_batch(batch)
                batch = []
        if progress is not None and work:
            progress(len(work), len(work))

    def _changed_runs(
        self, project: str | None, known: dict[Ref, Known], purged: _Purged
    ) -> list[Ref]:
        """Return the known runs that have something to fold; forget those that are gone."""
        projects = _projects(known, project)
        gone = {ref for ref in purged.of(projects) if ref in known}
        if left := {place for place in projects if purged.holds(place)}:
            gone |= {ref for ref in known if ref[0] in left}
        settled: list[tuple[int, int]] = []
        work: list[Ref] = []
        now_ns = self.now_ns()
        look_up = os.stat  # as below for thousands of runs, no call of ours is for most of them
        with self._root_fd() as root:
            above = f"{self.root}/" if root is None else ""
            for ref, facts in known.items():
                project, name = ref
                if project not in projects or name == PROJECT_LOG:
                    continue
                folder = f"{above}{project}/{name}/journal"
                if facts.rests:
                    try:
                        if look_up(folder, dir_fd=root).st_ctime_ns == facts.listed:
                            continue
                    except OSError as error:
                        let_pass(error)
                listed = facts.listed
                change = looks.look_at(facts, folder, now_ns, root, self._unread_of(ref))
                if facts.listed != listed:
                    settled.append((facts.listed, facts.number))
                if change is False:
                    gone.add(ref)
                elif change:
                    work.append(ref)
        self._forget([(ref, known[ref].number) for ref in gone])
        self._note_listed(settled)
        return [ref for ref in work if ref not in gone]

    def _note_listed(self, settled: list[tuple[int, int]]) -> None:
        """Keep since when folders rest that changed just before they were listed."""
        if settled:
            with self.store.database.writing() as connection:
                looks.save_listed(self.store.database, connection, settled)

    def _sync(self) -> dict[Ref, Known]:
        """Return what is known of all runs, which stays in memory while nobody else writes."""
        database = self.store.database
        with database.reading() as connection:
            self._looks.sync(database, connection, _version(connection))
        return self._looks.runs

    def _version(self) -> int:
        with self.store.database.reading() as connection:
            return _version(connection)

    @contextlib.contextmanager
    def _root_fd(self) -> Iterator[int | None]:
        """Open the root, from which a look at a file is quicker than from the top."""
        if not _DIR_FD:
            yield None
            return
        try:
            fd = os.open(self.root, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError:
            yield None
            return
        try:
            yield fd
        finally:
            os.close(fd)

    def _new_runs(self, project: str | None, known: dict[Ref, Known], purged: _Purged) -> list[Ref]:
        folders = self._looks.folders.get(project)
        # What could not be read is asked for again each time: that it can be need not show.
        if (
            folders
            and not self._was_unread
            and all(_changed_ns(path) == at for path, at in folders.items())
        ):
            return []
        names = {f"{parent}/{name}" for parent, name in known}
        walked: list[str] = []
        found: list[Ref] = []
        begun_ns = self.now_ns()
        for folder in iter_runs(
            self.root, project, names, walked, models=True, unread=self._note_unread
        ):
            ref = (folder.project, folder.run)
            if ref not in known and ref not in purged:
                found.append(ref)
        self._looks.folders[project] = {path: _settled_ns(path, begun_ns) for path in walked}
        return found

    def _fold_batch(self, refs: list[Ref]) -> None:
        """Fold runs unless another process did so since the work began; save them at once."""
        folded: list[tuple[Ref, Refresh]] = []
        alone = self._version() == self._looks.version
        for ref in refs:
            known = self._looks.runs.get(ref) if alone else self._known(ref)
            if not alone and known is not None and self._look(ref, known) is None:
                self._looks.runs[ref] = known
            elif (refresh := self._folded(ref, known)) is not None:
                folded.append((ref, refresh))
        again: list[Ref] = []
        with self.store.database.writing() as connection:
            for ref, refresh in folded:
                try:
                    refresh.write(connection)
                except Conflict:
                    again.append(ref)
        for ref, refresh in folded:
            if ref not in again:
                self._looks.runs[ref] = refresh.now
        for ref in again:
            self._fold(ref, self._known(ref))

    def _fold(self, ref: Ref, known: Known | None) -> None:
        """Fold and save one run.

        Where somebody else is faster, what there was when this began is enough: others may fold
        what is written meanwhile without end.
        """
        wanted: dict[str, int] = {}
        tries = _Tries(lambda: self._folded_bytes(ref))
        while tries.go_on():
            refresh = self._folded(ref, known)
            if refresh is None:
                return
            wanted = wanted or refresh.sizes
            try:
                with self.store.database.writing() as connection:
                    refresh.write(connection)
            except Conflict:
                known = self._known(ref)
                if known is not None and known.covers(wanted):
                    return
            else:
                self._looks.runs[ref] = refresh.now
                return

    def _folded(self, ref: Ref, known: Known | None) -> Refresh | None:
        """Return a run with what is new in its folder; None and a warning if that fails."""
        from seamark.index.refresh import Refresh  # NumPy is for those who fold

        folder = RunFolder(self.root, *ref)
        tries = _Tries(lambda: self._folded_bytes(ref))
        while tries.go_on():
            try:
                return Refresh(self.store, folder, known, self.now_ns)
            except Conflict:  # see above
                known = self._known(ref)
            except (FileNotFoundError, NotADirectoryError):
                return None  # it went away, or never was: the next look says which
            except OSError as error:  # cannot be seen at the moment; what is known stays
                self._note_unread(folder.path, error)
                return None
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                log.exception("seamark: the journals of run %s/%s cannot be read", *ref)
                return None
        return None

    def _folded_bytes(self, ref: Ref) -> int:
        """Return how many bytes of the journals of a run are folded."""
        with self.store.database.reading() as connection:
            known = Looks.one(self.store.database, connection, ref)
            if known is None:
                return 0
            journals = load_journals(self.store, connection, known.number)
            return sum(journal.offset for journal in journals)

    def _forget(self, gone: list[tuple[Ref, int]]) -> None:
        for ref, number in gone:
            self._looks.runs.pop(ref, None)
            with self.store.database.writing() as connection:
                forget_run(self.store, connection, number)
                looks.forget_looks(self.store.database, connection, number)

    def verify(self, project: str, run: str) -> list[str]:
        """Return the journals of a run whose bytes are not those that were folded.

        If there are any, the run is folded again.

        Raises:
            RunNotFoundError: If the index has no such run.
        """
        from seamark.index.copies import open_journal
        from seamark.store.ingest import prefix_crc

        ref, folder, changed = (project, run), RunFolder(self.root, project, run), []
        with self.lock:
            number = self._number(ref)
            for journal in self._ask(lambda asked: load_journals(self.store, asked, number)):
                with quietly(only=OSError):  # told by whoever looks at the file
                    source = open_journal(folder, journal.file)
                    try:
                        if prefix_crc(source, journal.offset) != journal.prefix_crc:
                            changed.append(journal.file)
                    finally:
                        source.close()
            if changed:
                self._forget([(ref, number)])
                self._fold(ref, None)
        return changed

    def _number(self, ref: Ref) -> int:
        known = self.healing(lambda: self._known(ref))
        if known is None:
            where = f"project {ref[0]!r} below {str(self.root)!r}"
            msg = f"run {ref[1]!r} does not exist in {where}"
            path = str(RunFolder(self.root, *ref).path)
            places = (path, *_folders_above(path, str(self.root)))
            if (place := next((one for one in places if one in self._unread), None)) is not None:
                msg = f"run {ref[1]!r} of {where} cannot be read: {place}: {self._unread[place]}"
            raise RunNotFoundError(msg)
        return known.number

    # ------------------------------------------------------------------ reading

    @contextlib.contextmanager
    def moment(self) -> Iterator[None]:
        """Answer everything that is asked in a block from one state of the index, as last folded.

        Other threads wait for its end; nothing can be refreshed in it.
        """
        with self.lock, contextlib.ExitStack() as stack:
            held = self.store
            self.healing(lambda: stack.enter_context(self.store.database.holding()))
            yield
            if held is not self.store:  # it was damaged, and its connection is closed
                with quietly(only=(sqlite3.Error, sa.exc.SQLAlchemyError)):
                    stack.close()

    def runs(self, project: str | None = None, kind: str = "run") -> list[Ref]:
        """Return (project, run id) of every run, or of a project and its sub-projects; sorted."""
        rows = self._ask(lambda asked: self.store.database.rows(asked, _RUNS, kind=kind))
        return sorted((parent, name) for parent, name in rows if _concerns(parent, project))

    def names(self, kind: str = "run") -> list[RunName]:
        """Return every run and what it is called, the newest first, as last folded."""
        return self._ask(lambda connection: run_names(self.store, connection, kind=kind))

    def select(self, selection: Wanted, unknown: Unknown = refuse) -> list[Ref]:
        """Return (project, run id) of the runs that match, in order, as last folded.

        Args:
            selection: Which runs.
            unknown: Called with an error for each path asked for that no run has; raises it by
                itself.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or asks for what cannot be there.
        """

        def answer(connection: sa.Connection) -> list[Ref]:
            own, now = _own(selection), self.now_ns()
            return choose(self.store, connection, own, now, unknown, counted=False).refs

        return self._ask(answer)

    def count(self, selection: Wanted) -> int:
        """Return how many runs match, regardless of ``limit`` and ``offset``, as last folded."""

        def answer(connection: sa.Connection) -> int:
            return count_runs(self.store, connection, _own(selection), self.now_ns())

        return self._ask(answer)

    def table(
        self,
        selection: Wanted,
        columns: Columns = None,
        unknown: Unknown = refuse,
        snapshot: str | None = None,
    ) -> RunsTable:
        """Return the runs that match with the columns that are asked for, as last folded.

        Args:
            selection: Which runs.
            columns: See `seamark.store.read.tables.query_runs`.
            unknown: See `select`.
            snapshot: See `seamark.reading.catalog.Catalog.table`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query or a column breaks the grammar, or asks for what cannot be
                there.
        """
        wanted = columns
        if isinstance(columns, Iterable) and not isinstance(columns, str):
            wanted = list(columns)  # it may be asked for twice

        def answer(connection: sa.Connection) -> RunsTable:
            chosen = _own(selection)
            page = None if snapshot is None else (self._snapshots, snapshot)
            now = self.now_ns()
            return query_runs(
                self.store, connection, chosen, wanted, now, unknown, page, counted=False
            )

        return self._ask(answer).counted_by(partial(self.count, selection))

    def fields(
        self, selection: Wanted, contains: str = "", unknown: Unknown = refuse
    ) -> list[RunField]:
        """Return which paths the runs that match show, sorted, as last folded; see `select`.

        Args:
            selection: Which runs.
            contains: Only paths that have this in them, whatever its case.
            unknown: See `select`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or asks for what cannot be there.
        """
        from seamark.store.read.fields import run_fields

        def answer(connection: sa.Connection) -> list[RunField]:
            own, now = _own(selection), self.now_ns()
            chosen = choose(self.store, connection, own, now, unknown, counted=False)
            return run_fields(self.store, connection, chosen.numbers, contains)

        return self._ask(answer)

    def groups(
        self,
        selection: Wanted,
        by: Sequence[str],
        columns: Sequence[str] = (),
        unknown: Unknown = refuse,
    ) -> RunGroups:
        """Return the runs that match in groups that show the same, as last folded; see `select`.

        Args:
            selection: Which runs; ``limit`` and ``offset`` are of groups.
            by: Columns by which they are grouped; no patterns.
            columns: Columns whose numbers are summed up for each group.
            unknown: See `select`.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query or a column breaks the grammar, or asks for what cannot be
                there.
        """
        own = _own(selection)
        own.check()
        every = replace(own, limit=None, offset=0)
        table = self.table(every, list(dict.fromkeys([*by, *columns])), unknown)
        found = group_table(table, by, columns)
        end = None if own.limit is None else own.offset + own.limit
        return RunGroups(found[own.offset : end], len(found))

    def changes(self, cursor: str = "", project: str | None = None) -> Changes:
        """Return which runs changed since a cursor, as last folded.

        Args:
            cursor: Of an earlier answer; empty to begin.
            project: Only this project and its sub-projects; None for all.
        """
        from seamark.index.changes import changes_since

        def answer() -> Changes:
            return changes_since(self.store, cursor, project, self.now_ns(), self._looked_ns)

        return self.guarded(answer)

    def losses(self, refs: Sequence[Ref]) -> dict[Ref, dict[str, int]]:
        """Return what is missing of runs, only of those of which something is; see `load_losses`.

        Args:
            refs: (project, run id) of the runs.
        """
        return self._of_runs(refs, load_losses)

    def crash_reasons(self, crashed: Sequence[Ref]) -> dict[Ref, str]:
        """Return why runs crashed; see `seamark.process.crashes.CRASH_REASONS`.

        Args:
            crashed: (project, run id) of runs that did.
        """

        def answer(
            store: Store, connection: sa.Connection, numbers: Sequence[int]
        ) -> dict[int, str]:
            return reasons_of(store, connection, numbers, self.now_ns())

        return self._of_runs(crashed, answer)

    def _of_runs(
        self,
        refs: Sequence[Ref],
        question: Callable[[Store, sa.Connection, Sequence[int]], Mapping[int, T]],
    ) -> dict[Ref, T]:
        """Return the answer to a question about runs, which is asked by their numbers."""

        def answer(connection: sa.Connection) -> dict[Ref, T]:
            numbers = numbers_of(self.store, connection, refs)
            found = question(self.store, connection, list(numbers))
            return {numbers[number]: one for number, one in found.items()}

        return self._ask(answer) if refs else {}

    def series(
        self,
        refs: Sequence[Ref],
        patterns: Sequence[str],
        attempt: Attempt = "latest",
        progress: Callable[[int, int], None] | None = None,
        points: int | None = None,
        unknown: Unknown | None = None,
    ) -> SeriesTable | CurveTable:
        """Return the points of the float series that match, of these runs, as last folded.

        Args:
            refs: (project, run id) of the runs.
            patterns: Paths, or patterns with ``*`` and ``?``.
            attempt: See `seamark.store.read.run.RunReader.points`.
            progress: Called with the number of runs read and of all.
            points: Read curves of at most this many representative points; None for all points.
            unknown: Called with an error for each of the patterns that is a series of no run.

        Raises:
            ArgumentError: If ``attempt`` or ``points`` cannot be one.
        """
        from seamark.index.copies import open_journal
        from seamark.store.read.many import Recent, read_many

        chosen = check_attempt(attempt)
        if points is not None:
            check_points(points)

        def sources(project: str, run: str) -> Sources:
            folder = RunFolder(self.root, project, run)
            return lambda name: open_journal(folder, name)

        def answer(connection: sa.Connection) -> SeriesTable | CurveTable:
            if self._recent is None:
                self._recent = Recent()
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
                found = {path for _, path, _ in parts}
                checks = KnownPaths(self.store, connection, unknown)
                for pattern in patterns:
                    if not any(one == pattern or fnmatchcase(one, pattern) for one in found):
                        checks.check_series(pattern)
            return SeriesTable(parts) if points is None else CurveTable(parts)

        return self._ask(answer)

    def curves(
        self,
        refs: Sequence[Ref],
        paths: Sequence[str],
        look: Look | None = None,
        attempt: Attempt = "latest",
        since: Mapping[Key, str] | None = None,
    ) -> list[RunCurve]:
        """Return series of several runs as they are drawn, as last folded.

        Args:
            refs: (project, run id) of the runs; what is not there any more is left out.
            paths: Of the series.
            look: How they are drawn.
            attempt: See `seamark.store.read.run.RunReader.points`.
            since: Cursors of earlier drawings; see `seamark.reading.catalog.Catalog.curves`.

        Raises:
            ArgumentError: If something cannot be drawn so.
        """
        wanted = look or Look()
        wanted.check()
        check_attempt(attempt)
        return curves_of_runs(refs, self.view, paths, wanted, attempt, since)

    def series_of(
        self, refs: Sequence[Ref], is_meant: Callable[[str], bool]
    ) -> dict[Ref, set[str]]:
        """Return which float series runs show, of those that are meant, as last folded.

        Args:
            refs: (project, run id) of the runs.
            is_meant: Tells whether a path is.
        """
        from seamark.store.read.many import series_of

        found = self._ask(lambda connection: series_of(self.store, connection, refs, is_meant))
        for ref in [one for one in refs if one in self._aside]:
            found[ref] = {path for path in self.view(*ref).series_paths() if is_meant(path)}
        return found

    def _ask(self, question: Callable[[sa.Connection], T]) -> T:
        """Return the answer to a question about one snapshot of the store."""

        def ask() -> T:
            with self.store.database.reading() as connection:
                return question(connection)

        with self.lock:
            return self.healing(ask)

    def paths(self) -> list[str]:
        """Return every path that a run has or had, sorted, as last folded."""
        return sorted(self._ask(self.store.numbers.everything))

    def view(self, project: str, run: str) -> RunView:
        """Return one run as it was last refreshed.

        Raises:
            RunNotFoundError: If the index has no such run.
        """
        return self._view(project, run)

    def _view(
        self, project: str, run: str, freshen: Callable[[str], None] | None = None
    ) -> RunView:
        from seamark.index.view import RunView

        with self.lock:
            if (project, run) not in self._aside:
                self._number((project, run))
        ref, folder = (project, run), RunFolder(self.root, project, run)
        return RunView(folder, lambda: self.store_of(ref), self.guarded, self.now_ns, freshen)

    def fresh_view(self, project: str, run: str) -> RunView:
        """Return one run as it is now; see `refresh`.

        Raises:
            RunNotFoundError: If there is no such run.
        """
        if kind_of(project, run) in ("model_version", "artifact"):
            self.refresh(project)  # which number it goes by depends on the others
        self.refresh(project, run)
        return self._view(project, run, lambda parent: self._freshen_line(project, run, parent))

    def _freshen_line(self, project: str, run: str, parent: str) -> None:
        """Fold what is new of the runs that a fork has points from.

        Args:
            project: Project path.
            run: Id of the fork.
            parent: What it names as its parent: a stranger's word, as are those that follow.
        """
        from seamark.store.read.forks import GENERATIONS, parents_meant

        seen = {run}
        for _ in range(GENERATIONS):
            fork = None
            for name in parents_meant(project, parent):
                if name in seen or not is_run_id(name):
                    continue
                self.refresh(project, name)
                with contextlib.suppress(RunNotFoundError):
                    fork = self._view(project, name).fork
                    seen.add(name)
                    break
            if fork is None:
                return
            parent = fork.parent

    def guarded(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns, alone with the index and healing it; see `healing`."""
        with self.lock:
            return self.healing(work)

    def store_of(self, ref: Ref) -> Store:
        """Return where a run is found: in the file, or beside it if that could not be written."""
        return self._aside.get(ref) or self.store


def _own(selection: Wanted) -> Selection:
    """Return a selection as the store has it, which is the only one that there is."""
    assert isinstance(selection, Selection)  # noqa: S101 - see above
    return selection


def _store_on(engine: sa.Engine) -> Store:
    database = Database(engine)
    return Store(database, PathNumbers(database))


def _store_in_memory() -> Store:
    """Return an empty store that is nobody else's."""
    store = _store_on(memory_engine())
    store.database.create_tables(schema.metadata, looks.metadata)
    return store


class _Tries:
    """Counter of the attempts left to fold a run while other processes fold it too.

    Attempts are only counted if no process has made progress: a long journal is saved in many
    parts, and of several processes that fold it each is overtaken repeatedly.

    Args:
        folded: Returns the number of bytes folded by any process.
    """

    def __init__(self, folded: Callable[[], int]) -> None:
        self._folded = folded
        self._furthest: int | None = None
        self._left = _TRIES

    def go_on(self) -> bool:
        """Return whether to make another attempt."""
        if self._furthest is None:
            self._furthest = -1
            return True
        folded = self._folded()
        if folded <= self._furthest:
            self._left -= 1
        self._furthest = max(self._furthest, folded)
        return self._left > 0


class _Purged:
    """The runs below a root that were purged, asked for once a project."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._by_project: dict[str, set[str]] = {}

    def of(self, projects: Iterable[str]) -> Iterator[Ref]:
        """Yield the runs of these projects that were purged."""
        for project in projects:
            for name in self._ids(project):
                yield project, name

    def __contains__(self, ref: Ref) -> bool:
        return ref[1] in self._ids(ref[0]) or self.holds(ref[0])

    def holds(self, project: str) -> bool:
        """Return whether a place is that of versions of a model that was purged."""
        place, _, key = project.rpartition("/")
        return place.endswith(f"/{MODELS}") and key in self._ids(place)

    def _ids(self, project: str) -> set[str]:
        found = self._by_project.get(project)
        if found is None:
            found = self._by_project[project] = purged_ids(self._root, project)
        return found


def _version(connection: sa.Connection) -> int:
    """Return a number that changes when another connection writes to the index."""
    return int(connection.exec_driver_sql("PRAGMA data_version").scalar_one())


def _projects(refs: Iterable[Ref], project: str | None) -> set[str]:
    """Return the projects of runs that a look at a project is about."""
    found = {parent for parent, _ in refs}
    return {parent for parent in found if _concerns(parent, project)}


def _concerns(path: str, project: str | None) -> bool:
    return project is None or is_inside(path, project)


def _shortened(path: str) -> str:
    """Return a path as a person is told it: names of folders are somebody else's."""
    said = "".join(one if one.isprintable() else repr(one)[1:-1] for one in path)
    return said if len(said) <= _LONG else f"{said[: _LONG // 2]}…{said[-_LONG // 2 :]}"


def _folders_above(path: str, root: str) -> Iterator[str]:
    """Yield the folders that a path is in, up to the root."""
    while path != root and (above := os.path.dirname(path)) != path:  # noqa: PTH120 - of strings
        yield above
        path = above


def _changed_ns(folder: str) -> int:
    try:
        return os.stat(folder).st_ctime_ns  # noqa: PTH116 - the walk gives strings
    except OSError:
        return -1


def _settled_ns(folder: str, begun_ns: int) -> int:
    """Return when a folder was last changed; 0 if that was so recently that it may change again."""
    changed = _changed_ns(folder)
    return changed if changed < begun_ns - looks.RACY_NS else 0


def _locked(error: BaseException) -> bool:
    return "locked" in str(error) or "busy" in str(error)


def is_damaged(error: BaseException) -> bool:
    """Return whether an error of SQLite means that the file is no good; other errors may pass."""
    # Not of the words of SQLAlchemy, in which the statement stands and what somebody looked for.
    said = str(getattr(error, "orig", None) or error)
    words = (
        "malformed",
        "not a database",
        "unsupported file format",
        "disk I/O error",
        "no such table",
        "no such column",
    )
    return any(word in said for word in words)


def _unwritable(error: BaseException) -> bool:
    return any(word in str(error) for word in ("is full", "readonly", "unable to open"))
