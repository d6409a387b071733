"""Adapter with which the routes of the server read the local index of a folder of runs.

Nothing is folded here: the thread that reads the folders (`seamark.page.watch`) updates the index,
and requests do not wait for it. Each request has its own connection.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from seamark.blobs.store import blob_path, has_blob, open_blob
from seamark.errors import PathError, SeamarkError
from seamark.index.copies import RunView, open_journal
from seamark.index.file import is_damaged
from seamark.index.index import Index
from seamark.journal.folder import RunFolder, split_journal_name
from seamark.page.editing import WRITABLE, Edits
from seamark.page.views import FolderViews
from seamark.page.watch import Looker
from seamark.paths import check_place, is_inside
from seamark.process.liveness import user_name
from seamark.reading.catalog import ChangedRun, Changes, Ref
from seamark.reading.reader import Answer
from seamark.server.access import NOBODY, Identity, Links, Looked, Readable, Role
from seamark.server.changes import Cursor
from seamark.server.database import ServerDatabase, bound_patterns
from seamark.server.failures import Refusal
from seamark.store import schema
from seamark.store.cells import OPEN
from seamark.store.database import DamageError, file_connection, sqlite_engine
from seamark.store.journals import load_journals
from seamark.store.query.statements import state_column
from seamark.store.read.inherited import Sources
from seamark.store.read.names import recent_paths
from seamark.store.runs import Store, numbers_of
from seamark.store.schema import PathNumbers

TOKEN: Final = "x-seamark-token"  # noqa: S105 - the name of a header
THREADS: Final = 32
"""Maximum number of concurrent requests; a browser tab makes up to four."""
_STATEMENT_S: Final = 30.0
_BLOCK: Final = 1 << 20
_WAIT_S: Final = 2.0
_POLL_S: Final = 0.02
_SEEN_NS: Final = 10**9
"""Time for which the list of running runs is cached, in nanoseconds: it needs system calls."""
_REMOVED_RUN: Final = (0, None)
"""Version and state of a run that was removed."""
_run: Final = schema.run.c


class _OpenIndex:
    """Open index file, until another file replaces it; its `name` is random."""

    def __init__(self, file: Path) -> None:
        self.file, self.file_id = file, _identity(file)
        self.name = secrets.token_hex(8)
        engine = sqlite_engine(lambda: file_connection(file), threads=THREADS)
        bound_patterns(engine)  # a link may contain a pattern that blocks all requests
        database = ServerDatabase(engine, _STATEMENT_S)
        self.store = Store(database, PathNumbers(database))
        self._lock = threading.Lock()
        self._watching = file_connection(file)
        self._seen = (-1, 0, "")

    def version(self) -> int:
        with self._lock:
            return int(self._watching.execute("PRAGMA data_version").fetchone()[0])

    def running(self, now_ns: int) -> str:
        """Return a checksum of the states of the runs that may still record."""
        version = self.version()
        with self._lock:
            at, moment, found = self._seen
            if at == version and 0 <= now_ns - moment < _SEEN_NS:
                return found
        with self.store.database.reading() as connection:
            state = state_column(self.store, connection, now_ns)
            asked = sa.select(_run.id, state).where(_run.state.in_(("running", OPEN)))
            rows = sorted(self.store.database.query(connection, asked))
        found = f"{zlib.crc32(repr(rows).encode()):08x}"
        with self._lock:
            self._seen = version, now_ns, found
        return found

    def dispose(self) -> None:
        self.store.database.engine.dispose()


class _Changes:
    """Changes in the index of a folder; see `seamark.server.access.Changing`.

    Nothing is written, because a poll must not wait for a fold. Versions and states of all runs are
    kept in memory, and compared in a poll if the file has changed. ``_numbers`` has the number of
    the last change of each run, also of removed ones.
    """

    def __init__(self, opened: Callable[[], _OpenIndex], looked: Callable[[], Looked]) -> None:
        self._find, self._looked = opened, looked
        self._lock = threading.Lock()
        self._name = ""
        self._as_of: tuple[int, str] | None = None
        self._known: dict[Ref, tuple[int, str]] = {}
        self._numbers: dict[Ref, int] = {}
        self._number = 0

    def name(self) -> str:
        return self._find().name

    def tag(self, now_ns: int) -> str:
        opened = self._find()
        version = opened.version()
        return f"{opened.name}.{version}.{opened.running(now_ns)}"

    def cursor(self, now_ns: int) -> str:
        opened = self._find()
        with self._lock:
            if opened.name != self._name:
                self._compare(opened, now_ns)
            return str(Cursor(self._name, self._number, now_ns))

    def since(
        self, cursor: str, project: str, may_read: Callable[[str], bool], now_ns: int
    ) -> Answer[Changes]:
        opened, looked_ns = self._find(), self._looked().looked_ns
        with self._lock:
            self._compare(opened, now_ns)
            upto, given = str(Cursor(self._name, self._number, now_ns)), Cursor.of(cursor)
            if given is None or given.store != self._name or given.number > self._number:
                return Answer(Changes(upto, reset=True, runs=[], looked_ns=looked_ns))
            known = self._known
            found = sorted(
                (number, ref)
                for ref, number in self._numbers.items()
                if number > given.number and is_inside(ref[0], project) and may_read(ref[0])
            )
        there = [ref for _, ref in found if ref in known]
        with opened.store.database.reading() as connection:
            paths = recent_paths(opened.store, connection, there, min(given.at_ns, now_ns))
        runs = [
            ChangedRun(*ref, known.get(ref, _REMOVED_RUN)[1], ref not in known, paths.get(ref, []))
            for _, ref in found
        ]
        return Answer(Changes(upto, reset=False, runs=runs, looked_ns=looked_ns))

    def looked(self, now_ns: int) -> Looked:
        return self._looked()

    def _compare(self, opened: _OpenIndex, now_ns: int) -> None:
        as_of = opened.version(), opened.running(now_ns)
        if opened.name == self._name and as_of == self._as_of:
            return
        store = opened.store
        with store.database.reading() as connection:
            state = state_column(store, connection, now_ns)
            asked = sa.select(_run.project, _run.name, _run.version, state)
            rows = store.database.query(connection, asked)
        before = self._known
        now = {(project, run): (version, state) for project, run, version, state in rows}
        if opened.name != self._name:
            self._numbers, self._number = {}, 0
        elif changed := [
            ref for ref in now.keys() | before.keys() if now.get(ref) != before.get(ref)
        ]:
            self._number += 1
            self._numbers |= dict.fromkeys(changed, self._number)
        self._name, self._as_of, self._known = opened.name, as_of, now


@dataclass(frozen=True, slots=True)
class FileContent:
    """Stored content in a run folder, by its SHA-256 (hexadecimal)."""

    folder: RunFolder
    digest: str
    size: int

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes between two offsets in chunks of at most a megabyte."""
        left = min(self.size, self.size if end is None else end) - start
        with open_blob(self.folder, self.digest, self.size) as file:
            file.seek(start)
            while left > 0 and (block := file.read(min(_BLOCK, left))):
                left -= len(block)
                yield block


