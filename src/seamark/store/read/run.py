"""Reader of one run; each method reads one snapshot and loads only the data it needs."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Collection, Iterator
from functools import partial, wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import sqlalchemy as sa

from seamark.errors import RunNotFoundError
from seamark.paths import is_inside
from seamark.process.liveness import LOST, Crash, Evidence
from seamark.reading.attributes import Attribute, JournalInfo, Opening
from seamark.reading.contents import Contents
from seamark.reading.curves import NAMED_AXES, Curve, Drawing, Look
from seamark.reading.points import (
    Attempt,
    FilePoint,
    HistogramPoint,
    Points,
    TextPage,
    TextPoint,
    check_attempt,
)
from seamark.reading.ranks import RankStatus
from seamark.reading.states import CRASHED, RESUMABLE_STATES
from seamark.store import schema
from seamark.store.cells import is_live, last_owners, run_columns
from seamark.store.fold.registers import SeriesState
from seamark.store.read.curve import (
    Begin,
    check_axis,
    place_on_axis,
    read_begins,
    read_curve,
    read_drawing,
)
from seamark.store.read.inherited import Sources
from seamark.store.read.rank_status import rank_statuses, reason_of, traceback_of, waiting_ranks
from seamark.store.read.records import read_text_page, text_begin
from seamark.store.read.series import Mark, Part, read_floats_part
from seamark.store.read.snapshot import DERIVED_BELOW, FLOATS, Snapshot, gaps_of
from seamark.store.runs import Store, load_run

P = ParamSpec("P")
T = TypeVar("T")
_SELECT_PATHS: Final = (
    sa.select(schema.journal_path.c.journal, schema.journal_path.c.path)
    .distinct()
    .where(schema.journal_path.c.run == sa.bindparam("run"))
)
_HEADER_FIELDS: Final = (
    "attempt",
    "owner",
    "lineage",
    "rank",
    "restarts",
    "job",
    "continues",
    "ranks",
)
"""HEADER fields returned to a resuming process; the others describe the previous machine."""
_WORLD_SIZE: Final = "distributed/world_size"


def _with_snapshot(
    answer: Callable[Concatenate[RunReader, Snapshot, P], T],
) -> Callable[Concatenate[RunReader, P], T]:
    """Pass a snapshot to a method; calling it may raise `RunNotFoundError`."""

    @wraps(answer)
    def ask(self: RunReader, /, *args: P.args, **named: P.kwargs) -> T:
        found: T = self._guarded(partial(self._call_with_snapshot, answer, *args, **named))
        return found

    return ask


class RunReader:
    """Reader of one run in a store.

    Args:
        store: Returns the store with the run.
        project: Project path.
        name: Run id.
        sources_of: Returns a function that opens the journals of a run: this one, or an ancestor.
        now_ns: Clock, nanoseconds since the Unix epoch.
        guarded: Calls a function with exclusive access to the store.

    Attributes:
        contents: Access to the files and the location of the run.
    """

    contents: Contents

    def __init__(
        self,
        store: Callable[[], Store],
        project: str,
        name: str,
        sources_of: Callable[[str, str], Sources],
        *,
        now_ns: Callable[[], int],
        guarded: Callable[[Callable[[], Any]], Any] = lambda work: work(),
    ) -> None:
        self.project = project
        self.name = name
        self._find_store = store
        self._sources_of = sources_of
        self._now_ns = now_ns
        self._guarded = guarded
        self._crash: tuple[tuple[str, int], Crash] | None = None
        self._snapshot: Snapshot | None = None

    @property
    def now_ns(self) -> int:
        """Current time by the clock of the reader, nanoseconds since the Unix epoch."""
        return self._now_ns()

    def _call_with_snapshot(self, answer: Callable[..., T], *args: Any, **named: Any) -> T:
        store = self._find_store()
        with store.database.reading() as connection:
            try:
                held = self._snapshot
                if held is None or held.connection is not connection:
                    held = self._snapshot = self._load_run(store, connection)
                return answer(self, held, *args, **named)
            except BaseException:
                self._snapshot = store.last = None  # a change may have been interrupted
                raise

    def _load_run(self, store: Store, connection: sa.Connection) -> Snapshot:
        run = load_run(store, connection, self.project, self.name)
        if run is None:
            raise RunNotFoundError(f"run {self.name!r} does not exist in project {self.project!r}")
        return Snapshot(store, connection, run, self._now_ns(), self._sources_of)

    # ------------------------------------------------------------------ attributes

    @_with_snapshot
    def attributes(self, seen: Snapshot, namespace: str = "") -> list[Attribute]:
        """Return the visible attributes at and below a path, sorted by path."""
        if namespace:
            seen.state.need((), [namespace])
        else:
            seen.state.need_all()
        found = {
            path: shown
            for path in seen.state.attributes
            if is_inside(path, namespace) and (shown := seen.own(path)) is not None
        }
        for path, kind, value in self._derived(seen):
            if is_inside(path, namespace):
                found[path] = Attribute(path, "atom", kind, value)
        found |= seen.inherited_series(lambda path: is_inside(path, namespace))
        return [found[path] for path in sorted(found)]

    @_with_snapshot
    def attribute(self, seen: Snapshot, path: str) -> Attribute | None:
        """Return the attribute at a path, or None."""
        return next(iter(self._some(seen, [path])), None)

    @_with_snapshot
    def has(self, seen: Snapshot, path: str) -> bool:
        """Return whether there is a visible value at or below a path."""
        seen.state.need((), [path])
        if any(is_inside(shown, path) for shown, _ in seen.state.visible()):
            return True
        if any(is_inside(one, path) for one in seen.line.families()):
            return True
        return any(is_inside(derived, path) for derived, _, _ in self._derived(seen))

    @_with_snapshot
    def series_paths(self, seen: Snapshot) -> list[str]:
        """Return the paths with a visible float series, sorted."""
        return sorted(path for path, family in seen.families().items() if family == FLOATS)

    @_with_snapshot
    def series_writers(self, seen: Snapshot) -> dict[str, set[str]]:
        """Return the ids of the writers that recorded numbers, by path."""
        writers = {one.number: one.writer for one in seen.state.journals.values()}
        rows = seen.rows(_SELECT_PATHS)
        paths = seen.store.numbers.paths(seen.connection, {path for _, path in rows})
        found: dict[str, set[str]] = {}
        for journal, path in rows:
            found.setdefault(paths[path], set()).add(writers.get(journal, ""))
        return found

    def opening(self) -> Opening:
        """Return the data that is needed to resume the run."""
        journals, found, writers = self.journals(), self.attributes(), self.series_writers()
        owners = (
            one for one in journals if one.header.get("owner", True) or one.header.get("rank")
        )
        training = {one.writer for one in owners}
        steps = {one.path: getattr(one.value, "last_step", None) for one in found}
        return Opening(
            largest_t=max((one.last_t for one in journals), default=0),
            journals={
                one.writer: {
                    **{key: one.header.get(key) for key in _HEADER_FIELDS},
                    "bytes": one.offset,
                }
                for one in journals
            },
            families={one.path: one.family for one in found},
            last_steps={
                path: float(step)
                for path, step in steps.items()
                if isinstance(step, (int, float)) and math.isfinite(step)
            },
            trained=frozenset(
                path for path, own in writers.items() if not training.isdisjoint(own)
            ),
            failed=self.has_failed(),
            resumable=self.is_resumable(),
        )

    @_with_snapshot
    def families(self, seen: Snapshot) -> dict[str, str]:
        """Return the family of each path, sorted by path, without reading values."""
        derived = {path: "atom" for path, _, _ in self._derived(seen)}
        return dict(sorted((seen.families() | derived).items()))

    @_with_snapshot
    def some(self, seen: Snapshot, paths: Collection[str]) -> list[Attribute]:
        """Return the attributes at paths, in the given order, without missing ones."""
        return self._some(seen, paths)

    def _some(self, seen: Snapshot, paths: Collection[str]) -> list[Attribute]:
        seen.run.state.need(paths)
        derived: dict[str, tuple[str, Any]] = {}
        inherited_series = seen.inherited_series(set(paths).__contains__)
        found = []
        for path in paths:
            if not derived and path.startswith(DERIVED_BELOW):
                derived = {name: (kind, value) for name, kind, value in self._derived(seen)}
            if path in derived:
                found.append(Attribute(path, "atom", *derived[path]))
            elif path in inherited_series:
                found.append(inherited_series[path])
            elif (shown := seen.own(path)) is not None:
                found.append(shown)
        return found

    @property
    @_with_snapshot
    def state(self, seen: Snapshot) -> str:
        """State of the run; ``"crashed"`` if it is recorded as running but no longer runs."""
        return seen.derived_state()

    @_with_snapshot
    def is_resumable(self, seen: Snapshot) -> bool:
        """Return whether the run can be resumed: it has not ended for good, and no owner lives."""
        state, is_here = seen.derived_state(), seen.store.here
        lives = any(is_live(one, seen.now_ns, here=is_here) for one in seen.owners)
        return state == "created" or (state in RESUMABLE_STATES and not lives)

    @_with_snapshot
    def crash(self, seen: Snapshot) -> Crash | None:
        """Return the cause of a crash of the training process; None unless the run crashed."""
        return self._crash_of(seen)

    def _crash_of(self, seen: Snapshot) -> Crash | None:
        if seen.derived_state() != CRASHED:
            return None
        last = max(last_owners(seen.owners), key=lambda one: one.seen, default=None)
        if last is None:
            return None
        asked = (last.writer, last.seen)
        if self._crash is None or self._crash[0] != asked or self._crash[1].reason == LOST:
            evidence = Evidence(here=seen.store.here)
            self._crash = asked, evidence.crash(last.header, last.seen)
        return self._crash[1]

    def _derived(self, seen: Snapshot) -> Iterator[tuple[str, str, Any]]:
        return seen.derived(self._crash_of(seen))

    @property
    @_with_snapshot
    def reason(self, seen: Snapshot) -> str:
        """Cause of the last recorded state of the run: an error or a signal; empty if unknown."""
        return reason_of(seen.state.state[1])

    @property
    @_with_snapshot
    def signal(self, seen: Snapshot) -> str:
        """Signal that caused the last recorded state; empty if there is none, or an error."""
        record = seen.state.state[1]
        return "" if "error" in record else str(record.get("signal", ""))

    @property
    @_with_snapshot
    def traceback(self, seen: Snapshot) -> str | None:
        """Path of the traceback of the run's end; see `traceback_of`."""
        return traceback_of(seen.state, seen.families())

    @_with_snapshot
    def problems(self, seen: Snapshot) -> dict[str, Any]:
        """Return the problems of the run, by name, without empty ones."""
        return seen.problems()

    @_with_snapshot
    def has_failed(self, seen: Snapshot) -> bool:
        """Return whether a process that owned the run recorded a failure."""
        return any(one.said.get("state") == "failed" for one in seen.owners)

    @_with_snapshot
    def ranks(self, seen: Snapshot) -> list[RankStatus]:
        """Return the status of each current rank of the run, sorted by rank."""
        seen.state.need([_WORLD_SIZE])
        size_state = next(iter(seen.state.surviving(_WORLD_SIZE)), None)
        size = getattr(size_state, "value", None)
        now_ns, world_size = seen.now_ns, size if isinstance(size, int) else None
        found = rank_statuses(seen.state, now_ns, world_size, here=seen.store.here)
        if sum(one.state == "hangs" for one in found) > 1:
            seen.state.need_all()
            steps = {
                path: state.last_step
                for path, state in seen.state.visible()
                if isinstance(state, SeriesState) and state.family == FLOATS
            }
            found = waiting_ranks(found, steps, now_ns)
        return found

    @_with_snapshot
    def journals(self, seen: Snapshot) -> list[JournalInfo]:
        """Return information about every journal, sorted by writer."""
        found = sorted(seen.state.journals.values(), key=lambda journal: journal.writer)
        return [
            JournalInfo(
                writer=one.writer,
                file=one.file,
                header=json.loads(one.header_text or "{}"),
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

    def points(self, path: str, attempt: Attempt = "latest", *, limit: int | None = None) -> Points:
        """Return the points, or the last ``limit``, of a float series; empty if it does not exist.

        ``attempt`` is ``"latest"``, ``"all"``, ``"replaced"``, or the number of an attempt for the
        run at the end of that attempt. Raises `ArgumentError` otherwise.
        """
        return self.many_points([path], attempt, limit=limit)[path]

    @_with_snapshot
    def many_points(
        self,
        seen: Snapshot,
        paths: Collection[str],
        attempt: Attempt = "latest",
        *,
        limit: int | None = None,
    ) -> dict[str, Points]:
        """Return the points of several float series; see `points`."""
        return seen.floats(list(dict.fromkeys(paths)), check_attempt(attempt), limit)

    @_with_snapshot
    def points_part(
        self,
        seen: Snapshot,
        path: str,
        attempt: Attempt = "latest",
        *,
        most: int,
        after: Mark | None = None,
        last: int | None = None,
    ) -> Part:
        """Return the next points of a float series; see `read_floats_part`."""
        shares = seen.line.shares([path], FLOATS, check_attempt(attempt))
        return read_floats_part(
            seen.store, seen.connection, shares, path, most, after=after, last=last
        )

    @_with_snapshot
    def curve(self, seen: Snapshot, path: str, points: int, attempt: Attempt = "latest") -> Curve:
        """Return the curve of a float series, with at most ``points`` representative points."""
        shares = seen.line.shares([path], FLOATS, check_attempt(attempt))
        return read_curve(seen.store, seen.connection, shares, path, points)

    @_with_snapshot
    def drawing(
        self,
        seen: Snapshot,
        path: str,
        look: Look | None = None,
        attempt: Attempt = "latest",
        since: str = "",
    ) -> Drawing:
        """Return the drawing of a float series; an empty one if the series does not exist.

        Without ``look``, it has a thousand representative points along steps. With ``since``, the
        `Drawing.cursor` of an earlier drawing, unchanged parts at the beginning are omitted. Raises
        `ArgumentError` if an argument is invalid.
        """
        chosen, wanted = check_attempt(attempt), look or Look()
        paths = [path] if wanted.x in NAMED_AXES else [path, wanted.x]
        shares = seen.line.shares(paths, FLOATS, chosen)
        created = min(run_columns(one.run.state)["created"] for one in shares)
        found = read_drawing(seen.store, seen.connection, shares, path, wanted, created)
        return found.since(since)

    @_with_snapshot
    def begins(
        self,
        seen: Snapshot,
        paths: Collection[str],
        x: str = "step",
    ) -> dict[str, list[Begin]]:
        """Return the first visible points of attempts in float series, by path.

        The cost does not depend on the number of points, unless ``x`` is another series. ``x`` is
        ``"step"``, ``"time"``, ``"relative"`` or a path; other values raise `ArgumentError` or
        `PathError`.
        """
        wanted, axis = list(dict.fromkeys(paths)), check_axis(x)
        other = [] if axis in NAMED_AXES else [axis]
        shares = seen.line.shares([*wanted, *other], FLOATS, "latest")
        created = min(run_columns(one.run.state)["created"] for one in shares)
        found = read_begins(seen.store, seen.connection, shares[0], wanted)
        return {
            path: place_on_axis(seen.store, seen.connection, shares, some, axis, created)
            for path, some in found.items()
            if some
        }

    @_with_snapshot
    def texts(self, seen: Snapshot, path: str, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series; see `points`."""
        found = seen.points_of(path, "string_series", check_attempt(attempt))
        return [TextPoint(step, value, time_ns, number) for step, value, time_ns, number in found]

    @_with_snapshot
    def text_page(
        self,
        seen: Snapshot,
        file: str,
        paths: Collection[str],
        begin: int = 0,
    ) -> TextPage:
        """Return a page of the texts of all attempts in one journal, in the order of writing.

        ``begin`` is an offset in bytes: 0, the end of a page, or the result of `text_begin`.
        """
        seen.state.need(paths)
        sources = self._sources_of(self.project, self.name)
        return read_text_page(
            seen.store, seen.connection, seen.run, sources, file, list(paths), begin
        )

    @_with_snapshot
    def text_begin(
        self,
        seen: Snapshot,
        file: str,
        paths: Collection[str],
        *,
        since_ns: int | None = None,
        lines: int | None = None,
        points: int | None = None,
    ) -> int:
        """Return the offset in a journal, in bytes, at which to start reading the last texts.

        A few earlier texts may be included. ``since_ns`` is nanoseconds since the Unix epoch,
        ``lines`` a number of line ends, ``points`` a number of records of any text or file series.
        """
        return text_begin(
            seen.store,
            seen.connection,
            seen.run,
            self._sources_of(self.project, self.name),
            file,
            list(paths),
            since_ns=since_ns,
            lines=lines,
            points=points,
        )

    @_with_snapshot
    def files(self, seen: Snapshot, path: str, attempt: Attempt = "latest") -> list[FilePoint]:
        """Return the points of a file series; see `points`."""
        found = seen.points_of(path, "file_series", check_attempt(attempt))
        return [
            FilePoint(
                step, value["file"], time_ns, number, value.get("name"), value.get("description")
            )
            for step, value, time_ns, number in found
        ]

    @_with_snapshot
    def histograms(
        self,
        seen: Snapshot,
        path: str,
        attempt: Attempt = "latest",
    ) -> list[HistogramPoint]:
        """Return the points of a histogram series; see `points`."""
        found = seen.points_of(path, "histogram_series", check_attempt(attempt))
        return list(map(_histogram, found))

    @_with_snapshot
    def last(self, seen: Snapshot, path: str) -> Any:
        """Return the last value or `HistogramPoint` of a series; None if there is none.

        Other points are not read, unless they are inherited by a fork.
        """
        found = next(iter(self._some(seen, [path])), None)
        if found is None or not found.family.endswith("_series") or not found.value.count:
            return None
        if found.family != "histogram_series":
            return found.value.last
        own = next(iter(seen.state.surviving(path)), None)
        if isinstance(own, SeriesState) and own.count:
            attempts = {one.uid: one.attempt for one in seen.state.journals.values()}
            number = attempts.get(own.last_key[1])
            edges, counts, time_ns = copy.deepcopy(own.last)  # the state is kept for later reads
            attempt = -1 if number is None else number
            return HistogramPoint(own.last_step, edges, counts, time_ns, attempt)
        points = seen.points_of(path, found.family, "latest")
        return _histogram(points[-1]) if points else None


def _histogram(point: tuple[float, Any, int, int]) -> HistogramPoint:
    step, (edges, counts), time_ns, attempt = point
    return HistogramPoint(step, edges, counts, time_ns, attempt)
