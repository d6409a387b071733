"""Reading one run: its visible attributes, what is derived from its journals, and its series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, Literal

from seamark.errors import ArgumentError, ValueKindError
from seamark.journal.process import process_alive
from seamark.journal.reader import SETTLE_NS
from seamark.paths import is_inside
from seamark.store.payloads import family_of_point
from seamark.store.rank_status import RankStatus, rank_statuses
from seamark.store.records import run_columns
from seamark.store.state import (
    AtomState,
    FamilyState,
    FileSetState,
    FileState,
    RecordState,
    SeriesState,
    SetState,
)
from seamark.values import decode_atom

if TYPE_CHECKING:
    import numpy as np

    from seamark.journal.folder import RunFolder
    from seamark.store.index import Index
    from seamark.store.run_state import JournalState, RunState

__all__ = [
    "Attempt",
    "Attribute",
    "FilePoint",
    "HistogramPoint",
    "JournalInfo",
    "Points",
    "RunView",
    "TextPoint",
    "check_attempt",
    "is_crashed",
    "time_of",
]

Attempt = int | Literal["latest", "all"]
"""Which attempts a reader sees: all that led to the latest state, all, or those up to one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class Attribute:
    """What a path of a run shows.

    Attributes:
        path: Such as ``"train/loss"``.
        family: See `seamark.values.FAMILIES`.
        type: Type of an atom (``"float"``, ...), else the family.
        value: Of an atom, the decoded value; of a float series, a `SeriesSummary`; of other series,
            a `SeriesTail`; of a string set, a set; of a file, its record; of a file set, records by
            name; of an artifact, its record.
    """

    path: str
    family: str
    type: str
    value: Any


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points of a float series in the order (step, order of writing), as NumPy arrays.

    Attributes:
        step: float64 (N,).
        value: float64 (N,).
        time_ns: int64 (N,); the time that the caller gave, else that of recording; nanoseconds
            since the Unix epoch.
        attempt: int64 (N,); number of the attempt that wrote the point, -1 for writers that belong
            to none.
    """

    step: np.ndarray[Any, np.dtype[np.float64]]
    value: np.ndarray[Any, np.dtype[np.float64]]
    time_ns: np.ndarray[Any, np.dtype[np.int64]]
    attempt: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.step)


@dataclass(frozen=True, slots=True)
class TextPoint:
    """One text of a string series; time in ns since the Unix epoch, attempt -1 if of none.

    A text that is too long for a journal stands here as the record of its blob: ``{"sha256": ...,
    "size": ...}``.
    """

    step: float
    text: str | dict[str, Any]
    time_ns: int
    attempt: int


@dataclass(frozen=True, slots=True)
class FilePoint:
    """One file of a file series: its record, and the name and description given with it."""

    step: float
    file: dict[str, Any]
    time_ns: int
    attempt: int
    name: str | None
    description: str | None


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    """One histogram of a series: n + 1 edges and n counts."""

    step: float
    edges: list[float]
    counts: list[float]
    time_ns: int
    attempt: int


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """What is known of one journal.

    Attributes:
        writer: Writer id.
        file: Name of the file in the journal folder.
        header: The HEADER record; empty if it is damaged.
        offset: So many bytes are folded.
        last_t: Time of the last frame, nanoseconds since the Unix epoch; 0 if there is none.
        closed: Whether the writer closed it.
        gaps: (offset, length) of the bytes that hold no valid frame.
        dropped: What the writer lost, counted by reason.
        errors: How many records could not be applied.
        notes: (offset, message) of the first of them.
        stopped: Why reading stopped before the end: None, ``"incomplete"``, ``"bad"``, ``"newer"``
            (written by a newer Seamark, and not to be passed over) or ``"unreadable"``.
        unknown: How many records of kinds that this version does not know were passed over, by
            kind.
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


