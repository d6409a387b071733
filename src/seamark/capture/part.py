"""Protocols between a run and its captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from seamark.types import File

__all__ = ["Part", "Recorder"]


class Part(Protocol):
    """Something that is captured as long as a run is being recorded.

    It holds up nothing: what is slow happens on a daemon thread, which is gone after `stop`. What
    it raises is logged and goes no further, unless a signal handler raised it. It is never called
    in a forked child, where its threads are gone; what it installed must do nothing there.
    """

    def start(self) -> None:
        """Start; called again when a resting run continues."""

    def stop(self, timeout_s: float) -> None:
        """Record what is left, and end, within so many seconds. May be called twice."""


class Recorder(Protocol):
    """The part of a run that captures write to. Nothing here may raise."""

    @property
    def writer(self) -> str | None:
        """Writer id of this process, settled by asking; None where it does not record."""

    @property
    def place(self) -> Path | None:
        """The folder in which the run is kept."""

    @property
    def is_idle(self) -> bool:
        """Whether every record is written; False while one waits for a call it interrupted."""

    @property
    def root(self) -> Path:
        """The folder of all runs."""

    def assign_quietly(self, atoms: Mapping[str, Any]) -> None:
        """Assign values by path; count failures."""

    def append_text(self, path: str, text: str) -> None:
        """Add one point to a string series, secrets hidden; count failures."""

    def append_numbers(self, numbers: Mapping[str, float]) -> None:
        """Add one point to each of several float series; count failures."""

    def keep(self, path: str, file: File) -> None:
        """Store a file; count failures."""

    def keep_members(self, path: str, members: Mapping[str, bytes]) -> None:
        """Store members of a file set, by name; count failures."""

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count a lost record, and warn once about it."""

    def note_masked(self, paths: Iterable[str]) -> None:
        """Record that secrets were hidden at these paths."""

    def note_state(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the run's state."""
