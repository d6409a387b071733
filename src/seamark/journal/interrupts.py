"""Exceptions that a signal handler raised in the middle of our code: not ours to swallow."""

from __future__ import annotations

import functools
import signal
from typing import Any

__all__ = ["raised_by_signal_handler"]


def raised_by_signal_handler(error: BaseException) -> bool:
    """Tell whether ``error`` came out of a signal handler, which Python runs between any two steps.

    A handler that raises (a time limit, say) means to stop the training wherever it is. Where this
    package catches everything else, such an error goes on.

    Args:
        error: As caught, with its traceback.
    """
    codes = set()
    trace = error.__traceback__
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    handlers = map(signal.getsignal, signal.valid_signals())
    return any(_code_of(handler) in codes for handler in handlers if callable(handler))


def _code_of(handler: Any) -> Any:
    """Return the code that runs when ``handler`` is called, or None if it is no Python code."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not hasattr(handler, "__code__"):
        handler = getattr(handler, "__func__", None) or type(handler).__call__
    return getattr(handler, "__code__", None)
