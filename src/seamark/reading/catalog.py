"""Catalog of the runs of a root or server, and the changes of runs since a cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from seamark.errors import QueryError
from seamark.paths import KINDS, is_inside
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.reading.curves import Look, RunCurve
    from seamark.reading.groups import Key, RunGroups
    from seamark.reading.names import RunName
    from seamark.reading.points import Attempt
    from seamark.reading.reader import Reader
    from seamark.reading.tables import CurveTable, RunsTable, SeriesTable


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """Run that changed since a cursor.

    Attributes:
        project: Project path.
        run: Run id, or ``.project``.
        state: Current state; None if the run is gone.
        gone: Whether the run no longer exists.
        paths: Sorted paths recorded since then, or up to a minute earlier, by the recorder's clock.
            Late records are not included. If empty, any path may have changed.
    """

    project: str
    run: str
    state: str | None
    gone: bool
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Changes:
    """Response to a request for the changes since a cursor.

    Attributes:
        cursor: Cursor for the next request.
        reset: Whether everything may have changed, because the cursor is invalid or belongs to an
            index that has been rebuilt since. No runs are listed then.
        runs: Changed runs, the most recently changed last.
        looked_ns: Time of the last check for new records, nanoseconds since the Unix epoch.
    """

    cursor: str
    reset: bool
    runs: list[ChangedRun]
    looked_ns: int


Ref = tuple[str, str]
"""Project and id of a run."""
Progress = Callable[[int, int], None]
"""Callback for the numbers of finished runs and of all runs."""
Unknown = Callable[[QueryError], None]
"""Callback for the error about a path that no run has."""


@dataclass(frozen=True, slots=True)
class SharedPath:
    """Path of a number, a text or a float series that several runs have.

    ``runs`` is the number of these runs, ``differs`` whether their values differ, and ``longest``
    the length of the longest text.
    """

    path: str
    series: bool
    runs: int
    differs: bool
    longest: int


@dataclass(frozen=True, slots=True)
class RunField:
    """Path that some of the selected runs have.

    Attributes:
        path: Attribute path.
        family: Family of the path; a path with several families is listed once for each.
        count: Number of runs that have the path with this family.
        differing: Whether any two of the runs differ there; a missing value is a difference, too.
            Series are compared by last value and length, files by name.
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
class Selection:
    """Selection and order of runs; see `seamark.Project.fetch_runs_table`.

    Attributes:
        project: Only this project and its sub-projects.
        query: Condition in the query language.
        id: Run id, or several.
        state: State, or several; ``"error"``, ``"finished"``, ``"active"`` and ``"inactive"`` each
            stand for several states.
        tag: Tag, or several tags that a run must all have.
        trashed: Whether to select runs in the trash, or others; None for both.
        sort_by: Path, with an optional aggregate.
        local: Whether times without an offset in the query are in this computer's time zone;
            otherwise they are in UTC.
        kind: Kind to select: ``"run"``, ``"model"`` or ``"model_version"``.
        moments: Times of the query by their text, converted in the time zone of the caller to
            microseconds since the Unix epoch.
        readable: Returns whether the caller may read a project; None for all projects. Runs of
            other projects are neither counted nor named.
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
    moments: Mapping[str, int] | None = None
    readable: Callable[[str], bool] | None = None

    def reaches(self, project: str) -> bool:
        """Return whether the selection may include runs of a project."""
        inside = self.project is None or is_inside(project, self.project)
        return inside and (self.readable is None or self.readable(project))

    def strings(self, name: str) -> list[str] | None:
        """Return the texts in a field, None without any; raise `ArgumentError` for other values."""
        given = getattr(self, name)
        if given is None:
            return None
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        values = list(given) if is_list else [given]
        for value in values:
            if not isinstance(value, str):
                raise argument_error(value, name, "a string or several strings")
        return values or None

    def check(self) -> None:
        """Check all fields except the query; raise `ArgumentError`."""
        for name in ("id", "state", "owner", "tag"):
            self.strings(name)
        if self.trashed is not None and not isinstance(self.trashed, bool):
            raise argument_error(self.trashed, "trashed", "True, False or None for both")
        if self.kind not in KINDS:
            raise argument_error(self.kind, "kind", f"one of {', '.join(KINDS)}")
        if self.limit is not None and (
            not isinstance(self.limit, int) or isinstance(self.limit, bool) or self.limit < 1
        ):
            raise argument_error(self.limit, "limit", "a positive number of runs or None")
        if not isinstance(self.offset, int) or isinstance(self.offset, bool) or self.offset < 0:
            raise argument_error(self.offset, "offset", "the number of runs to skip")
        if not isinstance(self.ascending, bool):
            raise argument_error(self.ascending, "ascending", "True or False")
        if not isinstance(self.sort_by, str):
            raise argument_error(self.sort_by, "sort_by", "a path such as 'val/loss:min'")


class Catalog(Protocol):
    """Catalog of the runs of one root or server.

    `seamark.index.index.Index` implements it for a root,
    `seamark.remote.http.catalog.RemoteCatalog` for a server. Both return the same results and raise
    the same errors.
    """

    @property
    def where(self) -> str:
        """Path of the root, or address of the server."""

    @property
    def now_ns(self) -> Callable[[], int]:
        """Current time by which run states are judged, nanoseconds since the Unix epoch."""

    def moment(self) -> AbstractContextManager[None]:
        """Make all reads within a ``with`` block see one state of a root, as last refreshed.

        Nothing can be refreshed in the block. A server answers each request from its current state.
        Its answers about a run viewed in the block come from one state, except that points and
        texts of series may be newer.
        """

    def nearby_root(self) -> str | None:
        """Return a nearby root that may be meant instead, if this one has no runs."""

    def refresh(
        self,
        project: str | None = None,
        run: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Make later reads include all records written before this call.

        The scope is a project and its sub-projects, one run of it (``".project"``: the project's
        own log), or everything. ``progress`` is called with the numbers of finished and of all
        runs.
        """

    def runs(self, project: str | None = None, kind: str = "run") -> list[Ref]:
        """Return all runs of a project and its sub-projects, or of all projects, sorted."""

    def names(self, kind: str = "run") -> list[RunName]:
        """Return every run, model or version with its names, the newest first."""

    def select(self, selection: Selection, unknown: Unknown = refuse) -> list[Ref]:
        """Return the matching runs in order.

        ``unknown`` is called with an error for each requested path that no run has; by default it
        raises the error.

        Raises:
            ArgumentError: If an argument has an invalid value.
            QueryError: If the query or a path is invalid; the message points at the position.
        """

    def count(self, selection: Selection) -> int:
        """Return the number of matching runs, ignoring ``limit`` and ``offset``; see `select`."""

    def table(
        self,
        selection: Selection,
        columns: Columns = None,
        unknown: Unknown = refuse,
    ) -> RunsTable:
        """Return the requested columns of the matching runs; see `select`."""

    def fields(
        self, selection: Selection, contains: str = "", unknown: Unknown = refuse
    ) -> list[RunField]:
        """Return the sorted paths of the runs that contain a text, ignoring case."""

    def groups(
        self,
        selection: Selection,
        by: Sequence[str],
        columns: Sequence[str] = (),
        unknown: Unknown = refuse,
    ) -> RunGroups:
        """Return the matching runs, grouped by equal values; see `select`.

        ``limit`` and ``offset`` count groups. The columns ``by`` must not be patterns. The numbers
        of ``columns`` are summarized for each group.
        """

    def changes(self, cursor: str = "", project: str | None = None) -> Changes:
        """Return the changes since the cursor of an earlier answer; an empty cursor starts."""

    def losses(self, refs: Sequence[Ref]) -> dict[Ref, dict[str, int]]:
        """Return the counts of lost records of runs, without complete runs."""

    def crash_reasons(self, crashed: Sequence[Ref]) -> dict[Ref, str]:
        """Return the crash reasons of runs; see `seamark.process.liveness.CRASH_REASONS`."""

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

        ``points`` reads curves of at most that many representative points instead. ``unknown`` is
        called with an error for each pattern without any match. For ``attempt`` see
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
        """Return drawings of series of several runs; empty series are left out.

        Missing runs are left out, too. A series with the cursor of an earlier drawing in ``since``
        is returned with its changed parts only. Raises `ArgumentError` if one cannot be drawn.
        """

    def series_of(
        self, refs: Sequence[Ref], is_meant: Callable[[str], bool]
    ) -> Mapping[Ref, set[str]]:
        """Return the float series of each run whose paths satisfy ``is_meant``."""

    def paths(self) -> list[str]:
        """Return all current and former paths of a run, sorted."""

    def view(self, project: str, run: str) -> Reader:
        """Return a reader of one run as last refreshed; raises `RunNotFoundError`."""

    def fresh_view(self, project: str, run: str) -> Reader:
        """Return a reader of the current state of one run; raises `RunNotFoundError`."""

    def close(self) -> None:
        """Close files and connections; harmless when called twice."""
