"""Transfer of file contents to a remote: the files of a run, and sending of missing ones.

Contents are sent by their digest after the journals that name them, by a thread of their own: a
checkpoint of ten gigabytes holds up no metric. What an earlier try has sent is not sent again.
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
from typing import TYPE_CHECKING, Final

from seamark.blobs import open_blob
from seamark.errors import FileMissingError
from seamark.journal.safe import names_in
from seamark.process import fork
from seamark.process.interrupts import let_pass, quietly
from seamark.remote.protocol import (
    Busy,
    Purged,
    RemoteError,
    RunKey,
    Unfit,
    Unreachable,
)

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import Remote

__all__ = ["FileSender", "files_of", "send_file"]

log = logging.getLogger("seamark")

_chance: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LOOK_S: Final = 5.0
_FIRST_WAIT_S: Final = 1.0
_LAST_WAIT_S: Final = 60.0
_TRIES: Final = 3
_TICK_NS: Final = 2 * 10**9


def files_of(folder: RunFolder) -> dict[str, int]:
    """Return the contents that a run holds: SHA-256 and size in bytes.

    What is still in ``.staging/`` is none yet; `seamark.blobs.finish_staged` completes what dead
    processes left there.
    """
    found = {}
    for name in names_in(folder.blobs_dir, above=1):
        if _DIGEST.fullmatch(name):
            with quietly(only=FileNotFoundError):  # pruned in this moment
                found[name] = os.stat(folder.blobs_dir / name, follow_symlinks=False).st_size  # noqa: PTH116
    return found


def send_file(
    remote: Remote, folder: RunFolder, digest: str, size: int, key: RunKey | None = None
) -> bool:
    """Send one content of a run, as `key`; False if the run does not hold it as it should be."""
    try:
        with open_blob(folder, digest, size) as file:
            remote.put_blob(key or _key(folder), digest, size, file)
    except (FileMissingError, ValueError) as error:
        let_pass(error)
        return False
    return True


@dataclass(slots=True, eq=False)
class _Watched:
    """A run whose files are sent.

    Attributes:
        there: Digests that need no more thought: they are there, or will never be.
        seen: Time of the folder's last change when all that was in it was there, ns; 0 for never.
        looked: When the last look began that found everything sent, seconds of `time.monotonic`.
        finished: When nothing more was expected, the same; None as long as files may come.
        failures: Number of looks in turn that this disk did not let end.
    """

    folder: RunFolder
    there: set[str] = field(default_factory=set)
    seen: int = 0
    looked: float = 0.0
    over: bool = False
    finished: float | None = None
    failures: int = 0

    def is_sent(self, since: float) -> bool:
        """Return whether all files are sent that were there at a time, or will never be."""
        return self.over or self.looked >= since

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to do."""
        return self.finished is not None and self.is_sent(self.finished)


class FileSender:
    """Sends files of runs to one remote, on a thread that begins with the first run.

    Nothing of it raises into who calls it, or waits for the remote but `flush`. `open_` returns the
    remote, for the thread alone; `say` takes a line for a person when something is refused.
    """

    def __init__(
        self,
        open_: Callable[[], Remote],
        say: Callable[[str], None],
        look_s: float = _LOOK_S,
    ) -> None:
        self._open, self._say, self._look_s = open_, say, look_s
        self._changed = threading.Condition()
        self._runs: dict[RunKey, _Watched] = {}
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()

    def watch(self, folder: RunFolder) -> None:
        """Send the files of a run: those that are there, and those that come."""
        with self._changed:
            run = self._runs.get(key := _key(folder))
            if run is None or run.folder != folder:
                self._runs[key] = _Watched(folder)
                self._start()
            else:
                run.finished = None

    def finish(self, folder: RunFolder) -> None:
        """Expect no further files of a run; known ones are still sent."""
        with self._changed:
            if (run := self._runs.get(_key(folder))) is not None:
                run.finished = time.monotonic()
                self._changed.notify_all()

    def flush(self, seconds: float, folder: RunFolder | None = None) -> bool:
        """Wait until the files of one run, or of all, are sent; return whether they are."""
        now = time.monotonic()
        with self._changed:
            key = None if folder is None else _key(folder)
            waited = [run for each, run in self._runs.items() if key in (None, each)]
            # Where no more are expected the thread may end after that.
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
            # Now: what it shares with who calls may be gone when the thread begins.
            with quietly():
                remote = self._open()
            thread = threading.Thread(
                target=self._work, args=(remote,), name="seamark-files", daemon=True
            )
            with quietly(only=RuntimeError):  # no more threads, or the interpreter is ending
                thread.start()
                self._thread = thread

    # ------------------------------------------------------------------ on the thread

    def _work(self, remote: Remote | None) -> None:
        pause = 0.0
        while True:
            wait_s: float | None = _FIRST_WAIT_S
            try:
                if remote is None:
                    with fork.delay_forks():  # modules are imported
                        remote = self._open()
                wait_s = self._round(remote)
            except Exception:  # a fault of ours: training comes first
                log.debug("seamark: sending files failed", exc_info=True)
            pause = 0.0 if wait_s is None else min(_LAST_WAIT_S, max(_FIRST_WAIT_S, 2 * pause))
            if self._rest(wait_s, pause):
                break
        with quietly():
            if remote is not None:
                remote.close()

    def _rest(self, wait_s: float | None, pause: float) -> bool:
        with self._changed:
            self._runs = {key: run for key, run in self._runs.items() if not run.is_done}
            self._changed.notify_all()
            if not self._runs:
                self._thread = None
                return True
            if wait_s is None:
                # Of a run that ended during the look, the last files are sent at once.
                if all(run.finished is None for run in self._runs.values()):
                    self._changed.wait(self._look_s)
            else:  # whoever waits may not hurry a remote that is away
                until = time.monotonic() + max(wait_s, pause * _chance.uniform(0.5, 1.0))
                while (left := until - time.monotonic()) > 0:
                    self._changed.wait(left)
        return False

    def _round(self, remote: Remote) -> float | None:
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
                run.over = True  # the shipper of its journals says so
            except RemoteError as error:
                run.over = True
                self._warn_once(f"files of run {key.run} are not sent: {error}")
            except OSError as error:  # such as too many open files
                log.debug("seamark: %s cannot be read: %s", run.folder.path, error)
                run.failures += 1
                if run.failures < _TRIES:
                    wait_s = _FIRST_WAIT_S
                    continue
            run.looked, run.failures = began, 0
        return wait_s

    def _send(self, remote: Remote, key: RunKey, run: _Watched) -> None:
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
            for digest in sorted(missing, key=lambda each: sizes[each]):  # small ones first
                self._send_one(remote, run, digest, sizes[digest])
        # Another change within the same tick of the disk's clock would not be seen.
        run.seen = changed if time.time_ns() - changed > _TICK_NS else 0

    def _send_one(self, remote: Remote, run: _Watched, digest: str, size: int) -> None:
        try:
            send_file(remote, run.folder, digest, size)
        except Unfit as error:  # the next one may be taken
            self._warn_once(f"a file of run {run.folder.run} is not sent: {error}")
        run.there.add(digest)

    def _warn_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)


def _key(folder: RunFolder) -> RunKey:
    return RunKey(folder.project, folder.run)
