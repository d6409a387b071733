"""A progress bar on standard error, for what turns out to take a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from seamark.pictures.printing import obeys_escapes

__all__ = ["progress_bar"]

_DELAY_S: Final = 0.4
"""What is done sooner needs no bar."""


@contextmanager
def progress_bar(
    title: str, *, quiet: bool, of_bytes: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Give a function that takes how much is done and how much there is.

    Nothing is shown where standard error is not a terminal that can move its cursor, and rich is
    only imported once there is something to show.

    Args:
        title: What is being done.
        quiet: Show nothing in any case.
        of_bytes: Whether bytes are counted, and their rate is told.
    """
    bar = _Bar(title, quiet=quiet, of_bytes=of_bytes)
    try:
        yield bar.show
    finally:
        bar.close()


class _Bar:
    def __init__(self, title: str, *, quiet: bool, of_bytes: bool) -> None:
        self._title = title
        self._of_bytes = of_bytes
        self._started = time.monotonic()
        self._wanted = not quiet and obeys_escapes(sys.stderr)
        self._progress: Any = None
        self._task: Any = None

    def show(self, done: int, total: int) -> None:
        if not self._wanted or time.monotonic() - self._started < _DELAY_S:
            return
        if self._progress is None:
            from rich import progress
            from rich.console import Console

            counts: tuple[progress.ProgressColumn, ...] = (
                (progress.DownloadColumn(), progress.TransferSpeedColumn())
                if self._of_bytes
                else (progress.MofNCompleteColumn(),)
            )
            self._progress = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                *counts,
                progress.TimeRemainingColumn(),
                console=Console(file=sys.stderr),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._title, total=total)
        self._progress.update(self._task, completed=done, total=total)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()
