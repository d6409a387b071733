"""The web page: what is served to a browser, by ``seamark ui`` and beside a team's server."""

from __future__ import annotations

__all__: list[str] = []
