"""Reset of state in a forked child: locks, threads, descriptors and caches.

A child has one thread and a copy of the memory at the time of the fork. All code with such state
registers a function here, which is called in the child.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, Final

from seamark.process.interrupts import quietly

log = logging.getLogger("seamark")

_MAX_DELAY_S: Final = 0.5
"""Maximum time for which a lock delays a fork, in seconds."""

_reset_functions: weakref.WeakKeyDictionary[Any, Callable[..., object]] = (
    weakref.WeakKeyDictionary()
)


def register(reset: Callable[[], object]) -> None:
    """Register a function to be called in each later forked child and in its children.

    Functions are called in the order of registration, so that dependencies are reset before the
    code that uses them. If one fails, the others are still called. Only weak references are held: a
    method is called while its object exists, a function while its module exists. A lambda without
    another reference is removed at once. A function that is registered twice is called once.
    """
    if isinstance(reset, MethodType):
        _reset_functions[reset.__self__] = reset.__func__
    else:
        _reset_functions[reset] = type(reset).__call__


@contextlib.contextmanager
def delay_forks() -> Iterator[None]:
    """Delay forks until the block ends, but at most half a second; for imports.

    A child that is forked while a thread imports a module inherits the lock of the module, and
    waits forever if it imports the module too. Use this only in threads of Seamark, not of the
    training.
    """
    with _fork_lock.lock:
        _fork_lock.holders += 1
        yield


class _ForkLock:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self._timed_out_holder = -1
        self._forking_thread: int | None = None

    def before(self) -> None:
        holder = self.holders
        # Wait only once for a holder that hangs.
        if self.lock.acquire(timeout=0 if holder == self._timed_out_holder else _MAX_DELAY_S):
            self._forking_thread = threading.get_ident()
        elif holder == self.holders:
            self._timed_out_holder = holder

    def in_parent(self) -> None:
        if self._forking_thread == threading.get_ident():
            self._forking_thread = None
            self.lock.release()

    def in_child(self) -> None:
        self.lock, self._forking_thread = threading.Lock(), None


_fork_lock = _ForkLock()


def _reset_all() -> None:
    for owner, reset in list(_reset_functions.items()):
        with quietly(_log_failure):
            reset(owner)


def _log_failure(error: Exception) -> None:
    log.warning("seamark: a component could not be reset in a forked process: %r", error)


os.register_at_fork(
    before=_fork_lock.before,
    after_in_parent=_fork_lock.in_parent,
    after_in_child=_fork_lock.in_child,
)
os.register_at_fork(after_in_child=_reset_all)
