"""Faults for the calls of one test alone, where other threads of the process make the same calls.

A run that an earlier test of this process did not stop beats and syncs by itself for as long as the
process lives, and would use up, or suffer from, what is meant for the test.
"""

from __future__ import annotations

import threading

_others = set()


def note_others():
    """Note which threads there are before a test begins."""
    _others.clear()
    _others.update(threading.enumerate())
    _others.discard(threading.current_thread())


def own(fake, real):
    """Return what is ``fake`` to the test and its threads, and ``real`` to those from before it."""

    def called(*args, **more):
        return (real if threading.current_thread() in _others else fake)(*args, **more)

    return called
