"""How a process ends: uncaught exceptions, Ctrl-C and SIGTERM, observed and passed on.

One registration serves the whole process, however many runs it has; runs are held weakly. Whatever
is observed goes on exactly as without us: same output, same exit code, same handlers.

=============================  =================================================================
an uncaught exception          ``sys.excepthook`` tells the runs, then calls the hook it found
KeyboardInterrupt              the same: it arrives there if nobody catches it
an exception in a thread       no end of the process, and therefore none of our business
SystemExit                     no failure, whatever the code
a prompt (notebook, shell)     an error there ends nothing
SIGTERM                        see `_SigtermHandler`; and `Guard`, where the main thread never
                               gets to it
SIGINT, SIGUSR1, SIGUSR2       never touched: Lightning gives up its SLURM requeue if it finds a
                               handler of somebody else
after ``os.fork``              the child forgets its parent's runs, and gets the handlers back
                               that we found
=============================  =================================================================
"""

from __future__ import annotations

import _thread
import atexit
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Protocol

from seamark.capture.stuck import Guard

__all__ = ["Witness", "unwatch", "watch"]

log = logging.getLogger("seamark")

_SETTLE_S = 1.0

_ExceptionHook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


class Witness(Protocol):
    """Who is told how the process ends. Nothing here may raise or take long."""

    @property
    def settled(self) -> bool:
        """Whether what was noted is written; False while it waits for the interrupted call."""

    def saw_exception(self, error: BaseException) -> None:
        """Take note of the exception that ends the process."""

    def saw_signal(self, name: str) -> None:
        """Take note of the signal that ends the process."""


class _Witnesses:
    """Weakly held witnesses. Safe to read in a signal handler: takes no lock."""

    def __init__(self) -> None:
        self._held: dict[int, weakref.ref[Witness]] = {}

    def add(self, witness: Witness) -> None:
        self._held[id(witness)] = weakref.ref(witness, self._forget)

    def discard(self, witness: Witness) -> None:
        self._held.pop(id(witness), None)

    def clear(self) -> None:
        self._held.clear()

    def __bool__(self) -> bool:
        return bool(self._held)

    def alive(self) -> list[Witness]:
        return [witness for held in list(self._held.values()) if (witness := held()) is not None]

    def _forget(self, dead: weakref.ref[Witness]) -> None:
        for key, held in list(self._held.items()):
            if held is dead:
                self._held.pop(key, None)


_of_exceptions = _Witnesses()
_of_signals = _Witnesses()
_known_error = 0
_registered = False


# --------------------------------------------------------------------- in and out


def watch(witness: Witness, *, exceptions: bool, signals: bool) -> None:
    """Tell ``witness`` how the process ends, as long as it lives and until `unwatch`.

    Args:
        witness: Held weakly.
        exceptions: Tell it of the exception that ends the process.
        signals: Tell it of SIGTERM. Has an effect only if the first watcher of signals comes from
            the main thread, which is the only one that Python lets install a handler.
    """
    _register()
    if exceptions:
        _of_exceptions.add(witness)
        _install_hook()
    if signals:
        _of_signals.add(witness)
        _install_handler()


def unwatch(witness: Witness) -> None:
    """Tell ``witness`` nothing any more; the last takes our hooks with it, if they are on top."""
    _of_exceptions.discard(witness)
    _of_signals.discard(witness)
    if not _of_exceptions:
        _uninstall_hook()
    if not _of_signals:
        _uninstall_handler()


def _register() -> None:
    global _registered, _known_error  # noqa: PLW0603 - one registration for the process is the point
    # The newest registration runs first at exit: before the runs are stopped, which takes them for
    # completed.
    atexit.unregister(_tell_unseen)
    atexit.register(_tell_unseen)
    if not _of_exceptions:
        _known_error = id(_last_error())
    if not _registered:
        _registered = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    """Be as if we had never been there.

    The runs are the parent's; and a child that waits in C code dies of SIGTERM at once only if no
    handler of Python's has to be called.
    """
    _of_exceptions.clear()
    _of_signals.clear()
    _Hook.passing.clear()
    _SigtermHandler.passing = False
    _guard.forget()
    _uninstall_hook()
    _uninstall_handler()


# --------------------------------------------------------------------- uncaught exceptions


