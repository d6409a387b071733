"""Interface of the recorder for the objects that record values, points and contents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter

__all__ = ["Outlet"]


class Outlet(Protocol):
    """The journal of one process, and the answers to whether and where it records.

    `seamark.run.recorder.Recorder` is the one there is.

    Attributes:
        folder: Where it is recorded.
        writer: The journal; None before the first record.
        ready: The same, while nothing has to be asked before it is written to; else None.
        rank: 0, or the rank that records its own series beside those of rank 0.
        row: Records one number for each path at one step; see `seamark.run.recorder.Recorder`.
    """

    folder: RunFolder
    writer: JournalWriter | None
    ready: JournalWriter | None
    rank: int
    row: Callable[..., bool | None]

    @property
    def silent(self) -> bool:
        """Whether nothing is recorded by design: disabled, or a rank that does not record."""

    def to_write(self) -> JournalWriter | None:
        """Return the writer, which begins with it; None where nothing is recorded by design."""

    def to_append(self) -> JournalWriter | None:
        """Return the writer for points; None, with one warning, where the run was stopped."""

    def to_share(self, path: str) -> JournalWriter | None:
        """Return the writer for what is said once for all ranks; None where rank 0 says it."""

    def expect_free(self, path: str) -> None:
        """Refuse to change what never changes."""

    def shares(self, path: str) -> bool:
        """Return whether this process records values and files at a path."""

    def series_path(self, path: str) -> str:
        """Return where this rank keeps its points of a series."""

    def begin_points(self) -> None:
        """Take note that points of series are about to be recorded on purpose."""

    def announce(self, paths: Iterable[str]) -> None:
        """Take note that points of float series are about to be recorded at some paths."""

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count what could not be recorded, and warn once about it. Never raises."""
