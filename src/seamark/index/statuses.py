"""Statuses of the folders and files of runs: unreadable ones and changed ones.

A runs table spends most of its time on calls to the file system, one for each of 10,000 runs. A run
whose journals are all closed needs one call, because new records create a new file in its folder.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import operator
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.safe import closing_fd, open_folder, regular_files
from seamark.process.interrupts import let_pass
from seamark.reading.text import clean, shorten
from seamark.store import schema
from seamark.store.database import Database, Upsert, insertion

log = logging.getLogger("seamark")
_MAX_NAMED_FOLDERS: Final = 3
"""Maximum number of folders named in a warning."""
_MAX_PATH_WIDTH: Final = 300


class Unread(NamedTuple):
    """Unreadable folder of a project, a run, or the root, and the error message of the system."""

    path: str
    why: str


class UnreadFolders:
    """Folders below one absolute root that could not be read at the last refresh."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._reasons: dict[str, str] = {}

    def note(self, path: str | Path, error: OSError) -> None:
        """Add an unreadable folder."""
        let_pass(error)
        self._reasons[str(path)] = error.strerror or str(error)

    def forget(self, project: str | None, run: str | None) -> set[str]:
        """Remove the folders that are about to be read again; return all folders known before."""
        before = set(self._reasons)
        place = "/".join(filter(None, (self._root, project, run)))
        for path in before:
            if path == place or path.startswith(f"{place}/"):
                del self._reasons[path]
        return before

    def now(self) -> list[Unread]:
        """Return the folders, sorted, without those inside another unreadable folder."""
        return [
            Unread(path, why)
            for path, why in sorted(self._reasons.items())
            if not any(above in self._reasons for above in self._folders_above(path))
        ]

    def first_above(self, path: str) -> Unread | None:
        """Return the innermost unreadable folder among a folder and its parents."""
        found = (one for one in (path, *self._folders_above(path)) if one in self._reasons)
        return next((Unread(one, self._reasons[one]) for one in found), None)

    def warn(self, before: Container[str]) -> None:
        """Log a warning about unreadable folders, unless all of them are in ``before``."""
        if not self._reasons:
            return
        found = self.now()
        if all(one.path in before for one in found):
            return
        listed_folders = ", ".join(
            f"{shorten(clean(one.path), _MAX_PATH_WIDTH, keep_end=True)} ({one.why})"
            for one in found[:_MAX_NAMED_FOLDERS]
        )
        more = (
            f" and {len(found) - _MAX_NAMED_FOLDERS} more"
            if len(found) > _MAX_NAMED_FOLDERS
            else ""
        )
        denied = os.strerror(errno.EACCES) in {one.why for one in found}
        log.warning(
            "seamark: %s cannot be read: %s%s. New runs in there are missing and known runs are "
            "not updated (%sfor details: seamark fsck)",
            "one folder" if len(found) == 1 else f"{len(found)} folders",
            listed_folders,
            more,
            "to get permission: chmod -R u+rX; " if denied else "",
        )

    def _folders_above(self, path: str) -> Iterator[str]:
        while path != self._root and (above := os.path.dirname(path)) != path:  # noqa: PTH120 - of strings
            yield above
            path = above


