"""Catalog of the runs of a place, and the changes of runs since a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from seamark.errors import QueryError

if TYPE_CHECKING:
    from seamark.reading.curves import Look, RunCurve
    from seamark.reading.drawn import Key
    from seamark.reading.groups import RunGroups
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
        gone: Whether it is there no more.
        paths: What holds something that was recorded since, by the clock of who recorded it, up to
            a minute before included; sorted. It says where to look first: what came late is not
            among it. Empty if nothing was recorded lately, so that any path may have changed.
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
"""Told how many runs are done, and how many there are."""
Unknown = Callable[[QueryError], None]
"""What is to be done about a path that no run has."""


@dataclass(frozen=True, slots=True)
class SharedPath:
    """A number, a text or a series of numbers that some runs have.

    Attributes:
        path: Attribute path.
        series: Whether it is a series in one of them.
        runs: How many have it.
        differs: Whether it is not the same in all that have it.
        longest: Characters of the longest text.
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
"""Columns, or what chooses them by the paths that the first of the chosen runs have."""


def refuse(error: QueryError) -> None:
    """Raise the error."""
    raise error


class Wanted(Protocol):
    """Selection of runs, and their order; see `seamark.store.query.selection.Selection`."""

    @property
    def project(self) -> str | None:
        """Project to select from, together with its sub-projects."""
        ...

    @property
    def kind(self) -> str:
        """Runs, models or versions of models; see `seamark.paths.kind_of`."""
        ...

    @property
    def query(self) -> str | None:
        """Query in the query language."""
        ...

    @property
    def id(self) -> str | Iterable[str] | None:
        """Ids of the runs to select: one or several."""
        ...

    @property
    def state(self) -> str | Iterable[str] | None:
        """States of the runs to select: one or several."""
        ...

    @property
    def owner(self) -> str | Iterable[str] | None:
        """Owners of the runs to select: one or several."""
        ...

    @property
    def tag(self) -> str | Iterable[str] | None:
        """Tags that a run must all have: one or several."""
        ...

    @property
    def trashed(self) -> bool | None:
        """Whether runs are in the trash; None for both."""
        ...

    @property
    def limit(self) -> int | None:
        """Greatest number of runs to return."""
        ...

    @property
    def offset(self) -> int:
        """Number of runs to skip at the beginning."""
        ...

    @property
    def sort_by(self) -> str:
        """Path, perhaps with an aggregate."""
        ...

    @property
    def ascending(self) -> bool:
        """Smallest first."""
        ...

    @property
    def local(self) -> bool:
        """Whether times in the query are in this computer's time zone."""
        ...

    def check(self) -> None:
        """Check what `expression` does not look at.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
        """
        ...

    def expression(self) -> Any:
        """Return the conditions as one expression.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar.
        """
        ...


