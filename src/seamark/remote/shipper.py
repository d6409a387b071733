"""Transfer of this process's records: one thread for each remote, for all runs.

The thread reads journals from disk as any other process would, so that it does not slow down calls
that log, and holds no data that is not on disk. Errors never interrupt a training: they are logged
in one line, and unsent data is left for ``seamark sync``.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from seamark.journal.folder import RunFolder
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.queues import wait_for_entry
from seamark.remote.files import FileSender
from seamark.remote.protocol import (
    Busy,
    Diverged,
    Gap,
    KeepsByName,
    Missing,
    Purged,
    Refused,
    Remote,
    RemoteError,
    RunKey,
    Unfit,
    Unreachable,
)
from seamark.remote.schemes import open_remote, shown
from seamark.remote.shipment import Shipment, Tail, Writing

log = logging.getLogger("seamark")

_random: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_MAX_POSITIONS: Final = 200
"""Maximum number of runs of a remote whose positions are remembered."""
EXIT_S: Final = 60.0
"""Time limit for sending the rest at the end of a run or process, in seconds."""
SIGNAL_S: Final = 5.0
"""Time limit for sending the rest after a signal, in seconds; SIGKILL may follow soon."""
MIN_WAIT_S: Final = 1.0
MAX_WAIT_S: Final = 10.0
"""Longest interval between checks for unsent data that a remote may request, in seconds."""
_FIRST_BACK_OFF_S: Final = 0.5
_MAX_BACK_OFF_S: Final = 60.0
_MAX_AWAITED_BACK_OFF_S: Final = 3.0
"""Longest delay after an error while a caller waits, in seconds."""
_REFUSAL_DELAY_S: Final = 600.0
"""Delay before refused data is sent again, in seconds."""
_AFTER_TIMEOUT_S: Final = 1.0
"""Time limit for a remote that already timed out and is still unreachable, in seconds."""
_MAX_GAPS: Final = 3
_FAILURES_BEFORE_WARNING: Final = 6


class Shipper:
    """Sender of this process's runs to one remote, on its own thread, which opens the remote."""

    def __init__(
        self,
        uri: str,
        token: str | None = None,
        *,
        open_: Callable[[str, str | None], Remote] = open_remote,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.uri = uri
        self.name = shown(uri)
        self._token = token
        self._open = open_
        self._clock = clock
        self._shipments: dict[RunKey, Shipment] = {}
        self._remote: Remote | None = None
        self._lock = threading.RLock()
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiters: list[queue.SimpleQueue[None]] = []
        self._thread: threading.Thread | None = None
        self._wait_s = MIN_WAIT_S
        self._failures = 0
        self._retry_at = 0.0
        self._warned_unreachable = self._timed_out = self._busy = False
        self._files = FileSender(partial(open_, uri, token), self._warn_files)

    # ---------------------------------------------------------------- runs to send

    def add(
        self,
        folder: RunFolder,
        writer: Writing,
        by: object = None,
        *,
        earlier: bool = False,
    ) -> None:
        """Send the journals of a writer from now on. Never raises.

        Only a weak reference to `writer` is held. `by` is the run object that is later passed to
        `rest` and `finish`, by default `writer`. With `earlier`, records of ended processes are
        sent, too.
        """
        with self._lock:
            shipment = self._shipments.get(key := RunKey.of(folder))
            if shipment is None or shipment.folder != folder:
                shipment = self._shipments[key] = Shipment(folder)
            shipment.add(writer, writer if by is None else by, earlier=earlier)
            self._start()
        self.wake()

    def rest(self, folder: RunFolder, by: object) -> None:
        """Send the rest of a run object that records nothing for a while."""
        if (shipment := self._shipments.get(RunKey.of(folder))) is not None:
            shipment.rest(by)
            self.wake()

    def finish(self, folder: RunFolder, by: object) -> None:
        """Expect no more records of a run object; use `wait` until the rest is sent.

        Records of other objects of the same run are still sent.
        """
        with self._lock:  # otherwise a run that begins just now could be lost
            if (shipment := self._shipments.get(RunKey.of(folder))) is None:
                return
            shipment.finish(by)
            if shipment.finished:
                self._files.finish(folder)
        self.wake()

    def wake(self) -> None:
        """Wake the thread, so that it checks now; may be called in a signal handler."""
        self._wakes.put(None)

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(
                target=self._run_thread, name=f"seamark-shipper {self.name}", daemon=True
            )
            with quietly(only=RuntimeError):  # no more threads, or the interpreter is ending
                thread.start()
                self._thread = thread

    # ---------------------------------------------------------------- waiting

    def wait(
        self,
        seconds: float,
        folder: RunFolder | None = None,
        show: Callable[[int, int], None] | None = None,
    ) -> bool:
        """Wait until all current records of one or all runs are sent; return whether they are.

        `show` is called repeatedly with the number of sent bytes and the total.
        """
        waited = self._shipments_of(folder)
        for one in waited:
            one.look_now()
        turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._waiters.append(turn)
        until, total = self._clock() + seconds, 0
        self.wake()
        try:
            while True:
                now = self._clock()
                asked = [one for one in waited if not one.is_refused(now)]
                left = sum(one.left for one in asked)
                total = max(total, left)
                if not left and not any(one.unseen for one in asked):
                    return len(asked) == len(waited)
                if now >= until:
                    return False
                if show is not None:
                    show(total - left, total)
                if not self._busy:
                    self._retry_at = min(self._retry_at, now + _MAX_AWAITED_BACK_OFF_S)
                if self._thread is not None and self._thread.is_alive():
                    wait_for_entry(turn, min(0.25, until - now))
                elif not self._send_round():  # no threads can start while the interpreter ends
                    time.sleep(0.05)
        finally:
            self._waiters.remove(turn)

    def wait_at_end(
        self,
        seconds: float,
        folder: RunFolder | None = None,
        show: Callable[[int, int], None] | None = None,
    ) -> bool:
        """Wait like `wait`, but only briefly if that failed before; warn about unsent data."""
        now = self._clock()
        if self._timed_out and self._failures:
            seconds = min(seconds, _AFTER_TIMEOUT_S)
        left, until = self._shipments_of(folder), now + seconds
        if all(one.given_up or one.is_refused(now) for one in left):
            return not left  # warned about already
        done = files = False
        try:
            done = self.wait(seconds, folder, show)
            files = not done or self._files.flush(max(0.0, until - self._clock()), folder)
        finally:  # also if Ctrl-C ends the wait
            self._timed_out = not (done and files)
            if self._timed_out:
                now = self._clock()
                refused = [one for one in left if one.is_refused(now)]  # warned about separately
                rest = [one for one in left if one.left or one.unseen or not files]
                self._warn_unsent([one for one in rest if one not in refused])
        return not self._timed_out

    def _shipments_of(self, folder: RunFolder | None) -> list[Shipment]:
        found = list(self._shipments.items())
        return [one for key, one in found if folder is None or key == RunKey.of(folder)]

    def _warn_unsent(self, left: list[Shipment]) -> None:
        runs = [one.key.run for one in left]
        for one in left:
            one.given_up = True
        if not runs:
            return
        what = f"run {runs[0]}" if len(runs) == 1 else f"{len(runs)} runs"
        named = f"{runs[0]} " if len(runs) == 1 else ""
        log.warning(
            "seamark: not all data of %s was sent to %s in time. It is stored on this disk; "
            "`seamark sync %s--to %s` sends the rest",
            *(what, self.name, named, self.name),
        )

    # ---------------------------------------------------------------- the thread

    def _run_thread(self) -> None:
        while True:
            more = False
            try:
                more = self._send_round()
            except Exception:  # a bug must not stop the training
                log.debug("seamark: sending to %s failed", self.name, exc_info=True)
                self._note_failure(None)
            for turn in list(self._waiters):
                turn.put(None)
            if self._stop_if_idle():
                return
            if not more:
                pause = max(self._wait_s, self._retry_at - self._clock())
                awaited = _MAX_AWAITED_BACK_OFF_S if self._waiters else pause
                wait_for_entry(self._wakes, min(pause, awaited))
                while not self._wakes.empty():
                    with quietly(only=queue.Empty):
                        self._wakes.get_nowait()

    def _stop_if_idle(self) -> bool:
        with self._lock:
            for key, one in list(self._shipments.items()):
                if one.finished and (one.over or not (one.left or one.unseen)):
                    if self._waiters:
                        continue  # a caller still waits for it
                    del self._shipments[key]
            if self._shipments or not self._wakes.empty():
                return False
            self._thread = None
            remote, self._remote = self._remote, None
        with quietly():
            if remote is not None:
                remote.close()
        return True

    def _send_round(self) -> bool:
        now = self._clock()
        if now < self._retry_at:
            return False
        more = False
        for shipment in list(self._shipments.values()):
            if not (shipment.look(now) or (shipment.tails and not shipment.placed)):
                continue
            if shipment.over or now < shipment.later:
                continue
            if not self._try_shipment(shipment):
                # Start with another run next time: this one may be the cause of the failure.
                with self._lock:
                    self._shipments[shipment.key] = self._shipments.pop(shipment.key, shipment)
                return False
            more = more or bool(shipment.left and shipment.later <= now)
        return more

    def _try_shipment(self, shipment: Shipment) -> bool:
        try:
            if self._send_shipment(shipment):
                shipment.failures = 0
                self._note_success()
        except Purged as error:
            shipment.over = "purged"
            log.warning(
                "seamark: run %s is not sent to %s: it was purged there (%s); the data on this "
                "disk is kept",
                *(shipment.key.run, self.name, error),
            )
        except Refused as error:
            self._note_refusal(shipment, error)
        except Exception as error:  # noqa: BLE001 - remotes may be third-party code
            shipment.placed = False
            shipment.failures += 1
            shipment.later = self._clock() + self._pause(shipment.failures)
            self._note_failure(error)
            if shipment.failures == _FAILURES_BEFORE_WARNING and not self._warned_unreachable:
                log.warning(
                    "seamark: run %s cannot be sent now and stays on this disk: %s",
                    *(shipment.key.run, _describe_error(error, self.name)),
                )
            return False
        return True

    def _send_shipment(self, shipment: Shipment) -> bool:
        remote, asked = self._open_remote(), False
        if not shipment.placed:
            if isinstance(remote, KeepsByName):
                remote.meet(shipment.key, shipment.folder)
            try:
                kept = remote.journals(shipment.key)
            except Missing:
                kept = {}  # or the user may not see it: then sending fails with the reason
            for tail in shipment.tails.values():
                tail.place(kept.get(tail.name, 0))
            shipment.placed = asked = True
            note_position(self.uri, shipment.key, sum(kept.values()))
        for tail in shipment.tails.values():
            asked = self._send_batch(remote, shipment, tail) or asked
        self._files.watch(shipment.folder)  # after the journals that name them
        if shipment.finished:  # finished before `watch`
            self._files.finish(shipment.folder)
        return asked

    def _send_batch(self, remote: Remote, shipment: Shipment, tail: Tail) -> bool:
        # An error of one journal does not delay others. The result is whether the remote answered a
        # request.
        try:
            sent = tail.step(remote, shipment.key)
        except Gap as error:
            if tail.gaps >= _MAX_GAPS:
                raise Unreachable(
                    f"{self.name} repeatedly requests {tail.name} from offset {error.known} on"
                ) from error
        except Diverged as error:
            tail.aside = True
            self._warn_set_aside(
                tail,
                f"another journal of this name is stored there ({error}), as of a cloned machine",
            )
        except Unfit as error:
            tail.aside = True
            self._warn_set_aside(tail, str(error))
        except RemoteError:
            raise
        except OSError as error:  # try again later
            tail.pass_over()
            log.debug("seamark: %s cannot be read: %s", tail.path, error)
            return False
        else:
            if sent is None:
                return False
            note_position(self.uri, shipment.key, sent.position)
            self._wait_s = min(MAX_WAIT_S, max(MIN_WAIT_S, sent.wait_s))
        return True

    def _open_remote(self) -> Remote:
        if self._remote is None:
            with fork.delay_forks():  # modules are imported
                import seamark.journal.frames  # noqa: F401 - a tail needs it

                self._remote = self._open(self.uri, self._token)
        return self._remote

    # ---------------------------------------------------------------- errors

    def _warn_files(self, line: str) -> None:
        log.warning("seamark: %s: %s. `seamark sync` sends missing files later", self.name, line)

    def _pause(self, failures: int) -> float:
        longest = _MAX_AWAITED_BACK_OFF_S if self._waiters else _MAX_BACK_OFF_S
        pause = min(longest, _FIRST_BACK_OFF_S * (1 << min(failures, 16)))
        return pause * _random.uniform(0.5, 1.0)

    def _note_failure(self, error: BaseException | None) -> None:
        self._failures += 1
        pause = self._pause(self._failures)
        self._busy = isinstance(error, Busy) and error.wait_s > 0
        if isinstance(error, Busy):
            pause = max(pause, error.wait_s * _random.uniform(1.0, 1.1))
        self._retry_at = self._clock() + pause
        # The first failure is retried soon; warn about the second one.
        if self._failures > 1 and not self._warned_unreachable and error is not None:
            self._warned_unreachable = True
            log.warning(
                "seamark: %s; records stay on this disk and are sent when the remote is available "
                "again. Training continues",
                _describe_error(error, self.name),
            )

    def _note_success(self) -> None:
        self._failures, self._retry_at, self._busy = 0, 0.0, False
        if self._warned_unreachable:
            self._warned_unreachable = False
            log.warning("seamark: %s is available again; waiting records are being sent", self.name)

    def _note_refusal(self, shipment: Shipment, error: Refused) -> None:
        shipment.placed = False
        first = not shipment.refused_until
        shipment.later = shipment.refused_until = self._clock() + _REFUSAL_DELAY_S
        if first:
            log.warning(
                "seamark: run %s is not sent: %s. It is recorded on this disk; "
                "`seamark sync` sends it later",
                *(shipment.key.run, str(error)[:600].rstrip(".")),
            )

    def _warn_set_aside(self, tail: Tail, why: str) -> None:
        log.warning("seamark: journal %s is not sent to %s: %s", tail.name, self.name, why[:600])


def _describe_error(error: BaseException, name: str) -> str:
    text = str(error) if isinstance(error, RemoteError) else f"{name}: {error!r}"
    return text[:400]


# --------------------------------------------------------------------- shippers of this process

_shippers: dict[tuple[str, str | None], Shipper] = {}
_lock = threading.RLock()
_positions: dict[str, dict[RunKey, int]] = {}
"""Stored bytes of each run that this process sent or edited, by address of the remote."""


def shipper_of(uri: str, token: str | None = None) -> Shipper:
    """Return the shipper for a canonical URI, created if needed but not started."""
    with _lock:
        if (uri, token) not in _shippers:
            _shippers[uri, token] = Shipper(uri, token)
        return _shippers[uri, token]


def shippers() -> list[Shipper]:
    """Return the shippers of this process."""
    return list(_shippers.values())


def known(uri: str) -> list[Shipper]:
    """Return the shippers of this process for a canonical URI: one for each token."""
    return [shipper for (to, _), shipper in list(_shippers.items()) if to == uri]


def positions(uri: str) -> dict[RunKey, int]:
    """Return the stored number of bytes for each run that this process sent to a remote.

    A read request with these positions sees at least these bytes.
    """
    return dict(_positions.get(uri, {}))


def note_position(uri: str, run: RunKey, position: int) -> None:
    """Note how many bytes of a run a remote has stored, so that later reads here see them."""
    with _lock:
        known_runs = _positions.setdefault(uri, {})
        known_runs[run] = max(position, known_runs.pop(run, 0))
        if len(known_runs) > _MAX_POSITIONS:
            del known_runs[next(iter(known_runs))]


def flush(uri: str, seconds: float) -> bool:
    """Wait until all current records of this process are sent to a remote. Never raises.

    Return whether all of them are sent; True if this process sends nothing to the remote.
    """
    until = time.monotonic() + seconds
    done = [each.wait(max(0.0, until - time.monotonic())) for each in known(uri)]
    return all(done)


def _begin_child() -> None:
    # Threads and their shipments belong to the parent.
    global _lock  # noqa: PLW0603 - the parent's lock is never released here
    _lock = threading.RLock()
    _shippers.clear()


fork.register(_begin_child)
