"""A progress bar on standard error for work that takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from seamark.pictures.printing import obeys_escapes

__all__ = ["progress_bar"]

_DELAY_S: Final = 0.4
"""Work that takes less time gets no bar."""


@contextmanager
def progress_bar(
    title: str, *, quiet: bool, of_bytes: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the amount that is done and the amount that there is.

    Nothing is shown where standard error is not a terminal that can move its cursor, and rich is
    only imported once there is something to show.

    Args:
        title: Name of the work.
        quiet: Show nothing in any case.
        of_bytes: Whether bytes are counted, and their rate is shown.
    """
    began, wanted = time.monotonic(), not quiet and obeys_escapes(sys.stderr)
    bar: Any = None
    task: Any = None

    def show(done: int, total: int) -> None:
        nonlocal bar, task
        if not wanted or time.monotonic() - began < _DELAY_S:
            return
        if bar is None:
            bar = _make_bar(of_bytes=of_bytes)
            bar.start()
            task = bar.add_task(title, total=total)
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if bar is not None:
            bar.stop()


def _make_bar(*, of_bytes: bool) -> Any:
    from rich import progress
    from rich.console import Console

    counts: tuple[progress.ProgressColumn, ...] = (
        (progress.DownloadColumn(), progress.TransferSpeedColumn())
        if of_bytes
        else (progress.MofNCompleteColumn(),)
    )
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        *counts,
        progress.TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
