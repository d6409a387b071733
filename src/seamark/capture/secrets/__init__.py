"""Recognition of secrets, and their replacement in records."""

from __future__ import annotations

from seamark.capture.secrets.secrets import Secrets, more_of

__all__ = ["Secrets", "more_of"]
