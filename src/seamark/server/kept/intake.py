"""Intake of batches, which stores the batches of several runs together.

A thread collects the batches of a short interval, writes them to one object, and registers it in
one transaction. The senders are answered after that. A single sender does not wait for others.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Final

import sqlalchemy as sa

from seamark.errors import PathError
from seamark.journal.folder import DEEPEST
from seamark.journal.frames import walk
from seamark.journal.shipping import check_frames, check_gap
from seamark.paths import check_place
from seamark.remote.protocol import Sent
from seamark.server.database import BoundedDict
from seamark.server.failures import Refusal, warn_rarely
from seamark.server.kept import layout
from seamark.server.kept.commit import Growing, OutrunError, commit
from seamark.server.kept.layout import object_names, packed
from seamark.server.kept.plan import (
    FullError,
    JournalRow,
    Key,
    PendingBatch,
    Plan,
    Rows,
    RunRow,
    key_of,
    purged_refusal,
)
from seamark.server.objects import FolderObjects, ObjectStore
from seamark.server.quota import Quota
from seamark.store.database import Conflict, Database

_MAX_REMEMBERED: Final = 10_000
"""Maximum number of remembered journals, and of remembered runs."""


class Recent:
    """Rows of the last stored journals; for one thread.

    Another process may have changed them; the transaction detects that (see `commit`).
    """

    def __init__(self) -> None:
        self._runs = BoundedDict[str, RunRow](_MAX_REMEMBERED)
        self._journals = BoundedDict[Key, JournalRow](_MAX_REMEMBERED)

    def of(self, group: Iterable[PendingBatch]) -> Rows | None:
        """Return the rows of a group; None unless each batch starts at the end of its journal."""
        ends: dict[Key, int] = {}
        rows = Rows({}, {})
        for batch in group:
            key = batch.key
            run, journal = self._runs.get(key[0]), self._journals.get(key)
            if run is None or journal is None:
                return None
            if batch.offset != ends.get(key, journal.size) or not batch.length:
                return None
            ends[key] = batch.end
            rows.runs[run.key], rows.journals[key] = run, journal
        return rows

    def note(self, runs: Mapping[str, RunRow], journals: Mapping[Key, JournalRow]) -> None:
        """Remember the current rows."""
        self._runs.update(runs)
        self._journals.update(journals)

    def forget(self, group: Iterable[PendingBatch]) -> None:
        """Discard the rows of the journals of a group."""
        for batch in group:
            self._journals.pop(batch.key, None)


WINDOW_S: Final = 0.25
"""Maximum time for which batches are collected, in seconds."""
GROUP_BYTES: Final = 8 << 20
"""Maximum size of a group in bytes, unless a single batch is larger."""
WAITING_BYTES: Final = 128 << 20
"""Maximum size of data waiting to be written, in bytes; beyond it senders must retry."""
ARRIVING_BYTES: Final = 256 << 20
"""Maximum total size of bodies being received, in bytes."""
MAX_JOURNALS: Final = 4096
"""Maximum number of journals of a run."""
AHEAD_NS: Final = 3600 * 10**9
"""Deviation from which a writer's clock that is ahead is noted, in nanoseconds."""
_MAX_PROJECT_BYTES: Final = 1024
_BATCH_S: Final = 0.01
"""Additional collecting time per batch of the last group beyond the first, in seconds: a single
sender never waits."""
_MAX_ATTEMPTS: Final = 8
_LIST_ENTRY_BYTES: Final = 512
"""Approximate size of the entry of a part in an object, in bytes."""
_CHECK_S: Final = 60.0
"""Interval of checks whether an object is old enough to be closed, in seconds."""
_BULK_BYTES: Final = 1 << 20
"""Size from which a batch suggests that its sender has more data, in bytes; it need not wait."""
_MIN_WAIT_S: Final = 1.0
_MAX_WAIT_S: Final = 10.0
_LOAD_WEIGHT: Final = 0.9
"""Weight of the previous load in the running mean."""
_log: Final = logging.getLogger("seamark.server")
_KNOWN_SIZES: Final = (
    sa.select(
        layout.runs.c.position,
        layout.runs.c.purged_ns,
        layout.journals.c.name,
        layout.journals.c.size,
    )
    .join_from(
        layout.runs, layout.journals, layout.journals.c.run == layout.runs.c.number, isouter=True
    )
    .where(layout.runs.c.key == sa.bindparam("key"))
)


