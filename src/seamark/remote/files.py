"""Transfer of the missing file contents of runs to a remote.

Contents are sent by their digest on a separate thread, after the journals that name them, so that a
large checkpoint does not delay metrics. Stored parts are not sent again.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from seamark.blobs import open_blob
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder
from seamark.journal.safe import names_in
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly
from seamark.remote.protocol import (
    Busy,
    Purged,
    Remote,
    RemoteError,
    RunKey,
    Unfit,
    Unreachable,
)

log = logging.getLogger("seamark")

_random: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_CHECK_INTERVAL_S: Final = 5.0
_FIRST_WAIT_S: Final = 1.0
_MAX_WAIT_S: Final = 60.0
_MAX_FAILURES: Final = 3
_CLOCK_TICK_NS: Final = 2 * 10**9


def files_of(folder: RunFolder) -> dict[str, int]:
    """Return the contents of a run: SHA-256 and size in bytes.

    Files in ``.staging/`` do not count yet; `seamark.blobs.finish_staged` completes those of ended
    processes.
    """
    found = {}
    for name in names_in(folder.blobs_dir, above=1):
        if _DIGEST.fullmatch(name):
            with quietly(only=FileNotFoundError):  # pruned just now
                found[name] = os.stat(folder.blobs_dir / name, follow_symlinks=False).st_size  # noqa: PTH116
    return found


def send_file(
    remote: Remote, folder: RunFolder, digest: str, size: int, key: RunKey | None = None
) -> bool:
    """Send one content of a run, as `key`; return False if it is missing or damaged."""
    try:
        with open_blob(folder, digest, size) as file:
            remote.put_blob(key or RunKey.of(folder), digest, size, file)
    except (FileMissingError, ValueError) as error:
        let_pass(error)
        return False
    return True


@dataclass(slots=True, eq=False)
class _Transfer:
    """State of the transfer of one run's files.

    Attributes:
        there: Digests that need no further attempt: they are stored or can never be.
        seen: Modification time of the folder when all its files were stored, ns; 0 for never.
        looked: Start of the last check that found everything sent, in seconds of `time.monotonic`.
        finished: Time since which no files are expected, same clock; None if files may follow.
        failures: Number of consecutive checks that failed with an error of this disk.
    """

    folder: RunFolder
    there: set[str] = field(default_factory=set)
    seen: int = 0
    looked: float = 0.0
    over: bool = False
    finished: float | None = None
    failures: int = 0

    def is_sent(self, since: float) -> bool:
        """Return whether all files that existed at a time are sent or can never be."""
        return self.over or self.looked >= since

    @property
    def is_done(self) -> bool:
        """Whether no more files are expected and all are sent."""
        return self.finished is not None and self.is_sent(self.finished)


class FileSender:
    """Sender of the files of runs to one remote, on a thread that starts with the first run.

    No method raises, and only `flush` waits for the remote. `open_` returns the remote, which only
    the thread uses; `say` is called with a warning when data is refused.
    """

    def __init__(
        self,
        open_: Callable[[], Remote],
        say: Callable[[str], None],
        look_s: float = _CHECK_INTERVAL_S,
    ) -> None:
        self._open, self._warn, self._check_interval_s = open_, say, look_s
        self._changed = threading.Condition()
        self._runs: dict[RunKey, _Transfer] = {}
        self._thread: threading.Thread | None = None
        self._warned: set[str] = set()

    def watch(self, folder: RunFolder) -> None:
        """Send the current and future files of a run."""
        with self._changed:
            run = self._runs.get(key := RunKey.of(folder))
            if run is None or run.folder != folder:
                self._runs[key] = _Transfer(folder)
                self._start()
            else:
                run.finished = None

    def finish(self, folder: RunFolder) -> None:
        """Expect no further files of a run; known ones are still sent."""
        with self._changed:
            if (run := self._runs.get(RunKey.of(folder))) is not None:
                run.finished = time.monotonic()
                self._changed.notify_all()

    def flush(self, seconds: float, folder: RunFolder | None = None) -> bool:
        """Wait until the files of one or all runs are sent; return whether they are."""
        now = time.monotonic()
        with self._changed:
            key = None if folder is None else RunKey.of(folder)
            waited = [run for each, run in self._runs.items() if key in (None, each)]
            # The thread may end once no more files are expected.
            while not all(run.is_sent(run.finished or now) for run in waited):
                left = now + seconds - time.monotonic()
                if left <= 0 or self._thread is None or not self._thread.is_alive():
                    return False
                self._changed.notify_all()
                self._changed.wait(min(left, 0.25))
        return True

    @property
    def busy(self) -> bool:
        """Whether files may still be sent; takes no lock, for signal handlers."""
        return not all(one.over or one.is_done for one in list(self._runs.values()))

    def _start(self) -> None:
        if self._thread is None:
            remote: Remote | None = None
            # Open it now: data shared with the caller may not exist any more when the thread
            # starts.
            with quietly():
                remote = self._open()
            thread = threading.Thread(
                target=self._run_thread, args=(remote,), name="seamark-files", daemon=True
            )
            with quietly(only=RuntimeError):  # no more threads, or the interpreter is ending
                thread.start()
                self._thread = thread

    # ------------------------------------------------------------------ on the thread

    def _run_thread(self, remote: Remote | None) -> None:
        pause = 0.0
        while True:
            wait_s: float | None = _FIRST_WAIT_S
            try:
                if remote is None:
                    with fork.delay_forks():  # modules are imported
                        remote = self._open()
                wait_s = self._send_all(remote)
            except Exception:  # a bug must not stop the training
                log.debug("seamark: sending files failed", exc_info=True)
            pause = 0.0 if wait_s is None else min(_MAX_WAIT_S, max(_FIRST_WAIT_S, 2 * pause))
            if self._wait_or_stop(wait_s, pause):
                break
        with quietly():
            if remote is not None:
                remote.close()

    def _wait_or_stop(self, wait_s: float | None, pause: float) -> bool:
        with self._changed:
            self._runs = {key: run for key, run in self._runs.items() if not run.is_done}
            self._changed.notify_all()
            if not self._runs:
                self._thread = None
                return True
            if wait_s is None:
                # If a run ended during the check, its last files are sent at once.
                if all(run.finished is None for run in self._runs.values()):
                    self._changed.wait(self._check_interval_s)
            else:  # a waiting caller must not shorten the delay for an unreachable remote
                until = time.monotonic() + max(wait_s, pause * _random.uniform(0.5, 1.0))
                while (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)
        return False

    def _send_all(self, remote: Remote) -> float | None:
        with self._changed:
            runs = [(key, run) for key, run in self._runs.items() if not run.over]
        wait_s = None
        for key, run in runs:
            began = time.monotonic()
            try:
                self._send(remote, key, run)
            except Busy as error:
                return error.wait_s
            except Unreachable:
                return 0.0
            except Purged:
                run.over = True  # the shipper of its journals warns about it
            except RemoteError as error:
                run.over = True
                self._warn_once(f"files of run {key.run} are not sent: {error}")
            except OSError as error:  # such as too many open files
                log.debug("seamark: %s cannot be read: %s", run.folder.path, error)
                run.failures += 1
                if run.failures < _MAX_FAILURES:
                    wait_s = _FIRST_WAIT_S
                    continue
            run.looked, run.failures = began, 0
        return wait_s

    def _send(self, remote: Remote, key: RunKey, run: _Transfer) -> None:
        changed = 0
        with quietly(only=OSError):
            changed = run.folder.blobs_dir.stat().st_mtime_ns
        if not changed or changed == run.seen:
            return
        sizes = files_of(run.folder)
        new = sizes.keys() - run.there
        if new:
            missing = set(remote.missing_blobs(key, sorted(new))) & new
            run.there |= new - missing
            for digest in sorted(missing, key=lambda each: sizes[each]):  # smallest first
                self._send_one(remote, run, digest, sizes[digest])
        # A further change within the resolution of the file system's clock would be missed.
        run.seen = changed if time.time_ns() - changed > _CLOCK_TICK_NS else 0

    def _send_one(self, remote: Remote, run: _Transfer, digest: str, size: int) -> None:
        try:
            send_file(remote, run.folder, digest, size)
        except Unfit as error:  # the next file may be accepted
            self._warn_once(f"a file of run {run.folder.run} is not sent: {error}")
        run.there.add(digest)

    def _warn_once(self, line: str) -> None:
        if line not in self._warned:
            self._warned.add(line)
            self._warn(line)
