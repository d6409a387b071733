"""Log lines of what may happen a thousand times a second: one of each kind a minute."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

__all__ = ["warn_rarely"]

_log: Final = logging.getLogger("seamark.server")
_EVERY_S: Final = 60.0
_lock: Final = threading.Lock()
_kinds: Final[dict[str, tuple[float, int]]] = {}
"""When a kind was logged last, by the monotonic clock, and how often it was left out since."""


def warn_rarely(kind: str, message: str, *arguments: object) -> None:
    """Log a warning unless one of its kind was logged less than a minute ago.

    The next one of the kind says how many were left out.

    Args:
        kind: One of a few texts that do not depend on what is sent.
        message: As of `logging.Logger.warning`.
        *arguments: Likewise.
    """
    now = time.monotonic()
    with _lock:
        logged, left_out = _kinds.get(kind, (now - _EVERY_S, 0))
        if now - logged < _EVERY_S:
            _kinds[kind] = logged, left_out + 1
            return
        _kinds[kind] = now, 0
    if left_out:
        message, arguments = message + " (and %d times since the last line)", (*arguments, left_out)
    _log.warning(message, *arguments)
