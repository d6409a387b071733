"""Recognition of secrets, and their replacement in records."""

from __future__ import annotations

from seamark.capture.secrets.secrets import Secrets, user_rules

__all__ = ["Secrets", "user_rules"]
