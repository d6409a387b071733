"""What a process has to know of a run that exists only elsewhere, before it goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Opening"]


@dataclass(frozen=True, slots=True)
class Opening:
    """What a remote knows of a run.

    Attributes:
        largest_t: Largest time of a record, nanoseconds since the Unix epoch.
        journals: HEADER of each journal by writer id, as far as it matters to who goes on:
            ``attempt``, ``owner``, ``lineage``, ``rank``, ``restarts``, ``job``, ``continues``.
        sizes: Bytes kept of each journal, by writer id.
        families: Family by path.
        last_steps: Last step by path of a series.
        marks: By writer id, the marks of checkpoints: number, and the offset behind it in bytes.
        failed: Whether the run ever failed.
        state: Its state, in a word.
    """

    largest_t: int = 0
    journals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    last_steps: Mapping[str, float] = field(default_factory=dict)
    marks: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    failed: bool = False
    state: str | None = None
