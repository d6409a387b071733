"""Renewal of state in a forked child: locks, threads, descriptors and caches.

A child has one thread, and a copy of the memory at the moment of the fork. All code with such state
registers here, and nowhere else, to be called in the child.
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

__all__ = ["held_off", "register"]

log = logging.getLogger("seamark")

_HELD_OFF_S: Final = 0.5
"""Maximum time for which a lock delays a fork, in seconds."""

_renewals: weakref.WeakKeyDictionary[Any, Callable[..., object]] = weakref.WeakKeyDictionary()


def register(renew: Callable[[], object]) -> None:
    """Register a function to be called in each child forked from now on, and in their children.

    Functions are called in the order of registration, so that dependencies are renewed before the
    code that uses them. If one fails, the others are called nevertheless. Only weak references are
    held: a method is called while its object lives, a function while its module does (a lambda
    without another reference is removed at once). Registered twice, one is called once.
    """
    if isinstance(renew, MethodType):
        _renewals[renew.__self__] = renew.__func__
    else:
        _renewals[renew] = _call


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """Delay forks until the block ends, but at most half a second; for imports.

    A child that is forked while a thread imports a module inherits the lock of that module, and
    waits forever if it imports it too. Use this in threads of Seamark only, not of the training.
    """
    with _whole.lock:
        _whole.holders += 1
        yield


class _Whole:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self._waited_for = -1
        self._forks: int | None = None

    def before(self) -> None:
        holder = self.holders
        # One that hangs for good is waited for once.
        if self.lock.acquire(timeout=0 if holder == self._waited_for else _HELD_OFF_S):
            self._forks = threading.get_ident()
        elif holder == self.holders:
            self._waited_for = holder

    def in_parent(self) -> None:
        if self._forks == threading.get_ident():
            self._forks = None
            self.lock.release()

    def in_child(self) -> None:
        self.lock, self._forks = threading.Lock(), None


_whole = _Whole()


def _call(renew: Callable[[], object]) -> object:
    return renew()


def _renew() -> None:
    for owner, renew in list(_renewals.items()):
        with quietly(_log_failure):
            renew(owner)


def _log_failure(error: Exception) -> None:
    log.warning("seamark: a part could not be set up in a forked process: %r", error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_whole.before, after_in_parent=_whole.in_parent, after_in_child=_whole.in_child
    )
    os.register_at_fork(after_in_child=_renew)
