"""The command ``seamark``: look at runs, plot, export, check and delete them.

Commands are modules of this package; each is imported only when it is called, and imports what is
heavy only when it runs, so that ``seamark ls`` answers at once.
"""

from __future__ import annotations

from seamark.cli._app import app, main

__all__ = ["app", "main"]
