"""Finishing runs at the end of the process, whichever way it ends."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Protocol

from seamark.capture.ending.worker_end import at_worker_end

__all__ = ["Finishing", "afterwards", "finish_at_exit", "print_at_exit", "settle"]


class Finishing(Protocol):
    """An object that has to be finished at exit."""

    def finish_at_exit(self, error: BaseException | None) -> None:
        """Finish; the error is what ended the process, if anything did."""


_running: dict[int, Finishing] = {}
"""By identity: a process may have several objects of one run, and each has records to finish."""
_last_lines: dict[str, Callable[[], None]] = {}
_last: dict[Callable[[BaseException | None], None], int] = {}


def finish_at_exit(run: Finishing, key: str) -> None:
    """Finish a run when the process ends, unless `settle` is called for it.

    Args:
        run: What is finished.
        key: Of what is said about the run, whichever object of it ended last.
    """
    _register()
    _running[id(run)] = run
    _last_lines.pop(key, None)


def afterwards(call: Callable[[BaseException | None], None]) -> None:
    """Call a function once at the end of this process, after all runs were finished.

    Args:
        call: Takes what ended the process, if anything did; must not raise.
    """
    if _last.get(call) != os.getpid():
        _last[call] = os.getpid()
        _register()


def _register() -> None:
    # Always the newest of the registered, hence the first called: before a debug root is removed.
    atexit.unregister(_finish_all)
    atexit.register(_finish_all)
    at_worker_end(_finish_all)


def print_at_exit(run: Finishing, key: str, say: Callable[[], None]) -> None:
    """Print a line at exit about a run that has nothing left to finish, once for each run."""
    _running.pop(id(run), None)
    _last_lines[key] = say


def settle(run: Finishing, key: str) -> None:
    """Forget a run: it was finished."""
    _running.pop(id(run), None)
    _last_lines.pop(key, None)


def _finish_all(error: BaseException | None = None) -> None:
    for number, run in list(_running.items()):
        run.finish_at_exit(error)
        _running.pop(number, None)
    for key, say in list(_last_lines.items()):
        _last_lines.pop(key, None)
        say()
    for call, pid in list(_last.items()):
        if pid == os.getpid():
            call(error)