def check_run(project: str, run: str) -> None:
    """Raise `PathError` unless a project and a run id are valid."""
    check_place(project, run)
    if len(project) > _MAX_PROJECT_BYTES or project.count("/") >= DEEPEST:
        raise PathError(
            f"project: expected at most {DEEPEST} parts and {_MAX_PROJECT_BYTES} characters, "
            f"got {project.count('/') + 1} and {len(project)}"
        )


class Intake:
    """Durable storage of incoming batches of journals; thread-safe.

    Args:
        database: The set of tables named ``kept``.
        objects: Object storage for the bytes.
        gone: Returns whether a run (project path, run id) was purged; called for runs that are not
            in the tables.
        now_ns: Clock, in nanoseconds since the Unix epoch.
        max_journals: Maximum number of journals of one run.
        window_s: Maximum time for which batches are collected, in seconds.
        grows: Whether small batches are appended to a growing object (see
            `seamark.server.kept.commit`), if the objects are files; only for a single process with
            tables in local files.
        quota: Quota of workspaces; None for no limit.
        reserved: Returns whether a journal (project path, run id, file name) is written by the
            server itself, with `take`.
    """

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        *,
        quota: Quota | None = None,
        reserved: Callable[[str, str, str], bool] | None = None,
        gone: Callable[[str, str], bool] = lambda *_: False,
        now_ns: Callable[[], int] = time.time_ns,
        max_journals: int = MAX_JOURNALS,
        window_s: float = WINDOW_S,
        grows: bool = False,
    ) -> None:
        self._database, self._objects = database, objects
        self._gone = gone
        self._quota, self._reserved = quota or Quota(database), reserved
        self._now_ns, self._max_journals, self._window_s = now_ns, max_journals, window_s
        self._names = object_names()
        self._recent = Recent()
        self._growing: Growing | None = None
        if grows and isinstance(objects, FolderObjects):  # a bucket has no growing objects
            self._growing = Growing(database, objects, self._names, now_ns)
        self._changed = threading.Condition()
        self._queue: deque[PendingBatch] = deque()
        self._bytes = self._arriving = 0
        self._last_group = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._load = 0.0
        self._ended = time.monotonic()

    # ------------------------------------------------------------------ queries

    def known(self, project: str, run: str) -> tuple[dict[str, int], int]:
        """Return stored bytes by journal and the position of a run; refuse a purged run (410)."""
        check_run(project, run)
        rows = self._database.fetch(_KNOWN_SIZES, key=key_of(project, run))
        if any(row[1] is not None for row in rows) or (not rows and self._gone(project, run)):
            raise purged_refusal(project, run)
        return {row[2]: row[3] for row in rows if row[2]}, rows[0][0] if rows else 0

    # ------------------------------------------------------------------ storage

    def submit(
        self, project: str, run: str, journal: str, offset: int, data: bytes = b"", *, gap: int = 0
    ) -> Future[Sent]:
        """Check and queue a batch of a journal, or a declared gap; the result is set once durable.

        Args:
            project: Project path.
            run: Run id, or ``.project``.
            journal: File name.
            offset: Offset of its first byte in the file.
            data: Whole frames; see `seamark.journal.shipping`.
            gap: Number of bytes that will never be sent; there is no data then.

        Raises:
            BatchError: If the batch is invalid or exceeds a limit.
            Refusal: If it is not accepted: as a `GapError`, `DivergedError` or `FullError`, if the
                run was purged or has too many journals, if the server itself writes the journal, or
                if the quota of the workspace is exceeded. It may also be set on the result.
            PathError: If project or run are not valid names.
        """
        if self._reserved is not None and self._reserved(project, run, journal):
            hint = f"journal {journal!r} is reserved for edits on the server"
            raise Refusal(422, "reserved", hint)
        return self._submit(project, run, journal, offset, data, gap)

    def take(self, project: str, run: str, journal: str, offset: int, data: bytes) -> Sent:
        """Store a batch of a journal that the server itself may write; return once it is durable.

        See `submit`.
        """
        return self._submit(project, run, journal, offset, data, 0).result()

    def _submit(
        self, project: str, run: str, journal: str, offset: int, data: bytes, gap: int
    ) -> Future[Sent]:
        check_run(project, run)
        now = self._now_ns()
        ahead = 0
        if gap:
            check_gap(journal, offset, gap)
        else:
            ahead = check_frames(run, journal, offset, data, walk) - now
        ahead = ahead if ahead > AHEAD_NS else 0
        batch = PendingBatch(project, run, journal, offset, gap or len(data), data, now, ahead)
        self._queue_up(batch)
        return batch.done

    def _queue_up(self, batch: PendingBatch) -> None:
        with self._changed:
            if self._closing:
                raise FullError("the server is stopping; send it again in a moment")
            if self._bytes and self._bytes + len(batch.data) > WAITING_BYTES:
                raise FullError("the server is overloaded; send it again in some seconds")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="seamark-intake", daemon=True
                )
                self._thread.start()
            self._queue.append(batch)
            self._bytes += len(batch.data)
            self._changed.notify_all()

    @contextlib.contextmanager
    def counting_bytes(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of all requests being read; raise `FullError` if there are too many."""
        own_bytes = 0

        def more(size: int) -> None:
            nonlocal own_bytes
            with self._changed:
                if self._arriving + size > ARRIVING_BYTES or self._bytes >= WAITING_BYTES:
                    raise FullError("the server is overloaded; send it again in some seconds")
                self._arriving += size
            own_bytes += size

        more(0)
        try:
            yield more
        finally:
            with self._changed:
                self._arriving -= own_bytes

    def close(self) -> None:
        """Store accepted batches, then accept no more; harmless when called twice."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._seal()

    # ------------------------------------------------------------------ thread

    def _work(self) -> None:
        while self._wait():
            with self._changed:
                group = self._next_group()
            if group:
                self._store_group(group)
            elif self._is_old():
                self._seal()

    def _wait(self) -> bool:
        with self._changed:
            while not self._queue and not self._closing:
                if not self._changed.wait(_CHECK_S) and self._is_old():
                    return True
            end = time.monotonic() + min(self._window_s, _BATCH_S * max(0, self._last_group - 1))
            while not self._closing and self._bytes < GROUP_BYTES:
                if (left := end - time.monotonic()) <= 0:
                    break
                self._changed.wait(left)
            return bool(self._queue) or not self._closing

    def _next_group(self) -> list[PendingBatch]:
        group: list[PendingBatch] = []
        size = 0
        while self._queue and (not group or size + len(self._queue[0].data) <= GROUP_BYTES):
            group.append(self._queue.popleft())
            size += len(group[-1].data)
        return group

    def _store_group(self, group: list[PendingBatch]) -> None:
        started = time.monotonic()
        try:
            self._store(group)
        except Exception as error:  # noqa: BLE001 - the next group must be stored
            _log.exception("cannot store a group of batches")
            for batch in group:
                _fail(batch, error)
        finally:
            self._measure_load(started)
            self._last_group = len(group)
            with self._changed:
                self._bytes -= sum(len(batch.data) for batch in group)

    def _is_old(self) -> bool:
        return self._growing is not None and self._growing.is_old()

    def _seal(self) -> None:
        # On errors, `take_up` completes it later.
        try:
            if self._growing is not None:
                self._growing.seal()
        except (OSError, Conflict, sa.exc.SQLAlchemyError) as error:
            _log.warning("cannot complete an object: %s", error)

    def _measure_load(self, started: float) -> None:
        now = time.monotonic()
        busy = (now - started) / max(now - self._ended, 1e-6)
        self._load = _LOAD_WEIGHT * self._load + (1 - _LOAD_WEIGHT) * min(1.0, busy)
        self._ended = now

    def _wait_s(self, batch: PendingBatch) -> float:
        busy = max(0.0, 2 * self._load - 1)  # no delay below half of the load
        if len(batch.data) >= _BULK_BYTES:
            return round(busy, 2)
        return round(_MIN_WAIT_S + (_MAX_WAIT_S - _MIN_WAIT_S) * busy, 2)

    def _store(self, group: list[PendingBatch]) -> None:
        recent = self._recent.of(group)
        for _ in range(_MAX_ATTEMPTS):
            plan = Plan(self._database, self._objects, self._max_journals, self._gone, self._quota)
            try:
                plan.make(group, recent)
                rows = self._write(plan, recent)
            except (OutrunError, Conflict):  # another worker was faster; plan again
                self._recent.forget(group)
                recent = None
                continue
            except (OSError, sa.exc.SQLAlchemyError) as error:
                warn_rarely("not-kept", "cannot store batches now: %s", error)
                msg = "the server cannot write now; send it again later"
                refusal = FullError(msg)
                refusal.__cause__ = error
                for batch in group:
                    _fail(batch, refusal)
                return
            self._recent.note(*rows)
            self._answer(plan, rows.runs)
            return
        msg = "other clients send data of the same run at the same time; try again in some seconds"
        for batch in group:
            _fail(batch, FullError(msg))

    def _write(self, plan: Plan, recent: Rows | None) -> Rows:
        if not plan.parts:
            return Rows({}, {})
        sizes = [len(data) for data in plan.data]
        # Estimate: the list depends on its place and is created later.
        about = sum(sizes) + _LIST_ENTRY_BYTES * (1 + len(sizes))
        grown = self._growing
        if grown is None or (file := grown.open(about)) is None:
            return self._write_alone(plan, recent, sizes)
        start = file.end
        head, parts = packed(plan.parts, self._now_ns(), shared=True, sizes=sizes, start=start)
        if file.capacity < len(head) + sum(sizes):
            return self._write_alone(plan, recent, sizes)
        try:
            file.add(head, *plan.data)
            return commit(
                self._database,
                grown.name,
                0,
                parts,
                plan.sizes,
                self._max_journals,
                recent,
                grown=grown.number,
            )
        except (OutrunError, Conflict):  # the bytes were not registered
            try:
                file.take_back(start)
            except OSError:
                grown.abandon()
            raise
        except BaseException:  # acknowledged data must not follow unregistered bytes
            grown.abandon()
            raise

    def _write_alone(self, plan: Plan, recent: Rows | None, sizes: list[int]) -> Rows:
        name = next(self._names)
        head, parts = packed(plan.parts, self._now_ns(), shared=True, sizes=sizes)
        self._objects.put(name, head, *plan.data)
        try:
            size = len(head) + sum(sizes)
            return commit(self._database, name, size, parts, plan.sizes, self._max_journals, recent)
        except (OutrunError, Conflict):  # the object was not registered
            with contextlib.suppress(OSError):  # otherwise collected as an orphan
                self._objects.delete(name)
            raise

    def _answer(self, plan: Plan, runs: Mapping[str, RunRow]) -> None:
        for part in plan.parts:
            self._quota.added(part.project, part.length)
        for batch, error in plan.refused:
            _fail(batch, error)
        for batch, kept in plan.settled:
            _resolve(batch, kept._replace(wait_s=self._wait_s(batch)))
        for batch, offset in plan.waiting:
            position = runs[key_of(batch.project, batch.run)].position
            _resolve(batch, Sent(offset, position, self._wait_s(batch)))


def _resolve(batch: PendingBatch, kept: Sent) -> None:
    if batch.done.set_running_or_notify_cancel():
        batch.done.set_result(kept)


def _fail(batch: PendingBatch, error: Exception) -> None:
    if batch.done.done() or not batch.done.set_running_or_notify_cancel():
        return
    if not isinstance(error, Refusal):
        msg = "the server cannot store this now; send it again later"
        refusal = FullError(msg)
        refusal.__cause__ = error
        error = refusal
    batch.done.set_exception(error)
