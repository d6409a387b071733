"""Thread that stores files, and contents to store later because the disk refused them.

A record with a content is written after the content. While a disk is full, both are kept in memory.
An uploaded file is an exception: its record is written at once, because its time determines the
latest value of the attribute, and its digest is recorded later. Records of series points and of
very long texts are not split in this way.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from seamark.blobs.store import ANY_MODE, put_bytes, sync_blob
from seamark.journal.folder import RunFolder
from seamark.journal.safe import sync_folder
from seamark.paths import is_inside
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly, raised_by_signal_handler

RETRY_S: Final = 5.0
"""Delay before a failed file is tried again, in seconds; another file's success ends it early.

The delay doubles with each failure, up to `_MAX_RETRY_S`, because each attempt to write a
checkpoint temporarily takes disk space from other processes.
"""
_MAX_RETRY_S: Final = 320.0
log = logging.getLogger("seamark")


def _nothing() -> None:
    """Do nothing."""


@dataclass(eq=False)
class Job:
    """Unit of work for the thread.

    Attributes:
        run: Does the work; OSError means that a later attempt may succeed.
        give_up: Called if this process will not do the work.
        abandon: Called in a forked child to release descriptors; the parent does the work.
        failed: Whether an earlier attempt failed and was reported.
    """

    run: Callable[[], object]
    give_up: Callable[[], object] = _nothing
    abandon: Callable[[], object] = _nothing
    failed: bool = False


class Worker:
    """Daemon thread that runs jobs in order, and exists only while there are jobs.

    If a job fails with an OSError, such as a full disk, it is run again when another job succeeds,
    when a caller waits for the queue, or after `RETRY_S`. All methods may be called from any thread
    and after a fork; in the child, the queue is empty. ``report_failure`` is called for the first
    failure of a job, and if it is then given up.

    Attributes:
        lock: Lock of the queue; jobs must also hold it while they record.
        stopped: Whether nothing more may be recorded; read it with `lock` held.
    """

    def __init__(self, report_failure: Callable[[str, BaseException | None], None]) -> None:
        self._report_failure = report_failure
        self._reset()
        fork.register(self.after_fork)

    def _reset(self) -> None:
        self.lock = threading.Condition(threading.RLock())
        self._queue: deque[Job] = deque()
        self._failed_jobs: deque[Job] = deque()
        self._running: list[Job] = []
        self._thread: threading.Thread | None = None
        self.stopped = False
        self._pause_s = RETRY_S

    def after_fork(self) -> None:
        """Abandon the jobs of the parent in a forked child."""
        jobs = [*self._queue, *self._failed_jobs, *self._running]
        self._reset()
        for job in jobs:
            job.abandon()

    def submit(self, job: Job) -> None:
        """Add a job; a job that has already failed waits before it is run."""
        with self.lock:
            self.stopped = False
            (self._failed_jobs if job.failed else self._queue).append(job)
            self._start()

    def _start(self) -> None:
        if self._queue:
            self.lock.notify_all()
        if self._thread is not None or not (self._queue or self._failed_jobs):
            return
        self._thread = threading.Thread(target=self._work, name="seamark-blobs", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # too many threads, or interpreter shutdown; `flush` does the work
            self._thread = None

    def _work(self) -> None:
        try:
            while self._wait_for_jobs():
                self._run_next()
        finally:
            self._unregister()

    def _wait_for_jobs(self) -> bool:
        """Wait while only failed jobs remain, then retry them; return False without jobs."""
        with self.lock:
            only_failed = self._failed_jobs and not (self._queue or self.stopped)
            if only_failed and not self.lock.wait(self._pause_s):
                self._pause_s = min(2 * self._pause_s, _MAX_RETRY_S)
                self._queue.extend(self._failed_jobs)
                self._failed_jobs.clear()
            if self.stopped or not (self._queue or self._failed_jobs):
                self._unregister()  # under the lock: the next added job must start a thread
                return False
            return True

    def _run_next(self) -> bool:
        with self.lock:
            if self.stopped or not self._queue:
                return False
            job = self._queue.popleft()
            self._running.append(job)
        done = False
        try:
            done = self._run(job)
        finally:
            with self.lock:
                if job in self._running:  # false after a fork
                    self._running.remove(job)
                if done:
                    self._pause_s = RETRY_S
                    self._queue.extend(self._failed_jobs)
                    self._failed_jobs.clear()
                self.lock.notify_all()
        return True

    def _unregister(self) -> None:
        with self.lock:
            if self._thread is threading.current_thread():
                self._thread = None
            self.lock.notify_all()

    def _run(self, job: Job) -> bool:
        try:
            job.run()
        except Exception as error:
            # Without a thread, jobs run in the caller of `flush`, which signals can interrupt.
            stopped = raised_by_signal_handler(error)
            again = stopped or isinstance(error, OSError)
            if again:
                with self.lock:
                    self._failed_jobs.append(job)
            if stopped:
                raise
            if not (again and job.failed):
                job.failed = again
                self._report("not stored yet" if again else "not stored", error)
            return False
        return True

    def _report(self, kind: str, error: BaseException | None) -> None:
        with quietly(
            lambda lost: log.debug("seamark: failure not counted: %s", kind, exc_info=lost)
        ):
            self._report_failure(kind, error)

    def flush(self, timeout_s: float | None) -> bool:
        """Wait ``timeout_s`` at most for all jobs, retrying failed ones; return whether all ran."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self.lock:
            self._queue.extend(self._failed_jobs)
            self._failed_jobs.clear()
            self._start()
        while self._wait_for_thread(end):
            if not self._run_next():  # no thread is running
                break
        with self.lock:
            return not (self._queue or self._failed_jobs or self._running)

    def _wait_for_thread(self, end: float | None) -> bool:
        """Wait for the thread; return True if the caller must run jobs itself."""
        with self.lock:
            while self._queue or self._running:
                if end is not None and time.monotonic() >= end:
                    return False
                if self._thread is None and not self._running:
                    return True
                self.lock.wait(None if end is None else max(0.0, end - time.monotonic()))
            return False

    def stop(self, timeout_s: float | None) -> bool:
        """Wait for the jobs, then give up the remaining ones; return whether all were done."""
        done = self.flush(timeout_s)
        with self.lock:
            self.stopped = True
            left = [*self._queue, *self._failed_jobs]
            self._queue.clear()
            self._failed_jobs.clear()
            self.lock.notify_all()
        for job in left:
            job.give_up()
            if job.failed:
                self._report("not stored", None)
        return done


