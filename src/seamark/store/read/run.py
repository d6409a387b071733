"""Reading one run: its visible attributes, what is derived from its journals, and its series.

Every answer comes from one snapshot of the tables, and costs what it returns: of a run with
thousands of attributes, asking for one loads one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from seamark.errors import RunNotFoundError
from seamark.paths import is_inside, kind_of
from seamark.process.crashes import LOST, Crash, Evidence
from seamark.reading.attributes import (
    CHANGES,
    DETAIL,
    INHERITED,
    Attribute,
    JournalInfo,
    SeriesTail,
)
from seamark.reading.curves import NAMED_AXES, Look
from seamark.reading.points import (
    Attempt,
    FilePoint,
    HistogramPoint,
    Points,
    TextPage,
    TextPoint,
    check_attempt,
    time_of,
)
from seamark.store import schema
from seamark.store.cells import (
    CRASHED,
    GOES_ON,
    NUMBER_FAMILIES,
    OPEN,
    UNKNOWN_NS,
    decoded,
    is_crashed,
    is_live,
    is_open,
    run_columns,
)
from seamark.store.fold.registers import (
    AtomState,
    FamilyState,
    FileSetState,
    FileState,
    FloatSeriesState,
    Key,
    RecordState,
    SeriesState,
    SetState,
    StatisticState,
)
from seamark.store.read.begins import Begin, check_axis, placed, read_begins
from seamark.store.read.curve import read_curve, read_drawing
from seamark.store.read.ending import error_text
from seamark.store.read.forks import Line, line_of
from seamark.store.read.inherited import TAGS, Inherited, inherited_tags
from seamark.store.read.rank_status import rank_statuses, who_waits
from seamark.store.read.series import (
    Mark,
    Sources,
    read_floats,
    read_floats_part,
    read_record_at,
    read_records,
    read_text_page,
    text_begin,
)
from seamark.store.read.traceback import traceback_of
from seamark.store.read.versions import ALIASES, VERSION, version_aliases, version_numbers
from seamark.store.runs import Store, StoredRun, load_attributes, load_run
from seamark.store.silence import state_of_row

if TYPE_CHECKING:
    from seamark.reading.curves import Curve, Drawing
    from seamark.reading.ranks import RankStatus
    from seamark.store.fold.run_state import Fork, JournalState, RunState

__all__ = ["COPY", "RunReader", "Snapshot", "gaps_of", "troubles"]

T = TypeVar("T")
_cells: Final = schema.attribute.c
_SHOWN: Final = (
    sa.select(schema.path.c.path, _cells.family)
    .join(schema.path, schema.path.c.id == _cells.path)
    .where(_cells.run == sa.bindparam("run"), _cells.visible == 1)
)
_NAMED: Final = (
    sa.select(schema.journal_path.c.journal, schema.journal_path.c.path)
    .distinct()
    .where(schema.journal_path.c.run == sa.bindparam("run"))
)
_RESUMABLE: Final = frozenset({CRASHED, "interrupted", "suspended"})
"""States of a begun run that a process which opens it may go on with."""
_OWNER: Final = sa.select(schema.run.c.owner).where(schema.run.c.id == sa.bindparam("run"))
_HIDDEN: Final = (
    sa.select(_cells.path).distinct().where(_cells.run == sa.bindparam("run"), _cells.visible == 0)
)
_FLOATS: Final = "float_series"
_FLOATS_AT_ONCE: Final = 64
_WORLD_SIZE: Final = "distributed/world_size"
COPY: Final = "journal/"
"""Prefix of the name of a file among the conflicts."""
_NO_ANSWER: Final = ("sys/", "monitoring/seamark/", TAGS)


@dataclass(slots=True)
class Snapshot:
    """A run in one transaction.

    Attributes:
        store: Where it is.
        connection: Of the transaction.
        run: As loaded.
        now_ns: Time by the clock of the reader, nanoseconds since the Unix epoch.
        line: It, and the runs that it has points from.
        is_loaded: Whether all of its attributes are.
    """

    store: Store
    connection: sa.Connection
    run: StoredRun
    now_ns: int
    line: Line
    is_loaded: bool = False

    @property
    def state(self) -> RunState:
        """State of the run."""
        return self.run.state

    @property
    def number(self) -> int:
        """Number of the run."""
        assert self.run.number is not None  # noqa: S101 - it was loaded
        return self.run.number


class RunReader:
    """Reader of one run in a store.

    Args:
        store: Returns the store that has the run.
        project: Project path.
        name: Run id.
        sources: Opens its journals.
        now_ns: Clock, nanoseconds since the Unix epoch.
        others: Returns what opens the journals of another run; None where a fork is read alone.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        project: str,
        name: str,
        sources: Sources,
        *,
        now_ns: Callable[[], int],
        others: Callable[[str, str], Sources] | None = None,
    ) -> None:
        self.project = project
        self.name = name
        self._find_store = store
        self._sources, self._others = sources, others
        self._now_ns = now_ns
        self._crash: tuple[tuple[str, int], Crash] | None = None
        self._held: Snapshot | None = None

    @property
    def now_ns(self) -> int:
        """Time by the clock of the reader, nanoseconds since the Unix epoch."""
        return self._now_ns()

    def _ask(self, question: Callable[[Snapshot], T]) -> T:
        """Return the answer to a question about one snapshot of the run.

        Raises:
            RunNotFoundError: If the store has no such run (any more).
        """
        store = self._find_store()
        with store.database.reading() as connection:
            held, is_held = self._held, store.database.held is connection
            if not is_held or held is None or held.connection is not connection:
                held = self._load_run(store, connection)
            self._held = held if is_held else None
            return question(held)

    def _load_run(self, store: Store, connection: sa.Connection) -> Snapshot:
        run = load_run(store, connection, self.project, self.name)
        if run is None:
            msg = f"run {self.name!r} does not exist in project {self.project!r}"
            raise RunNotFoundError(msg)
        line = line_of(store, connection, run, self._sources, self._others)
        return Snapshot(store, connection, run, self._now_ns(), line)

    # ------------------------------------------------------------------ attributes

    def attributes(self, namespace: str = "") -> list[Attribute]:
        """Return what is visible at and below a path, derived attributes too, sorted by path."""

        def answer(seen: Snapshot) -> list[Attribute]:
            if namespace:
                self._load(seen, (), [namespace])
            else:
                self._load(seen, None)
            found = {
                path: self._attribute(seen, path, state)
                for path, state in seen.state.visible()
                if is_inside(path, namespace)
            }
            for path, kind, value in self._derived(seen):
                if is_inside(path, namespace):
                    found[path] = Attribute(path, "atom", kind, value)
            found |= self._of_line(seen, lambda path: is_inside(path, namespace))
            return [found[path] for path in sorted(found)]

        return self._ask(answer)

    def attribute(self, path: str) -> Attribute | None:
        """Return what a path shows, or None."""

        def answer(seen: Snapshot) -> Attribute | None:
            if path.startswith(_NO_ANSWER):
                for derived, kind, value in self._derived(seen):
                    if derived == path:
                        return Attribute(path, "atom", kind, value)
            return self._shown(seen, path)

        return self._ask(answer)

    def has(self, path: str) -> bool:
        """Return whether a path, or anything below it, shows something."""

        def answer(seen: Snapshot) -> bool:
            self._load(seen, (), [path])
            if any(is_inside(shown, path) for shown, _ in seen.state.visible()):
                return True
            if any(is_inside(one, path) for one in seen.line.families()):
                return True
            return any(is_inside(derived, path) for derived, _, _ in self._derived(seen))

        return self._ask(answer)

    def _load(
        self, seen: Snapshot, paths: Collection[str] | None, namespaces: Collection[str] = ()
    ) -> None:
        if seen.is_loaded:
            return
        state, seen.is_loaded = seen.state, paths is None
        found = load_attributes(
            seen.store, seen.connection, seen.number, state.journals.values(), paths, namespaces
        )
        state.attributes.update(found)

    def _shown(self, seen: Snapshot, path: str) -> Attribute | None:
        if found := self._of_line(seen, path.__eq__):
            return found[path]
        self._load(seen, [path])
        shown = seen.state.surviving(path)
        return self._attribute(seen, path, shown[0]) if shown else None

    def _of_line(self, seen: Snapshot, is_meant: Callable[[str], bool]) -> dict[str, Attribute]:
        """Return the series that have points of other runs; all of their points are read."""
        families = {path: one for path, one in seen.line.families().items() if is_meant(path)}
        found: dict[str, Attribute] = {}
        floats = [path for path, family in families.items() if family == _FLOATS]
        for start in range(0, len(floats), _FLOATS_AT_ONCE):
            some = floats[start : start + _FLOATS_AT_ONCE]
            for path, points in self._floats(seen, some, "latest").items():
                state = FloatSeriesState()
                if len(points):
                    state.extend(b"", points.time_ns, points.step, points.value)
                found[path] = Attribute(path, _FLOATS, _FLOATS, state.summary())
        for path, family in families.items():
            if family != _FLOATS:
                found[path] = Attribute(path, family, family, self._tail(seen, path, family))
        return found

    def _attribute(self, seen: Snapshot, path: str, state: FamilyState) -> Attribute:
        kind, value = state.family, None
        if isinstance(state, AtomState):
            kind, value = state.type, decoded(state.type, state.value)
        elif isinstance(state, SeriesState):
            value = state.summary()
        elif isinstance(state, FileState):
            value = state.visible()
        elif isinstance(state, RecordState):
            value = state.record
        elif isinstance(state, SetState | FileSetState | StatisticState):
            value = state.visible(seen.state.emptied(path))
        return Attribute(path, state.family, kind, value)

    def _tail(self, seen: Snapshot, path: str, family: str) -> SeriesTail:
        points = self._points_of(seen, path, family, "latest")
        if not points:
            return SeriesTail(None, 0, math.nan, math.nan)
        (first, *_), (step, value, *_) = points[0], points[-1]
        last = value["file"] if family == "file_series" else value
        return SeriesTail(last, len(points), first, step)

    def series_paths(self) -> list[str]:
        """Return the paths that show a float series, sorted."""
        found = self._ask(self._families)
        return sorted(path for path, family in found.items() if family == _FLOATS)

    def series_writers(self) -> dict[str, set[str]]:
        """Return the ids of the writers whose journals hold points of numbers, by path."""

        def answer(seen: Snapshot) -> dict[str, set[str]]:
            writers = {one.number: one.writer for one in seen.state.journals.values()}
            rows = seen.store.database.rows(seen.connection, _NAMED, run=seen.number)
            paths = seen.store.numbers.paths(seen.connection, {path for _, path in rows})
            found: dict[str, set[str]] = {}
            for journal, path in rows:
                found.setdefault(paths[path], set()).add(writers.get(journal, ""))
            return found

        return self._ask(answer)

    def training(self) -> set[str]:
        """Return the ids of the writers that trained the run, on all ranks."""
        return {
            one.writer
            for one in self.journals()
            if one.header.get("owner", True) or one.header.get("rank")
        }

    def families(self) -> dict[str, str]:
        """Return what each path holds, sorted by path, without reading it."""

        def answer(seen: Snapshot) -> dict[str, str]:
            derived = {path: "atom" for path, _, _ in self._derived(seen)}
            return dict(sorted((self._families(seen) | derived).items()))

        return self._ask(answer)

    @staticmethod
    def _families(seen: Snapshot) -> dict[str, str]:
        rows = seen.store.database.rows(seen.connection, _SHOWN, run=seen.number)
        own = {path: NUMBER_FAMILIES[family] for path, family in rows}
        return own | seen.line.families()

    def some(self, paths: Collection[str]) -> list[Attribute]:
        """Return what some paths show, in their order; those that show nothing are left out."""

        def answer(seen: Snapshot) -> list[Attribute]:
            self._load(seen, paths)
            derived = {path: (kind, value) for path, kind, value in self._derived(seen)}
            of_line = self._of_line(seen, set(paths).__contains__)
            found = []
            for path in paths:
                if path in derived:
                    found.append(Attribute(path, "atom", *derived[path]))
                elif path in of_line:
                    found.append(of_line[path])
                elif shown := seen.state.surviving(path):
                    found.append(self._attribute(seen, path, shown[0]))
            return found

        return self._ask(answer)

    @property
    def fork(self) -> Fork | None:
        """Point at which the run was forked from another; None if it was not."""
        return self._ask(lambda seen: seen.state.fork)

    @property
    def state(self) -> str:
        """State of the run, ``"crashed"`` if it says it is running and is not."""

        def answer(seen: Snapshot) -> str:
            return self._state_of(seen)

        return self._ask(answer)

    def _state_of(self, seen: Snapshot) -> str:
        stated = str(seen.state.state[1].get("state", "created"))
        owners = [journal for journal in seen.state.journals.values() if journal.owner]
        if is_open(stated, owners):
            return state_of_row(OPEN, max(one.seen for one in owners), seen.now_ns)
        crashed = is_crashed(stated, owners, seen.now_ns, here=seen.store.here)
        return CRASHED if crashed else stated

    def is_resumable(self) -> bool:
        """Return whether the run has not ended for good, and no owner that began it lives."""

        def answer(seen: Snapshot) -> bool:
            state, is_here = self._state_of(seen), seen.store.here
            owners = [one for one in seen.state.journals.values() if one.owner]
            lives = any(is_live(one, seen.now_ns, here=is_here) for one in owners)
            return state == "created" or (state in _RESUMABLE and not lives)

        return self._ask(answer)

    def crash(self) -> Crash | None:
        """Return how the process ended that trained the run; None unless the run crashed."""
        return self._ask(self._crash_of)

    def _crash_of(self, seen: Snapshot) -> Crash | None:
        if self._state_of(seen) != CRASHED:
            return None
        owners = (one for one in seen.state.journals.values() if one.owner)
        last = max(owners, key=_seen, default=None)
        if last is None:
            return None
        asked = (last.writer, last.seen)
        if self._crash is None or self._crash[0] != asked or self._crash[1].reason == LOST:
            evidence = Evidence(here=seen.store.here)
            self._crash = asked, evidence.crash(last.header, last.seen)
        return self._crash[1]

    @property
    def state_of_fold(self) -> RunState:
        """The registers of the run, for readers that need more than is shown."""

        def answer(seen: Snapshot) -> RunState:
            self._load(seen, None)
            return seen.state

        return self._ask(answer)

    @property
    def reason(self) -> str:
        """Cause of the run's last recorded state: an error or a signal; empty if not known."""

        def answer(seen: Snapshot) -> str:
            record = seen.state.state[1]
            error, signal = record.get("error"), record.get("signal")
            if isinstance(error, Mapping):
                return error_text(error)
            return signal if isinstance(signal, str) else ""

        return self._ask(answer)

    @property
    def signal(self) -> str:
        """The signal that made the last recorded state, if one did and no error; else empty."""

        def answer(seen: Snapshot) -> str:
            record = seen.state.state[1]
            error, signal = record.get("error"), record.get("signal")
            return signal if isinstance(signal, str) and not isinstance(error, Mapping) else ""

        return self._ask(answer)

    @property
    def traceback(self) -> str | None:
        """Path of the traceback that belongs to the run's end; None if there is none.

        Other ranks have others, and so have older attempts and processes that do not own the run.
        """

        def answer(seen: Snapshot) -> str | None:
            return traceback_of(seen.state, self._families(seen))

        return self._ask(answer)

    def _derived(self, seen: Snapshot) -> Iterator[tuple[str, str, Any]]:
        run, kind = seen.state, kind_of(self.project, self.name)
        self._load(seen, ["sys/trashed"])
        facts = run_columns(run)
        ((owner,),) = seen.store.database.rows(seen.connection, _OWNER, run=seen.number)
        yield "sys/id", "string", facts["sys_id"] or self.name
        yield "sys/owner", "string", facts["owner"] or str(owner)
        if kind in ("run", "project"):
            stated = self._state_of(seen)
            yield "sys/state", "string", stated
            yield "sys/running_time", "float", facts["running"] / 1e9
            if facts["detail"] is not None:
                yield DETAIL, "string", facts["detail"]
            if facts["started"] is not None:
                yield "sys/start_time", "datetime", time_of(facts["started"])
            if facts["ended"] is not None and stated not in GOES_ON:
                yield "sys/end_time", "datetime", time_of(facts["ended"])
        if (crash := self._crash_of(seen)) is not None:
            yield "sys/crash_reason", "string", crash.reason
        yield from _known_times(facts)
        if not run.surviving("sys/trashed"):
            yield "sys/trashed", "bool", False
        if kind in ("model_version", "artifact"):
            ref = (self.project, self.name)
            if found := version_aliases(seen.store, seen.connection, [ref]).get(ref):
                yield ALIASES, "json", found
            if number := version_numbers(seen.store, seen.connection, [ref]).get(ref):
                yield VERSION, "int", number
        yield from self._concluded(seen)

    def _concluded(self, seen: Snapshot) -> Iterator[tuple[str, str, Any]]:
        """Yield what follows from several records, or from those of other containers."""
        run, tags = seen.state, self._inherited(seen)
        for path, one in tags.items():
            yield path, one.type, one.value
        if tags:
            yield INHERITED, "json", self._told(seen, tags)
        for name, value in self._troubles(seen, tags).items():
            yield f"monitoring/seamark/{name}", "json", value
        if run.changed:
            self._load(seen, run.changed)
            if changes := run.changes():
                yield CHANGES, "json", {path: _changes(told) for path, told in changes.items()}

    def _conflicts(self, seen: Snapshot) -> dict[str, list[str]]:
        """Return the families that lost, by path."""
        rows = seen.store.database.rows(seen.connection, _HIDDEN, run=seen.number)
        if not rows:
            return {}
        paths = seen.store.numbers.paths(seen.connection, [number for (number,) in rows])
        self._load(seen, list(paths.values()))
        return seen.state.conflicts()

    def _inherited(self, seen: Snapshot) -> Mapping[str, Inherited]:
        """Return the keyed tags of the projects above, by path."""
        found = dict(inherited_tags(seen.store, seen.connection, [(self.project, self.name)]))
        return found.get((self.project, self.name), {})

    def _troubles(self, seen: Snapshot, tags: Mapping[str, Inherited]) -> dict[str, Any]:
        found = troubles(seen.state, self._conflicts(seen))
        if seen.line.lacking is not None:
            found["fork"] = {"lacking": seen.line.lacking}
        told = self._told(seen, tags) if tags else {}
        other = {
            key: one
            for key, one in told.items()
            if "own" in one and repr(one["own"]) != repr(one["value"])  # 1 is not True, NaN is NaN
        }
        return {**found, "tags": other} if other else found

    def _told(self, seen: Snapshot, tags: Mapping[str, Inherited]) -> dict[str, dict[str, Any]]:
        """Return the tags of projects by key, and what the container itself says of that key."""
        self._load(seen, list(tags))
        found: dict[str, dict[str, Any]] = {}
        for path, one in tags.items():
            told = {"value": one.value, "project": one.project}
            if shown := seen.state.surviving(path):
                own = self._attribute(seen, path, shown[0])
                told["own"] = own.value if own.family == "atom" else f"<{own.family}>"
            found[path[len(TAGS) :]] = told
        return found

    def troubles(self) -> dict[str, Any]:
        """Return what went wrong with the run, by name; only what is not empty."""
        return self._ask(lambda seen: self._troubles(seen, self._inherited(seen)))

    def has_failed(self) -> bool:
        """Return whether a process that spoke for the run noted that it failed."""

        def answer(seen: Snapshot) -> bool:
            journals = seen.state.journals.values()
            return any(one.owner and one.said.get("state") == "failed" for one in journals)

        return self._ask(answer)

    def ranks(self) -> list[RankStatus]:
        """Return how each rank that takes part in the run is doing, by rank."""

        def answer(seen: Snapshot) -> list[RankStatus]:
            self._load(seen, [_WORLD_SIZE])
            told = next(iter(seen.state.surviving(_WORLD_SIZE)), None)
            size = getattr(told, "value", None)
            now_ns, world_size = seen.now_ns, size if isinstance(size, int) else None
            found = rank_statuses(seen.state, now_ns, world_size, here=seen.store.here)
            if sum(one.state == "hangs" for one in found) > 1:
                self._load(seen, None)
                steps = {
                    path: state.last_step
                    for path, state in seen.state.visible()
                    if isinstance(state, SeriesState) and state.family == _FLOATS
                }
                found = who_waits(found, steps, now_ns)
            return found

        return self._ask(answer)

    def journals(self) -> list[JournalInfo]:
        """Return what is known of every journal, sorted by writer."""

        def answer(seen: Snapshot) -> list[JournalState]:
            return list(seen.state.journals.values())

        found = sorted(self._ask(answer), key=lambda journal: journal.writer)
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

    def points(self, path: str, attempt: Attempt = "latest", *, limit: int | None = None) -> Points:
        """Return the points of a float series; none if the path holds no such series.

        Args:
            path: Of the series.
            attempt: ``"latest"``, ``"all"``, or the number of an attempt: the run as that attempt
                left it.
            limit: Only this many of the last points.

        Raises:
            ArgumentError: If ``attempt`` is none of these.
        """
        return self.many_points([path], attempt, limit=limit)[path]

    def many_points(
        self, paths: Collection[str], attempt: Attempt = "latest", *, limit: int | None = None
    ) -> dict[str, Points]:
        """Return the points of several float series, for little more than the price of one.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        chosen = check_attempt(attempt)
        wanted = list(dict.fromkeys(paths))

        def answer(seen: Snapshot) -> dict[str, Points]:
            return self._floats(seen, wanted, chosen, limit)

        return self._ask(answer)

    @staticmethod
    def _floats(
        seen: Snapshot, paths: Sequence[str], attempt: int | str, limit: int | None = None
    ) -> dict[str, Points]:
        shares = seen.line.shares(paths, _FLOATS, attempt)
        return read_floats(seen.store, seen.connection, shares, paths, limit)

    def points_part(
        self,
        path: str,
        attempt: Attempt = "latest",
        *,
        most: int,
        after: Mark | None = None,
        last: int | None = None,
    ) -> tuple[Points, Mark | None] | None:
        """Return the next points of a float series; see `read_floats_part`.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        chosen = check_attempt(attempt)

        def answer(seen: Snapshot) -> tuple[Points, Mark | None] | None:
            shares = seen.line.shares([path], _FLOATS, chosen)
            return read_floats_part(
                seen.store, seen.connection, shares, path, most, after=after, last=last
            )

        return self._ask(answer)

    def curve(self, path: str, points: int, attempt: Attempt = "latest") -> Curve:
        """Return a float series in parts, which keep their minimum and maximum; for drawing.

        Args:
            path: Of the series.
            points: At most this many representative points.
            attempt: See `points`.

        Raises:
            ArgumentError: If ``attempt`` or ``points`` cannot be one.
        """
        chosen = check_attempt(attempt)

        def answer(seen: Snapshot) -> Curve:
            shares = seen.line.shares([path], _FLOATS, chosen)
            return read_curve(seen.store, seen.connection, shares, path, points)

        return self._ask(answer)

    def drawing(
        self, path: str, look: Look | None = None, attempt: Attempt = "latest", since: str = ""
    ) -> Drawing:
        """Return a float series as it is drawn; nothing if the path holds no such series.

        Args:
            path: Of the series.
            look: How; None for the first thousand representative points along steps.
            attempt: See `points`.
            since: `Drawing.cursor` of an earlier drawing: parts at the beginning that are as they
                were are left out.

        Raises:
            ArgumentError: If ``attempt`` or something of ``look`` cannot be used.
        """
        chosen, wanted = check_attempt(attempt), look or Look()

        def answer(seen: Snapshot) -> Drawing:
            paths = [path] if wanted.x in NAMED_AXES else [path, wanted.x]
            shares = seen.line.shares(paths, _FLOATS, chosen)
            created = min(run_columns(one.run.state)["created"] for one in shares)
            return read_drawing(seen.store, seen.connection, shares, path, wanted, created)

        return self._ask(answer).since(since)

    def begins(self, paths: Collection[str], x: str = "step") -> dict[str, list[Begin]]:
        """Return where attempts begin in float series, of the points that are shown.

        What is read does not grow with the points of the series, unless they lie along another.

        Args:
            paths: Of the series; those without points are left out.
            x: What is along x: ``"step"``, ``"time"``, ``"relative"`` or the path of a float
                series; see `seamark.reading.curves.Look`.

        Raises:
            ArgumentError: If attempts cannot be placed on it.
            PathError: If it is no path.
        """
        wanted, axis = list(dict.fromkeys(paths)), check_axis(x)

        def answer(seen: Snapshot) -> dict[str, list[Begin]]:
            other = [] if axis in NAMED_AXES else [axis]
            shares = seen.line.shares([*wanted, *other], _FLOATS, "latest")
            created = min(run_columns(one.run.state)["created"] for one in shares)
            found = read_begins(seen.store, seen.connection, shares[0], wanted)
            return {
                path: placed(seen.store, seen.connection, shares, some, axis, created)
                for path, some in found.items()
                if some
            }

        return self._ask(answer)

    def texts(self, path: str, attempt: Attempt = "latest") -> list[TextPoint]:
        """Return the points of a string series; see `points`.

        Raises:
            ArgumentError: If ``attempt`` cannot be one.
        """
        found = self._records(path, "string_series", attempt)
        return [TextPoint(step, value, time_ns, number) for step, value, time_ns, number in found]

    def text_page(self, file: str, paths: Collection[str], begin: int = 0) -> TextPage:
        """Return texts that one journal holds, in the order of writing, as many as fit into a page.

        Nothing is hidden that an older attempt recorded.

        Args:
            file: Name of the journal.
            paths: Of string series.
            begin: Where to begin, in bytes: 0, the end of a page, or what `text_begin` returned.
        """

        def answer(seen: Snapshot) -> TextPage:
            self._load(seen, paths)
            return read_text_page(
                seen.store, seen.connection, seen.run, self._sources, file, list(paths), begin
            )

        return self._ask(answer)

    def text_begin(
        self,
        file: str,
        paths: Collection[str],
        *,
        since_ns: int | None = None,
        lines: int | None = None,
        points: int | None = None,
    ) -> int:
        """Return where in a journal to begin to read for the last texts, in bytes.

        Args:
            file: Name of the journal.
            paths: Of string series.
            since_ns: Only those since then, in nanoseconds since the Unix epoch, and a few more.
            lines: Only so many line ends, and a few more.
            points: Only so many records with points of any series of texts or files.
        """

        def answer(seen: Snapshot) -> int:
            return text_begin(
                seen.store,
                seen.connection,
                seen.run,
                self._sources,
                file,
                list(paths),
                since_ns=since_ns,
                lines=lines,
                points=points,
            )

        return self._ask(answer)

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

    def last(self, path: str) -> Any:
        """Return the last point of the series at a path; None if there is none.

        Of numbers, texts and files that is the value, of histograms the `HistogramPoint`. What a
        series ends with is known without reading its points.
        """

        def answer(seen: Snapshot) -> Any:
            found = self._shown(seen, path)
            if found is None or not getattr(found.value, "count", 0):
                return None
            if found.family != "histogram_series":
                return found.value.last
            own = next(iter(seen.state.surviving(path)), None)
            if isinstance(own, SeriesState) and own.count:
                point = read_record_at(
                    seen.store, seen.connection, seen.run, self._sources, path, own.last_key
                )
            else:
                found_points = self._points_of(seen, path, found.family, "latest")
                point = found_points[-1] if found_points else None
            if point is None:
                return None
            step, value, time_ns, number = point
            return HistogramPoint(step, value[0], value[1], time_ns, number)

        return self._ask(answer)

    def _records(
        self, path: str, family: str, attempt: Attempt
    ) -> list[tuple[float, Any, int, int]]:
        chosen = check_attempt(attempt)

        def answer(seen: Snapshot) -> list[tuple[float, Any, int, int]]:
            return self._points_of(seen, path, family, chosen)

        return self._ask(answer)

    def _points_of(
        self, seen: Snapshot, path: str, family: str, attempt: int | str
    ) -> list[tuple[float, Any, int, int]]:
        shares = seen.line.shares([path], family, attempt)
        if len(shares) == 1:
            self._load(seen, [path])
            if family not in seen.state.attributes.get(path, {}):
                return []
        return read_records(seen.store, seen.connection, shares, path, family)


