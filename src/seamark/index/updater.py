"""Updates of a root's index. A process saves a run only if no other process saved it meanwhile."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import sqlalchemy as sa

from seamark.errors import RunNotFoundError
from seamark.index import statuses
from seamark.index.statuses import RACY_NS, UnreadFolders, stat_of
from seamark.journal.folder import RunFolder, is_run_id, iter_runs, purged_ids
from seamark.journal.safe import is_folder
from seamark.paths import MODELS, PROJECT_LOG, home_of, is_inside, projects_above
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly
from seamark.store.database import DamageError
from seamark.store.journals import load_journals
from seamark.store.read.inherited import GENERATIONS, possible_parents
from seamark.store.runs import Conflict, forget_run

if TYPE_CHECKING:
    from seamark.index.copies import Refresh
    from seamark.index.file import IndexFile
    from seamark.index.statuses import KnownRun, Ref, Stat
    from seamark.store.fold.run_state import JournalState
    from seamark.store.runs import Store


_random: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_MAX_TRIES: Final = 100
"""Maximum attempts to fold a run that other processes save meanwhile, possibly in many parts."""
_MIN_SHUFFLED_RUNS: Final = 16
"""Number of runs above which they are folded in random order, for concurrent processes."""
_RUNS_PER_TRANSACTION: Final = 64
"""Number of runs saved in one transaction; its cost hardly depends on this number."""

log = logging.getLogger("seamark")
T = TypeVar("T")


class Updater:
    """Updater that folds new records below a root into its index, and rebuilds a damaged index.

    Attributes:
        lock: Lock held during any use of the index.
        unread: Folders that could not be read.
        looked_ns: Time of the last refresh of the whole root or a project, ns since the Unix epoch.
    """

    def __init__(self, file: IndexFile, now_ns: Callable[[], int]) -> None:
        self._file = file
        self._root = file.root
        self._now_ns = now_ns
        self.lock = threading.RLock()
        self.unread = UnreadFolders(file.root)
        self._was_unread = False
        self.looked_ns = 0
        fork.register(self.after_fork)

    def after_fork(self) -> None:
        """Replace the lock in a forked child, where the thread that may hold it does not exist."""
        self.lock = threading.RLock()

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Fold new records; see `seamark.index.index.Index.refresh`."""
        begun_ns = self._now_ns()
        before = self.unread.forget(project, run)
        self._was_unread = bool(before)
        if run is not None and project is not None:
            own = zip(projects_above(project, run), repeat(PROJECT_LOG), strict=False)
            self.with_recovery(partial(self._refresh_each, [(project, run), *own]))
        else:
            self.with_recovery(partial(self._refresh_many, project, progress))
            looked, above = self._file.statuses, set(self._listed_projects(project))
            for one in _projects_below(looked.runs, project):
                above.update(projects_above(one, ""))
            logs = {(each, PROJECT_LOG) for each in above}
            self.with_recovery(partial(self._refresh_each, sorted(logs)))
            self.looked_ns = begun_ns
        self.unread.warn(before)

    def with_recovery(self, work: Callable[[], T]) -> T:
        """Call ``work`` with the lock; if the index is unusable, rebuild it and repeat the call."""
        with self.lock:
            try:
                return work()
            except (sa.exc.DatabaseError, sqlite3.DatabaseError, DamageError) as error:
                if not self._file.recover(error):
                    raise
                self._refresh_many(None, None)
                return work()

    # ------------------------------------------------------------------ single runs

    def _refresh_each(self, refs: Sequence[Ref]) -> None:
        version, looked = self._file.version(), self._file.statuses
        if possibly_changed := looked.possibly_changed(refs, version):
            self._load_statuses(possibly_changed)
        for ref in refs:
            known = looked.runs.get(ref)
            change = self._check_changes(ref, known)
            if change:
                self._fold(ref, known)
            elif change is False and (known := self.known(ref)) is not None:  # still in the index
                self._forget([(ref, known.number)])

    def _load_statuses(self, refs: Iterable[Ref]) -> None:
        database = self._file.store.database
        with database.reading() as connection:
            for ref in refs:
                self._file.statuses.load(database, connection, ref)

    def known(self, ref: Ref) -> KnownRun | None:
        """Return the current statuses of a run's files; None if it is not in the index."""
        self._load_statuses([ref])
        return self._file.statuses.runs.get(ref)

    def _check_changes(self, ref: Ref, known: KnownRun | None) -> bool | None:
        """Return whether a run has new records: True, None (no), or False (the run is missing).

        The time of the folder's change is stored in ``known`` as soon as it is reliable.
        """
        folder, now_ns, look_up = f"{self._root}/{ref[0]}/{ref[1]}/journal", self._now_ns(), os.stat
        try:
            found = look_up(folder)
            if known is None:
                return True if stat.S_ISDIR(found.st_mode) else None
            listed = found.st_ctime_ns
            if listed != known.listed and (known.listed or known.has_new_files(folder)):
                return True
            for look in known.statuses:
                if stat_of(look_up(f"{folder}/{look.file}")) != look.stat:
                    return True
                if look.retry and now_ns > look.retry:
                    return True
        except (FileNotFoundError, NotADirectoryError):
            return None if known is None else is_folder(folder)
        except OSError as error:  # temporarily unreadable: keep the folded data
            if error.errno != errno.ENAMETOOLONG:  # such a path cannot exist
                self.unread.note(RunFolder(self._root, *ref).path, error)
            return None
        if now_ns - listed > RACY_NS:
            known.listed = listed
        return None

    def refresh_ancestors(self, ref: Ref, parent: str) -> None:
        """Fold the ancestors of a fork; the names of parents are untrusted."""
        project, run = ref
        seen = {run}
        while parent and len(seen) <= GENERATIONS:
            names = [one for one in possible_parents(project, parent) if is_run_id(one)]
            parent = ""
            for name in names:
                if name in seen:
                    continue
                self.refresh(project, name)
                known = self._file.statuses.runs.get((project, name))
                if known is not None:
                    seen.add(name)
                    parent = known.parent
                    break

    # ------------------------------------------------------------------ many runs

    def _refresh_many(
        self, project: str | None, progress: Callable[[int, int], None] | None
    ) -> None:
        version, looked = self._file.version(), self._file.statuses
        database = self._file.store.database
        with database.reading() as connection:
            looked.sync(database, connection, version)
        known = looked.runs
        purged = _Purged(self._root)
        work = self._changed_runs(project, known, purged)
        work += self._new_runs(project, known, purged)
        if len(work) > _MIN_SHUFFLED_RUNS:
            _random.shuffle(work)  # another process may fold the same runs
        batch: list[Ref] = []
        for done, ref in enumerate(work):
            if progress is not None:
                progress(done, len(work))
            batch.append(ref)
            if len(batch) == _RUNS_PER_TRANSACTION or done == len(work) - 1:
                self._fold_batch(batch)
                batch = []
        if progress is not None and work:
            progress(len(work), len(work))

    def _changed_runs(
        self, project: str | None, known: dict[Ref, KnownRun], purged: _Purged
    ) -> list[Ref]:
        """Return the known runs with new records; remove missing runs from the index."""
        projects = _projects_below(known, project)
        vanished = set(purged.among(known, projects))
        settled: list[tuple[int, int]] = []  # folders whose time of change is now reliable
        work: list[Ref] = []
        for ref, facts in known.items():
            if ref[0] not in projects or ref[1] == PROJECT_LOG:
                continue
            listed = facts.listed
            journals = f"{self._root}/{ref[0]}/{ref[1]}/journal"
            if facts.is_settled and _changed_ns(journals) == listed:
                continue
            change = self._check_changes(ref, facts)
            if facts.listed != listed:
                settled.append((facts.listed, facts.number))
            if change is False:
                vanished.add(ref)
            elif change:
                work.append(ref)
        self._forget([(ref, known[ref].number) for ref in vanished])
        if settled:
            with self._file.store.database.writing() as connection:
                statuses.save_listed(self._file.store.database, connection, settled)
        return [ref for ref in work if ref not in vanished]

    def _new_runs(
        self, project: str | None, known: dict[Ref, KnownRun], purged: _Purged
    ) -> list[Ref]:
        folders = self._file.statuses.folders.get(project)
        # Read folders that were unreadable every time: becoming readable may not change their time.
        if (
            folders
            and not self._was_unread
            and all(_changed_ns(path) == at for path, at in folders.items())
        ):
            return []
        names = {f"{parent}/{name}" for parent, name in known}
        walked: list[str] = []
        found: list[Ref] = []
        begun_ns = self._now_ns()
        for folder in iter_runs(
            self._root, project, names, walked, models=True, unread=self.unread.note
        ):
            ref = (folder.project, folder.run)
            if ref not in known and ref not in purged:
                found.append(ref)
        self._file.statuses.folders[project] = {
            path: _stable_mtime_ns(path, begun_ns) for path in walked
        }
        return found

    def _fold_batch(self, refs: list[Ref]) -> None:
        looked, store = self._file.statuses, self._file.store
        folded: list[tuple[Ref, Refresh]] = []
        again: list[Ref] = []
        alone = self._file.version() == looked.version
        for ref in refs:
            known = looked.runs.get(ref) if alone else self.known(ref)
            if not alone and known is not None and self._check_changes(ref, known) is None:
                continue
            try:
                refresh = self._try_fold(store, ref, known)
            except Conflict:
                again.append(ref)
            else:
                if refresh is not None:
                    del refresh.folding  # free memory: only the rows to be written are needed
                    folded.append((ref, refresh))
        with store.database.writing() as connection:
            for ref, refresh in folded:
                try:
                    refresh.write(connection)
                except Conflict:
                    again.append(ref)
        looked.runs |= {ref: refresh.now for ref, refresh in folded if ref not in again}
        for ref in again:
            self._fold(ref, self.known(ref))

    def _fold(self, ref: Ref, known: KnownRun | None) -> None:
        # If other processes are faster, it is enough that they folded the bytes present at the
        # start.
        wanted: dict[str, Stat] = {}
        store = self._file.store
        for _ in range(_MAX_TRIES):
            try:
                refresh = self._try_fold(store, ref, known)
                if refresh is None:
                    return
                wanted = wanted or refresh.stats
                with store.database.writing() as connection:
                    refresh.write(connection)
            except Conflict:
                known = self.known(ref)
                if wanted and known is not None and known.covers(wanted):
                    return
            else:
                self._file.statuses.runs[ref] = refresh.now
                refresh.saved()
                return

    def _try_fold(self, store: Store, ref: Ref, known: KnownRun | None) -> Refresh | None:
        """Return a folded run; None if it cannot be read, which is noted. Raises `Conflict`."""
        from seamark.index.copies import Refresh  # imports NumPy only to fold

        folder = RunFolder(self._root, *ref)
        try:
            return Refresh(store, folder, known, self._now_ns)
        except (FileNotFoundError, NotADirectoryError):
            return None  # removed meanwhile, or never existed
        except OSError as error:  # temporarily unreadable: keep the folded data
            self.unread.note(folder.path, error)
            return None
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            log.exception("seamark: the journals of run %s/%s cannot be read", *ref)
            return None

    def _load_journals(self, ref: Ref) -> list[JournalState]:
        known, store = self.known(ref), self._file.store
        if known is None:
            return []
        with store.database.reading() as connection:
            return load_journals(store, connection, known.number)

    def _forget(self, vanished: list[tuple[Ref, int]]) -> None:
        for ref, number in vanished:
            self._file.statuses.runs.pop(ref, None)
            with self._file.store.database.writing() as connection:
                forget_run(self._file.store, connection, number)
                statuses.delete_statuses(self._file.store.database, connection, number)

    def _listed_projects(self, project: str | None) -> Iterator[str]:
        """Yield the projects whose folders were listed, including those without runs."""
        for folder in self._file.statuses.folders.get(project, ()):
            path = os.path.relpath(folder, self._root)
            path = path.replace(os.sep, "/")
            if path != os.curdir and home_of(path) == path:
                yield path

    def verify(self, project: str, run: str) -> list[str]:
        """Return the journals whose folded bytes changed; if any, fold the run again."""
        from seamark.index.copies import open_journal
        from seamark.store.ingest import prefix_crc

        ref, folder, changed = (project, run), RunFolder(self._root, project, run), []
        number = self.number_of(ref)
        for journal in self.with_recovery(partial(self._load_journals, ref)):
            with (  # refresh reports the error
                quietly(only=OSError),
                contextlib.closing(open_journal(folder, journal.file)) as source,
            ):
                if prefix_crc(source, journal.offset) != journal.prefix_crc:
                    changed.append(journal.file)
        if changed:
            self._forget([(ref, number)])
            self._fold(ref, None)
        return changed

    def number_of(self, ref: Ref) -> int:
        """Return the number of a run; raise `RunNotFoundError` if it is not in the index."""
        known = self.with_recovery(partial(self.known, ref))
        if known is None:
            where = f"project {ref[0]!r} below {str(self._root)!r}"
            msg = f"run {ref[1]!r} does not exist in {where}"
            unread = self.unread.first_above(str(RunFolder(self._root, *ref).path))
            if unread is not None:
                msg = f"run {ref[1]!r} of {where} cannot be read: {unread.path}: {unread.why}"
            raise RunNotFoundError(msg)
        return known.number