class _Login:
    def __init__(self, token: str | None) -> None:
        self._token = token
        self._user = Identity(user_name() or "you", "page", roles={"": Role.CONTRIBUTOR})
        self._credentials = self._user.name, self._user.token

    def identify(self, headers: Mapping[str, str], address: str) -> Identity:
        given = headers.get(TOKEN, "")
        if is_token(given, self._token):
            return self._user
        if not given:
            return NOBODY
        raise Refusal(401, "bad-token", "this is not the token of this page: open the page again")

    def again(self, token: str, name: str) -> Identity:
        return self._user if (name, token) == self._credentials else NOBODY

    def role(self, who: Identity, project: str) -> Role | None:
        return None if who == NOBODY else Role.CONTRIBUTOR

    def readable(self, who: Identity) -> Readable:
        return Readable(everything=who != NOBODY)


class Folder:
    """Runs below one root for the routes of a server; `place` is the root's index in its page."""

    def __init__(
        self,
        root: Path,
        looker: Looker,
        place: int = 0,
        token: str | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.root, self.now_ns = root, now_ns
        self._looker = looker
        self.logins = self.accounts = _Login(token)
        self.links = Links(secrets.token_bytes(32), now_ns, f"r{place}/api/v1/")
        self.changing = _Changes(self._current_index, lambda: looker.now)
        self.edits = Edits(root)
        self.views = FolderViews(root)
        self._lock = threading.Lock()
        self._opened: _OpenIndex | None = None
        self._current_index()

    @property
    def writer(self) -> Folder:
        """The object itself, which is also the recorder."""
        return self

    @property
    def read_only(self) -> str:
        """Reason why edits are not possible; empty if they are."""
        if self.root.is_dir() and not os.access(self.root, WRITABLE):
            return f"you may not write to {self.root}"
        return ""

    def store(self) -> Store:
        """Return the store of the folded runs."""
        return self._current_index().store

    def sources(self, project: str, run: str) -> Sources:
        """Return the function that opens the journals of a run."""
        return partial(open_journal, RunFolder(self.root, project, run))

    def reader(self, project: str, run: str) -> RunView:
        """Return the reader of a run."""
        return RunView(
            RunFolder(self.root, project, run), self.store, lambda work: work(), self.now_ns
        )

    def record(self, project: str, run: str, ops: Any) -> int:
        """Append operations to a run; see `seamark.server.access.Writes`."""
        check_place(project, run)
        position = self.edits.record(project, run, ops)
        self._looker.look_now([(project, run)])
        return position

    def prioritize(self, refs: Iterable[Ref]) -> None:
        """Prioritize reads of runs whose curves were requested."""
        self._looker.shown(refs)

    def behind(self, wanted: Mapping[Ref, int]) -> int:
        """Wait until edits made here are readable; return the number of bytes still missing."""
        ends = {ref: found for ref in wanted if (found := self.edits.ends(ref))}
        end = time.monotonic() + _WAIT_S
        while ends:
            left = self._missing_bytes(ends)
            if not left or time.monotonic() > end:
                return left
            time.sleep(_POLL_S)
        return 0

    def _missing_bytes(self, ends: Mapping[Ref, Mapping[str, int]]) -> int:
        store, missing = self.store(), 0
        with store.database.reading() as connection:
            for number, ref in numbers_of(store, connection, list(ends)).items():
                folded = {
                    split_journal_name(one.file)[0]: one.offset
                    for one in load_journals(store, connection, number)
                }
                missing += sum(
                    max(0, size - folded.get(writer, 0)) for writer, size in ends[ref].items()
                )
        return missing

    def content(self, project: str, run: str, digest: str) -> FileContent | None:
        """Return stored content of a known run; None if it is not in the run folder."""
        try:
            check_place(project, run)
        except PathError:
            return None
        folder, store = RunFolder(self.root, project, run), self.store()
        blob_path(folder, digest)
        with store.database.reading() as connection:
            if not numbers_of(store, connection, [(project, run)]):
                return None
        with contextlib.suppress(OSError), open_blob(folder, digest) as file:
            return FileContent(folder, digest, os.fstat(file.fileno()).st_size)
        return None

    def missing_contents(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return the digests of contents that are not in a run folder."""
        try:
            check_place(project, run)
        except PathError:
            return sorted(digests)
        folder = RunFolder(self.root, project, run)
        return sorted(one for one in set(digests) if not has_blob(folder, one))

    def heal(self, error: BaseException) -> bool:
        """Request a rebuild of the index if an error means damage; return whether it does.

        A rebuild folds everything again; requests are handled meanwhile.
        """
        if not (isinstance(error, DamageError) or is_damaged(error)):
            return False
        self._looker.rebuild()
        return True

    def close(self) -> None:
        """Close everything; harmless when called twice."""
        self.edits.close()
        with self._lock:
            if self._opened is not None:
                self._opened.dispose()
                self._opened = None

    def _current_index(self) -> _OpenIndex:
        with self._lock:
            before = self._opened
            if before is None or _identity(before.file) != before.file_id:
                self._opened = None
                if before is not None:
                    with contextlib.suppress(sqlite3.Error, sa.exc.SQLAlchemyError):
                        before.dispose()
                with Index.open(self.root) as index:
                    file = index.file
                if file is None:
                    raise SeamarkError(
                        f"cannot write an index of {self.root}: set SEAMARK_INDEX to another place"
                    )
                self._opened = before = _OpenIndex(file)
            return before


def is_token(given: str, token: str | None) -> bool:
    """Return whether a request has the right token, compared in constant time."""
    if token is None:
        return True
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
