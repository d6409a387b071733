"""Which methods of Ignite's engine are known to the letter, so that ours may act in their place.

A method that differs, in another release or because somebody exchanged it, is called and never
replaced. Nothing here fails where one is gone.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
from types import CodeType
from typing import Any, Final

__all__ = ["FILTER", "RUN", "STRONG_FIRE", "WEAK_FIRE", "source_of"]

STRONG_FIRE: Final = frozenset({"b328d6a09fc7f8bef1d2"})
"""``_fire_event`` of 0.4.13 to 0.5.2, where handlers hold the engine."""

WEAK_FIRE: Final = frozenset({"917eb0cef34376df0c78", "ca2c903b008cc537e119"})
"""``_fire_event`` from 0.5.3 on, where they hold a weak reference."""

RUN: Final = frozenset({"162336b0e6d3ec28d03a"})
"""``_internal_run`` of 0.4.13 to 0.5.5, which a run begins with, and goes on with."""

FILTER: Final = frozenset({"06185784bac2e5ccbffe"})
"""``_handler_wrapper`` of 0.4.13 to 0.5.5: what an event's filter puts around a handler."""


def source_of(function: Any) -> str:
    """Return the first letters of the SHA-256 of a function's source; empty if it cannot be read.

    Of the code that runs: what ``functools.wraps`` says of another function is not believed.
    """
    code = getattr(function, "__code__", None)
    return _digest(code) if isinstance(code, CodeType) else ""


@functools.lru_cache(maxsize=64)
def _digest(code: CodeType) -> str:
    try:
        return hashlib.sha256(inspect.getsource(code).encode()).hexdigest()[:20]
    except (OSError, TypeError, SyntaxError):
        return ""
