"""What has to be made again in a forked child: locks, threads, descriptors, what was remembered.

A child has one thread, and a copy of all memory in the state in which the others were at that
moment: locks that nobody will free, threads that are not there. Whatever keeps such things asks to
be renewed here, and nowhere else.
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
"""A fork waits no longer than this for what holds it off, in seconds."""

_renewals: weakref.WeakKeyDictionary[Any, Callable[..., object]] = weakref.WeakKeyDictionary()


def register(renew: Callable[[], object]) -> None:
    """Have something called in every child that is forked from now on, and in their children.

    In the order of registration: what is imported or made first is renewed first, so that what
    uses something finds it whole. One that fails keeps no other from its turn. Nothing is kept
    alive for this: a method is called as long as its object lives, a function as long as its
    module does (a lambda that nobody else holds is gone at once).

    Args:
        renew: A function, or one method of an object; registered twice, it is called once.
    """
    if isinstance(renew, MethodType):
        _renewals[renew.__self__] = renew.__func__
    else:
        _renewals[renew] = _call


@contextlib.contextmanager
def held_off() -> Iterator[None]:
    """Have forks wait until the block is left, though half a second at most; for imports.

    A child that is forked while a thread imports a module inherits the lock of that module, and
    waits for ever where it imports it too. For threads of ours, never for the training's own.
    """
    with _whole.lock:
        _whole.holders += 1
        yield


class _Whole:
    """What a fork waits for."""

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
        with quietly(_tell):
            renew(owner)


def _tell(error: Exception) -> None:
    log.warning("seamark: a part could not be set up in a forked process: %r", error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_whole.before, after_in_parent=_whole.in_parent, after_in_child=_whole.in_child
    )
    os.register_at_fork(after_in_child=_renew)
