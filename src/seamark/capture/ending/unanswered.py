"""SIGTERM while the main thread is in C code and does not come back.

Python calls a signal's handler between two instructions of the main thread. A rank that waits in a
collective (NCCL, gloo) for another that has gone does not get there: with a handler it would live
on until somebody kills it, where by default it dies at once. Python writes the number of a signal
to a file descriptor at once, however, and a thread that reads it finishes what the handler cannot.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable

from seamark.process.interrupts import let_pass

__all__ = ["SigtermWatcher"]

_NOTE_S = 0.2
"""So long a main thread may take to get to its handler before the signal is noted without it."""
_GRACE_S = 1.0
"""So long until the process dies without it. Launchers send SIGKILL at any time after SIGTERM."""
_TELL_S = 1.0
"""How long the end waits until it is noted."""
_REST_S = 0.2
"""Between two looks: programs may have timers that signal a thousand times a second."""


class SigtermWatcher:
    """Watches for a SIGTERM that no handler answers; one for a process.

    Does nothing where somebody else has taken the descriptor that Python writes signals to.

    Args:
        answered: Returns how often the handler has been called.
        is_ours: Returns whether the process would die by the signal without us.
        tell: Notes the signal; may block.
    """

    def __init__(
        self, answered: Callable[[], int], is_ours: Callable[[], bool], tell: Callable[[], object]
    ) -> None:
        self._answered = answered
        self._is_ours = is_ours
        self._tell = tell
        self._ends: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin; from the main thread only, as Python wants it.

        May be called twice. Never raises.
        """
        if self._ends is not None:
            return
        try:
            ours, its = self._ends = os.pipe()
            os.set_blocking(its, False)
            before = signal.set_wakeup_fd(its, warn_on_full_buffer=False)
            if before != -1:
                signal.set_wakeup_fd(before)
                self.forget()
                return
            args = (ours, self._answered())
            threading.Thread(
                target=self._watch, args=args, name="seamark-sigterm", daemon=True
            ).start()
        except (OSError, ValueError, RuntimeError) as error:
            self.forget()
            let_pass(error)

    def stop(self) -> None:
        """End, from the main thread; harmless if it never began. Never raises."""
        if (ends := self._ends) is None:
            return
        self._ends = None
        try:
            if (current := signal.set_wakeup_fd(-1)) not in (-1, ends[1]):
                signal.set_wakeup_fd(current)
            # The thread, or nobody in a forked child, sees the end and closes its own.
            os.close(ends[1])
        except (OSError, ValueError) as error:
            let_pass(error)

    def forget(self) -> None:
        """End where no thread reads: in a forked child, whose signals must not reach the parent.

        Never raises.
        """
        ends = self._ends
        self.stop()
        if ends is not None:
            with contextlib.suppress(OSError):
                os.close(ends[0])

    def _watch(self, ours: int, answered: int) -> None:
        try:
            while said := os.read(ours, 1 << 16):
                if signal.SIGTERM in said:
                    begun = time.monotonic()
                    if self._is_unanswered(answered, begun + _NOTE_S):
                        teller = self._take_note()
                        if self._is_unanswered(answered, begun + _GRACE_S):
                            self._die(teller)
                    answered = self._answered()
                time.sleep(_REST_S)
        finally:
            os.close(ours)

    def _is_unanswered(self, answered: int, until: float) -> bool:
        """Wait for the handler; return whether it was not called, and the process is to die."""
        while self._answered() == answered and time.monotonic() < until:
            time.sleep(0.02)
        return self._answered() == answered and self._is_ours()

    def _take_note(self) -> threading.Thread:
        teller = threading.Thread(target=self._tell, name="seamark-last", daemon=True)
        teller.start()
        return teller

    def _die(self, teller: threading.Thread) -> None:
        """Die of the signal when it is noted: its status is that of SIGTERM."""
        teller.join(_TELL_S)  # who waits in C code may hold a lock, or wait for our disk
        if self._is_ours() and self._ends is not None:
            # Python lets only the main thread do this.
            ctypes.CDLL(None).signal(signal.SIGTERM.value, ctypes.c_void_p(signal.SIG_DFL.value))
            os.kill(os.getpid(), signal.SIGTERM)
