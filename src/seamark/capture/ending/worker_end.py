"""End of a worker of ``multiprocessing``, where ``sys.excepthook`` is not called.

In no worker, forked or spawned, does an exception that nobody catches reach ``sys.excepthook``;
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
from typing import Any, Final

from seamark.capture.ending.outcome import cause_of
from seamark.capture.ending.unwinding import call_on_exit

__all__ = ["at_worker_end"]

_PRIORITY: Final = -100
"""After what others finish at the end of a worker, such as queues."""

_left_by: dict[int, BaseException] = {}
"""The exception that left the worker's code, by process: a fork inherits what its parent noted."""


def at_worker_end(end: Callable[[BaseException | None], None]) -> None:
    """Call ``end`` with what ended this process, if it is a worker of ``multiprocessing``.

    With None if nothing went wrong (`cause_of`). Does nothing in a process that is not a worker.

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
            end(cause_of(_left_by.get(pid) or sys.exc_info()[1]))

    if sys.version_info >= (3, 13):
        code = getattr(type(process.current_process()).run, "__code__", None)
        if code is not None:
            call_on_exit(code, _note)
        atexit.register(finish)
    else:
        util.Finalize(None, finish, exitpriority=_PRIORITY)


def _note(error: BaseException) -> None:
    _left_by[os.getpid()] = error
