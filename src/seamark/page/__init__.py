"""The web page, served by ``seamark ui`` and by a team server."""

from __future__ import annotations
