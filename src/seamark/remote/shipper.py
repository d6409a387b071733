"""Transfer of this process's records: one thread for each remote, for all runs.

The thread reads journals as any other process would, so that a call that logs costs what it costs
without it, and holds nothing that is not on disk. Nothing here raises into a training: what goes
wrong is told in one line, and what was not sent is left for ``seamark sync``.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.remote.files import FileSender
from seamark.remote.places import open_remote, shown
from seamark.remote.protocol import (
    Busy,
    Diverged,
    Gap,
    KeepsByName,
    Missing,
    Purged,
    Refused,
    RemoteError,
    RunKey,
    Unfit,
    Unreachable,
)
from seamark.remote.shipment import Shipment

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import Remote
    from seamark.remote.shipment import Tail, Writing

__all__ = ["EXIT_S", "SIGNAL_S", "Shipper", "flush", "known", "positions", "shipper_of", "shippers"]

log = logging.getLogger("seamark")

_chance: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_MAX_ENDED: Final = 100
"""Maximum number of ended runs whose positions are remembered, newest first."""
EXIT_S: Final = 60.0
"""Time limit for sending the rest at the end of a run or process, in seconds."""
SIGNAL_S: Final = 5.0
"""Time limit for sending the rest after a signal, whose sender will not wait for long; seconds."""
LEAST_WAIT_S: Final = 1.0
MOST_WAIT_S: Final = 10.0
"""Longest interval between checks for unsent data that a remote may request, in seconds."""
_FIRST_BACK_OFF_S: Final = 0.5
_MOST_BACK_OFF_S: Final = 60.0
_AWAITED_BACK_OFF_S: Final = 3.0
"""Longest delay after an error while a caller waits, in seconds."""
_REFUSED_S: Final = 600.0
"""Delay before refused data is sent again, in seconds."""
_GIVEN_UP_S: Final = 1.0
"""Time limit for a remote that was waited for in vain and is still unreachable, in seconds."""
_MANY_GAPS: Final = 3
_MANY_FAILURES: Final = 6


class Shipper:
    """Sends the runs of this process to one remote, on a thread of its own, which opens it."""

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
        self._ended: dict[RunKey, int] = {}
        self._remote: Remote | None = None
        self._lock = threading.RLock()
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._turns: list[queue.SimpleQueue[None]] = []
        self._thread: threading.Thread | None = None
        self._wait_s = LEAST_WAIT_S
        self._failures = 0
        self._back_at = 0.0
        self._told_away = self._gave_up = self._busy = False
        self._files = FileSender(partial(open_, uri, token), self._warn_files)

    # ---------------------------------------------------------------- what is to be sent

    def add(
        self,
        folder: RunFolder,
        writer: Writing,
        by: object = None,
        *,
        earlier: bool = False,
    ) -> None:
        """Send the journals of a writer from now on. Never raises.

        `writer` is not kept alive by this. `by` is the object of the run that `rest` and `finish`
        name, by default `writer`. With `earlier`, what ended processes have recorded is sent, too.
        """
        with self._lock:
            shipment = self._shipments.get(key := _key(folder))
            if shipment is None or shipment.folder != folder:
                shipment = self._shipments[key] = Shipment(folder)
            shipment.add(writer, writer if by is None else by, earlier=earlier)
            self._start()
        self.wake()

    def rest(self, folder: RunFolder, by: object) -> None:
        """Send the rest of a run object that records nothing for now."""
        if (shipment := self._shipments.get(_key(folder))) is not None:
            shipment.rest(by)
            self.wake()

    def finish(self, folder: RunFolder, by: object) -> None:
        """Expect no more records of a run object; the rest is sent: `wait` for it.

        Where this process has another object of the run, what that one writes goes on being sent.
        """
        with self._lock:  # or one that begins just now would be forgotten
            if (shipment := self._shipments.get(_key(folder))) is None:
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
                target=self._serve, name=f"seamark-shipper {self.name}", daemon=True
            )
            with quietly(only=RuntimeError):  # no more threads, or the interpreter is ending
                thread.start()
                self._thread = thread

    def positions(self) -> dict[RunKey, int]:
        """Return how many bytes of each run the remote keeps, as it has said last."""
        found = dict(self._ended)
        for one in list(self._shipments.values()):
            if one.position:
                found[one.key] = max(one.position, found.get(one.key, 0))
        return found

    # ---------------------------------------------------------------- waiting for it

    def wait(
        self,
        seconds: float,
        folder: RunFolder | None = None,
        show: Callable[[int, int], None] | None = None,
    ) -> bool:
        """Wait until all records up to now, of one run or of all, were sent; return True if so.

        `show` is called from time to time with how many bytes are sent, and of how many.
        """
        waited = self._of(folder)
        for one in waited:
            one.look_now()
        turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._turns.append(turn)
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
                    self._back_at = min(self._back_at, now + _AWAITED_BACK_OFF_S)
                if self._thread is not None and self._thread.is_alive():
                    with quietly(only=queue.Empty):
                        turn.get(timeout=min(0.25, until - now))
                elif not self._turn():  # no thread can be started while an interpreter ends
                    time.sleep(0.05)
        finally:
            self._turns.remove(turn)

    def wait_at_end(
        self,
        seconds: float,
        folder: RunFolder | None = None,
        show: Callable[[int, int], None] | None = None,
    ) -> bool:
        """Wait as `wait` does, but only briefly if that failed before; report unsent data."""
        now = self._clock()
        if self._gave_up and self._failures:
            seconds = min(seconds, _GIVEN_UP_S)
        left, until = self._of(folder), now + seconds
        if all(one.given_up or one.is_refused(now) for one in left):
            return not left  # a line has said so
        done = files = False
        try:
            done = self.wait(seconds, folder, show)
            files = not done or self._files.flush(max(0.0, until - self._clock()), folder)
        finally:  # also where Ctrl-C ends the wait
            self._gave_up = not (done and files)
            if self._gave_up:
                now = self._clock()
                told = [one for one in left if one.is_refused(now)]  # in a line of its own
                rest = [one for one in left if one.left or one.unseen or not files]
                self._warn_unsent([one for one in rest if one not in told])
        return not self._gave_up

    def _of(self, folder: RunFolder | None) -> list[Shipment]:
        found = list(self._shipments.items())
        return [one for key, one in found if folder is None or key == _key(folder)]

    def _warn_unsent(self, left: list[Shipment]) -> None:
        runs = [one.key.run for one in left]
        for one in left:
            one.given_up = True
        if not runs:
            return
        what = f"run {runs[0]}" if len(runs) == 1 else f"{len(runs)} runs"
        named = f"{runs[0]} " if len(runs) == 1 else ""
        log.warning(
            "seamark: not all of %s was sent to %s in time. It is on this disk, and "
            "`seamark sync %s--to %s` sends the rest",
            *(what, self.name, named, self.name),
        )

    # ---------------------------------------------------------------- the thread

    def _serve(self) -> None:
        while True:
            more = False
            try:
                more = self._turn()
            except Exception:  # a fault of ours: training comes first
                log.debug("seamark: sending to %s failed", self.name, exc_info=True)
                self._failed(None)
            for turn in list(self._turns):
                turn.put(None)
            if self._stop_if_idle():
                return
            if not more:
                pause = max(self._wait_s, self._back_at - self._clock())
                awaited = _AWAITED_BACK_OFF_S if self._turns else pause
                with quietly(only=queue.Empty):
                    self._wakes.get(timeout=min(pause, awaited))
                while not self._wakes.empty():
                    with quietly(only=queue.Empty):
                        self._wakes.get_nowait()

    def _stop_if_idle(self) -> bool:
        with self._lock:
            for key, one in list(self._shipments.items()):
                if one.finished and (one.over or not (one.left or one.unseen)):
                    if self._turns:
                        continue  # somebody still asks for it
                    del self._shipments[key]
                    self._remember(key, one.position)
            if self._shipments or not self._wakes.empty():
                return False
            self._thread = None
            remote, self._remote = self._remote, None
        with quietly():
            if remote is not None:
                remote.close()
        return True

    def _remember(self, key: RunKey, position: int) -> None:
        # Whoever reads the run next is to see its end.
        ended = dict(self._ended)
        ended.pop(key, None)
        ended[key] = position
        while len(ended) > _MAX_ENDED:
            del ended[next(iter(ended))]
        self._ended = ended  # as a whole: others read it without the lock

    def _turn(self) -> bool:
        now = self._clock()
        if now < self._back_at:
            return False
        more = False
        for shipment in list(self._shipments.values()):
            if not (shipment.look(now) or (shipment.tails and not shipment.placed)):
                continue
            if shipment.over or now < shipment.later:
                continue
            if not self._try(shipment):
                # Another run is the first next time: this one may be what the remote chokes on.
                with self._lock:
                    self._shipments[shipment.key] = self._shipments.pop(shipment.key, shipment)
                return False
            more = more or bool(shipment.left and shipment.later <= now)
        return more

    def _try(self, shipment: Shipment) -> bool:
        try:
            if self._ship(shipment):
                shipment.failures = 0
                self._reached()
        except Purged as error:
            shipment.over = "purged"
            log.warning(
                "seamark: run %s is not sent to %s: it was purged there (%s); what is on this disk "
                "stays",
                *(shipment.key.run, self.name, error),
            )
        except Refused as error:
            self._refused(shipment, error)
        except Exception as error:  # noqa: BLE001 - remotes may be somebody else's
            shipment.forget()
            shipment.failures += 1
            shipment.later = self._clock() + self._pause(shipment.failures)
            self._failed(error)
            if shipment.failures == _MANY_FAILURES and not self._told_away:
                log.warning(
                    "seamark: run %s cannot be sent, and waits on this disk: %s",
                    *(shipment.key.run, _words(error, self.name)),
                )
            return False
        return True

    def _ship(self, shipment: Shipment) -> bool:
        remote, asked = self._opened(), False
        if not shipment.placed:
            if isinstance(remote, KeepsByName):
                remote.meet(shipment.key, shipment.folder)
            try:
                kept = remote.journals(shipment.key)
            except Missing:
                kept = {}  # or nobody may know: then sending says so
            for tail in shipment.tails.values():
                tail.place(kept.get(tail.name, 0))
            shipment.placed = asked = True
            shipment.position = max(shipment.position, sum(kept.values()))
        for tail in shipment.tails.values():
            asked = self._step(remote, shipment, tail) or asked
        self._files.watch(shipment.folder)  # behind the journals that name them
        if shipment.finished:  # before it was watched
            self._files.finish(shipment.folder)
        return asked

    def _step(self, remote: Remote, shipment: Shipment, tail: Tail) -> bool:
        # What is wrong with a journal holds up no other. The result says whether the remote was
        # asked and answered.
        try:
            sent = tail.step(remote, shipment.key)
        except Gap as error:
            if tail.gaps >= _MANY_GAPS:
                msg = f"{self.name} keeps asking for {tail.name} from {error.known} on"
                raise Unreachable(msg) from error
        except Diverged as error:
            tail.aside = True
            self._warn_set_aside(
                tail,
                f"another journal of that name is kept there ({error}), as of a cloned machine",
            )
        except Unfit as error:
            tail.aside = True
            self._warn_set_aside(tail, str(error))
        except RemoteError:
            raise
        except OSError as error:  # it will be looked at again
            tail.pass_over()
            log.debug("seamark: %s cannot be read: %s", tail.path, error)
            return False
        else:
            if sent is None:
                return False
            shipment.position = max(shipment.position, sent.position)
            self._wait_s = min(MOST_WAIT_S, max(LEAST_WAIT_S, sent.wait_s))
        return True

    def _opened(self) -> Remote:
        if self._remote is None:
            with fork.delay_forks():  # modules are imported
                import seamark.journal.walk  # noqa: F401 - a tail needs it

                self._remote = self._open(self.uri, self._token)
        return self._remote

    # ---------------------------------------------------------------- what goes wrong

    def _warn_files(self, line: str) -> None:
        log.warning("seamark: %s: %s. `seamark sync` sends what is missing later", self.name, line)

    def _pause(self, failures: int) -> float:
        longest = _AWAITED_BACK_OFF_S if self._turns else _MOST_BACK_OFF_S
        pause = min(longest, _FIRST_BACK_OFF_S * (1 << min(failures, 16)))
        return pause * _chance.uniform(0.5, 1.0)

    def _failed(self, error: BaseException | None) -> None:
        self._failures += 1
        pause = self._pause(self._failures)
        self._busy = isinstance(error, Busy) and error.wait_s > 0
        if isinstance(error, Busy):
            pause = max(pause, error.wait_s * _chance.uniform(1.0, 1.1))
        self._back_at = self._clock() + pause
        # What fails once is tried again at once; a person hears of the second time.
        if self._failures > 1 and not self._told_away and error is not None:
            self._told_away = True
            log.warning(
                "seamark: %s; what is recorded waits on this disk and is sent when that works "
                "again. Training continues",
                _words(error, self.name),
            )

    def _reached(self) -> None:
        self._failures, self._back_at, self._busy = 0, 0.0, False
        if self._told_away:
            self._told_away = False
            log.warning("seamark: %s is back; what has waited is being sent", self.name)

    def _refused(self, shipment: Shipment, error: Refused) -> None:
        shipment.forget()
        first = not shipment.refused_until
        shipment.later = shipment.refused_until = self._clock() + _REFUSED_S
        if first:
            log.warning(
                "seamark: run %s is not sent: %s. It is recorded on this disk, and "
                "`seamark sync` sends it later",
                *(shipment.key.run, str(error)[:600].rstrip(".")),
            )

    def _warn_set_aside(self, tail: Tail, why: str) -> None:
        log.warning("seamark: journal %s is not sent to %s: %s", tail.name, self.name, why[:600])


def _words(error: BaseException, name: str) -> str:
    told = str(error) if isinstance(error, RemoteError) else f"{name}: {error!r}"
    return told[:400]


def _key(folder: RunFolder) -> RunKey:
    return RunKey(folder.project, folder.run)


# --------------------------------------------------------------------- those of this process

_shippers: dict[tuple[str, str | None], Shipper] = {}
_lock = threading.RLock()
_edited: dict[str, dict[RunKey, int]] = {}
"""Position of each run edited by a remote on behalf of this process, by address."""


def shipper_of(uri: str, token: str | None = None) -> Shipper:
    """Return the shipper of this process for a canonical URI; makes it, but starts nothing."""
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
    """Return how many bytes a remote keeps of each run that this process sends to it.

    A read that names them sees at least that much.
    """
    found = dict(_edited.get(uri, {}))
    for shipper in known(uri):
        for run, position in shipper.positions().items():
            found[run] = max(position, found.get(run, 0))
    return found


def note_edit(uri: str, run: RunKey, position: int) -> None:
    """Note where a remote's edit of a run can be read, so that later reads here see it."""
    with _lock:
        edited = _edited.setdefault(uri, {})
        edited[run] = max(position, edited.pop(run, 0))
        if len(edited) > _MAX_ENDED:
            del edited[next(iter(edited))]


def flush(uri: str, seconds: float) -> bool:
    """Wait until this process's records up to now were sent to a remote. Never raises.

    Return whether all of it was sent; True where this process sends nothing there.
    """
    until = time.monotonic() + seconds
    done = [each.wait(max(0.0, until - time.monotonic())) for each in known(uri)]
    return all(done)


def _begin_child() -> None:
    # Threads and what they send are the parent's.
    global _lock  # noqa: PLW0603 - nobody will free the parent's
    _lock = threading.RLock()
    _shippers.clear()


fork.register(_begin_child)
