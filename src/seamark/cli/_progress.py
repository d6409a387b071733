"""A progress bar on standard error, for what turns out to take a while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from seamark.cli._screen import quiet
from seamark.pictures import progress

__all__ = ["progress_bar"]


def progress_bar(
    title: str, *, of_bytes: bool = False
) -> AbstractContextManager[Callable[[int, int], None]]:
    """Give a function that takes how much is done and how much there is.

    Nothing is shown where an option or the environment asks for quiet.

    Args:
        title: What is done.
        of_bytes: Whether bytes are counted, and their rate is told.
    """
    return progress.progress_bar(title, quiet=quiet(), of_bytes=of_bytes)