I63: Final = (1 << 63) - 1
"""Mask for inodes, which may use 64 bits; SQL integers have 63 and a sign."""
RACY_NS: Final = 2 * 10**9
"""Age in ns below which a changed file may change again without a new modification time."""
metadata = sa.MetaData()
folder_table = sa.Table(
    "local_folder",
    metadata,
    sa.Column("run", sa.Integer, primary_key=True),
    # Time of the last change of the journal folder (ns since the epoch); 0: not reliable
    sa.Column("listed", sa.BigInteger, nullable=False),
)
look_table = sa.Table(
    "local_look",
    metadata,
    sa.Column("run", sa.Integer, primary_key=True),
    sa.Column("file", sa.Text, primary_key=True),
    # Number of the journal within its run; -1: a copy of another file, or not a journal
    sa.Column("journal", sa.Integer, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("mtime", sa.BigInteger, nullable=False),
    sa.Column("ctime", sa.BigInteger, nullable=False),
    sa.Column("inode", sa.BigInteger, nullable=False),
    # Time after which to read an unchanged file again, ns since the epoch; 0: never
    sa.Column("retry", sa.BigInteger, nullable=False),
    sa.Column("closed", sa.SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)
change_table = sa.Table(
    "local_change",
    metadata,
    sa.Column("project", sa.Text, primary_key=True),
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("gone", sa.SmallInteger, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False, index=True),
)
_UPSERT_FOLDER: Final = Upsert(folder_table, ("run", "listed"), ("run",), overwrite=True)
_UPDATE_FOLDER: Final = (
    sa.update(folder_table)
    .values(listed=sa.bindparam("at"))
    .where(folder_table.c.run == sa.bindparam("number"))
)
_FILE_OF: Final = operator.attrgetter("file")
_NAME_OF: Final = operator.attrgetter("name")
_INSERT_LOOK: Final = insertion(look_table)
_DELETE_FOLDER: Final = sa.delete(folder_table).where(folder_table.c.run == sa.bindparam("run"))
_DELETE_LOOKS: Final = sa.delete(look_table).where(look_table.c.run == sa.bindparam("run"))
_run: Final = schema.run.c
# Outer join: a process killed while it saves a long journal in parts leaves a run without statuses.
_FOLDERS: Final = sa.select(
    _run.id,
    _run.project,
    _run.name,
    sa.func.coalesce(folder_table.c.listed, 0),
    _run.version,
    _run.forked_from,
).join(folder_table, folder_table.c.run == _run.id, isouter=True)
_LOOKS: Final = sa.select(look_table)
_IS_RUN: Final = (_run.project == sa.bindparam("project"), _run.name == sa.bindparam("name"))
_FOLDER_OF: Final = _FOLDERS.where(*_IS_RUN)
_LOOKS_OF: Final = _LOOKS.join(schema.run, _run.id == look_table.c.run).where(*_IS_RUN)


class Stat(NamedTuple):
    """Size in bytes, times (ns) of the last change of contents and of metadata, and inode."""

    size: int
    mtime: int
    ctime: int
    inode: int


class FileStatus(NamedTuple):
    """Status of one file when it was last folded; a row of the table of statuses."""

    file: str
    journal: int
    stat: Stat
    retry: int
    closed: bool


@dataclass(slots=True)
class KnownRun:
    """KnownRun facts about the files of one run.

    Attributes:
        listed: Time of the last change of its journal folder, ns since the epoch; 0: not reliable.
        statuses: Statuses of its files.
        is_settled: Whether new records require a change of the folder; see `add`.
        version: Version of the run's row when all runs were loaded; None if it was folded or loaded
            individually since.
        parent: Recorded name of the run it was forked from; empty if it is not a fork.
    """

    number: int
    listed: int
    statuses: list[FileStatus] = field(default_factory=list)
    is_settled: bool = True
    version: int | None = None
    parent: str = ""

    def covers(self, stats: Mapping[str, Stat]) -> bool:
        """Return whether the known sizes of its files are at least these sizes."""
        seen = {look.file: look.stat.size for look in self.statuses}
        return all(seen.get(file, -1) >= stat.size for file, stat in stats.items())

    def has_new_files(self, folder: str) -> bool:
        """Return whether a folder has new files."""
        fd = os.open(folder, os.O_RDONLY)
        try:
            names = map(_NAME_OF, regular_files(fd))
        finally:
            os.close(fd)
        return not set(map(_FILE_OF, self.statuses)).issuperset(names)

    def add(self, look: FileStatus) -> None:
        """Add the status of a file."""
        self.statuses.append(look)
        self.is_settled = self.is_settled and look.closed and not look.retry


Ref = tuple[str, str]
"""Project path and run id."""


class FileStatuses:
    """Statuses of the files of all runs, cached until another process writes to the index."""

    def __init__(self) -> None:
        self.runs: dict[Ref, KnownRun] = {}
        self.version: object = None
        """Version of the index when all runs were last requested."""
        self._loaded: set[Ref] = set()
        """Runs loaded individually since then, in the version below."""
        self._loaded_version: object = None
        self.folders: dict[str | None, dict[str, int]] = {}
        """Modification time in ns of each folder in which a run can appear, by project or None for
        all projects; 0 means unknown."""

    def sync(self, database: Database, connection: sa.Connection, version: object) -> None:
        """Load changes written by other processes."""
        if version == self.version:
            return
        before, self.runs = self.runs, {}
        others: dict[int, KnownRun] = {}
        for number, project, name, listed, at, parent in database.rows(connection, _FOLDERS):
            ref = project, name
            known = before.get(ref)
            if known is None or known.number != number or known.version != at:
                known = others[number] = KnownRun(number, listed, version=at, parent=parent or "")
            known.listed = listed
            self.runs[ref] = known
        if before.keys() - self.runs.keys():
            self.folders = {}  # removed runs may exist again without a changed folder
        if others:
            _add_statuses(others, database.rows(connection, _LOOKS))
        self.version = version

    def possibly_changed(self, refs: Iterable[Ref], version: object) -> set[Ref]:
        """Return the runs that other processes may have changed since they were loaded."""
        if version == self.version:
            return set()
        if version != self._loaded_version:
            self._loaded, self._loaded_version = set(), version
        return set(refs).difference(self._loaded)

    def load(self, database: Database, connection: sa.Connection, ref: Ref) -> None:
        """Load one run."""
        where = {"project": ref[0], "name": ref[1]}
        before = self.runs.pop(ref, None)
        self._loaded.add(ref)
        for number, _, _, listed, _, parent in database.rows(connection, _FOLDER_OF, **where):
            known = self.runs[ref] = KnownRun(number, listed, parent=parent or "")
            _add_statuses({number: known}, database.rows(connection, _LOOKS_OF, **where))
        if before is not None and ref not in self.runs:
            self.folders = {}  # as in `sync`


def _add_statuses(by_number: Mapping[int, KnownRun], rows: Iterable[tuple[Any, ...]]) -> None:
    for number, file, journal, size, mtime, ctime, inode, retry, closed in rows:
        if (known := by_number.get(number)) is not None:
            known.add(
                FileStatus(file, journal, Stat(size, mtime, ctime, inode), retry, bool(closed))
            )


def save_statuses(database: Database, connection: sa.Connection, run: int, known: KnownRun) -> None:
    """Write the statuses of the files of a run within a transaction."""
    database.run(connection, _UPSERT_FOLDER, run=run, listed=known.listed)
    database.run(connection, _DELETE_LOOKS, run=run)
    rows = [
        (run, look.file, look.journal, *look.stat, look.retry, int(look.closed))
        for look in known.statuses
    ]
    database.run_many(connection, _INSERT_LOOK, rows)


def save_listed(
    database: Database, connection: sa.Connection, listed: Iterable[tuple[int, int]]
) -> None:
    """Write the (time of change in ns, number of the run) of folders within a transaction."""
    database.run_many(connection, _UPDATE_FOLDER, listed)


def delete_statuses(database: Database, connection: sa.Connection, run: int) -> None:
    """Remove the statuses of the files of a run within a transaction."""
    database.run(connection, _DELETE_FOLDER, run=run)
    database.run(connection, _DELETE_LOOKS, run=run)


def stat_of(found: os.stat_result) -> Stat:
    """Return the values of a file status that are compared."""
    return Stat(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino & I63)


def listing(folder: str, now_ns: int) -> tuple[int, dict[str, Stat]]:
    """Return the time of a folder's last change (ns; 0: not reliable), and its files by name.

    Omits names with a leading dot, and files that disappear meanwhile. Raises OSError.
    """
    found = {}
    with closing_fd(open_folder(folder)) as fd:
        listed = os.fstat(fd).st_ctime_ns
        for one in regular_files(fd):
            with contextlib.suppress(FileNotFoundError):
                found[one.name] = stat_of(one.stat(follow_symlinks=False))
    return (listed if now_ns - listed > RACY_NS else 0), dict(sorted(found.items()))