def time_of(t_ns: int) -> datetime:
    """Return ns since the Unix epoch as a datetime in UTC; what does not fit is the epoch."""
    try:
        return _EPOCH + timedelta(microseconds=t_ns // 1000)
    except OverflowError:
        return _EPOCH


def is_crashed(state: str, owners: list[JournalState], now_ns: int) -> bool:
    """Tell whether a run that says it is running is not.

    Args:
        state: As its newest owner wrote it.
        owners: Journals of the writers that speak for the run.
        now_ns: Nanoseconds since the Unix epoch.
    """
    if state != "running":
        return False
    fresh = [journal for journal in owners if journal.last_t >= now_ns - SETTLE_NS]
    return all(process_alive(journal.header) is False for journal in fresh)


def check_attempt(attempt: object) -> int | str:
    """Return ``attempt`` if it can be one.

    Raises:
        ArgumentError: If it is neither ``"latest"`` nor ``"all"`` nor a number of an attempt.
    """
    if attempt in ("latest", "all") or (
        isinstance(attempt, int) and not isinstance(attempt, bool) and attempt >= 0
    ):
        return attempt
    msg = (
        f"attempt: expected 'latest', 'all' or the number of an attempt (0-based), got {attempt!r}"
    )
    raise ArgumentError(msg)


class RunView:
    """One run as it was when it was last folded; obtained from `Index.view`.

    Attributes:
        folder: Where it lies.
        state_of_fold: The registers, for readers that need more than is visible.
    """

    def __init__(
        self, index: Index, folder: RunFolder, state: RunState, number: int | None, *, stored: bool
    ) -> None:
        self.folder = folder
        self.state_of_fold = state
        self._index = index
        self._number = number
        self._stored_number = (
            number if stored else None
        )  # chunks belong to the state that the index holds

    # ------------------------------------------------------------------ attributes

    def attributes(self, namespace: str = "") -> list[Attribute]:
        """Return what is visible at and below a path, derived attributes too, sorted by path."""
        found = {attribute.path: attribute for attribute in self._stored(namespace)}
        for path, kind, value in self._derived():
            if is_inside(path, namespace):
                found[path] = Attribute(path, "atom", kind, value)
        return [found[path] for path in sorted(found)]

    def attribute(self, path: str) -> Attribute | None:
        """Return what a path shows, or None."""
        if path.startswith(("sys/", "monitoring/seamark/")):
            for derived, kind, value in self._derived():
                if derived == path:
                    return Attribute(path, "atom", kind, value)
        shown = self.state_of_fold.surviving(path)
        return self._attribute(path, shown[0]) if shown else None

    def _stored(self, namespace: str) -> Iterator[Attribute]:
        for path, state in self.state_of_fold.visible():
            if is_inside(path, namespace):
                yield self._attribute(path, state)

    def _attribute(self, path: str, state: FamilyState) -> Attribute:
        run = self.state_of_fold
        kind, value = state.family, None
        if isinstance(state, AtomState):
            kind, value = state.type, decoded(state.type, state.value)
        elif isinstance(state, SeriesState):
            value = state.summary()
        elif isinstance(state, FileState):
            value = state.visible()
        elif isinstance(state, RecordState):
            value = state.record
        elif isinstance(state, SetState | FileSetState):
            value = state.visible(run.emptied(path))
        return Attribute(path, state.family, kind, value)

    def series_paths(self) -> list[str]:
        """Return the paths that show a float series, sorted."""
        return [
            path for path, state in self.state_of_fold.visible() if state.family == "float_series"
        ]

    @property
    def state(self) -> str:
        """State of the run, ``"crashed"`` if it says it is running and is not."""
        stated = str(self.state_of_fold.state[1].get("state", "created"))
        owners = [journal for journal in self.state_of_fold.journals.values() if journal.owner]
        return "crashed" if is_crashed(stated, owners, self._index.now_ns()) else stated

    def _derived(self) -> Iterator[tuple[str, str, Any]]:
        run = self.state_of_fold
        facts = run_columns(run)
        yield "sys/id", "string", self.folder.run
        yield "sys/owner", "string", facts["owner"] or self._owner()
        yield "sys/state", "string", self.state
        yield "sys/creation_time", "datetime", time_of(facts["created"])
        yield "sys/modification_time", "datetime", time_of(facts["modified"])
        yield "sys/running_time", "float", facts["running"] / 1e9
        if not run.surviving("sys/trashed"):
            yield "sys/trashed", "bool", False
        for name, value in troubles(run).items():
            yield f"monitoring/seamark/{name}", "json", value

    def _owner(self) -> str:
        if self._number is None:
            return ""
        with self._index.lock:
            row = self._index.connection.exec_driver_sql(
                "SELECT owner FROM run WHERE id = ?", (self._number,)
            )
            found = row.fetchone()
        return str(found[0]) if found else ""

    @property
    def now_ns(self) -> int:
        """Time by the clock of the index, nanoseconds since the Unix epoch."""
        return self._index.now_ns()

    def has_failed(self) -> bool:
        """Tell whether a process that spoke for the run noted that it failed."""
        journals = self.state_of_fold.journals.values()
        return any(one.owner and one.said.get("state") == "failed" for one in journals)

    def ranks(self) -> list[RankStatus]:
        """Return how each rank that takes part in the run is doing, by rank."""
        return rank_statuses(self.state_of_fold, self.now_ns)

    def journals(self) -> list[JournalInfo]:
        """Return what is known of every journal, sorted by writer."""
        found = sorted(self.state_of_fold.journals.values(), key=lambda journal: journal.writer)
        return [
            JournalInfo(
                writer=one.writer,
                file=one.file,
                header=one.header,
                offset=one.offset,
                last_t=one.last_t,
                closed=one.closed,
                gaps=gaps_of(one),
                dropped=dict(one.dropped),
                errors=one.errors,
                notes=[(offset, text) for offset, text in one.notes],
                stopped=one.stopped,
                unknown=dict(one.unknown),
            )
            for one in found
        ]

    # ------------------------------------------------------------------ series

    def points(self, path: str, attempt: Attempt = "latest") -> Points:
        """Return the points of a float series; none if the path holds no such series.

        Args:
            path: Of the series.
            attempt: ``"latest"``, ``"all"``, or the number of an attempt: the run as that attempt
                left it.

        Raises:
            ArgumentError: If ``attempt`` is none of these.
        """
        return self.many_points([path], attempt)[path]

    def many_points(self, paths: list[str], attempt: Attempt = "latest") -> dict[str, Points]:
        """Return the points of several float series, for little more than the price of one.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        from seamark.store import points

        chosen = check_attempt(attempt)
        with self._index.lock:
            return points.read_floats(
                self._index, self.folder, self.state_of_fold, self._stored_number, paths, chosen
            )

    def texts(self, path: str, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series; see `points`.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        found = self._records(path, "string_series", attempt)
        return [TextPoint(step, value, time_ns, number) for step, value, time_ns, number in found]

    def files(self, path: str, attempt: Attempt = "latest") -> list[FilePoint]:
        """Return the points of a file series; see `points`.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        return [
            FilePoint(
                step, value["file"], time_ns, number, value.get("name"), value.get("description")
            )
            for step, value, time_ns, number in self._records(path, "file_series", attempt)
        ]

    def histograms(self, path: str, attempt: Attempt = "latest") -> list[HistogramPoint]:
        """Return the points of a histogram series; see `points`.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        return [
            HistogramPoint(step, value[0], value[1], time_ns, number)
            for step, value, time_ns, number in self._records(path, "histogram_series", attempt)
        ]

    def _records(
        self, path: str, family: str, attempt: Attempt
    ) -> list[tuple[float, Any, int, int]]:
        from seamark.store import points

        chosen = check_attempt(attempt)
        with self._index.lock:
            found = points.read_records(
                self._index,
                self.folder,
                self.state_of_fold,
                self._stored_number,
                path,
                family,
                chosen,
            )
        return [point for point in found if family_of_point(point[1]) == family]


def gaps_of(journal: JournalState) -> list[tuple[int, int]]:
    """Return the bytes of a journal that hold no valid frame, a settled end included."""
    found = [*journal.gaps, *([journal.tail] if journal.tail else [])]
    return [(offset, length) for offset, length in found]


def troubles(run: RunState) -> dict[str, Any]:
    """Return what went wrong with a run, by name; only what is not empty."""
    journals = sorted(run.journals.values(), key=lambda journal: journal.writer)
    dropped: dict[str, int] = {}
    for journal in journals:
        for reason, count in journal.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    found = {
        "dropped": dropped,
        "conflicts": run.conflicts(),
        "gaps": {
            journal.writer: gaps
            for journal in journals
            if (gaps := [list(gap) for gap in gaps_of(journal)])
        },
        "fold_errors": {journal.writer: journal.errors for journal in journals if journal.errors},
        "newer": [journal.writer for journal in journals if journal.stopped == "newer"],
    }
    return {name: value for name, value in found.items() if value}


def decoded(kind: str, value: Any) -> Any:
    """Return the Python value of an atom; what cannot be decoded as it stands in the journal."""
    try:
        return decode_atom(kind, value)
    except ValueKindError:
        return value
