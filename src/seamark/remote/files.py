"""Contents of files on their way elsewhere: which ones a run has, and sending what is missing.

Contents are sent by their digest after the journals that name them, by a thread of their own: a
checkpoint of ten gigabytes holds up no metric. What an earlier try has sent is not sent again.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from seamark.blobs import open_blob
from seamark.errors import FileMissingError
from seamark.journal.safe import names_in
from seamark.process.interrupts import let_pass, quietly
from seamark.remote.protocol import Busy, Purged, Refused, RemoteError, RunKey, Unreachable

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import Remote

__all__ = ["FileSender", "files_of", "send_file"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LOOK_S: Final = 5.0
_FIRST_WAIT_S: Final = 1.0
_LAST_WAIT_S: Final = 60.0


def files_of(folder: RunFolder) -> dict[str, int]:
    """Return the contents that a run holds: SHA-256 and size in bytes.

    What is still in ``.staging/`` is none yet; `seamark.blobs.finish_staged` completes what dead
    processes left there.

    Raises:
        OSError: If the folder cannot be read.
    """
    found = {}
    for name in names_in(folder.blobs_dir, above=1):
        if _DIGEST.fullmatch(name):
            with quietly(only=FileNotFoundError):  # pruned in this moment
                found[name] = os.stat(folder.blobs_dir / name, follow_symlinks=False).st_size  # noqa: PTH116
    return found


def send_file(remote: Remote, folder: RunFolder, digest: str, size: int) -> bool:
    """Send one content; False if the run no longer holds it, or not as it should be.

    Raises:
        RemoteError: If the remote does not take it.
    """
    try:
        with open_blob(folder, digest, size) as file:
            remote.put_blob(RunKey(folder.project, folder.run), digest, size, file)
    except (FileMissingError, ValueError) as error:
        let_pass(error)
        return False
    return True


@dataclass(slots=True, eq=False)
class _Watched:
    """A run whose files are sent.

    Attributes:
        folder: Where it lies.
        there: Digests that need no more thought: they are there, or will never be.
        seen: Time of the folder's last change when all that was in it was there, ns; 0 for never.
    """

    folder: RunFolder
    there: set[str]
    seen: int = 0
    purged: bool = False


class FileSender:
    """Sends files of runs to one remote, on a thread that begins with the first run.

    Nothing of it raises into who calls it.

    Args:
        remote: Where to; its own, or one that several threads may use.
        say: Takes a line for a person when something is given up or refused.
        look_s: How often it looks for new files, seconds.
    """

    def __init__(self, remote: Remote, say: Callable[[str], None], look_s: float = _LOOK_S) -> None:
        self._remote, self._say, self._look_s = remote, say, look_s
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._runs: dict[tuple[str, str], _Watched] = {}
        self._thread: threading.Thread | None = None
        self._hurry = 0
        self._rounds = 0
        self._closed = False
        self._left: dict[tuple[str, str], tuple[int, int]] = {}
        self._told: set[str] = set()

    def watch(self, folder: RunFolder) -> None:
        """Send the files of a run, those that are there and those that come."""
        with self._lock:
            key = folder.project, folder.run
            if key not in self._runs and not self._closed:
                self._runs[key] = _Watched(folder, set())
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._work, name="seamark-files", daemon=True
                )
                self._thread.start()
            self._hurry += 1
            self._changed.notify_all()

    def forget(self, folder: RunFolder) -> None:
        """Look no more for files of a run."""
        with self._lock:
            self._runs.pop((folder.project, folder.run), None)
            self._left.pop((folder.project, folder.run), None)

    def flush(self, seconds: float) -> bool:
        """Wait until all files that are there now are sent; False if that took too long."""
        end = time.monotonic() + seconds
        with self._lock:
            if self._thread is None:
                return True
            self._hurry += 1
            wanted = self._rounds + 2  # the one under way may have begun before
            self._changed.notify_all()
            while self._rounds < wanted or self._left:
                left = end - time.monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return not self._left and self._rounds >= wanted
                if self._rounds >= wanted:
                    self._hurry += 1
                    self._changed.notify_all()
                self._changed.wait(min(left, 1.0))
        return True

    @property
    def left(self) -> tuple[int, int]:
        """How many files are known not to be sent yet, and their bytes."""
        with self._lock:
            return (
                sum(count for count, _ in self._left.values()),
                sum(size for _, size in self._left.values()),
            )

    def close(self) -> None:
        """End the thread after the part that it is sending; harmless when called twice."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    # ------------------------------------------------------------------ on the thread

    def _work(self) -> None:
        pause = 0.0
        while True:
            with self._lock:
                seen = self._hurry
                runs = list(self._runs.items())
            if self._closed:
                return
            wait_s = self._round(runs)
            pause = 0.0 if wait_s is None else min(_LAST_WAIT_S, max(_FIRST_WAIT_S, 2 * pause))
            with self._lock:
                self._rounds += 1
                self._changed.notify_all()
                if wait_s is None:  # all is well
                    if self._hurry == seen and not self._closed:
                        self._changed.wait(self._look_s)
                elif not self._closed:
                    self._changed.wait(max(wait_s, pause * random.uniform(0.5, 1.0)))  # noqa: S311 - spreads, keeps no secret

    def _round(self, runs: list[tuple[tuple[str, str], _Watched]]) -> float | None:
        """Send what is new of all runs; return for how long to wait where the remote is away."""
        for key, run in runs:
            if run.purged:
                continue
            try:
                self._send(key, run)
            except Busy as error:
                return error.wait_s
            except Unreachable:
                return 0.0
            except Purged:
                run.purged = True
                self._set_left(key, [])
            except RemoteError as error:
                self._say_once(f"{run.folder.words}: files are not sent: {error}")
                run.purged = isinstance(error, Refused)
                self._set_left(key, [])
            except Exception as error:  # noqa: BLE001 - recording goes on whatever happens here
                self._say_once(f"{run.folder.words}: files are not sent: {error!r}")
        return None

    def _send(self, key: tuple[str, str], run: _Watched) -> None:
        changed = 0
        with quietly(only=OSError):
            changed = run.folder.blobs_dir.stat().st_mtime_ns
        if not changed or changed == run.seen:
            return
        sizes = files_of(run.folder)
        new = sizes.keys() - run.there
        if new:
            self._set_left(key, [sizes[each] for each in new])
            missing = set(self._remote.missing_blobs(RunKey(*key), sorted(new))) & new
            run.there |= new - missing
            todo = sorted(missing, key=lambda each: sizes[each])  # small ones first
            for number, digest in enumerate(todo):
                if self._closed:
                    return
                self._set_left(key, [sizes[each] for each in todo[number:]])
                self._send_one(run, digest, sizes[digest])
        self._set_left(key, [])
        run.seen = changed if time.time_ns() - changed > 2 * 10**9 else 0

    def _send_one(self, run: _Watched, digest: str, size: int) -> None:
        try:
            send_file(self._remote, run.folder, digest, size)
        except (Unreachable, Purged):
            raise
        except RemoteError as error:  # the next one may be taken
            self._say_once(f"{run.folder.words}: a file of {size:,} bytes is not sent: {error}")
        run.there.add(digest)

    def _set_left(self, key: tuple[str, str], sizes: list[int]) -> None:
        with self._lock:
            if sizes:
                self._left[key] = len(sizes), sum(sizes)
            else:
                self._left.pop(key, None)

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)
