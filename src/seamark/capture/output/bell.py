"""Waking of the recording thread by threads that print, without a lock to wait for."""

from __future__ import annotations

import _thread

__all__ = ["Bell"]


class Bell:
    """Wakes one thread.

    May be rung anywhere, in the handler of a signal and in the middle of another ring too, which
    rules out conditions and events: they hold a lock while they ring.

    Attributes:
        asleep: Whether the thread has lain down until somebody rings.
    """

    __slots__ = ("_rung", "asleep")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget whoever waited; in a forked child nobody does."""
        self.asleep = False
        self._rung = _thread.allocate_lock()
        self._rung.acquire()

    def ring(self) -> None:
        """Wake the thread, or keep it from lying down the next time. Never waits."""
        self.asleep = False
        try:  # noqa: SIM105 - a third of the time
            self._rung.release()
        except RuntimeError:  # it was rung and has not been heard yet
            pass

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it is rung, or was since the last time.

        Args:
            timeout_s: The longest time to wait, in seconds; None for no limit.
        """
        self._rung.acquire(timeout=-1 if timeout_s is None else timeout_s)
