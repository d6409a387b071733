"""Observation of SIGTERM, also while the main thread is blocked in C code.

Python calls a signal handler between two instructions of the main thread. A rank that waits in a
collective (NCCL, gloo) for a dead rank never gets there: with a Python handler it would run until
it is killed, while by default SIGTERM terminates it at once. Python also writes the number of a
signal to a file descriptor immediately. A thread reads it and acts in place of the handler.
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
from types import FrameType
from typing import Any, ClassVar, Final, Protocol

from seamark.process.interrupts import let_pass, raised_by_signal_handler

# Maximum time to wait for the call that the signal interrupted, in seconds.
_MAX_WAIT_S = 1.0
# Part of that time spent in the handler, while other threads write.
_MAX_HANDLER_WAIT_S = 0.4
# Time that the main thread has to reach its handler before the watcher notes the signal.
_RESPONSE_TIMEOUT_S = 0.2
# Time until the watcher ends the process. Launchers may send SIGKILL soon after SIGTERM.
_EXIT_TIMEOUT_S = 1.0
# Maximum time to wait until the observers are notified.
_NOTIFY_TIMEOUT_S = 1.0
# Pause between two reads: timers of a program may raise a thousand signals a second.
_READ_PAUSE_S = 0.2


class Observer(Protocol):
    """Object that is notified of the end of the process. Methods must be fast and not raise."""

    @property
    def is_idle(self) -> bool:
        """Whether all records are written; False while they wait for the interrupted call."""

    def on_exception(self, error: BaseException) -> None:
        """Record the exception that ends the process."""

    def on_signal(self, name: str) -> None:
        """Record the signal that ends the process."""


# By id, so that observers need not be hashable. Reading takes no lock, as in a signal handler.
Observers = weakref.WeakValueDictionary[int, Observer]


def observers_alive(observers: Observers) -> list[Observer]:
    """Return the observers that still exist."""
    return [one for held in observers.valuerefs() if (one := held()) is not None]


_signal_observers: Final = Observers()
# Handler that replaced ours, when ours is no longer needed.
_replacement: weakref.ref[Any] | None = None


def watch(observer: Observer) -> None:
    """Report SIGTERM to ``observer``, referenced weakly, if this is the main thread."""
    _signal_observers[id(observer)] = observer
    _install_handler()


def unwatch(observer: Observer) -> None:
    """Stop reporting to ``observer``; after the last one restore the previous handler."""
    _signal_observers.pop(id(observer), None)
    if not _signal_observers:
        _uninstall_handler()


def remove_all() -> None:
    """Remove all observers, in a forked child."""
    _signal_observers.clear()
    _SigtermHandler.passing = False
    _watcher.forget()
    _uninstall_handler()


class _SigtermHandler:
    """Handler of SIGTERM that runs before the previous one.

    It notifies the runs. Then it calls the previous handler, if that is a function. If the previous
    handler is the default and this one is still installed, it terminates the process by the signal,
    so that the exit status is that of SIGTERM. Otherwise it was called by a later handler (such as
    Lightning's), which decides, and it returns.

    It is not installed if SIGTERM is ignored, has no effect by default (process 1 of a container),
    or is handled outside of Python.
    """

    passing: ClassVar = False
    calls: ClassVar = 0
    living: ClassVar[weakref.WeakSet[_SigtermHandler]] = weakref.WeakSet()
    __hash__ = object.__hash__

    def __init__(self, found: Any) -> None:
        self.found = found
        self.living.add(self)

    def __eq__(self, other: object) -> bool:
        """Return whether ``other`` is this, or, for Lightning 1, the default that this replaces.

        Under SLURM, Lightning 1 installs its SIGTERM handler only if ``signal.getsignal`` returns a
        member of ``(None, SIG_DFL)``. Lightning 2 keeps and calls the handler that it finds, so
        that ours must not equal the default there. Remove this with the support of Lightning 1.9.
        """
        stands_in = other is signal.SIG_DFL and self.found is signal.SIG_DFL
        return self is other or (stands_in and _lightning_1_is_loaded())

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        _SigtermHandler.calls += 1
        first = not _SigtermHandler.passing
        _SigtermHandler.passing = True
        observers = observers_alive(_signal_observers) if first else []
        try:
            try:
                _notify_signal(observers)
            finally:  # even if the handler of another signal raised meanwhile
                if callable(self.found):
                    self.found(signum, frame)
                elif signal.getsignal(signal.SIGTERM) is self:
                    signal.signal(signal.SIGTERM, signal.SIG_DFL)
                    _die(observers)
        finally:
            if first:
                _SigtermHandler.passing = False


def _lightning_1_is_loaded() -> bool:
    loaded = (sys.modules.get(name) for name in ("pytorch_lightning", "lightning"))
    return any(str(getattr(module, "__version__", "")).startswith("1.") for module in loaded)


def _notify_signal(observers: list[Observer]) -> None:
    """Notify observers; raise only exceptions of other signal handlers."""
    raised: Exception | None = None
    for observer in observers:
        try:
            observer.on_signal("SIGTERM")
        except Exception as error:  # noqa: BLE001 - not logged: the interrupted code may hold the locks of logging
            raised = error if raised_by_signal_handler(error) else raised
    if raised is not None:
        raise raised


def _die(observers: list[Observer]) -> None:
    """Raise SIGTERM with the default handler, after pending records are written.

    A thread waits for the records of other threads (output) and raises the signal. The handler only
    sleeps meanwhile, up to a limit: it may have interrupted a call that writes to the journal. The
    records then wait for that call, which continues when the handler returns.
    """
    try:
        # Not a threading.Thread: that takes locks, which the interrupted code may hold.
        _thread.start_new_thread(_die_when_idle, (observers,))
    except RuntimeError:  # no more threads: a limit, or the end of the interpreter
        _die_when_idle(observers)
    time.sleep(_MAX_HANDLER_WAIT_S)


def _die_when_idle(observers: list[Observer]) -> None:
    deadline = time.monotonic() + _MAX_WAIT_S
    while time.monotonic() < deadline and not all(observer.is_idle for observer in observers):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGTERM)


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
    global _replacement  # noqa: PLW0603 - one handler for the process
    if threading.current_thread() is not threading.main_thread():
        return  # the handler stays, without observers
    while isinstance(found := signal.getsignal(signal.SIGTERM), _SigtermHandler):
        signal.signal(signal.SIGTERM, found.found)
    if _SigtermHandler.living:
        with contextlib.suppress(TypeError):
            _replacement = weakref.ref(found, _on_replacement_removal)
            return
    _watcher.stop()


def _on_replacement_removal(_: object) -> None:
    # The handler that replaced ours is deleted; it may have restored ours.
    try:
        if not _signal_observers:
            _uninstall_handler()
        elif _would_die():
            _watcher.start()
    except Exception:  # noqa: BLE001, S110
        pass


def _would_die() -> bool:
    handler = signal.getsignal(signal.SIGTERM)
    return type(handler) is _SigtermHandler and handler.found is signal.SIG_DFL


# --------------------------------------------------------------------- blocked main thread


class SigtermWatcher:
    """Thread that handles SIGTERM if the main thread is blocked; needs a free wakeup descriptor."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None

    def start(self) -> None:
        """Start the watcher, in the main thread; may be called twice. Never raises."""
        if self._ends is not None:
            return
        try:
            read_end, write_end = self._ends = os.pipe()
            os.set_blocking(write_end, False)
            before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
            if before != -1:
                signal.set_wakeup_fd(before)
                self.forget()
                return
            args = (read_end, _SigtermHandler.calls)
            name = "seamark-sigterm"
            threading.Thread(target=self._watch, args=args, name=name, daemon=True).start()
        except (OSError, ValueError, RuntimeError) as error:
            self.forget()
            let_pass(error)

    def stop(self) -> None:
        """Stop the watcher, in the main thread; do nothing if it was not started. Never raises."""
        if (ends := self._ends) is None:
            return
        self._ends = None
        try:
            if (current := signal.set_wakeup_fd(-1)) not in (-1, ends[1]):
                signal.set_wakeup_fd(current)
            # The thread (which a forked child does not have) sees the end and closes its
            # descriptor.
            os.close(ends[1])
        except (OSError, ValueError) as error:
            let_pass(error)

    def forget(self) -> None:
        """Stop in a forked child, so that its signals do not reach the parent. Never raises."""
        ends = self._ends
        self.stop()
        if ends is not None:
            with contextlib.suppress(OSError):
                os.close(ends[0])

    def _watch(self, read_end: int, answered: int) -> None:
        try:
            while received := os.read(read_end, 1 << 16):
                if signal.SIGTERM in received:
                    self._handle(answered)
                    answered = _SigtermHandler.calls
                time.sleep(_READ_PAUSE_S)
        finally:
            os.close(read_end)

    def _handle(self, answered: int) -> None:
        """Notify the observers and end the process, unless the handler is called in time."""
        started = time.monotonic()
        if not self._is_unanswered(answered, started + _RESPONSE_TIMEOUT_S):
            return
        args = (observers_alive(_signal_observers),)
        notifier = threading.Thread(target=_notify_signal, args=args, daemon=True)
        notifier.start()
        if self._is_unanswered(answered, started + _EXIT_TIMEOUT_S):
            # Blocked C code may hold a lock, or wait for the same disk.
            notifier.join(_NOTIFY_TIMEOUT_S)
            if _would_die() and self._ends is not None:
                self._die()

    def _is_unanswered(self, answered: int, until: float) -> bool:
        """Wait for the handler; return whether it was not called and would end the process."""
        while _SigtermHandler.calls == answered and time.monotonic() < until:
            time.sleep(0.02)
        return _SigtermHandler.calls == answered and _would_die()

    def _die(self) -> None:
        # signal.signal works only in the main thread.
        ctypes.CDLL(None).signal(signal.SIGTERM.value, ctypes.c_void_p(signal.SIG_DFL.value))
        os.kill(os.getpid(), signal.SIGTERM)


_watcher = SigtermWatcher()
