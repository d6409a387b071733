"""Answers of a server that are more than one value, as they go over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from seamark.process.crashes import Crash
from seamark.reading.attributes import Attribute, JournalInfo
from seamark.reading.catalog import RunField, SharedPath
from seamark.reading.changes import ChangedRun
from seamark.reading.curves import RunCurve
from seamark.reading.groups import RunGroup
from seamark.reading.points import Points
from seamark.reading.ranks import RankStatus
from seamark.reading.tables import CurveTable, RunsTable, SeriesTable

__all__ = [
    "Attempts",
    "ChangesPage",
    "Curves",
    "Facts",
    "Fields",
    "Groups",
    "Opening",
    "Overview",
    "PartOfSeries",
    "ProjectCounts",
    "Selected",
    "SeriesPart",
    "SharedPaths",
    "SomePoints",
    "Table",
]

Ref = tuple[str, str]


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
class SomePoints:
    """Points of the first of some float series.

    Attributes:
        points: By path, as many as fit into an answer.
        left: Number of the paths that are to be asked for next.
        alone: Whether the next one is too long for an answer, and is to be read part by part.
    """

    points: dict[str, Points]
    left: int
    alone: bool


@dataclass(frozen=True, slots=True)
class PartOfSeries:
    """Next points of a series that is read part by part.

    Attributes:
        points: None if points that were read are hidden now: begin again.
        next: ``after`` of the next part; None after the last one.
    """

    points: Points | None
    next: str | None


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
        told: What is said of paths that no run has.
        cursor: Cursor from which on it may be asked what changed.
    """

    table: RunsTable
    names: list[str]
    told: list[str]
    cursor: str


@dataclass(frozen=True, slots=True)
class Selected:
    """Runs that match, in order.

    Attributes:
        refs: Project and id of each.
        total: How many match, whatever the limit; None if they were not counted.
        told: What is said of paths that no run has.
    """

    refs: list[Ref]
    total: int | None
    told: list[str]


@dataclass(frozen=True, slots=True)
class SharedPaths:
    """Numbers, texts and float series that the first of the chosen runs have.

    Attributes:
        fields: Sorted by path.
        of: How many runs were looked at.
        told: What is said of paths that no run has.
    """

    fields: list[SharedPath]
    of: int
    told: list[str]


@dataclass(frozen=True, slots=True)
class Fields:
    """Paths that the chosen runs show.

    Attributes:
        fields: Sorted by path.
        of: How many runs were looked at.
        told: What is said of paths that no run has.
    """

    fields: list[RunField]
    of: int
    told: list[str]


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of runs that show the same.

    Attributes:
        groups: In the order that was asked for.
        total: How many groups there are.
        told: What is said of paths that no run has.
    """

    groups: list[RunGroup]
    total: int
    told: list[str]


@dataclass(frozen=True, slots=True)
class SeriesPart:
    """Points or curves of float series of the first of some runs.

    Attributes:
        points: The points, or
        curves: the curves, whichever were asked for.
        told: What is said of paths that are a series of no run.
        left: Runs that are to be asked for next.
        alone: Paths of the first run, if it is too long for one answer and is to be read by itself.
    """

    points: SeriesTable | None
    curves: CurveTable | None
    told: list[str]
    left: list[Ref]
    alone: list[str]


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


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """Runs that changed since a cursor; see `seamark.reading.changes.Changes`.

    Attributes:
        cursor: Cursor for the next request.
        reset: Whether everything may have changed.
        runs: Those that changed.
        more: Whether there is more already.
        looked_ns: Time of the last check for new records, nanoseconds since the Unix epoch.
        left: How many runs are still to be read for the first time.
    """

    cursor: str
    reset: bool
    more: bool
    runs: list[ChangedRun] = field(default_factory=list)
    looked_ns: int = 0
    left: int = 0
