"""Exceptions of signal handlers that interrupt Seamark's code and must not be suppressed.

Python runs signal handlers between any two steps of the main thread. A handler that raises (a time
limit, say) means to stop the training wherever it is, and wherever it is may be here. So nothing
in this package that the training's thread runs catches ``Exception`` without asking:

* ``with quietly(lost):`` around what may fail, or ``@quietly(lost)`` on a function;
* ``with logged("what failed"):``, which logs it;
* ``let_pass(error)`` as the first line of an ``except`` that has more to do, or stands where each
  microsecond counts.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

__all__ = ["let_pass", "logged", "quietly", "raised_by_signal_handler"]

log = logging.getLogger("seamark")

_SIGNALS: Final = tuple(signal.valid_signals())


class quietly(contextlib.ContextDecorator, contextlib.AbstractContextManager[object]):  # noqa: N801 - read as a statement, like ``suppress``
    """Suppress exceptions of the block, but never those of a signal handler in it.

    A context manager and a decorator; one may be kept, used again, and used inside itself. A
    decorated function returns None where it failed. ``KeyboardInterrupt``, ``SystemExit`` and the
    like are no ``Exception`` and pass anyway. It costs half a microsecond (as a decorator one): on
    hot paths, write ``try`` and call `let_pass`.

    Args:
        lost: Called with what was swallowed, to count and report it; must not raise. None: nobody
            needs to know.
        only: What is swallowed; anything else is passed on.
    """

    def __init__(
        self,
        lost: Callable[[Exception], object] | None = None,
        only: type[Exception] | tuple[type[Exception], ...] = Exception,
    ) -> None:
        self._lost = lost
        self._only = only

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Return whether there was an exception that goes no further."""
        if error is None:
            return False
        if not isinstance(error, self._only) or raised_by_signal_handler(error):
            return False
        if self._lost is not None:
            self._lost(error)
        return True


def logged(what: str, level: int = logging.WARNING) -> quietly:
    """Return a context that suppresses exceptions and logs them: ``seamark: <what>: <error>``."""

    def lost(error: Exception) -> None:
        told = error if error.args else repr(error)
        log.log(level, "seamark: %s: %.400s", what, told)

    return quietly(lost)


def let_pass(error: BaseException) -> None:
    """Raise ``error`` again if a signal handler raised it; call it first in an ``except``.

    Costs nothing before something is raised, then some 30 microseconds.
    """
    if raised_by_signal_handler(error):
        raise error


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether ``error``, as caught, came out of a signal handler."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:
        return False  # raised by whoever caught it: a handler is called from there
    codes = set()
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    for handler in map(signal.getsignal, _SIGNALS):
        if callable(handler) and _code_of(handler) in codes:
            return True
    return False


def _code_of(handler: Any) -> Any:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(handler, "__func__", None) or type(handler).__call__
    return getattr(handler, "__code__", None)
