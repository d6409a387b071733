"""Text and progress bars in terminals and notebooks."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

_FALSE_TEXTS: Final = frozenset({"", "0", "false", "no", "off"})


def is_quiet() -> bool:
    """Return whether ``SEAMARK_QUIET`` is set, but not to 0, false, no, off or an empty text."""
    return os.environ.get("SEAMARK_QUIET", "").strip().lower() not in _FALSE_TEXTS


MOST_COLUMNS: Final = 100
"""Maximum width of a report; wider reports are hard to read and wrapped by log viewers."""
_MIN_COLUMNS: Final = 60


def columns_of(stream: TextIO | None) -> int:
    """Return the width for a report: that of the terminal, or 100 columns without a terminal."""
    try:
        if stream is None or not stream.isatty():
            return MOST_COLUMNS
    except (AttributeError, ValueError):  # another kind of stream, or closed
        return MOST_COLUMNS
    found = shutil.get_terminal_size((MOST_COLUMNS, 24)).columns
    return max(_MIN_COLUMNS, min(MOST_COLUMNS, found))


def without_middle(text: str, width: int) -> str:
    """Return a text shortened to a width by leaving out its middle."""
    if len(text) <= width:
        return text
    end = max(0, width - 3) // 2
    return f"{text[: max(0, width - 3 - end)]}...{text[len(text) - end :]}"


def is_dumb() -> bool:
    """Return whether the terminal supports no escape sequences, according to ``TERM``."""
    return os.environ.get("TERM", "").lower() in {"dumb", "unknown"}


def obeys_escapes(stream: TextIO) -> bool:
    """Return whether a line written to a stream can be overwritten, as by progress bars."""
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
    """Yield a function that shows progress; its arguments are the amount done and the total.

    Nothing is shown if standard error is not a terminal that can move its cursor. Rich is imported
    only when the bar is shown. With ``of_bytes``, the rate of bytes is shown.
    """
    started, wanted = time.monotonic(), not quiet and obeys_escapes(sys.stderr)
    bar: Any = None
    task: Any = None

    def show(done: int, total: int) -> None:
        nonlocal bar, task
        if not wanted or time.monotonic() - started < _DELAY_S:
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
