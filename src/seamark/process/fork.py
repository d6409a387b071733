"""What has to be made again in a forked child: locks, threads, descriptors, what was remembered.

A child has one thread, and a copy of all memory in the state in which the others were at that
moment: locks that nobody will free, threads that are not there. Whatever keeps such things asks to
be renewed here, and nowhere else.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any

from seamark.process.interrupts import quietly

__all__ = ["register"]

log = logging.getLogger("seamark")

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


def _call(renew: Callable[[], object]) -> object:
    return renew()


def _renew() -> None:
    for owner, renew in list(_renewals.items()):
        with quietly(_tell):
            renew(owner)


def _tell(error: Exception) -> None:
    log.warning("seamark: a part could not be set up in a forked process: %r", error)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
