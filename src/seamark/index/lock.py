"""Lock beside a file: taken within a time limit, or not at all."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from seamark.process.interrupts import quietly

__all__ = ["exclusive"]

_POLL_S: Final = 0.005


@contextlib.contextmanager
def exclusive(file: Path, wait_s: float) -> Iterator[bool]:
    """Hold the lock beside the index, if it can be had within ``wait_s`` seconds.

    Without locks in the file system, everybody has it: offsets are compared at every write anyway.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield True
        return
    try:
        fd = os.open(f"{file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    mine = False
    try:
        mine = _flock(fcntl, fd, wait_s)
        yield mine
    finally:
        if mine:  # closing is not enough: a process forked meanwhile holds the same lock
            with quietly(only=OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def _flock(fcntl: Any, fd: int, wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        except OSError:
            return True
        else:
            return True
