"""Losses of a writer, counted by reason, written to its journals and logged once as a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from seamark.journal.format import dump_json
from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from seamark.journal.guard import Guard

__all__ = ["Losses"]

_KINDS: Final = 4096
"""At most this many different warnings are logged; further ones are only counted."""


class Losses:
    """Counts and warnings of one writer, which holds its lock around all but `drop`.

    Args:
        guard: Of the writer.

    Attributes:
        counts: How many records were lost, by reason, without those that an earlier journal
            already holds.
        owed: Whether something was lost because the disk refused it, and no journal holds it yet.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.counts: dict[str, int] = {}
        self.owed = False
        self._told: dict[str, int] = {}
        self._warned: set[object] = set()

    def drop(self, reason: str, count: int, message: str, once: object = None) -> None:
        """Count something that was lost, and warn of it once; see `JournalWriter.drop`."""
        with quietly():
            with self._guard.lock:
                if count:
                    self.counts[reason] = self.counts.get(reason, 0) + count
                self.warn_once(
                    reason if once is None else once,
                    f"{message}. Training continues; more problems like this are counted silently.",
                )
                if self._guard.busy:
                    return  # said when the lock is free
            self._guard.speak()

    # ---------------------------------------------------------------- in journals

    def payload(self) -> bytes:
        """Return the payload of a heartbeat: totals of the open journal."""
        return dump_json({"dropped": self.counts}) if self.counts else b""

    def mark_recorded(self) -> None:
        """Note that the open journal holds the counts as they are now."""
        self._told, self.owed = dict(self.counts), False

    def start_journal(self) -> None:
        """Start counting again: what a journal holds stays there, the next counts only the rest."""
        self.counts = {
            reason: count - self._told.get(reason, 0)
            for reason, count in self.counts.items()
            if count > self._told.get(reason, 0)
        }
        self._told = {}

    def begin_child(self) -> None:
        """Leave to the parent, after a fork, what it lost."""
        self.counts, self._told, self.owed = {}, {}, False

    # ---------------------------------------------------------------- to people

    def warn_once(self, key: object, message: str) -> None:
        """Warn of something the first time that it happens."""
        if key not in self._warned and len(self._warned) < _KINDS:
            self._warned.add(key)
            self.warn(message)

    def has_warned(self, key: object) -> bool:
        """Return whether a warning with this key was logged."""
        return key in self._warned

    def warn(self, message: str) -> None:
        """Queue a warning; see `Guard.speak`."""
        self._guard.unsaid.append(message)
