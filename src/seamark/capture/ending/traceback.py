"""Exceptions as text that may be kept: total, and without secrets."""

from __future__ import annotations

import traceback

from seamark.capture.secrets import Secrets
from seamark.process.interrupts import let_pass

__all__ = ["error_message", "error_traceback"]

_MAX_MESSAGE_CHARS = 4000
_USUAL = Secrets()


def error_message(error: BaseException, secrets: Secrets = _USUAL) -> str:
    """Return what an exception says, secrets masked, at most 4,000 characters. Never raises.

    Args:
        error: The exception; one whose ``__str__`` fails is described by its type.
        secrets: What is hidden in it.
    """
    try:
        text = str(error)
    except Exception as trouble:  # noqa: BLE001 - a broken __str__ must not hide that the run failed
        let_pass(trouble)
        text = f"<{type(error).__name__}, whose text could not be read>"
    return secrets.message(text)[:_MAX_MESSAGE_CHARS]


def error_traceback(error: BaseException, secrets: Secrets = _USUAL) -> str:
    """Return an exception's traceback as Python prints it, its causes included, secrets masked.

    Args:
        error: The exception.
        secrets: What is hidden in it.
    """
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return secrets.traceback("".join(lines))
