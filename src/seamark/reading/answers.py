"""Answers of a server that are more than one value, as they go over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seamark.process.crashes import Crash
from seamark.reading.attributes import Attribute, JournalInfo
from seamark.reading.curves import Curve, RunCurve
from seamark.reading.points import Points
from seamark.reading.ranks import RankStatus
from seamark.reading.tables import RunsTable

__all__ = [
    "Attempts",
    "Curves",
    "Facts",
    "Opening",
    "Overview",
    "ProjectCounts",
    "SeriesPart",
    "Table",
]


@dataclass(frozen=True, slots=True)
class Overview:
    """State of a run, and what went wrong with it.

    Attributes:
        project: Project path.
        run: Run id.
        name: Name that was given, or the generated one.
        state: See `seamark.reading.reader.Reader`, like the following ones.
        reason: Cause of the last recorded state.
        signal: Signal that caused it.
        traceback: Path of the traceback that belongs to the end.
        failed: Whether a process that spoke for the run noted that it failed.
        crash: How the process ended that trained the run.
        troubles: What went wrong, by name.
    """

    project: str
    run: str
    name: str
    state: str
    reason: str
    signal: str
    traceback: str | None
    failed: bool
    crash: Crash | None
    troubles: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a run but its points, of one moment.

    Attributes:
        overview: How it is doing.
        ranks: How each rank is doing.
        journals: What is known of every journal.
        attributes: What it shows, sorted by path.
    """

    overview: Overview
    ranks: list[RankStatus]
    journals: list[JournalInfo]
    attributes: list[Attribute]


@dataclass(frozen=True, slots=True)
class Opening:
    """Facts that are needed before a run is resumed.

    Attributes:
        largest_t: Largest time of a record, nanoseconds since the Unix epoch.
        journals: What matters of the header of each journal, and how many bytes of it are kept.
        families: Family of every path.
        last_steps: Last step of every series.
        trained: Float series of the training, not only of an evaluation.
        failed: See `Overview`.
        resumable: Whether its state is one of a run that may be gone on with.
    """

    largest_t: int
    journals: dict[str, dict[str, Any]]
    families: dict[str, str]
    last_steps: dict[str, float]
    trained: frozenset[str]
    failed: bool
    resumable: bool


@dataclass(frozen=True, slots=True)
class ProjectCounts:
    """A project, and the number of its runs.

    Attributes:
        project: Project path.
        runs: All but those in the trash.
        running: Those that run.
        crashed: Those that crashed.
        trashed: Those in the trash.
        last_record_ns: Time of the last record, nanoseconds since the Unix epoch.
    """

    project: str
    runs: int
    running: int
    crashed: int
    trashed: int
    last_record_ns: int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of runs.

    Attributes:
        table: The runs.
        names: Their names, of at most 1,000 of them.
        cursor: Cursor from which on it may be asked what changed.
    """

    table: RunsTable
    names: list[str]
    cursor: str


@dataclass(frozen=True, slots=True)
class SeriesPart:
    """Float series of a run, or a part of one that is too long for one answer.

    Attributes:
        project: Project path.
        run: Run id.
        path: Of the series.
        begins: Whether it begins here. It also does if points that were read are hidden now, as by
            a new attempt: the parts that came before are void.
        points: Its points, or
        curve: its curve, whichever was asked for.
    """

    project: str
    run: str
    path: str
    begins: bool = True
    points: Points | None = None
    curve: Curve | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Project, run id and path."""
        return self.project, self.run, self.path

    def __len__(self) -> int:
        """Return how many points it has, or representative points."""
        series = self.points if self.curve is None else self.curve
        return 0 if series is None else len(series)


@dataclass(frozen=True, slots=True)
class Curves:
    """Series of several runs as they are drawn.

    Attributes:
        curves: Those that have points.
        cursor: Cursor from which on it may be asked what changed.
    """

    curves: list[RunCurve]
    cursor: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """Numbers of attempts of runs, and where each begins.

    Attributes:
        attempts: Project, run id and number of attempts, of those that have several.
        openings: The same of how often a run was opened to record.
        begins: Project, run id, path, and (attempt, step, time in ns, x) where each attempt begins.
    """

    attempts: list[tuple[str, str, int]]
    openings: list[tuple[str, str, int]]
    begins: Sequence[tuple[str, str, str, Sequence[tuple[int, float, int, float | None]]]]
