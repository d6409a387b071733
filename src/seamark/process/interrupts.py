"""Exceptions of signal handlers that interrupt Seamark's code and must not be suppressed.

Python runs signal handlers between any two steps of the main thread. A handler that raises (such as
a time limit) is meant to stop the training, which may be in the code of this package. Therefore
code that the training's thread runs suppresses exceptions only by:

* ``with quietly(lost):`` around code that may fail, or ``@quietly(lost)`` on a function;
* ``with logged("what failed"):``, which also logs them;
* ``let_pass(error)`` as the first line of an ``except`` that has more to do or is on a hot path.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

log = logging.getLogger("seamark")

_SIGNALS: Final = tuple(signal.valid_signals())


class quietly(contextlib.ContextDecorator, contextlib.AbstractContextManager[object]):  # noqa: N801 - read as a statement, like ``suppress``
    """Suppress exceptions of the block, except those of signal handlers.

    This is a context manager and a decorator; it is reusable and reentrant. A decorated function
    returns None after a failure. ``KeyboardInterrupt`` and ``SystemExit`` are not subclasses of
    ``Exception`` and are not suppressed. It takes half a microsecond (one as a decorator): on hot
    paths, write ``try`` and call `let_pass`.

    Args:
        lost: Function that counts and reports a suppressed exception; must not raise. An exception
            that cannot be formatted is replaced. None ignores it.
        only: Types of exceptions to suppress; others are propagated.
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
        """Return whether an exception was suppressed."""
        if error is None:
            return False
        if not isinstance(error, self._only) or raised_by_signal_handler(error):
            return False
        if self._lost is not None:
            self._lost(formattable(error))
        return True


def logged(what: str, level: int = logging.WARNING) -> quietly:
    """Return a context that suppresses exceptions and logs them: ``seamark: <what>: <error>``."""

    def lost(error: Exception) -> None:
        message = error if error.args else repr(error)
        log.log(level, "seamark: %s: %.400s", what, message)

    return quietly(lost)


def formattable(error: Exception) -> Exception:
    """Return an exception, or one that names its type if it cannot be formatted."""
    try:
        str(error)
        repr(error)
    except Exception as failure:  # noqa: BLE001 - any code of the user
        let_pass(failure)
        return RuntimeError(type(error).__name__)
    return error


def let_pass(error: BaseException) -> None:
    """Raise ``error`` again if a signal handler raised it; call it first in an ``except``.

    Takes about 30 microseconds, and no time if there is no exception.
    """
    if raised_by_signal_handler(error):
        raise error


def raised_by_signal_handler(error: BaseException) -> bool:
    """Return whether a caught exception was raised by a signal handler."""
    trace = error.__traceback__
    if trace is None or trace.tb_next is None:
        return False  # raised in the same frame, and a handler has its own frame
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
