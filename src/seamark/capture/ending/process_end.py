"""End of a process: uncaught exceptions, Ctrl-C and SIGTERM, observed and passed on.

One registration serves all runs of the process, which are referenced weakly. Observation does not
change the behaviour of the process: output, exit code and handlers stay the same.

=============================  =================================================================
uncaught exception             ``sys.excepthook`` notifies the runs, then calls the previous hook
KeyboardInterrupt              the same, if it is uncaught; see `_keep_interrupt`
exception in a thread          ignored, because it does not end the process
SystemExit                     observed as it leaves the script, by Python 3.12 and later, if a run
                               was started in the main thread; otherwise the run is marked as
                               completed whatever the exit code
prompt (notebook, shell)       an error does not end the process; if the last cell was interrupted,
                               as by a restart of the kernel, the run is marked as interrupted
SIGTERM                        see `_SigtermHandler`, and `SigtermWatcher` for a blocked main thread
SIGINT, SIGUSR1, SIGUSR2       never changed: Lightning disables its SLURM requeue if it finds a
                               handler of other code
after ``os.fork``              the child removes its parent's runs and restores the previous
                               handlers
=============================  =================================================================

After the last observer is removed, the previous hook and handler are restored. If other code
replaced the hook, ours stays below it and only calls the previous one. If other code replaced the
handler of SIGTERM, it may restore ours later (Lightning does, after each stage). The removal then
waits until the other handler is deleted.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar, Final

from seamark.capture.ending import cause_of, sigterm
from seamark.capture.ending.sigterm import Observer, Observers, observers_alive
from seamark.process import fork
from seamark.process.interrupts import quietly

__all__ = ["Observer", "at_worker_end", "unwatch", "watch"]

log = logging.getLogger("seamark")

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


_exception_observers: Final = Observers()


@dataclass(slots=True)
class _State:
    """State of the process.

    Attributes:
        reported_error: Id of the last exception of which the observers were notified.
        is_interrupted: Whether an uncaught interrupt ends the process.
        script: Outermost code of the main thread, while exceptions are observed.
        worker_code: Code of a ``multiprocessing`` worker.
        worker_error: Exception that left this code.
    """

    reported_error: int = 0
    is_interrupted: bool = False
    script: CodeType | None = None
    worker_code: CodeType | None = None
    worker_error: BaseException | None = None


_state: Final = _State()


# --------------------------------------------------------------------- registration


def watch(observer: Observer, *, exceptions: bool, signals: bool) -> None:
    """Report the end of the process to ``observer``, referenced weakly, until `unwatch`.

    May be called again. SIGTERM is reported only if the first observer of signals is registered by
    the main thread, because Python allows no other thread to install a handler.
    """
    _register()
    if exceptions:
        _exception_observers[id(observer)] = observer
        _install_hook()
        _watch_script()
    if signals:
        sigterm.watch(observer)


def unwatch(observer: Observer) -> None:
    """Stop notifying ``observer``; do nothing if it is not registered.

    After the last observer the previous hooks are restored. The handler of SIGTERM stays if the
    last observer is removed by a thread other than the main thread.
    """
    _exception_observers.pop(id(observer), None)
    if not _exception_observers:
        _uninstall_hook()
        _forget_script()
    sigterm.unwatch(observer)


def _register() -> None:
    # The newest registration runs first at exit, before the runs are stopped as completed.
    atexit.unregister(_report_unseen_error)
    atexit.register(_report_unseen_error)
    if not _exception_observers:
        _state.reported_error = id(_last_error())


def _after_fork() -> None:
    """Remove all observers, and restore the original hooks.

    The runs belong to the parent. A child that is blocked in C code is terminated by SIGTERM at
    once only if there is no Python handler.
    """
    _exception_observers.clear()
    _ExceptHook.passing.clear()
    _state.worker_code = _state.worker_error = None
    _state.is_interrupted = False
    _uninstall_hook()
    _forget_script()
    sigterm.remove_all()


fork.register(_after_fork)


# --------------------------------------------------------------------- uncaught exceptions


class _ExceptHook:
    """Hook that notifies the observers, then calls the hook that was installed before.

    Several may be below each other, because other code may put back an earlier one. Only the
    uppermost notifies.
    """

    passing: ClassVar[set[int]] = set()

    def __init__(self, before: _Hook) -> None:
        self.before = before

    def __call__(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if id(error) in self.passing:
            self.before(kind, error, trace)
            return
        self.passing.add(id(error))
        try:
            _notify_exception(error)
            if isinstance(error, KeyboardInterrupt) and _script_has_ended():
                _state.is_interrupted = True
            self.before(kind, error, trace)
        finally:
            self.passing.discard(id(error))


def _notify_exception(error: BaseException | None) -> None:
    """Notify the observers. Never raises, so that the original exception is reported."""
    try:
        if error is None or not _may_end():
            return
        _state.reported_error = id(error)
        for observer in observers_alive(_exception_observers):
            observer.on_exception(error)
    except BaseException:
        log.debug("seamark: an uncaught exception could not be recorded", exc_info=True)


def _script_has_ended() -> bool:
    """Return whether the interpreter called the hook, not the script, which would continue."""
    frame = sys._getframe()  # noqa: SLF001 - documented
    return _may_end() and _outermost_code(frame) is not _state.script


def _outermost_code(frame: FrameType) -> CodeType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code


def _may_end() -> bool:
    """Return whether an uncaught exception of this thread ends the process.

    It does not at a prompt of Python or IPython.
    """
    return threading.current_thread() is threading.main_thread() and not hasattr(sys, "ps1")


def _install_hook() -> None:
    if not isinstance(sys.excepthook, _ExceptHook):
        sys.excepthook = _ExceptHook(sys.excepthook)


def _uninstall_hook() -> None:
    while isinstance(sys.excepthook, _ExceptHook):
        sys.excepthook = sys.excepthook.before


def _last_error() -> BaseException | None:
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _report_unseen_error() -> None:
    """Report, at exit, an uncaught exception that our hook did not receive.

    Code that replaces ``sys.excepthook`` without calling the old one (``rich.traceback.install``)
    disables our hook. Python still stores the exception in ``sys.last_exc``.
    """
    if (interrupt := _interrupt_of_last_cell()) is not None:
        for observer in observers_alive(_exception_observers):
            observer.on_exception(interrupt)
        return
    error = _last_error()
    if id(error) != _state.reported_error and not isinstance(sys.excepthook, _ExceptHook):
        _notify_exception(error)


@quietly()
def _interrupt_of_last_cell() -> BaseException | None:
    """Return the interrupt that ended the last cell of this notebook, or None.

    When a kernel is restarted or stopped during a cell, Jupyter interrupts the cell first, and then
    ends the process normally.
    """
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = get() if callable(get) else None
    error = getattr(getattr(shell, "last_execution_result", None), "error_in_exec", None)
    return error if isinstance(error, KeyboardInterrupt) else None


def _keep_interrupt() -> None:
    """Make this process end by SIGINT, as Python does after an uncaught interrupt.

    Python has one flag for that, and reads it at the very end. Every ``exec`` of a string on any
    thread clears it, such as that of ``namedtuple`` in a module that one of our threads imports. An
    ``exec`` that is interrupted sets it.
    """
    if _state.is_interrupted:
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")  # noqa: S102


atexit.register(_keep_interrupt)  # called after the functions that are registered later


# --------------------------------------------------------------------- SystemExit


def _watch_script() -> None:
    if _state.script is None and threading.current_thread() is threading.main_thread():
        _state.script = _outermost_code(sys._getframe())  # noqa: SLF001 - documented
        _watch_exits()


def _forget_script() -> None:
    _state.script = None
    if _state.worker_code is None:
        _forget_exits()


# `SystemExit` cannot be observed in another way: it does not reach ``sys.excepthook``, and is not
# available when the exit handlers run.
# Tool identifiers of ``sys.monitoring`` that are not reserved for a kind of tool.
_TOOL_IDS: Final = (3, 4)


def _watch_exits() -> None:
    """Note each exception that leaves the script or the code of the worker.

    Costs about 0.1 µs for each function that is left by an exception, and nothing otherwise. Does
    nothing if other tools use both free tool identifiers, and before Python 3.12.
    """
    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        tools = {monitoring.get_tool(each): each for each in reversed(_TOOL_IDS)}
        if __name__ not in tools and None in tools:
            tool = tools[None]
            monitoring.use_tool_id(tool, __name__)
            monitoring.register_callback(tool, monitoring.events.PY_UNWIND, _note_exit)
            monitoring.set_events(tool, monitoring.events.PY_UNWIND)


def _forget_exits() -> None:
    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        for tool in _TOOL_IDS:
            if monitoring.get_tool(tool) == __name__:
                monitoring.set_events(tool, monitoring.events.NO_EVENTS)
                monitoring.register_callback(tool, monitoring.events.PY_UNWIND, None)
                monitoring.free_tool_id(tool)


def _note_exit(code: CodeType, _offset: int, error: BaseException) -> None:
    # Not by a mapping: code objects are compared by content, and slow to hash.
    if code is _state.worker_code:
        _state.worker_error = error
    elif code is _state.script and isinstance(error, SystemExit):
        _notify_exception(error)


# Runs after other finalizers of a worker, such as those of queues.
_FINALIZER_PRIORITY: Final = -100


def at_worker_end(end: Callable[[BaseException | None], None]) -> None:
    """Call ``end`` with the error that ends this process if it is a ``multiprocessing`` worker.

    ``end`` must not raise; its argument is None if there was no failure (`cause_of`).

    In forked and spawned workers, uncaught exceptions do not reach ``sys.excepthook``; PyTorch's
    workers even turn them into ``SystemExit``. Up to Python 3.12 a forked worker ends with
    ``os._exit`` and calls no exit handler, but every worker runs the finalizers of
    ``multiprocessing.util`` while the exception is being handled. Since 3.13 every worker calls the
    exit handlers (https://github.com/python/cpython/issues/83856), when the exception is no longer
    available. It is therefore noted when it leaves the worker's own code.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return

    def finish() -> None:
        end(cause_of(_state.worker_error or sys.exc_info()[1]))

    if sys.version_info >= (3, 13):
        _state.worker_code = getattr(type(process.current_process()).run, "__code__", None)
        _watch_exits()
        atexit.register(finish)
    else:
        util.Finalize(None, finish, exitpriority=_FINALIZER_PRIORITY)
