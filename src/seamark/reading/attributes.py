"""Attributes of a run, and what is known of its journals, as reads return them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "CHANGES",
    "DETAIL",
    "FORKED_AT",
    "FORKED_FROM",
    "INHERITED",
    "PARENT",
    "Attribute",
    "JournalInfo",
    "SeriesSummary",
    "SeriesTail",
]

CHANGES: Final = "monitoring/seamark/changes"
"""Where readers derive what was changed of parameters after it was recorded."""
DETAIL: Final = "sys/state_detail"
"""Where readers derive what a person said of the state of a run, beside it."""
FORKED_AT: Final = "sys/forking/step"
"""Where a fork says up to which step it has the points of the run that it was forked from."""
FORKED_FROM: Final = "sys/forking/parent"
"""Where it names that run, of its own project, by id or custom id."""
INHERITED: Final = "sys/inherited_tags"
"""Where readers derive which keyed tags are those of a project above, and of which."""
PARENT: Final = "sys/parent"
"""Where a run names the run that it is a part of: its id, or ``PROJECT/ID`` in another project."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute of a run: a path, and the value that is visible there.

    Attributes:
        path: Such as ``"train/loss"``.
        family: See `seamark.values.FAMILIES`.
        type: Type of an atom (``"float"``, ...), else the family.
        value: Of an atom, the decoded value; of a float series, a `SeriesSummary`; of other series,
            a `SeriesTail`; of a string set, a set; of a file, its record; of a file set, records by
            name; of an artifact, its record; of a statistic, a `seamark.values.aggregates.Keep`.
    """

    path: str
    family: str
    type: str
    value: Any


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """Summary, in a runs table, of the points of a float series in the latest attempt.

    Attributes:
        last: Value of the point with the greatest (step, order of writing); NaN if there are no
            points.
        min: Smallest finite value; NaN if there is none.
        max: Greatest finite value; NaN if there is none.
        mean: Mean of the finite values, correctly rounded; NaN if there are none.
        count: Number of points, whatever their value.
        nan_count: Number of points that are NaN.
        inf_count: Number of points that are infinite, with either sign.
        first_step: Smallest step; NaN if there are no points.
        last_step: Greatest step; NaN if there are no points.
    """

    last: float
    min: float
    max: float
    mean: float
    count: int
    nan_count: int
    inf_count: int
    first_step: float
    last_step: float


@dataclass(frozen=True, slots=True)
class SeriesTail:
    """Summary, in a runs table, of a series of texts, files or histograms.

    Attributes:
        last: A text, a file record or ``[edges, counts]``; None if there are no points.
        count: Number of points.
        first_step: Smallest step; NaN if there are no points.
        last_step: Greatest step; NaN if there are no points.
    """

    last: Any
    count: int
    first_step: float
    last_step: float


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """State of one journal of a run: how far it was read, and which problems were found.

    Attributes:
        writer: Writer id.
        file: Name of the file in the journal folder.
        header: The HEADER record; empty if it is damaged.
        offset: Number of bytes that are folded.
        last_t: Time of the last frame, nanoseconds since the Unix epoch; 0 if there is none.
        closed: Whether the writer closed it.
        gaps: (offset, length) of the bytes that hold no valid frame.
        dropped: Counts of what the writer lost, by reason.
        errors: Number of records that could not be applied.
        notes: (offset, message) of the first of them.
        stopped: Reason why reading stopped before the end: None, ``"incomplete"``, ``"bad"``,
            ``"newer"`` (written by a newer Seamark, and not to be skipped) or ``"unreadable"``.
        unknown: Number of skipped records of kinds that this version does not know, by kind.
    """

    writer: str
    file: str
    header: dict[str, Any]
    offset: int
    last_t: int
    closed: bool
    gaps: list[tuple[int, int]]
    dropped: dict[str, int]
    errors: int
    notes: list[tuple[int, str]]
    stopped: str | None
    unknown: dict[str, int]
