"""A progress bar on standard error, for what turns out to take a while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from seamark.cli._screen import quiet
from seamark.pictures import progress

__all__ = ["progress_bar"]


def progress_bar(title: str) -> AbstractContextManager[Callable[[int, int], None]]:
    """Give a function that takes how much is done and how much there is.

    Nothing is shown where an option or the environment asks for quiet.
    """
    return progress.progress_bar(title, quiet=quiet())
