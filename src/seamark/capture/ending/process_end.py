"""End of a process: uncaught exceptions, Ctrl-C and SIGTERM, observed and passed on.

One registration serves the whole process, however many runs it has; runs are held weakly. Whatever
is observed behaves exactly as without us: same output, same exit code, same handlers.

=============================  =================================================================
an uncaught exception          ``sys.excepthook`` tells the runs, then calls the hook it found
KeyboardInterrupt              the same: it arrives there if nobody catches it; `keep_status`
an exception in a thread       no end of the process, and therefore none of our business
SystemExit                     seen as it leaves the script, by Python 3.12 and later; earlier ones
                               tell nobody, and the run is taken for completed whatever the code
a prompt (notebook, shell)     an error there ends nothing; a process that ends after a cell that
                               was interrupted, as by a restart of the kernel, was interrupted
SIGTERM                        see `_SigtermHandler`; and `SigtermWatcher`, where the main thread
                               never gets to it
SIGINT, SIGUSR1, SIGUSR2       never touched: Lightning gives up its SLURM requeue if it finds a
                               handler of somebody else
after ``os.fork``              the child forgets its parent's runs, and gets the handlers back
                               that we found
=============================  =================================================================

When nobody observes any more, what we found is put back. Where somebody else has installed a
handler over ours, who may put ours back when done (Lightning does, after each stage), that waits
until theirs is gone; until then ours notifies nobody and only calls what it found.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import logging
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar, Protocol

from seamark.capture.ending.interrupted import keep_status
from seamark.capture.ending.unanswered import SigtermWatcher
from seamark.capture.ending.unwinding import call_on_exit, forget
from seamark.process import fork
from seamark.process.interrupts import raised_by_signal_handler

__all__ = ["Observer", "unwatch", "watch"]

log = logging.getLogger("seamark")

_SETTLE_S = 1.0
"""How long the end waits for the call that the signal interrupted."""
_AT_ONCE_S = 0.4
"""How much of that it waits in the handler, for what other threads write."""

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


class Observer(Protocol):
    """An object that is notified how the process ends. Nothing here may raise or take long."""

    @property
    def is_idle(self) -> bool:
        """Whether what was noted is written; False while it waits for the interrupted call."""

    def saw_exception(self, error: BaseException) -> None:
        """Take note of the exception that ends the process."""

    def saw_signal(self, name: str) -> None:
        """Take note of the signal that ends the process."""


class _Observers(dict[int, weakref.ref[Observer]]):
    """Weakly held observers. Safe to read in a signal handler: takes no lock."""

    def add(self, observer: Observer) -> None:
        self[id(observer)] = weakref.ref(observer, self._forget)

    def discard(self, observer: Observer) -> None:
        self.pop(id(observer), None)

    def alive(self) -> list[Observer]:
        return [observer for held in list(self.values()) if (observer := held()) is not None]

    def _forget(self, dead: weakref.ref[Observer]) -> None:
        for key, held in list(self.items()):
            if held is dead:
                self.pop(key, None)


_of_exceptions = _Observers()
_of_signals = _Observers()
_known_error = 0
_script: CodeType | None = None
"""The outermost code of the main thread, as long as somebody observes exceptions."""
_over_ours: dict[str, weakref.ref[Any]] = {}
"""What was installed over a hook or handler of ours that is no longer needed."""


# --------------------------------------------------------------------- in and out


def watch(observer: Observer, *, exceptions: bool, signals: bool) -> None:
    """Report to ``observer`` how the process ends, as long as it lives and until `unwatch`.

    May be called again, also after `unwatch`.

    Args:
        observer: Held weakly.
        exceptions: Report to it the exception that ends the process.
        signals: Report SIGTERM to it. Has an effect only if the first observer of signals comes
            from the main thread, which is the only one that Python lets install a handler.
    """
    _register()
    if exceptions:
        _of_exceptions.add(observer)
        _install_hook()
        _watch_script()
    if signals:
        _of_signals.add(observer)
        _install_handler()


def unwatch(observer: Observer) -> None:
    """Stop notifying ``observer``; harmless if it was not watching.

    After the last one what we found is put back, at once or as soon as what is installed over ours
    is gone. A handler of SIGTERM stays if the last one leaves in another thread than the main one.
    """
    _of_exceptions.discard(observer)
    _of_signals.discard(observer)
    if not _of_exceptions:
        _uninstall_hook()
        _forget_script()
    if not _of_signals:
        _uninstall_handler()


def _register() -> None:
    global _known_error  # noqa: PLW0603 - one registration for the process is the point
    # The newest registration runs first at exit: before the runs are stopped, which takes them for
    # completed.
    atexit.unregister(_notify_unseen)
    atexit.register(_notify_unseen)
    if not _of_exceptions:
        _known_error = id(_last_error())
    fork.register(_after_fork)


def _after_fork() -> None:
    """Forget every observer, and put back what we found.

    The runs are the parent's; and a child that waits in C code dies of SIGTERM at once only if no
    handler of Python's has to be called.
    """
    _of_exceptions.clear()
    _of_signals.clear()
    _ExceptHook.passing.clear()
    _SigtermHandler.passing = False
    _watcher.forget()
    _uninstall_hook()
    _forget_script()
    _uninstall_handler()


def _call_on_removal(what: str, over_ours: Any, call: Callable[[], None]) -> bool:
    """Call ``call`` when an object is gone, which may put ours back in its place.

    Returns:
        False if that cannot be seen: of a default, or of what is not written in Python.
    """

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


# --------------------------------------------------------------------- uncaught exceptions


class _ExceptHook:
    """Our ``sys.excepthook``, in front of the one that it found."""

    passing: ClassVar[set[int]] = set()  # shared: one error may pass several of us
    living: ClassVar[weakref.WeakSet[_ExceptHook]] = weakref.WeakSet()

    def __init__(self, before: _Hook) -> None:
        self.before = before
        self.living.add(self)

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        key = id(error)
        first = key not in self.passing
        self.passing.add(key)
        try:
            if first:
                _notify_exception(error)
                if isinstance(error, KeyboardInterrupt) and _script_has_ended():
                    keep_status()
            self.before(kind, error, trace)
        finally:
            if first:
                self.passing.discard(key)


def _notify_exception(error: BaseException | None) -> None:
    """Tell the observers; raise nothing at all, for the exception that is passing must be seen."""
    global _known_error  # noqa: PLW0603
    try:
        if error is None or _at_a_prompt():
            return
        if threading.current_thread() is not threading.main_thread():
            return
        _known_error = id(error)
        for observer in _of_exceptions.alive():
            observer.saw_exception(error)
    except BaseException:
        log.debug("seamark: an uncaught exception could not be recorded", exc_info=True)


def _script_has_ended() -> bool:
    """Return whether Python called the hook; somebody may do so from the script, and go on."""
    if threading.current_thread() is not threading.main_thread() or _at_a_prompt():
        return False
    frame = sys._getframe()  # noqa: SLF001 - documented
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code is not _script


def _at_a_prompt() -> bool:
    """Return whether somebody sits at a prompt (Python's or IPython's), where errors end a line."""
    return hasattr(sys, "ps1")


def _install_hook() -> None:
    if not isinstance(sys.excepthook, _ExceptHook):
        sys.excepthook = _ExceptHook(sys.excepthook)


def _uninstall_hook() -> None:
    if _of_exceptions:
        return
    while isinstance(sys.excepthook, _ExceptHook):
        sys.excepthook = sys.excepthook.before
    if _ExceptHook.living:
        _call_on_removal("hook", sys.excepthook, _uninstall_hook)


def _last_error() -> BaseException | None:
    """Return what Python keeps of the last uncaught exception."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _notify_unseen() -> None:
    """At exit, report an uncaught exception that our hook did not see.

    Code that replaces ``sys.excepthook`` without calling the old one (``rich.traceback.install``)
    takes our hook away; Python still leaves the exception in ``sys.last_exc``.
    """
    if (interrupt := _interrupt_of_last_cell()) is not None:
        for observer in _of_exceptions.alive():
            observer.saw_exception(interrupt)
        return
    error = _last_error()
    if error is None or id(error) == _known_error or isinstance(sys.excepthook, _ExceptHook):
        return
    _notify_exception(error)


