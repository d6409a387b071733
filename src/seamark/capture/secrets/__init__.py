"""What must not be recorded: how it is recognised, and what is recorded in its place."""

from __future__ import annotations

from seamark.capture.secrets.secrets import Secrets, more_of

__all__ = ["Secrets", "more_of"]