MAX_BYTES: Final = 64 << 20
"""Maximum size of content kept in memory because the disk refused it, in bytes."""
_MAX_UNSYNCED: Final = 256
"""Maximum number of blobs to sync when a run stops; the kernel writes older ones by itself."""


@dataclass(eq=False, slots=True)
class WaitingRecord:
    """Record that waits for contents; ``needs`` has the SHA-256 of contents not stored yet.

    ``append_without`` appends the rest of the record if the contents cannot be stored. ``taken`` is
    whether the file is already recorded without its digest.
    """

    path: str
    name: str | None
    needs: set[str]
    append: Callable[[], object]
    append_without: Callable[[], object]
    taken: bool = False


class BytesWriter:
    """Writer that stores bytes as blobs, now or once the disk accepts them; usable from any thread.

    Callers hold the worker's lock from checking for missing contents until a record waits for them.

    Args:
        folder: Folder of the run.
        worker: Thread that retries failed writes.
        report_failure: Called with a reason and the error if a content could not be stored.
        unneeded: Called with the digest of a stored content that is no longer needed.
    """

    def __init__(
        self,
        folder: RunFolder,
        worker: Worker,
        report_failure: Callable[[str, BaseException | None], None],
        unneeded: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._worker = worker
        self._report_failure = report_failure
        self._unneeded = unneeded
        self._unsynced: deque[str] = deque(maxlen=_MAX_UNSYNCED)
        self._forget_all()

    def _forget_all(self) -> None:
        # In a forked child, held contents belong to the parent.
        self._held: dict[str, tuple[int, int]] = {}  # size and mode
        self._lost: set[str] = set()
        self._unneeded_digests: set[str] = set()
        self._waiting: list[WaitingRecord] = []

    def __bool__(self) -> bool:
        return bool(self._held or self._lost)

    def put(self, content: bytes, mode: int = ANY_MODE) -> str:
        """Store bytes with a mode, now or once the disk accepts them; return their SHA-256."""
        try:
            sha256 = put_bytes(self._folder, content, mode)
        except OSError as error:
            let_pass(error)
            sha256 = hashlib.sha256(content).hexdigest()
            self._hold(sha256, content, mode, error)
            return sha256
        with self._worker.lock:
            self._unsynced.append(sha256)
            if len(self._unsynced) == 1:
                clear = self._unsynced.clear
                self._worker.submit(Job(self._sync, give_up=clear, abandon=clear))
            if self:
                self._unneeded_digests.discard(sha256)  # it is wanted again
                self._note_stored(sha256)
        return sha256

    def _hold(self, sha256: str, content: bytes, mode: int, error: OSError) -> None:
        with self._worker.lock:
            self._unneeded_digests.discard(sha256)
            if (known := self._held.get(sha256)) is not None:
                self._held[sha256] = known[0], known[1] & mode
            elif sum(size for size, _ in self._held.values()) + len(content) > MAX_BYTES:
                self._lost.add(sha256)
            else:
                self._lost.discard(sha256)
                self._held[sha256] = len(content), mode
                again = partial(self._store_held, sha256, content)
                give_up = partial(self._give_up, sha256)
                self._worker.submit(Job(again, give_up, self._forget_all, failed=True))
            lost = sha256 in self._lost
        self._report_failure("not stored" if lost else "not stored yet", error)

    def _store_held(self, sha256: str, content: bytes) -> None:
        _, mode = self._held.get(sha256, (0, ANY_MODE))
        put_bytes(self._folder, content, mode)
        self._note_stored(sha256)
        sync_blob(self._folder, sha256)
        sync_folder(self._folder.blobs_dir)

    def _sync(self) -> None:
        while self._unsynced:
            sync_blob(self._folder, self._unsynced[0])
            self._unsynced.popleft()
        sync_folder(self._folder.blobs_dir)

    def _note_stored(self, sha256: str) -> None:
        with self._worker.lock:
            if self._worker.stopped:
                return
            needed = any(sha256 in record.needs for record in self._waiting)
            unwanted = sha256 in self._unneeded_digests and not needed
            self._unneeded_digests.discard(sha256)
            for record in self._take_ready(sha256, stored=True):
                record.append()
            if unwanted:
                self._unneeded(sha256)

    def _give_up(self, sha256: str) -> None:
        with self._worker.lock:
            for record in self._take_ready(sha256, stored=False):
                record.append_without()

    def _take_ready(self, sha256: str, *, stored: bool) -> list[WaitingRecord]:
        # A record is ready when all of its contents are stored, or one of them is lost.
        self._lost.discard(sha256)
        self._held.pop(sha256, None)
        ready = []
        for record in self._waiting:
            if sha256 in record.needs:
                record.needs.discard(sha256)
                if not (stored and record.needs):
                    ready.append(record)
        self._waiting = [record for record in self._waiting if record not in ready]
        return ready

    def is_lost(self, digests: Iterable[str]) -> bool:
        """Return whether a content was refused by the disk and did not fit into memory."""
        return not self._lost.isdisjoint(digests)

    def missing(self, digests: Iterable[str]) -> set[str]:
        """Return the digests whose contents are in memory but not stored."""
        return self._held.keys() & digests

    def wait(self, record: WaitingRecord) -> None:
        """Add a record that waits until its contents are stored."""
        self._waiting.append(record)

    def forget(self, path: str, names: set[str] | None) -> None:
        """Cancel waiting records at or below a deleted path, or of these members of a file set."""
        self._drop(lambda one: is_inside(one.path, path) and (names is None or one.name in names))

    def replace(self, paths: Iterable[str]) -> None:
        """Cancel waiting texts at paths that now have another value."""
        at = set(paths)
        self._drop(lambda one: one.path in at and not one.taken)

    def _drop(self, gone: Callable[[WaitingRecord], bool]) -> None:
        with self._worker.lock:
            for record in filter(gone, self._waiting):
                self._unneeded_digests |= record.needs
            self._waiting = [record for record in self._waiting if not gone(record)]