def _interrupt_of_last_cell() -> BaseException | None:
    """Return what interrupted the last cell of this notebook (or line of IPython), or None.

    Whoever restarts or stops a kernel in the middle of a cell has Jupyter interrupt the cell first,
    and end the process in good order then.
    """
    try:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        error = getattr(getattr(shell, "last_execution_result", None), "error_in_exec", None)
    except Exception:  # noqa: BLE001 - another program's object, at the very end of the process
        return None
    return error if isinstance(error, KeyboardInterrupt) else None


# --------------------------------------------------------------------- SystemExit


def _frame_of_main() -> FrameType | None:
    """Return where the main thread is; None if that cannot be told.

    ``sys._current_frames`` makes objects while it holds a lock of the interpreter. Where that
    collects garbage, and another thread begins or ends meanwhile, both wait for ever
    (https://github.com/python/cpython/issues/106883; seen with Python 3.11.7).
    """
    main = threading.main_thread().ident
    if main == threading.get_ident():
        return sys._getframe()  # noqa: SLF001 - documented
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(main or 0)  # noqa: SLF001 - documented
    finally:
        if collects:
            gc.enable()


def _watch_script() -> None:
    global _script  # noqa: PLW0603
    frame = _frame_of_main()
    if _script is not None or frame is None:
        return
    while frame.f_back is not None:
        frame = frame.f_back
    _script = frame.f_code
    call_on_exit(_script, _notify_exit)