class _Hook:
    """Our ``sys.excepthook``, in front of the one that it found."""

    passing: set[int] = set()  # noqa: RUF012 - shared: one error may pass several of us

    def __init__(self, before: _ExceptionHook) -> None:
        self.before = before

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        key = id(error)
        first = key not in self.passing
        self.passing.add(key)
        try:
            if first:
                _tell_exception(error)
            self.before(kind, error, trace)
        finally:
            if first:
                self.passing.discard(key)


def _tell_exception(error: BaseException | None) -> None:
    """Tell the witnesses; raise nothing at all, for the exception that is passing must be seen."""
    global _known_error  # noqa: PLW0603
    try:
        if error is None or isinstance(error, SystemExit) or _at_a_prompt():
            return
        if threading.current_thread() is not threading.main_thread():
            return
        _known_error = id(error)
        for witness in _of_exceptions.alive():
            witness.saw_exception(error)
    except BaseException:
        log.debug("seamark: an uncaught exception could not be recorded", exc_info=True)


def _at_a_prompt() -> bool:
    """Tell whether somebody sits at a prompt (Python's or IPython's), where errors end a line."""
    return hasattr(sys, "ps1")


def _install_hook() -> None:
    if not isinstance(sys.excepthook, _Hook):
        sys.excepthook = _Hook(sys.excepthook)


def _uninstall_hook() -> None:
    if isinstance(sys.excepthook, _Hook):
        sys.excepthook = sys.excepthook.before


def _last_error() -> BaseException | None:
    """Return what Python keeps of the last uncaught exception."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _tell_unseen() -> None:
    """At exit, tell of an uncaught exception that passed us by.

    Who replaces ``sys.excepthook`` without calling what stood there (``rich.traceback.install``)
    takes our hook away; Python leaves the exception in ``sys.last_exc`` all the same.
    """
    error = _last_error()
    if error is None or id(error) == _known_error or isinstance(sys.excepthook, _Hook):
        return
    _tell_exception(error)


# --------------------------------------------------------------------- SIGTERM


class _SigtermHandler:
    """Our handler of SIGTERM, in front of what it found.

    It tells the runs, then

    - calls what it found, if that was a function;
    - dies of the signal, if it found the default and still stands on top: the default is put back
      and the signal raised again, so that the exit status is that of SIGTERM;
    - returns otherwise: it was called by what was installed over it (Lightning's), which decides.

    It is not installed where SIGTERM is ignored, or by default does nothing (process 1 of a
    container), or is handled by somebody outside of Python.
    """

    passing = False
    calls = 0
    __hash__ = object.__hash__

    def __init__(self, found: Any) -> None:
        self.found = found

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
        try:
            told = _tell_signal() if first else []
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


def _tell_signal() -> list[Witness]:
    told = _of_signals.alive()
    for witness in told:
        try:
            witness.saw_signal("SIGTERM")
        except Exception:  # noqa: BLE001, S112 - not even a line of log: its locks may be held by who we interrupted
            continue
    return told


def _die(told: list[Witness]) -> None:
    """Raise SIGTERM, whose handler is the default; after what was noted is written.

    The handler may have interrupted the very call that writes to the journal. What is noted then
    waits for that call, which goes on when the handler returns; a thread raises the signal a moment
    later.
    """
    if not all(witness.settled for witness in told):
        try:
            # Not a threading.Thread: that takes locks, which may be held by who we interrupted.
            _thread.start_new_thread(_die_soon, (told,))
        except RuntimeError:
            pass
        else:
            return
    signal.raise_signal(signal.SIGTERM)


def _die_soon(told: list[Witness]) -> None:
    deadline = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline and not all(witness.settled for witness in told):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGTERM)


def _install_handler() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    found = signal.getsignal(signal.SIGTERM)
    if isinstance(found, _SigtermHandler) or found is None or found is signal.SIG_IGN:
        return
    if found is signal.SIG_DFL and os.getpid() == 1:
        return
    signal.signal(signal.SIGTERM, _SigtermHandler(found))
    if found is signal.SIG_DFL:
        _guard.start()


def _uninstall_handler() -> None:
    if threading.current_thread() is not threading.main_thread():
        return  # stays, and tells nobody
    _guard.stop()
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _SigtermHandler):
        signal.signal(signal.SIGTERM, handler.found)


def _would_die() -> bool:
    handler = signal.getsignal(signal.SIGTERM)
    return type(handler) is _SigtermHandler and handler.found is signal.SIG_DFL


_guard = Guard(lambda: _SigtermHandler.calls, _would_die, _tell_signal)
