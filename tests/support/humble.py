"""Doing something without root's right to read and write whatever there is, in this process."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_VERSION_3 = 0x20080522
_CAP_DAC = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def _give_up() -> None:
    """Give these rights up for the calling thread, and for what it starts."""
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    if _LIBC.capget(ctypes.byref(header), sets):
        raise OSError(ctypes.get_errno(), "capget")
    sets[0].effective &= ~_CAP_DAC
    if _LIBC.capset(ctypes.byref(header), sets):
        raise OSError(ctypes.get_errno(), "capset")


def humbly(do: Callable[[], Any]) -> Any:
    """Call a function in a thread that may read and write no more than its user; return its answer.

    Rights are those of a thread on Linux, so that all other threads keep theirs.
    """
    answers: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            _give_up()
            answers.append(do())
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
