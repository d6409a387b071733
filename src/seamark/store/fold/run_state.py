"""State of one run and its journals during folding."""

from __future__ import annotations

import contextlib
import functools
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple

from seamark.reading.attributes import FORKED_AT, FORKED_FROM
from seamark.store.fold.payloads import PATH_BYTES, Names
from seamark.store.fold.registers import (
    FAMILIES,
    NEVER,
    AtomState,
    FamilyState,
    Key,
    SeriesState,
    to_json,
)
from seamark.values import decode_atom

_MAX_NOTES: Final = 20
"""Maximum number of fold errors of a journal stored as text; further ones are only counted."""
_MAX_ID_CHARS: Final = 1000
"""Maximum length of a run id named by another run, in characters."""
_MAX_CHANGES: Final = 20
"""Maximum number of earlier values kept for a parameter."""
_MAX_CHANGE_CHARS: Final = 200
"""Maximum number of characters kept of an earlier value."""
_I63: Final = (1 << 63) - 1

Attributes = dict[str, dict[str, FamilyState]]
Load = Callable[[Iterable["JournalState"], Collection[str] | None, Collection[str]], Attributes]
"""Function that returns the stored values at paths and below namespaces, given the journals."""


class Fork(NamedTuple):
    """Parent of a fork, by id or custom id in the same project, and the last inherited step."""

    parent: str
    step: float


@dataclass(slots=True, eq=False)
class JournalState:
    """State of one journal of a run: folded position, and facts from its records.

    Offsets are in bytes, times in nanoseconds since the Unix epoch.

    Attributes:
        number: Small number of the journal within its run, used in the store.
        attempt: Number of the attempt that wrote the journal; None, and never hidden, without any.
        owner: Whether the writer may set the state of the run; true if the header is damaged.
        header_text: HEADER record as JSON; empty if it is damaged or not read yet.
        positions_text: Positions from which its attempt resumes, as JSON; None without any.
        touched: Whether its row in the store is outdated.
        last_offset: Offset of the last folded frame, whose CRC is ``last_crc``; 0 if there is none.
        prefix_crc: CRC32 of all bytes before ``offset``, at which folding continues.
        chunked: Points of frames before this offset are in chunks.
        diverged: Files with the same uid and different contents.
        first_t: Time of the first frame; None if there is none.
        heard: Time at which its last bytes arrived from another machine, by the local clock; None
            for a local file of its writer.
        said: Last state that the writer recorded, owner or not, with its time ``t``; else empty.
        rows: Number of records with points of series, from ``first_row_t`` to ``last_row_t``.
        gaps: Ranges without valid frames: [offset, length].
        tail: Range without valid frames at the end, which may still grow: [offset, length] or None.
        dropped: Counts of records that the writer lost, by reason.
        unknown: Number of skippable frames of each unknown kind.
        errors: Number of frames or parts of frames that could not be applied.
        notes: Messages of the first errors: [offset, message].
        point_end: Offset of the last frame with points of a series; -1 if there is none.
    """

    writer: str
    uid: bytes
    file: str = ""
    number: int = 0
    attempt: int | None = None
    owner: bool = True
    header_text: str = ""
    positions_text: str | None = None
    offset: int = 0
    touched: bool = True
    last_offset: int = 0
    last_crc: int = 0
    prefix_crc: int = 0
    chunked: int = 0
    diverged: list[str] = field(default_factory=list)
    first_t: int | None = None
    last_t: int = 0
    heard: int | None = None
    closed: bool = False
    close_reason: str | None = None
    said: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    first_row_t: int = 0
    last_row_t: int = 0
    gaps: list[list[int]] = field(default_factory=list)
    tail: list[int] | None = None
    dropped: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    notes: list[list[Any]] = field(default_factory=list)
    stopped: str | None = None
    point_end: int = -1
    names: Names = field(default_factory=Names)
    _header: dict[str, Any] | None = None

    @property
    def header(self) -> dict[str, Any]:
        """HEADER record, decoded on first use; empty if ``header_text`` is empty."""
        if self._header is None:
            self._header = json.loads(self.header_text or "{}")
        return self._header

    @property
    def seen(self) -> int:
        """Last sign of life by the local clock, in ns; other machines' clocks may be hours off."""
        return self.last_t if self.heard is None else self.heard

    def local_time(self, t: int) -> int:
        """Convert a time in the journal to the local clock, in ns since the Unix epoch."""
        return t if self.heard is None else t + (self.heard - self.last_t)

    def take_header(self, header: dict[str, Any]) -> None:
        """Set the facts from the HEADER of the journal."""
        self._header = header
        self.header_text = to_json(header)
        attempt, positions = header.get("attempt"), header.get("positions")
        self.attempt = None
        if isinstance(attempt, int) and not isinstance(attempt, bool) and abs(attempt) <= _I63:
            self.attempt = attempt
        self.owner = bool(header.get("owner", True))
        self.positions_text = to_json(positions) if isinstance(positions, dict) else None

    def positions(self) -> Mapping[str, Any] | None:
        """Return the positions from which this attempt resumes, or None without any."""
        return None if self.positions_text is None else _parse_positions(self.positions_text)

    def count_rows(self, count: int, first_t: int, last_t: int) -> None:
        """Count records with points. Times are nanoseconds since the Unix epoch."""
        if not self.rows or first_t < self.first_row_t:
            self.first_row_t = first_t
        self.last_row_t = max(self.last_row_t, last_t)
        self.rows += count

    def note(self, offset: int, message: str, count: int = 1) -> None:
        """Count an operation that could not be applied."""
        self.errors += count
        if len(self.notes) < _MAX_NOTES:
            self.notes.append([offset, message[:300]])