class Catalog(Protocol):
    """The runs of one place.

    `seamark.index.index.Index` has those of a root and `seamark.remote.http.catalog.RemoteCatalog`
    those of a server. Both answer alike, and raise the same errors.
    """

    @property
    def where(self) -> str:
        """The place in words: the path of a root, or the address of a server."""
        ...

    @property
    def now_ns(self) -> Callable[[], int]:
        """Clock by which the runs are judged, nanoseconds since the Unix epoch."""
        ...

    def moment(self) -> AbstractContextManager[None]:
        """Answer everything that is asked in a block from one state of a root, as last refreshed.

        Nothing can be refreshed in the block. A server answers each question from the state that it
        has then; what it tells of a run that is viewed in the block is of one state, but for points
        and texts of series, which may be newer.
        """
        ...

    def snapshot(self, project: str, run: str) -> AbstractContextManager[Reader]:
        """Give the reader of one run in a `moment`.

        Raises:
            RunNotFoundError: If there is no such run.
        """
        ...

    def nearby_root(self) -> str | None:
        """Return which place may be meant rather than this one, if this one has no runs."""
        ...

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Make later answers include everything that was recorded before this call.

        Args:
            project: Only this project and its sub-projects; None for all.
            run: Only this run of the project (``".project"``: the project's own log).
            progress: Called with the number of runs done and the number of runs to do.
        """
        ...

    def runs(self, project: str | None = None, kind: str = "run") -> list[Ref]:
        """Return (project, run id) of every run, or of a project and its sub-projects; sorted.

        Args:
            project: None for all.
            kind: Of models or their versions instead; see `seamark.paths.kind_of`.
        """
        ...

    def names(self, kind: str = "run") -> list[RunName]:
        """Return every run, model or version and what it is called, the newest first."""
        ...

    def select(self, selection: Wanted, unknown: Unknown = refuse) -> list[Ref]:
        """Return (project, run id) of the runs that match, in order.

        Args:
            selection: Which runs.
            unknown: Called with an error for each path asked for that no run has; raises it by
                itself.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
            QueryError: If the query breaks the grammar, or asks for what cannot be there.
        """
        ...

    def count(self, selection: Wanted) -> int:
        """Return how many runs match, regardless of ``limit`` and ``offset``; see `select`.

        Args:
            selection: Which runs.
        """
        ...

    def table(
        self,
        selection: Wanted,
        columns: Columns = None,
        unknown: Unknown = refuse,
    ) -> RunsTable:
        """Return the runs that match with the columns that are asked for; see `select`.

        Args:
            selection: Which runs.
            columns: Which columns.
            unknown: See `select`.
        """
        ...

    def fields(
        self, selection: Wanted, contains: str = "", unknown: Unknown = refuse
    ) -> list[RunField]:
        """Return which paths the runs that match show, sorted; see `select`.

        Args:
            selection: Which runs.
            contains: Only paths that have this in them, whatever its case.
            unknown: See `select`.
        """
        ...

    def groups(
        self,
        selection: Wanted,
        by: Sequence[str],
        columns: Sequence[str] = (),
        unknown: Unknown = refuse,
    ) -> RunGroups:
        """Return the runs that match in groups that show the same; see `select`.

        Args:
            selection: Which runs; ``limit`` and ``offset`` are of groups.
            by: Columns by which they are grouped, as `table` takes them; no patterns.
            columns: Columns whose numbers are summed up for each group.
            unknown: See `select`.
        """
        ...

    def changes(self, cursor: str = "", project: str | None = None) -> Changes:
        """Return which runs changed since a cursor.

        Args:
            cursor: Of an earlier answer; empty to begin.
            project: Only this project and its sub-projects; None for all.
        """
        ...

    def losses(self, refs: Sequence[Ref]) -> dict[Ref, dict[str, int]]:
        """Return what is missing of runs, only of those of which something is."""
        ...

    def crash_reasons(self, crashed: Sequence[Ref]) -> dict[Ref, str]:
        """Return why runs crashed that did; see `seamark.process.crashes.CRASH_REASONS`."""
        ...

    def series(
        self,
        refs: Sequence[Ref],
        patterns: Sequence[str],
        attempt: Attempt = "latest",
        progress: Progress | None = None,
        points: int | None = None,
        unknown: Unknown | None = None,
    ) -> SeriesTable | CurveTable:
        """Return the points of the float series that match, of these runs.

        Args:
            refs: (project, run id) of the runs.
            patterns: Paths, or patterns with ``*`` and ``?``.
            attempt: See `seamark.reading.reader.Reader.points`.
            progress: Called with the number of runs read and of all.
            points: Read curves of at most this many representative points; None for all points.
            unknown: Called with an error for each of the patterns that is a series of no run.

        Raises:
            ArgumentError: If ``attempt`` or ``points`` cannot be one.
        """
        ...

    def curves(
        self,
        refs: Sequence[Ref],
        paths: Sequence[str],
        look: Look | None = None,
        attempt: Attempt = "latest",
        since: Mapping[Key, str] | None = None,
    ) -> list[RunCurve]:
        """Return series of several runs as they are drawn; those without points are left out.

        Args:
            refs: (project, run id) of the runs; what is not there any more is left out.
            paths: Of the series.
            look: How they are drawn.
            attempt: See `seamark.reading.reader.Reader.points`.
            since: Cursors of earlier drawings, by project, run id and path; of these only the
                parts come that have changed.

        Raises:
            ArgumentError: If something cannot be drawn so.
        """
        ...

    def series_of(
        self, refs: Sequence[Ref], is_meant: Callable[[str], bool]
    ) -> Mapping[Ref, set[str]]:
        """Return which float series runs show, of those that are meant."""
        ...

    def paths(self) -> list[str]:
        """Return every path that a run has or had, sorted."""
        ...

    def view(self, project: str, run: str) -> Reader:
        """Return one run as it was when this was refreshed.

        Raises:
            RunNotFoundError: If there is no such run.
        """
        ...

    def fresh_view(self, project: str, run: str) -> Reader:
        """Return one run as it is now.

        Raises:
            RunNotFoundError: If there is no such run.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections; harmless when called twice."""
        ...
