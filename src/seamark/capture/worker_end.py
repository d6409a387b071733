"""How a worker of ``multiprocessing`` ends, which goes by none of the usual ways.

A forked worker leaves by ``os._exit``: nothing registered with `atexit` is called. And in none, be
it forked or spawned, does an exception that nobody catches reach ``sys.excepthook``; PyTorch's
workers even turn it into ``SystemExit``. But every one of them runs the finalizers of
``multiprocessing.util`` while that exception is in flight.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

__all__ = ["at_worker_end"]

_PRIORITY: Final = -100
"""After what others finish at the end of a worker, such as queues."""


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
            end(_cause(sys.exc_info()[1]))

    util.Finalize(None, finish, exitpriority=_PRIORITY)


def _cause(error: BaseException | None) -> BaseException | None:
    """Return the exception that ended a worker: what hides behind an exit that tells of failure."""
    if isinstance(error, SystemExit):
        return error.__context__ if error.code not in (None, 0) else None
    return error