class _Purged:
    def __init__(self, root: Path) -> None:
        self._purged_ids = cache(partial(purged_ids, root))

    def among(self, known: Mapping[Ref, KnownRun], projects: Iterable[str]) -> Iterator[Ref]:
        for project in projects:
            if self._is_purged_model(project):
                yield from (ref for ref in known if ref[0] == project)
            yield from (
                ref for name in self._purged_ids(project) if (ref := (project, name)) in known
            )

    def __contains__(self, ref: Ref) -> bool:
        return ref[1] in self._purged_ids(ref[0]) or self._is_purged_model(ref[0])

    def _is_purged_model(self, project: str) -> bool:
        """Return whether a place belongs to the versions of a purged model."""
        place, _, key = project.rpartition("/")
        return place.endswith(f"/{MODELS}") and key in self._purged_ids(place)


def _projects_below(refs: Iterable[Ref], project: str | None) -> set[str]:
    found = {parent for parent, _ in refs}
    return {parent for parent in found if project is None or is_inside(parent, project)}


def _changed_ns(folder: str) -> int:
    try:
        return os.stat(folder).st_ctime_ns  # noqa: PTH116 - the walk gives strings
    except OSError as error:
        let_pass(error)
        return -1


def _stable_mtime_ns(folder: str, begun_ns: int) -> int:
    """Return the time of a folder's last change in ns; 0 if it is too recent to be reliable."""
    changed = _changed_ns(folder)
    return changed if changed < begun_ns - RACY_NS else 0