def _forget_script() -> None:
    global _script  # noqa: PLW0603
    if _script is not None:
        forget(_script)
        _script = None


def _notify_exit(error: BaseException) -> None:
    """Report an exit; everything else that leaves the script gets to the hook."""
    if isinstance(error, SystemExit):
        _notify_exception(error)


# --------------------------------------------------------------------- SIGTERM


class _SigtermHandler:
    """Our handler of SIGTERM, in front of what it found.

    It tells the runs, then

    - calls what it found, if that was a function;
    - dies of the signal, if it found the default and is still the one installed: the default is
      put back and the signal raised again, so that the exit status is that of SIGTERM;
    - returns otherwise: it was called by what was installed over it (Lightning's), which decides.

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
    """Tell observers; raise only what the handler of another signal raised in the middle of it."""
    struck: Exception | None = None
    for observer in told:
        try:
            observer.saw_signal("SIGTERM")
        except Exception as error:  # noqa: BLE001 - not even a line of log: its locks may be held by who we interrupted
            struck = error if raised_by_signal_handler(error) else struck
    if struck is not None:
        raise struck


def _die(told: list[Observer]) -> None:
    """Raise SIGTERM, whose handler is the default; after what was noted is written.

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
    """Wait until what observers noted is written; return whether it is."""
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
    if not (_SigtermHandler.living and _call_on_removal("handler", found, _after_another)):
        _watcher.stop()


def _after_another() -> None:
    """Remove our handler, or watch for SIGTERM again, after a handler over ours is deleted.

    The deleted handler may have restored ours.
    """
    if not _of_signals:
        _uninstall_handler()
    elif _would_die():
        _watcher.start()


def _would_die() -> bool:
    handler = signal.getsignal(signal.SIGTERM)
    return type(handler) is _SigtermHandler and handler.found is signal.SIG_DFL


_watcher = SigtermWatcher(
    lambda: _SigtermHandler.calls, _would_die, lambda: _notify_signal(_of_signals.alive())
)
