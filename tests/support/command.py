"""The command as ``python -m seamark`` runs it, for tests that call it in their own process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from seamark.__main__ import main

__all__ = ["app", "main"]


class _Command(click.Command):
    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        """End with the code with which the program ends."""
        sys.exit(main([*(args or ())]))


app = _Command("seamark")
"""What click's runner calls."""
