"""Protocols between a run and its captures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from seamark.types import File


class Part(Protocol):
    """Capture that is active while a run is being recorded.

    It never blocks the training: slow work happens on a daemon thread, which ends with `stop`. Its
    exceptions are logged and not propagated, except those raised by a signal handler. Its methods
    are never called in a forked child, in which its threads do not exist. Hooks that it installed
    must do nothing there.
    """

    def start(self) -> None:
        """Start the capture; called again when a paused run continues."""

    def stop(self, timeout_s: float) -> None:
        """Record the remaining data and end within ``timeout_s`` seconds. May be called twice."""


class Recorder(Protocol):
    """Interface of a run that captures write to. No method may raise."""

    @property
    def writer(self) -> str | None:
        """Writer id of this process, assigned on first access; None if it does not record."""

    @property
    def place(self) -> Path | None:
        """Folder of the run."""

    @property
    def is_idle(self) -> bool:
        """Whether every record is written; False while a record waits for an interrupted call."""

    def assign_quietly(self, atoms: Mapping[str, Any]) -> None:
        """Assign values by path; count failures."""

    def append_text(self, path: str, text: str) -> None:
        """Add one point to a string series, with secrets masked; count failures."""

    def append_numbers(self, numbers: Mapping[str, float]) -> None:
        """Add one point to each of several float series; count failures."""

    def keep(self, path: str, file: File) -> None:
        """Store a file; count failures."""

    def keep_members(self, path: str, members: Mapping[str, bytes]) -> None:
        """Store members of a file set, by name; count failures."""

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count lost records, and warn about them once."""

    def note_masked(self, paths: Iterable[str]) -> None:
        """Record that secrets were masked at these paths."""

    def note_state(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the state of the run."""
