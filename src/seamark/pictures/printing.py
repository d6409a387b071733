"""Text and progress bars in terminals and notebooks, and whether they are wanted."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

__all__ = [
    "MOST_COLUMNS",
    "columns_of",
    "is_dumb",
    "is_quiet",
    "obeys_escapes",
    "progress_bar",
    "show",
    "without_middle",
]


_NO: Final = frozenset({"", "0", "false", "no", "off"})


def is_quiet() -> bool:
    """Return whether ``SEAMARK_QUIET`` says so: anything but 0, false, no, off and nothing."""
    return os.environ.get("SEAMARK_QUIET", "").strip().lower() not in _NO


MOST_COLUMNS: Final = 100
"""Maximum width of a report; wider ones are hard to read and wrapped by log viewers."""
_LEAST_COLUMNS: Final = 60


def columns_of(stream: TextIO | None) -> int:
    """Return the width for a report: that of the terminal, and 100 columns where there is none."""
    try:
        if stream is None or not stream.isatty():
            return MOST_COLUMNS
    except (AttributeError, ValueError):  # not a stream of this kind, or closed
        return MOST_COLUMNS
    found = shutil.get_terminal_size((MOST_COLUMNS, 24)).columns
    return max(_LEAST_COLUMNS, min(MOST_COLUMNS, found))


def without_middle(text: str, width: int) -> str:
    """Return text cut to a width; names say most at their ends."""
    if len(text) <= width:
        return text
    end = max(0, width - 3) // 2
    return f"{text[: max(0, width - 3 - end)]}...{text[len(text) - end :]}"


def is_dumb() -> bool:
    """Return whether ``TERM`` says that the terminal knows no escapes, such as an editor's."""
    return os.environ.get("TERM", "").lower() in {"dumb", "unknown"}


def obeys_escapes(stream: TextIO) -> bool:
    """Return whether a line written to a stream can be taken back, as progress is."""
    return stream.isatty() and not is_dumb()


def show(text: str) -> None:
    """Print text; characters that cannot be encoded are escaped, so that this never raises."""
    try:
        print(text)  # noqa: T201 - the purpose of this function
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(text.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201


_DELAY_S: Final = 0.4
"""Delay before a bar is shown, in seconds; shorter work gets none."""


@contextmanager
def progress_bar(
    title: str, *, quiet: bool, of_bytes: bool = False
) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the amount that is done and the amount that there is.

    Nothing is shown where standard error is not a terminal that can move its cursor; rich is only
    imported once there is something to show. With ``of_bytes``, the rate of bytes is shown.
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
