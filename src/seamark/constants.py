"""Constants of Neptune's module ``constants`` that apply here."""

from __future__ import annotations

from typing import Final

__all__ = ["ANONYMOUS_API_TOKEN"]

ANONYMOUS_API_TOKEN: Final = "ANONYMOUS"  # noqa: S105 - Neptune's word for none
"""Value that scripts may pass as ``api_token``; no server accepts it."""
