"""End of a process: uncaught exceptions, Ctrl-C and SIGTERM, observed and passed on.

One registration serves all runs of the process, which are referenced weakly. Observation does not
change the behaviour of the process: output, exit code and handlers stay the same.

=============================  =================================================================
uncaught exception             ``sys.excepthook`` notifies the runs, then calls the previous hook
KeyboardInterrupt              the same, if it is uncaught; see `set_interrupt_flag`
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
replaced ours, it may restore ours later (Lightning does, after each stage). The removal then waits
until the other object is deleted; until then, ours only calls the previous one.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar, Final

from seamark.capture.ending import cause_of, sigterm
from seamark.capture.ending.sigterm import Observer, Observers, call_on_removal
from seamark.process import fork
from seamark.process.interrupts import quietly

__all__ = ["Observer", "at_worker_end", "unwatch", "watch"]

log = logging.getLogger("seamark")

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], Any]


_exception_observers = Observers()
_reported_error = 0
# Outermost code of the main thread, while exceptions are observed.
_script: CodeType | None = None


# --------------------------------------------------------------------- registration


def watch(observer: Observer, *, exceptions: bool, signals: bool) -> None:
    """Report the end of the process to ``observer``, referenced weakly, until `unwatch`.

    May be called again. SIGTERM is reported only if the first observer of signals is registered by
    the main thread, because Python allows no other thread to install a handler.
    """
    _register()
    if exceptions:
        _exception_observers.add(observer)
        _install_hook()
        _watch_script()
    if signals:
        sigterm.watch(observer)


def unwatch(observer: Observer) -> None:
    """Stop notifying ``observer``; do nothing if it is not registered.

    After the last observer the previous hooks are restored, at once or when the hook that replaced
    ours is deleted. The handler of SIGTERM stays if the last observer is removed by a thread other
    than the main thread.
    """
    _exception_observers.discard(observer)
    if not _exception_observers:
        _uninstall_hook()
        _forget_script()
    sigterm.unwatch(observer)


def _register() -> None:
    global _reported_error  # noqa: PLW0603 - one registration for the process
    # The newest registration runs first at exit, before the runs are stopped as completed.
    atexit.unregister(_report_unseen_error)
    atexit.register(_report_unseen_error)
    if not _exception_observers:
        _reported_error = id(_last_error())
    fork.register(_after_fork)


def _after_fork() -> None:
    """Remove all observers, and restore the original hooks.

    The runs belong to the parent. A child that is blocked in C code is terminated by SIGTERM at
    once only if there is no Python handler.
    """
    _exception_observers.clear()
    _ExceptHook.passing.clear()
    _uninstall_hook()
    _forget_script()
    sigterm.remove_all()


# --------------------------------------------------------------------- uncaught exceptions


class _ExceptHook:
    passing: ClassVar[set[int]] = set()  # shared: one error may pass several hooks
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
                    set_interrupt_flag()
            self.before(kind, error, trace)
        finally:
            if first:
                self.passing.discard(key)


def _notify_exception(error: BaseException | None) -> None:
    """Notify the observers. Never raises, so that the original exception is reported."""
    global _reported_error  # noqa: PLW0603
    try:
        if error is None or _is_at_prompt():
            return
        if threading.current_thread() is not threading.main_thread():
            return
        _reported_error = id(error)
        for observer in _exception_observers.alive():
            observer.on_exception(error)
    except BaseException:
        log.debug("seamark: an uncaught exception could not be recorded", exc_info=True)


def _script_has_ended() -> bool:
    """Return whether the interpreter called the hook, not the script, which would continue."""
    if threading.current_thread() is not threading.main_thread() or _is_at_prompt():
        return False
    return _outermost_code(sys._getframe()) is not _script  # noqa: SLF001 - documented


def _outermost_code(frame: FrameType) -> CodeType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code


def _is_at_prompt() -> bool:
    # Prompts of Python and IPython, where an error does not end the process.
    return hasattr(sys, "ps1")


def _install_hook() -> None:
    if not isinstance(sys.excepthook, _ExceptHook):
        sys.excepthook = _ExceptHook(sys.excepthook)


def _uninstall_hook() -> None:
    if _exception_observers:
        return
    while isinstance(sys.excepthook, _ExceptHook):
        sys.excepthook = sys.excepthook.before
    if _ExceptHook.living:
        call_on_removal("hook", sys.excepthook, _uninstall_hook)


def _last_error() -> BaseException | None:
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _report_unseen_error() -> None:
    """Report, at exit, an uncaught exception that our hook did not receive.

    Code that replaces ``sys.excepthook`` without calling the old one (``rich.traceback.install``)
    disables our hook. Python still stores the exception in ``sys.last_exc``.
    """
    if (interrupt := _interrupt_of_last_cell()) is not None:
        for observer in _exception_observers.alive():
            observer.on_exception(interrupt)
        return
    error = _last_error()
    if error is None or id(error) == _reported_error or isinstance(sys.excepthook, _ExceptHook):
        return
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


# --------------------------------------------------------------------- SystemExit


def _watch_script() -> None:
    global _script  # noqa: PLW0603
    if _script is not None or threading.current_thread() is not threading.main_thread():
        return
    _script = _outermost_code(sys._getframe())  # noqa: SLF001 - documented
    _call_on_exit(_script, _notify_exit)


def _forget_script() -> None:
    global _script  # noqa: PLW0603
    if _script is not None:
        _forget_code(_script)
        _script = None


def _notify_exit(error: BaseException) -> None:
    if isinstance(error, SystemExit):
        _notify_exception(error)


# `SystemExit` cannot be observed in another way: it does not reach ``sys.excepthook``, and is not
# available when the exit handlers run.
# Tool identifiers of ``sys.monitoring`` that are not reserved for a kind of tool.
_TOOL_IDS: Final = (3, 4)

# Callbacks by the id of the code: code objects are compared by content, and slow to hash.
_exit_callbacks: dict[int, tuple[CodeType, Callable[[BaseException], None]]] = {}


if sys.version_info >= (3, 12):

    def _call_on_exit(code: CodeType, call: Callable[[BaseException], None]) -> None:
        """Call ``call``, which must not raise, with each exception that leaves ``code``.

        Costs about 0.1 µs for each function that is left by an exception, and nothing otherwise.
        Does nothing if other tools use both free tool identifiers.
        """
        _exit_callbacks[id(code)] = (code, call)
        monitoring = sys.monitoring
        tools = {monitoring.get_tool(each): each for each in reversed(_TOOL_IDS)}
        if __name__ in tools or None not in tools:
            return
        tool = tools[None]
        monitoring.use_tool_id(tool, __name__)
        monitoring.register_callback(tool, monitoring.events.PY_UNWIND, _call_back)
        monitoring.set_events(tool, monitoring.events.PY_UNWIND)

    def _forget_code(code: CodeType) -> None:
        _exit_callbacks.pop(id(code), None)
        if _exit_callbacks:
            return
        monitoring = sys.monitoring
        for tool in _TOOL_IDS:
            if monitoring.get_tool(tool) == __name__:
                monitoring.set_events(tool, monitoring.events.NO_EVENTS)
                monitoring.register_callback(tool, monitoring.events.PY_UNWIND, None)
                monitoring.free_tool_id(tool)

    def _call_back(code: CodeType, _offset: int, error: BaseException) -> None:
        if (called := _exit_callbacks.get(id(code))) is not None:
            called[1](error)

else:

    def _call_on_exit(code: CodeType, call: Callable[[BaseException], None]) -> None:
        pass  # not reported by this version of Python

    def _forget_code(code: CodeType) -> None:
        pass


# Runs after other finalizers of a worker, such as those of queues.
_FINALIZER_PRIORITY: Final = -100

# Exception that left the worker's code, by pid: a forked child inherits its parent's entry.
_worker_errors: dict[int, BaseException] = {}


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
    pid = os.getpid()

    def finish() -> None:
        if os.getpid() == pid:
            end(cause_of(_worker_errors.get(pid) or sys.exc_info()[1]))

    if sys.version_info >= (3, 13):
        code = getattr(type(process.current_process()).run, "__code__", None)
        if code is not None:
            _call_on_exit(code, _note_worker_error)
        atexit.register(finish)
    else:
        util.Finalize(None, finish, exitpriority=_FINALIZER_PRIORITY)


def _note_worker_error(error: BaseException) -> None:
    _worker_errors[os.getpid()] = error


class _InterruptFlag:
    """Object that sets Python's flag of an interrupted process when the interpreter is torn down.

    Python has one such flag for each process, and reads it at the very end. Every ``exec`` of a
    string on any thread clears it, such as that of ``namedtuple`` in a module that one of our
    threads imports. An ``exec`` that is interrupted sets it. Other threads are stopped before
    modules are torn down, and this object is deleted with its module.
    """

    def __init__(self) -> None:
        self._execute, self._interrupt = exec, KeyboardInterrupt
        self._pid, self._owner_pid = os.getpid, os.getpid()

    def __del__(self) -> None:
        if self._pid() != self._owner_pid:
            return
        try:  # noqa: SIM105 - contextlib is already cleared at the end of the process
            self._execute("raise interrupt", {"interrupt": self._interrupt})
        except self._interrupt:
            pass


_interrupt_flag: _InterruptFlag | None = None


def set_interrupt_flag() -> None:
    """Make this process end by SIGINT, as Python does after an uncaught interrupt."""
    global _interrupt_flag  # noqa: PLW0603 - one flag for the process
    if _interrupt_flag is None:
        _interrupt_flag = _InterruptFlag()
