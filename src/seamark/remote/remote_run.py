"""Facts about a run of which a part lies only at a remote, needed before a process resumes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeGuard

__all__ = ["RemoteRun"]

_LARGEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """Facts that a remote has about a run.

    Attributes:
        largest_t: Largest time of a record, nanoseconds since the Unix epoch.
        journals: HEADER of each journal, by writer id.
        families: Family by path.
        last_steps: Last step of each series, by path.
        trained: Paths of the series of numbers that processes wrote which trained the run; None if
            that was not said: it may be any of them.
        failed: Whether the run ever failed.
        resumable: Whether it was begun but not ended for good, and no owner of it lives.
        uri: The remote; empty if that is not known.
    """

    largest_t: int = 0
    journals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    last_steps: Mapping[str, float] = field(default_factory=dict)
    trained: frozenset[str] | None = None
    failed: bool = False
    resumable: bool = False
    uri: str = ""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> RemoteRun:
        """Return the facts in an answer, without those of another form."""
        largest = told.get("largest_t")
        is_time = isinstance(largest, int) and not isinstance(largest, bool)
        headers, families, steps = (
            found if isinstance(found := told.get(key), dict) else {}
            for key in ("journals", "families", "last_steps")
        )
        return cls(
            largest if isinstance(largest, int) and is_time and 0 < largest < _LARGEST else 0,
            {key: value for key, value in headers.items() if isinstance(value, dict)},
            {key: value for key, value in families.items() if isinstance(value, str)},
            {
                key: float(value)
                for key, value in steps.items()
                if isinstance(value, (int, float)) and math.isfinite(value)
            },
            frozenset(one for one in trained if isinstance(one, str))
            if isinstance(trained := told.get("trained"), list)
            else None,
            told.get("failed") is True,
            told.get("resumable") is True,
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Number of bytes of each journal that the remote stores, by writer id."""
        lengths = {writer: header.get("bytes") for writer, header in self.journals.items()}
        return {writer: found for writer, found in lengths.items() if _is_length(found)}

    @property
    def newest_attempt(self) -> int:
        """Number of the newest attempt, 0-based."""
        numbers = [header.get("attempt") for header in self.journals.values()]
        return max((one for one in numbers if type(one) is int and one >= 0), default=0)

    def is_copied(self, sizes: Mapping[str, int]) -> bool:
        """Return whether all that the remote stores is on a disk.

        Args:
            sizes: Number of bytes of each journal there, by writer id.
        """
        known = self.sizes
        return all(
            writer in sizes and writer in known and sizes[writer] >= known[writer]
            for writer in self.journals
        )


def _is_length(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST
