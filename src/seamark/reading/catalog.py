"""Catalog of the runs of a place, and the changes of runs since a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from seamark.errors import QueryError

if TYPE_CHECKING:
    from seamark.reading.curves import Look, RunCurve
    from seamark.reading.groups import Key, RunGroups
    from seamark.reading.names import RunName
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader
    from seamark.reading.tables import CurveTable, RunsTable, SeriesTable

__all__ = [
    "Catalog",
    "ChangedRun",
    "Changes",
    "Columns",
    "Progress",
    "Ref",
    "RunField",
    "SharedPath",
    "Unknown",
    "Wanted",
    "refuse",
]


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """A run that changed.

    Attributes:
        project: Project path.
        run: Run id, or ``.project``.
        state: Its state now; None for one that is gone.
        gone: Whether it no longer exists.
        paths: Paths that were recorded since, up to a minute before included, by the clock of the
            recorder; sorted. Late records are not among them. If empty, any path may have changed.
    """

    project: str
    run: str
    state: str | None
    gone: bool
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Changes:
    """Answer to a request for the changes since a cursor.

    Attributes:
        cursor: Cursor for the next request.
        reset: Whether everything may have changed, because the cursor was not valid or belongs to
            an index that was since rebuilt. No runs are listed then.
        runs: The runs that changed, those that changed last at the end.
        looked_ns: Time of the last check for new records, nanoseconds since the Unix epoch.
    """

    cursor: str
    reset: bool
    runs: list[ChangedRun]
    looked_ns: int


Ref = tuple[str, str]
"""Project and id of a run."""
Progress = Callable[[int, int], None]
"""Function that takes the numbers of finished and of all runs."""
Unknown = Callable[[QueryError], None]
"""Action for a path that no run has."""


@dataclass(frozen=True, slots=True)
class SharedPath:
    """A number, a text or a series of numbers that some runs have.

    ``runs`` is their number, ``differs`` tells whether it is not the same in all of them, and
    ``longest`` is the length of the longest text.
    """

    path: str
    series: bool
    runs: int
    differs: bool
    longest: int


@dataclass(frozen=True, slots=True)
class RunField:
    """A path that some of many runs show.

    Attributes:
        path: Attribute path.
        family: What it holds there; a path that holds several is there once for each.
        count: How many of the runs show it so.
        differing: Whether two of the runs differ there; that one has it and another has not counts.
            Series differ by their last value and length, files by their name.
    """

    path: str
    family: str
    count: int
    differing: bool


Columns = Iterable[str] | Callable[[Sequence[SharedPath]], Iterable[str]] | None
"""Columns, or a function that selects them from the paths of the first runs."""


def refuse(error: QueryError) -> None:
    """Raise the error."""
    raise error


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of runs, and their order; see `seamark.Project.fetch_runs_table`.

    Attributes:
        project: Only this project and its sub-projects.
        query: In the query language.
        id: One run id or several.
        state: One state or several; ``"error"``, ``"finished"``, ``"active"`` and ``"inactive"``
            stand for several.
        tag: One tag, or several that a run must all have.
        trashed: Whether runs are in the trash; None for both.
        sort_by: Path, perhaps with an aggregate.
        local: Times in the query that name no offset are in this computer's time zone, else in UTC.
        kind: Kind to select: ``"run"``, ``"model"`` or ``"model_version"``.
    """

    project: str | None = None
    query: str | None = None
    id: str | Iterable[str] | None = None
    state: str | Iterable[str] | None = None
    owner: str | Iterable[str] | None = None
    tag: str | Iterable[str] | None = None
    trashed: bool | None = False
    limit: int | None = None
    offset: int = 0
    sort_by: str = "sys/creation_time"
    ascending: bool = False
    local: bool = False
    kind: str = "run"

    def check(self) -> None:
        """Check the parts that `expression` does not check; raises `ArgumentError`."""
        raise NotImplementedError

    def expression(self) -> Any:
        """Return the conditions as one expression; raises `ArgumentError` or `QueryError`."""
        raise NotImplementedError


class Catalog(Protocol):
    """The runs of one place.

    `seamark.index.index.Index` has those of a root, `seamark.remote.http.catalog.RemoteCatalog`
    those of a server. Both answer alike, and raise the same errors.
    """

    @property
    def where(self) -> str:
        """The place in words: the path of a root, or the address of a server."""

    @property
    def now_ns(self) -> Callable[[], int]:
        """Clock by which the runs are judged, nanoseconds since the Unix epoch."""

    def moment(self) -> AbstractContextManager[None]:
        """Answer everything in a block from one state of a root, as last refreshed.

        Nothing can be refreshed in the block. A server answers each question from its current
        state; what it tells of a run that is viewed in the block is of one state, but for points
        and texts of series, which may be newer.
        """

    def nearby_root(self) -> str | None:
        """Return the place that may be meant instead, if this one has no runs."""

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Make later answers include everything that was recorded before this call.

        It concerns one project and its sub-projects, one run of it (``".project"``: the project's
        own log), or everything. ``progress`` is called with the number of runs done and to do.
        """

    def runs(self, project: str | None = None, kind: str = "run") -> list[Ref]:
        """Return all runs of a project and its sub-projects, or of all, sorted."""

    def names(self, kind: str = "run") -> list[RunName]:
        """Return every run, model or version and its names, the newest first."""

    def select(self, selection: Wanted, unknown: Unknown = refuse) -> list[Ref]:
        """Return the runs that match, in order.

        ``unknown`` is called with an error for each path asked for that no run has, and raises it
        by default.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or asks for what cannot be there.
        """

    def count(self, selection: Wanted) -> int:
        """Return how many runs match, regardless of ``limit`` and ``offset``; see `select`."""

    def table(
        self,
        selection: Wanted,
        columns: Columns = None,
        unknown: Unknown = refuse,
    ) -> RunsTable:
        """Return the runs that match with the columns that are asked for; see `select`."""

    def fields(
        self, selection: Wanted, contains: str = "", unknown: Unknown = refuse
    ) -> list[RunField]:
        """Return the paths of the runs that contain a text, whatever its case, sorted."""

    def groups(
        self,
        selection: Wanted,
        by: Sequence[str],
        columns: Sequence[str] = (),
        unknown: Unknown = refuse,
    ) -> RunGroups:
        """Return the runs that match in groups that show the same; see `select`.

        ``limit`` and ``offset`` are of groups. The columns ``by`` have no patterns; the numbers of
        ``columns`` are summed up for each group.
        """

    def changes(self, cursor: str = "", project: str | None = None) -> Changes:
        """Return which runs changed since the cursor of an earlier answer; empty to begin."""

    def losses(self, refs: Sequence[Ref]) -> dict[Ref, dict[str, int]]:
        """Return the lost records of runs, without runs that are complete."""

    def crash_reasons(self, crashed: Sequence[Ref]) -> dict[Ref, str]:
        """Return why runs crashed; see `seamark.process.liveness.CRASH_REASONS`."""

    def series(
        self,
        refs: Sequence[Ref],
        patterns: Sequence[str],
        attempt: Attempt = "latest",
        progress: Progress | None = None,
        points: int | None = None,
        unknown: Unknown | None = None,
    ) -> SeriesTable | CurveTable:
        """Return the points of float series of some runs, by paths or patterns with ``*``, ``?``.

        ``points`` reads curves of at most so many representative points instead. ``unknown`` is
        called with an error for each pattern that is a series of no run. For ``attempt`` see
        `seamark.reading.reader.Reader.points`; it or ``points`` may raise `ArgumentError`.
        """

    def curves(
        self,
        refs: Sequence[Ref],
        paths: Sequence[str],
        look: Look | None = None,
        attempt: Attempt = "latest",
        since: Mapping[Key, str] | None = None,
    ) -> list[RunCurve]:
        """Return series of several runs as they are drawn; empty ones are left out.

        Missing runs are left out, too. Of series with a cursor of an earlier drawing in ``since``,
        only changed parts come. Raises `ArgumentError` if something cannot be drawn.
        """

    def series_of(
        self, refs: Sequence[Ref], is_meant: Callable[[str], bool]
    ) -> Mapping[Ref, set[str]]:
        """Return the float series that runs show, of those that are meant."""

    def paths(self) -> list[str]:
        """Return every path that a run has or had, sorted."""

    def view(self, project: str, run: str) -> Reader:
        """Return one run as last refreshed; raises `RunNotFoundError`."""

    def fresh_view(self, project: str, run: str) -> Reader:
        """Return one run as it is now; raises `RunNotFoundError`."""

    def close(self) -> None:
        """Let go of files and connections; harmless when called twice."""
