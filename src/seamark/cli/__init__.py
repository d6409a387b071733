"""The command ``seamark``; the module of each subcommand is imported when it is first used."""

from __future__ import annotations

from seamark.cli._app import app, main

__all__ = ["app", "main"]
