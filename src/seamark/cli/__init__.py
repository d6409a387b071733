"""The command ``seamark``; each command's module is imported only when it is called."""

from __future__ import annotations

from seamark.cli._app import app, main

__all__ = ["app", "main"]
