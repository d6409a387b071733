"""End of a process: uncaught exceptions, Ctrl-C and SIGTERM, observed and passed on.

One registration serves the whole process, however many runs it has; runs are held weakly. Whatever
is observed behaves exactly as without us: same output, same exit code, same handlers.

=============================  =================================================================
an uncaught exception          ``sys.excepthook`` tells the runs, then calls the hook it found
KeyboardInterrupt              the same: it arrives there if nobody catches it; `keep_status`
an exception in a thread       no end of the process, and therefore none of our business
SystemExit                     seen as it leaves the script, by Python 3.12 and later, if a run
                               began in the main thread; else nobody is told, and the run is taken
                               for completed whatever the code
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


_of_exceptions = Observers()
_known_error = 0
# The outermost code of the main thread, as long as somebody observes exceptions.
_script: CodeType | None = None


# --------------------------------------------------------------------- in and out


def watch(observer: Observer, *, exceptions: bool, signals: bool) -> None:
    """Report to ``observer``, held weakly, how the process ends, until `unwatch`.

    May be called again. SIGTERM is reported only if the first observer of signals comes from the
    main thread, the only one that Python lets install a handler.
    """
    _register()
    if exceptions:
        _of_exceptions.add(observer)
        _install_hook()
        _watch_script()
    if signals:
        sigterm.watch(observer)


def unwatch(observer: Observer) -> None:
    """Stop notifying ``observer``; harmless if it was not watching.

    After the last one what we found is put back, at once or as soon as what is installed over ours
    is gone. A handler of SIGTERM stays if the last one leaves in another thread than the main one.
    """
    _of_exceptions.discard(observer)
    if not _of_exceptions:
        _uninstall_hook()
        _forget_script()
    sigterm.unwatch(observer)


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
    """Forget all observers, and restore the original hooks.

    The runs are the parent's; and a child that waits in C code dies of SIGTERM at once only if no
    handler of Python's has to be called.
    """
    _of_exceptions.clear()
    _ExceptHook.passing.clear()
    _uninstall_hook()
    _forget_script()
    sigterm.forget_all()


# --------------------------------------------------------------------- uncaught exceptions


class _ExceptHook:
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
    """Return whether Python itself called the hook, and not the script, which would continue."""
    if threading.current_thread() is not threading.main_thread() or _at_a_prompt():
        return False
    return _outermost(sys._getframe()) is not _script  # noqa: SLF001 - documented


def _outermost(frame: FrameType) -> CodeType:
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code


def _at_a_prompt() -> bool:
    # Python's or IPython's, where errors end a line.
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
        call_on_removal("hook", sys.excepthook, _uninstall_hook)


def _last_error() -> BaseException | None:
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


@quietly()
def _interrupt_of_last_cell() -> BaseException | None:
    """Return what interrupted the last cell of this notebook, or None.

    Whoever restarts or stops a kernel in the middle of a cell has Jupyter interrupt the cell first,
    and end the process in good order then.
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
    _script = _outermost(sys._getframe())  # noqa: SLF001 - documented
    _call_on_exit(_script, _notify_exit)


def _forget_script() -> None:
    global _script  # noqa: PLW0603
    if _script is not None:
        _forget_code(_script)
        _script = None


def _notify_exit(error: BaseException) -> None:
    if isinstance(error, SystemExit):
        _notify_exception(error)


# A `SystemExit` can be observed in no other way: it does not reach ``sys.excepthook``, and is no
# longer available when the exit handlers run.
# Of the identifiers of ``sys.monitoring``, those that it suggests to no kind of tool.
_TOOLS: Final = (3, 4)

# Who is called, by the identity of the code: code of equal content is equal, and slow to hash.
_called: dict[int, tuple[CodeType, Callable[[BaseException], None]]] = {}


