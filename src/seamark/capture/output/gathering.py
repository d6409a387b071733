"""The thread that records what is printed: one for all streams and all runs of a process."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from seamark.capture.output.bell import Bell
from seamark.capture.output.source import ORDER
from seamark.process import fork

if TYPE_CHECKING:
    from seamark.capture.output.recording import Recording

__all__ = ["BELL", "GATHERING", "Gathering"]

log = logging.getLogger("seamark")

_EVERY_S: Final = 0.45
"""How long text waits; with the time that it takes to record it, less than half a second."""
_SETTLE_S: Final = 0.3
"""How long to wait for text on its way when there is a hurry, in seconds."""


class Gathering:
    """Records from streams as long as there are some.

    As long as nothing is printed the thread sleeps, and nothing wakes it but a source that has
    something to give. (Sources that cannot ring are asked.) With the last stream it ends.

    Args:
        bell: What sources ring.
    """

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._begin()
        fork.register(self._begin)

    def _begin(self) -> None:
        """Begin with nothing: in a forked child there is no thread, and nothing is recorded."""
        self._bell.begin()
        self._lock = threading.RLock()
        self._streams: tuple[Recording, ...] = ()
        self._leaving: deque[tuple[Recording, threading.Event]] = deque()
        self._thread: threading.Thread | None = None
        self._asked = self._answered = 0

    def add(self, streams: Iterable[Recording]) -> None:
        """Record from streams, whose sources have begun.

        Raises:
            RuntimeError: If the system gives no thread.
        """
        with self._lock:
            self._streams += tuple(streams)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="seamark-output", daemon=True
                )
                try:
                    self._thread.start()
                except BaseException:
                    self._thread, self._streams = None, ()
                    raise
        self._bell.ring()

    def remove(self, streams: Iterable[Recording], timeout_s: float) -> None:
        """Record the rest of streams, and no more.

        Args:
            streams: Those that were added.
            timeout_s: The longest time to wait, in seconds; the thread goes on after that.
        """
        deadline = time.monotonic() + timeout_s
        ended = [(stream, threading.Event()) for stream in streams]
        with self._lock:
            thread = self._thread
            self._leaving.extend(ended)
        self._bell.ring()
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            self._let_go()
            return
        for _, event in ended:
            event.wait(max(0.0, deadline - time.monotonic()))
        if not self._streams:
            thread.join(max(0.0, deadline - time.monotonic()))

    def hurry(self) -> None:
        """Request that printed text is recorded at once, without a lock or a wait; see `drained`.

        For signal handlers, after which the process may end.
        """
        lies = self._bell.asleep and not any(each.source.polled for each in self._streams)
        if self._thread is not None and not lies:
            self._asked += 1
            self._bell.ring()

    @property
    def drained(self) -> bool:
        """Whether what was printed before the last `hurry` is recorded."""
        return self._thread is None or self._answered == self._asked

    # ---------------------------------------------------------------- the thread

    def _work(self) -> None:
        while True:
            self._wait()
            asked = self._asked
            if asked != self._answered:
                for stream in self._streams:
                    with _quietly(stream):
                        stream.source.settle(time.monotonic() + _SETTLE_S)
            self._record()
            self._answered = asked
            self._let_go()
            with self._lock:
                if not self._streams and not self._leaving:
                    self._thread = None
                    return

    def _record(self) -> None:
        """Record what is new of all streams, in the order in which it was written."""
        streams, before = self._streams, next(ORDER)
        found: list[tuple[int, Recording, str]] = []
        for stream in streams:
            with _quietly(stream):
                found += [(order, stream, text) for order, text in stream.source.pieces(before)]
        for _, stream, text in sorted(found, key=_number):
            with _quietly(stream):
                stream.record(text)
        for stream in streams:
            with _quietly(stream):
                if stream.holds and all(each is not stream for _, each, _ in found):
                    stream.record("")  # nothing was added to what was held back
                stream.settle()

    def _let_go(self) -> None:
        if self._leaving:
            self._record()  # all of them once more, as each one's rest comes by itself
        while self._leaving:
            stream, ended = self._leaving.popleft()
            with self._lock:
                self._streams = tuple(each for each in self._streams if each is not stream)
            with _quietly(stream):
                stream.finish()
            ended.set()

    def _wait(self) -> None:
        """Wait until something was printed, and then for more of it."""
        bell = self._bell
        bell.asleep = True
        # Looked at after that: what is printed from here on rings.
        if not any(
            each.holds or each.source.polled or each.source.waiting for each in self._streams
        ):
            while not self._leaving and bell.asleep:
                bell.wait()
        bell.asleep = False
        until = time.monotonic() + _EVERY_S
        while not self._leaving and self.drained and (left := until - time.monotonic()) > 0:
            if any(each.source.full and each.hungry for each in self._streams):
                return
            bell.wait(left)


def _number(piece: tuple[int, Recording, str]) -> int:
    return piece[0]


@contextlib.contextmanager
def _quietly(stream: Recording) -> Iterator[None]:
    try:
        yield
    except Exception:
        log.debug("seamark: %s could not be recorded", stream.path, exc_info=True)


BELL: Final = Bell()
GATHERING: Final = Gathering(BELL)
