"""SIGTERM: observed and passed on, also while the main thread is in C code and does not come back.

Python calls a signal's handler between two instructions of the main thread. A rank that waits in a
collective (NCCL, gloo) for another that has gone does not get there: with a handler it would live
on until somebody kills it, where by default it dies at once. Python writes the number of a signal
to a file descriptor at once, however, and a thread that reads it finishes what the handler cannot.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, ClassVar, Protocol

from seamark.process.interrupts import let_pass, raised_by_signal_handler

__all__ = ["Observer", "Observers", "call_on_removal", "forget_all", "unwatch", "watch"]

# How long the end waits for the call that the signal interrupted.
_SETTLE_S = 1.0
# How much of that it waits in the handler, for what other threads write.
_AT_ONCE_S = 0.4
# So long a main thread may take to get to its handler before the signal is noted without it.
_NOTE_S = 0.2
# So long until the process dies without it. Launchers send SIGKILL at any time after SIGTERM.
_GRACE_S = 1.0
# How long the end waits until it is noted.
_TELL_S = 1.0
# Between two looks: programs may have timers that signal a thousand times a second.
_REST_S = 0.2


class Observer(Protocol):
    """An object that is notified how the process ends. Nothing here may raise or take long."""

    @property
    def is_idle(self) -> bool:
        """Whether the records are written; False while they wait for the interrupted call."""

    def saw_exception(self, error: BaseException) -> None:
        """Take note of the exception that ends the process."""

    def saw_signal(self, name: str) -> None:
        """Take note of the signal that ends the process."""


class Observers(dict[int, weakref.ref[Observer]]):
    """Weakly held observers. Safe to read in a signal handler: takes no lock."""

    def add(self, observer: Observer) -> None:
        """Add an observer, held weakly."""
        self[id(observer)] = weakref.ref(observer, self._forget)

    def discard(self, observer: Observer) -> None:
        """Remove an observer; harmless if it is none."""
        self.pop(id(observer), None)

    def alive(self) -> list[Observer]:
        """Return the observers that still exist."""
        return [observer for held in list(self.values()) if (observer := held()) is not None]

    def _forget(self, dead: weakref.ref[Observer]) -> None:
        for key, held in list(self.items()):
            if held is dead:
                self.pop(key, None)


_of_signals = Observers()
# What was installed over a hook or handler of ours that is no longer needed.
_over_ours: dict[str, weakref.ref[Any]] = {}


def call_on_removal(what: str, over_ours: Any, call: Callable[[], None]) -> bool:
    """Call ``call`` when an object is gone, which may put ours back; False if it cannot be seen."""

    def on_removal(_: object) -> None:
        try:  # noqa: SIM105 - at the very end of the process contextlib is empty, as all modules are
            call()
        except Exception:  # noqa: BLE001, S110
            pass

    try:
        _over_ours[what] = weakref.ref(over_ours, on_removal)
    except TypeError:
        return False
    return True


def watch(observer: Observer) -> None:
    """Report SIGTERM to ``observer``, which is held weakly, if this is the main thread."""
    _of_signals.add(observer)
    _install_handler()


def unwatch(observer: Observer) -> None:
    """Stop reporting to ``observer``; after the last one put back what was found."""
    _of_signals.discard(observer)
    if not _of_signals:
        _uninstall_handler()


def forget_all() -> None:
    """Forget every observer, in a forked child."""
    _of_signals.clear()
    _SigtermHandler.passing = False
    _watcher.forget()
    _uninstall_handler()


class _SigtermHandler:
    """Handler of SIGTERM that runs before the previous one.

    It tells the runs, then calls what it found, if that was a function; dies of the signal, if it
    found the default and is still the one installed, so that the exit status is that of SIGTERM;
    and returns otherwise: it was called by what was installed over it (Lightning's), which decides.

    It is not installed where SIGTERM is ignored, or by default does nothing (process 1 of a
    container), or is handled by somebody outside of Python.
    """

    passing: ClassVar = False
    calls: ClassVar = 0
    living: ClassVar[weakref.WeakSet[_SigtermHandler]] = weakref.WeakSet()
    __hash__ = object.__hash__

    def __init__(self, found: Any) -> None:
        self.found = found
        self.living.add(self)

    def __eq__(self, other: object) -> bool:
        """Be equal to the default that we stand in for, in the eyes of Lightning 1.

        It passes over SIGTERM under SLURM unless ``signal.getsignal`` gives something that is not
        in ``(None, SIG_DFL)``. Lightning 2 keeps what it finds and calls it, and must find us. To
        be taken out with the support of Lightning 1.9.
        """
        stands_in = other is signal.SIG_DFL and self.found is signal.SIG_DFL
        return self is other or (stands_in and _lightning_1_is_loaded())

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        _SigtermHandler.calls += 1
        first = not _SigtermHandler.passing
        _SigtermHandler.passing = True
        told = _of_signals.alive() if first else []
        try:
            try:
                _notify_signal(told)
            finally:  # whatever another signal's handler raised meanwhile
                if callable(self.found):
                    self.found(signum, frame)
                elif signal.getsignal(signal.SIGTERM) is self:
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    _die(told)
        finally:
            if first:
                _SigtermHandler.passing = False


def _lightning_1_is_loaded() -> bool:
    loaded = (sys.modules.get(name) for name in ("pytorch_lightning", "lightning"))
    return any(str(getattr(module, "__version__", "")).startswith("1.") for module in loaded)


def _notify_signal(told: list[Observer]) -> None:
    """Notify observers; only exceptions of other signal handlers are raised."""
    struck: Exception | None = None
    for observer in told:
        try:
            observer.saw_signal("SIGTERM")
        except Exception as error:  # noqa: BLE001 - not even a line of log: its locks may be held by who we interrupted
            struck = error if raised_by_signal_handler(error) else struck
    if struck is not None:
        raise struck


def _die(told: list[Observer]) -> None:
    """Raise SIGTERM with the default handler, after pending records are written.

    What another thread writes (what was printed) is waited for here. But the handler may have
    interrupted the very call that writes to the journal. What is noted then waits for that call,
    which continues when the handler returns; a thread raises the signal a moment later.
    """
    began = time.monotonic()
    if not _wait_until_idle(told, began + _AT_ONCE_S):
        try:
            # Not a threading.Thread: that takes locks, which may be held by who we interrupted.
            _thread.start_new_thread(_die_soon, (told, began + _SETTLE_S))
        except RuntimeError:
            pass
        else:
            return
    signal.raise_signal(signal.SIGTERM)


def _die_soon(told: list[Observer], deadline: float) -> None:
    _wait_until_idle(told, deadline)
    os.kill(os.getpid(), signal.SIGTERM)


def _wait_until_idle(told: list[Observer], deadline: float) -> bool:
    while not (settled := all(observer.is_idle for observer in told)):
        if time.monotonic() >= deadline:
            break
        time.sleep(0.001)
    return settled


def _install_handler() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    found = signal.getsignal(signal.SIGTERM)
    if not isinstance(found, _SigtermHandler):
        if found is None or found is signal.SIG_IGN:
            return
        if found is signal.SIG_DFL and os.getpid() == 1:
            return
        signal.signal(signal.SIGTERM, _SigtermHandler(found))
    if _would_die():
        _watcher.start()


def _uninstall_handler() -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # stays, and tells nobody
    while isinstance(found := signal.getsignal(signal.SIGTERM), _SigtermHandler):
        signal.signal(signal.SIGTERM, found.found)
    if not (_SigtermHandler.living and call_on_removal("handler", found, _after_another)):
        _watcher.stop()


def _after_another() -> None:
    # Called after a handler over ours is deleted, which may have restored ours.
    if not _of_signals:
        _uninstall_handler()
    elif _would_die():
        _watcher.start()


def _would_die() -> bool:
    handler = signal.getsignal(signal.SIGTERM)
    return type(handler) is _SigtermHandler and handler.found is signal.SIG_DFL


# --------------------------------------------------------------------- no answer


class SigtermWatcher:
    """Watches for a SIGTERM that no handler answers, unless others took the wakeup descriptor."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin, from the main thread; may be called twice. Never raises."""
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
            args = (ours, _SigtermHandler.calls)
            name = "seamark-sigterm"
            threading.Thread(target=self._watch, args=args, name=name, daemon=True).start()
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
        """End in a forked child, whose signals must not reach the parent. Never raises."""
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
                        alive = _of_signals.alive()
                        teller = _start_thread("seamark-last", _notify_signal, alive)
                        if self._is_unanswered(answered, begun + _GRACE_S):
                            self._die(teller)
                    answered = _SigtermHandler.calls
                time.sleep(_REST_S)
        finally:
            os.close(ours)

    def _is_unanswered(self, answered: int, until: float) -> bool:
        """Wait for the handler; return whether it was not called, and the process is to die."""
        while _SigtermHandler.calls == answered and time.monotonic() < until:
            time.sleep(0.02)
        return _SigtermHandler.calls == answered and _would_die()

    def _die(self, teller: threading.Thread) -> None:
        teller.join(_TELL_S)  # who waits in C code may hold a lock, or wait for our disk
        if _would_die() and self._ends is not None:
            # Python lets only the main thread do this.
            ctypes.CDLL(None).signal(signal.SIGTERM.value, ctypes.c_void_p(signal.SIG_DFL.value))
            os.kill(os.getpid(), signal.SIGTERM)


def _start_thread(name: str, call: Callable[..., None], *given: Any) -> threading.Thread:
    thread = threading.Thread(target=call, args=given, name=name, daemon=True)
    thread.start()
    return thread


_watcher = SigtermWatcher()
