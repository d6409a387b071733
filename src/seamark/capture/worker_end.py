"""How a worker of ``multiprocessing`` ends, which goes by none of the usual ways.

In none, be it forked or spawned, does an exception that nobody catches reach ``sys.excepthook``;
PyTorch's workers even turn it into ``SystemExit``. And what is called at the end depends on Python:

- Up to 3.12 a forked worker leaves by ``os._exit`` and calls no exit handler. But every worker runs
  the finalizers of ``multiprocessing.util`` while the exception is in flight.
- Since 3.13 every worker calls the exit handlers (https://github.com/python/cpython/issues/83856),
  when the exception is gone. It is noted when it leaves the worker's own code.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

__all__ = ["at_worker_end"]

_PRIORITY: Final = -100
"""After what others finish at the end of a worker, such as queues."""
_TOOLS: Final = (3, 4)
"""Of the identifiers of ``sys.monitoring``, those that it suggests to no kind of tool."""

_watched: set[CodeType] = set()
_left_by: dict[int, BaseException] = {}
"""The exception that left the watched code, by process: a fork inherits what its parent noted."""


def at_worker_end(end: Callable[[BaseException | None], None]) -> None:
    """Call ``end`` with what ended this process, if it is a worker of ``multiprocessing``.

    With None if it ends normally. Does nothing in a process that is no worker.

    Args:
        end: Must not raise.
    """
    util: Any = sys.modules.get("multiprocessing.util")
    process: Any = sys.modules.get("multiprocessing.process")
    if util is None or process is None or process.parent_process() is None:
        return
    pid = os.getpid()

    def finish() -> None:
        if os.getpid() == pid:
            end(_cause(_left_by.get(pid) or sys.exc_info()[1]))

    if sys.version_info >= (3, 13):
        _watch(getattr(type(process.current_process()).run, "__code__", None))
        atexit.register(finish)
    else:
        util.Finalize(None, finish, exitpriority=_PRIORITY)


def _cause(error: BaseException | None) -> BaseException | None:
    """Return the exception that ended a worker: what hides behind an exit that tells of failure."""
    if isinstance(error, SystemExit):
        return error.__context__ if error.code not in (None, 0) else None
    return error


if sys.version_info >= (3, 13):

    def _watch(code: CodeType | None) -> None:
        """Note the exception that leaves ``code``. Costs only where some function is left by one.

        Notes nothing where other tools hold both identifiers.
        """
        if code is None:
            return
        monitoring = sys.monitoring
        usable = [each for each in _TOOLS if monitoring.get_tool(each) in (None, __name__)]
        if not usable:
            return
        tool = usable[0]
        if monitoring.get_tool(tool) is None:
            monitoring.use_tool_id(tool, __name__)
            monitoring.register_callback(tool, monitoring.events.PY_UNWIND, _note)
            monitoring.set_events(tool, monitoring.events.PY_UNWIND)
        _watched.add(code)

    def _note(code: CodeType, _offset: int, error: BaseException) -> None:
        if code in _watched:
            _left_by[os.getpid()] = error