def _known_times(facts: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield when a run was created and modified, if that is known."""
    for path, moment in (("creation", facts["created"]), ("modification", facts["modified"])):
        if moment != UNKNOWN_NS:
            yield f"sys/{path}_time", "datetime", time_of(moment)


def _changes(told: Iterable[tuple[Key, str, Any]]) -> list[dict[str, Any]]:
    """Return values and when each was recorded, ISO 8601 in UTC."""
    found = []
    for (t, _, _), kind, value in told:
        plain = value if kind == "datetime" else decoded(kind, value)
        found.append({"value": plain, "time": time_of(t).isoformat()})
    return found


def _seen(journal: JournalState) -> int:
    return journal.seen


def gaps_of(journal: JournalState) -> list[tuple[int, int]]:
    """Return the bytes of a journal that hold no valid frame, a settled end included."""
    found = [*journal.gaps, *([journal.tail] if journal.tail else [])]
    return [(offset, length) for offset, length in found]


def troubles(run: RunState, conflicts: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    """Return what went wrong with a run, by name; only what is not empty.

    Args:
        run: As folded.
        conflicts: The families that lost, by path; as the run knows them if left out.
    """
    if conflicts is None:
        conflicts = run.conflicts()
    journals = sorted(run.journals.values(), key=lambda journal: journal.writer)
    dropped: dict[str, int] = {}
    for journal in journals:
        for reason, count in journal.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    copies = {f"{COPY}{name}": [one.file] for one in journals for name in one.diverged}
    found = {
        "dropped": dropped,
        "conflicts": {**conflicts, **copies},
        "gaps": {
            journal.writer: gaps
            for journal in journals
            if (gaps := [list(gap) for gap in gaps_of(journal)])
        },
        "fold_errors": {journal.writer: journal.errors for journal in journals if journal.errors},
        "newer": [journal.writer for journal in journals if journal.stopped == "newer"],
    }
    return {name: value for name, value in found.items() if value}
