"""Text of the error with which a run, or a rank of one, ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["error_text"]


def error_text(error: Mapping[str, Any]) -> str:
    """Return what an error was: ``"ValueError: diverged"``, or its type if it has no text.

    Args:
        error: Of a record of a state; a stranger may have written it.
    """
    kind, message = (str(error.get(key) or "") for key in ("type", "message"))
    return ": ".join(part for part in (kind, message) if part.strip())