if sys.version_info >= (3, 12):

    def _call_on_exit(code: CodeType, call: Callable[[BaseException], None]) -> None:
        """Call ``call``, which must not raise, with each exception that leaves ``code``.

        Costs some 0.1 µs for each function of the process that is left by an exception, and nothing
        elsewhere. Does nothing where other tools hold both identifiers that are free for anybody.
        """
        _called[id(code)] = (code, call)
        monitoring = sys.monitoring
        tools = {monitoring.get_tool(each): each for each in reversed(_TOOLS)}
        if __name__ in tools or None not in tools:
            return
        tool = tools[None]
        monitoring.use_tool_id(tool, __name__)
        monitoring.register_callback(tool, monitoring.events.PY_UNWIND, _notify_left)
        monitoring.set_events(tool, monitoring.events.PY_UNWIND)

    def _forget_code(code: CodeType) -> None:
        _called.pop(id(code), None)
        if _called:
            return
        monitoring = sys.monitoring
        for tool in _TOOLS:
            if monitoring.get_tool(tool) == __name__:
                monitoring.set_events(tool, monitoring.events.NO_EVENTS)
                monitoring.register_callback(tool, monitoring.events.PY_UNWIND, None)
                monitoring.free_tool_id(tool)

    def _notify_left(code: CodeType, _offset: int, error: BaseException) -> None:
        if (called := _called.get(id(code))) is not None:
            called[1](error)

else:

    def _call_on_exit(code: CodeType, call: Callable[[BaseException], None]) -> None:
        pass  # this Python does not report it

    def _forget_code(code: CodeType) -> None:
        pass


# After what others finish at the end of a worker, such as queues.
_PRIORITY: Final = -100

# The exception that left the worker's code, by process: a fork inherits what its parent noted.
_left_by: dict[int, BaseException] = {}


def at_worker_end(end: Callable[[BaseException | None], None]) -> None:
    """Call ``end`` with the error that ends this process, if it is a worker of ``multiprocessing``.

    ``end`` must not raise; it gets None if nothing went wrong (`cause_of`).

    In no worker, forked or spawned, does an exception that nobody catches reach
    ``sys.excepthook``; PyTorch's workers even turn it into ``SystemExit``. Up to Python 3.12 a
    forked worker leaves by ``os._exit`` and calls no exit handler, but every worker runs the
    finalizers of ``multiprocessing.util`` while the exception is in flight. Since 3.13 every worker
    calls the exit handlers (https://github.com/python/cpython/issues/83856), when the exception is
    gone. It is noted when it leaves the worker's own code.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return
    pid = os.getpid()

    def finish() -> None:
        if os.getpid() == pid:
            end(cause_of(_left_by.get(pid) or sys.exc_info()[1]))

    if sys.version_info >= (3, 13):
        code = getattr(type(process.current_process()).run, "__code__", None)
        if code is not None:
            _call_on_exit(code, _note_left)
        atexit.register(finish)
    else:
        util.Finalize(None, finish, exitpriority=_PRIORITY)


def _note_left(error: BaseException) -> None:
    _left_by[os.getpid()] = error


class _Last:
    """Tells Python once more that an interrupt ends the process, when nobody else runs any more.

    Python keeps that in one flag of the process, looks at it after everything is taken down, and
    clears it whenever a text is executed, on any thread: by ``namedtuple``, say, in a module that
    a thread of ours imports. Executing a text that is interrupted sets it. Other threads are
    stopped for good before modules are taken down, and this goes with its module.
    """

    def __init__(self) -> None:
        self._execute, self._interrupt = exec, KeyboardInterrupt
        self._pid, self._own = os.getpid, os.getpid()

    def __del__(self) -> None:
        if self._pid() != self._own:
            return
        try:  # noqa: SIM105 - at the very end of the process contextlib is empty
            self._execute("raise interrupt", {"interrupt": self._interrupt})
        except self._interrupt:
            pass


_last: _Last | None = None


def keep_status() -> None:
    """Make this process end by SIGINT, as Python intends after an uncaught interrupt."""
    global _last  # noqa: PLW0603 - the flag is that of the process
    if _last is None:
        _last = _Last()