@functools.lru_cache(maxsize=64)
def _parse_positions(text: str) -> Mapping[str, Any]:
    # Cached, because all ranks of an attempt record the same positions.
    found: Mapping[str, Any] = json.loads(text)
    return found


@dataclass(slots=True, eq=False)
class RunState:
    """State of one run up to the folded positions of its journals.

    Attributes:
        attributes: Families of each loaded or new path.
        deletes: Greatest key of the deletes, by deleted path or namespace.
        clears: Greatest key of the clears, by cleared path.
        changed: Earlier values (type, value) of changed parameters, by path and key.
        journals: Journals by writer id.
        state: Key and record of the newest state written by an owner.
        fork: Point at which the run was forked from another run; None if it is not a fork.
        started: Time at which an owner first recorded the state ``"running"``, nanoseconds since
            the Unix epoch; None if never.
        dirty: Paths whose rows in the store are outdated.
        needs_refold: Whether summaries have to be computed again from the journals.
        load: Loads stored attributes on demand; None for a new run, and once all are loaded.
    """

    attributes: Attributes = field(default_factory=dict)
    deletes: dict[str, Key] = field(default_factory=dict)
    clears: dict[str, Key] = field(default_factory=dict)
    changed: dict[str, dict[Key, tuple[str, Any]]] = field(default_factory=dict)
    journals: dict[str, JournalState] = field(default_factory=dict)
    state: tuple[Key, dict[str, Any]] = (NEVER, {})
    fork: Fork | None = None
    started: int | None = None
    dirty: set[str] = field(default_factory=set)
    needs_refold: bool = False
    load: Load | None = None
    _loaded: set[str] = field(default_factory=set)
    _loaded_below: set[str] = field(default_factory=set)
    _cuts: dict[str, float] = field(default_factory=dict)
    _sorted: list[str] | None = None

    def need(self, paths: Iterable[str], namespaces: Iterable[str] = ()) -> None:
        """Load the stored state of paths, and of all paths at and below namespaces."""
        if self.load is None:
            return
        below = set(namespaces).difference(self._loaded_below)
        at = set(paths).difference(self._loaded, below)
        if not at and not below:
            return
        found = self.load(self.journals.values(), at, below)
        self._sorted = None
        for path, families in found.items():
            if path not in self.attributes:  # a loaded path may have changed since
                self.attributes[path] = families
        self._loaded |= at | found.keys()  # after loading, which may be interrupted
        self._loaded_below |= below

    def need_all(self) -> None:
        """Load the stored state of all paths."""
        if self.load is None:
            return
        for path, families in self.load(self.journals.values(), None, ()).items():
            self.attributes.setdefault(path, families)
        self.load = None
        self._sorted = None

    # ------------------------------------------------------------------ journals and attempts

    def apply_observations(self, silence_ns: int) -> None:
        """Mark a journal as silent if its host has observed that its process ended.

        The observation is a journal of the same host and boot. It is ignored if the process has
        recorded more since. ``silence_ns`` is the time without a sign of life after which a process
        counts as ended.
        """
        observations = [one for one in self.journals.values() if '"ended":' in one.header_text]
        files = {one.file: one for one in self.journals.values()} if observations else {}
        for observation in sorted(observations, key=attrgetter("file")):
            journal, how = (
                files.get(str(observation.header.get("ended"))),
                observation.header.get("ended_how"),
            )
            if journal is None or observation.heard is None or journal.heard is None or how is None:
                continue
            place = journal.header.get("host"), journal.header.get("boot")
            if None in place or place != (
                observation.header.get("host"),
                observation.header.get("boot"),
            ):
                continue
            del files[journal.file]  # only the first observation is used
            ended_at = observation.header.get("ended_at")
            header = {key: one for key, one in journal.header.items() if key != "ended_how"}
            heard = journal.heard
            if not isinstance(ended_at, int) or journal.last_offset <= ended_at:
                header["ended_how"] = how
                heard = min(heard, observation.heard - silence_ns - 1)
            if (header, heard) != (journal.header, journal.heard):
                journal.heard, journal.touched = heard, True
                journal.take_header(header)

    def add_journal(
        self, journal: JournalState, header: dict[str, Any] | None = None
    ) -> JournalState:
        """Add a journal; if its header is given, the points that it hides are never counted."""
        self.journals[journal.writer] = journal
        self._cuts = {}
        if header:
            self.take_header(journal, header)
        return journal

    def take_header(self, journal: JournalState, header: dict[str, Any]) -> None:
        """Set the header of a journal, and hide the points of other journals that it replaces."""
        journal.take_header(header)
        self._cuts = {}
        # Only a header with positions hides points of other journals. Points of the journal itself
        # may precede its header.
        hiding = self.journals.values() if journal.positions_text is not None else [journal]
        for other in hiding:
            if other.point_end >= 0 and other.point_end >= self.cut(other):
                self.needs_refold = True

    def cut(self, journal: JournalState, attempt: int | None = None) -> float:
        """Return the offset from which points of a journal are hidden, infinity if none are.

        A journal is cut at the positions from which later attempts (up to ``attempt``) resumed.
        Points of attempts after ``attempt`` are hidden.
        """
        if attempt is None:
            found = self._cuts.get(journal.writer)
            if found is None:
                found = self._cuts[journal.writer] = self._find_cut(journal, None)
            return found
        return self._find_cut(journal, attempt)

    def _find_cut(self, journal: JournalState, attempt: int | None) -> float:
        own = journal.attempt
        if own is None:
            return math.inf
        if attempt is not None and own > attempt:
            return 0
        cut = math.inf
        for other in self.journals.values():
            later = other.attempt
            if later is None or later <= own or (attempt is not None and later > attempt):
                continue
            positions = other.positions()
            if positions is not None:
                position = positions.get(journal.writer, 0)
                cut = min(cut, position if isinstance(position, int | float) else 0)
        return cut

    def restarted(self) -> RunState:
        """Return an empty run for folding all journals again, with the facts that hide points."""
        fresh = RunState()
        fresh.deletes, fresh.clears = dict(self.deletes), dict(self.clears)
        for journal in self.journals.values():
            again = JournalState(
                journal.writer, journal.uid, file=journal.file, number=journal.number
            )
            again.diverged = journal.diverged
            fresh.add_journal(again, journal.header)
        fresh.needs_refold = False
        return fresh

    # ------------------------------------------------------------------ what is visible

    def tombstone(self, path: str) -> Key:
        """Return T(path): the greatest key among deletes of the path and its namespaces."""
        deletes = self.deletes
        if not deletes:
            return NEVER
        best = deletes.get(path, NEVER)
        slash = path.rfind("/")
        while slash > 0:
            best = max(best, deletes.get(path[:slash], NEVER))
            slash = path.rfind("/", 0, slash)
        return best

    def emptied(self, path: str) -> Key:
        """Return the greatest key of deletes and clears; only later points and elements count."""
        if not self.deletes and not self.clears:
            return NEVER
        return max(self.tombstone(path), self.clears.get(path, NEVER))

    def surviving(self, path: str) -> list[FamilyState]:
        """Return the families at a path that are not deleted, the visible one first."""
        after = self.tombstone(path) if self.deletes else NEVER
        found = [state for state in self.attributes.get(path, {}).values() if state.key > after]
        if len(found) > 1:
            found.sort(key=lambda state: state.key, reverse=True)
        return found

    def visible(self) -> Iterator[tuple[str, FamilyState]]:
        """Yield the paths with a visible value, sorted, with the visible family."""
        for path in sorted(self.attributes):
            if found := self.surviving(path):
                yield path, found[0]

    def conflicts(self) -> dict[str, list[str]]:
        """Return the hidden families of paths with several families, by path."""
        found = {
            path: self.surviving(path)
            for path, families in self.attributes.items()
            if len(families) > 1
        }
        return {
            path: [state.family for state in states[1:]]
            for path, states in sorted(found.items())
            if states[1:]
        }

    # ------------------------------------------------------------------ registers

    def family(self, path: Any, family: str) -> FamilyState:
        """Return or create the state of a family at a path; ValueError for an invalid path."""
        families = self.attributes.get(path)
        if families is None:
            is_path = isinstance(path, str) and path
            if not is_path or (len(path) > PATH_BYTES // 4 and len(path.encode()) > PATH_BYTES):
                raise ValueError(f"expected a path, got {path!r:.120}")
            families = self.attributes[path] = {}
            self._sorted = None
        state = families.get(family)
        if state is None:
            state = families[family] = FAMILIES[family](family)
        self.dirty.add(path)
        return state

    def series(self, path: Any, family: str, key: Key) -> SeriesState:
        """Return the state of a series that receives a point, hidden or not, with this key."""
        state = self.family(path, family)
        assert isinstance(state, SeriesState)  # noqa: S101 - families and classes correspond
        state.key = max(state.key, key)
        return state

    def delete(self, path: Any, key: Key) -> None:
        """Hide the values at and below a path up to ``key``."""
        if not isinstance(path, str) or not path:
            raise ValueError(f"expected a path or namespace, got {path!r:.120}")
        if key <= self.deletes.get(path, NEVER):
            return
        self.deletes[path] = key
        for inner in self._paths_inside(path):
            self._hide_points(inner, key)

    def note_fork(self) -> None:
        """Update ``fork`` from its attributes, which must be loaded."""
        parent, step = (self._atom_value(path) for path in (FORKED_FROM, FORKED_AT))
        self.fork = None
        is_number = isinstance(step, int | float) and not isinstance(step, bool)
        if is_number and isinstance(parent, str) and 0 < len(parent) <= _MAX_ID_CHARS:
            with contextlib.suppress(OverflowError):  # the int is too large for a float
                self.fork = Fork(parent, float(step)) if math.isfinite(step) else None

    def _atom_value(self, path: str) -> Any:
        shown = next(iter(self.surviving(path)), None)
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            return decode_atom(shown.type, shown.value) if isinstance(shown, AtomState) else None
        return None

    def note_change(self, path: str, key: Key, kind: str, value: Any) -> None:
        """Store an earlier value of a parameter; only the newest ones are kept."""
        known = self.changed.setdefault(path, {})
        if isinstance(value, str) and len(value) > _MAX_CHANGE_CHARS:
            kind, value = "string", f"{value[:_MAX_CHANGE_CHARS]}..."
        known[key] = (kind, value)
        if len(known) > _MAX_CHANGES:
            del known[min(known)]

    def changes(self) -> dict[str, list[tuple[Key, str, Any]]]:
        """Return the values of loaded, changed parameters by path, oldest first."""
        found: dict[str, list[tuple[Key, str, Any]]] = {}
        for path, known in sorted(self.changed.items()):
            shown, after = self.surviving(path), self.tombstone(path)
            if not shown or not isinstance(shown[0], AtomState):
                continue
            values = [(key, *entry) for key, entry in sorted(known.items()) if key > after]
            values.append((shown[0].key, shown[0].type, shown[0].value))
            entries = [
                one for at, one in enumerate(values) if not at or one[1:] != values[at - 1][1:]
            ]
            if len(entries) > 1:
                found[path] = entries
        return found

    def clear(self, path: Any, key: Key) -> None:
        """Empty the series or set at a path without deleting it."""
        if not isinstance(path, str) or not path:
            raise ValueError(f"expected a path, got {path!r:.120}")
        if key > self.clears.get(path, NEVER):
            self.clears[path] = key
            if path in self.attributes:
                self._hide_points(path, key)

    def _hide_points(self, path: str, key: Key) -> None:
        self.dirty.add(path)
        families = self.attributes[path]
        for family, state in families.items():
            if not isinstance(state, SeriesState) or state.low is None or key < state.low:
                continue
            if key >= state.high:
                families[family] = type(state)(family, state.key)
            else:
                self.needs_refold = True

    def _paths_inside(self, namespace: str) -> list[str]:
        if self._sorted is None:
            self._sorted = sorted(self.attributes)
        found = [namespace] if namespace in self.attributes else []
        first, end = (bisect_left(self._sorted, namespace + one) for one in "/0")  # "0" follows "/"
        return found + self._sorted[first:end]
