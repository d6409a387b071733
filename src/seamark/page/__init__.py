"""The web page, served by ``seamark ui`` and beside a team's server."""

from __future__ import annotations

__all__: list[str] = []
