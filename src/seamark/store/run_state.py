"""What is known of one run and of its journals while they are folded.

Registers forget nothing that a later operation may need; only the summaries of series are counted
up, and where that cannot be exact any more the run is marked with ``needs_refold``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from seamark.store.state import NEVER, FamilyState, Key, SeriesState, state_class

__all__ = ["JournalState", "RunState"]

_NOTES: Final = 20
"""So many fold errors of a journal are kept in words; the others are only counted."""


class JournalState:
    """What is known of one journal of a run: how far it is folded, and what it said about itself.

    Attributes:
        writer: Writer id.
        file: Name of the file.
        uid: 16 bytes.
        number: Small number of the journal within its run, in the index.
        header: The HEADER record; empty where it is damaged or not read yet.
        offset: Where folding goes on, bytes.
        last_offset: Where the last folded frame starts, bytes; 0 if there is none.
        last_crc: Its CRC.
        first_t: Time of the first frame, nanoseconds since the Unix epoch; None if there is none.
        last_t: Time of the last frame.
        closed: Whether the last frame is CLOSE.
        close_reason: Why it was closed, as the last CLOSE says; None if there is none.
        said: The last state that this writer noted, whether it speaks for the run or not, with
            ``t``, its time; empty if it noted none.
        rows: How many records with points of series there are.
        first_row_t: Time of the first of them, nanoseconds since the Unix epoch; 0 if there is
            none.
        last_row_t: Time of the last of them.
        gaps: Bytes that hold no valid frame: [offset, length].
        tail: The same at the end, while more may come: [offset, length] or None.
        dropped: Counts of what the writer lost, by reason.
        unknown: How many frames of every unknown kind that may be skipped there are.
        errors: How many frames or parts of frames could not be applied.
        notes: What was wrong with the first of them: [offset, message].
        stopped: Why reading stopped, see `seamark.journal.reader.JournalReader`.
        point_end: Where the last frame with points of a series starts, bytes; -1 if there is none.
        paths: Paths by number.
        schemas: Numbers of paths by number of the schema.
    """

    def __init__(self, writer: str, uid: bytes, *, file: str = "", number: int = 0) -> None:
        self.writer = writer
        self.file = file
        self.uid = uid
        self.number = number
        self.header: dict[str, Any] = {}
        self.stored_offset = -1
        self.restart()

    def restart(self) -> None:
        """Forget everything that reading from the start brings back."""
        self.offset = 0
        self.last_offset = 0
        self.last_crc = 0
        self.first_t: int | None = None
        self.last_t = 0
        self.closed = False
        self.close_reason: str | None = None
        self.said: dict[str, Any] = {}
        self.rows = 0
        self.first_row_t = 0
        self.last_row_t = 0
        self.gaps: list[list[int]] = []
        self.tail: list[int] | None = None
        self.dropped: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        self.errors = 0
        self.notes: list[list[Any]] = []
        self.stopped: str | None = None
        self.point_end = -1
        self.paths: dict[int, str] = {}
        self.schemas: dict[int, tuple[int, ...]] = {}
        self._columns: dict[int, tuple[str | None, ...]] = {}

    @property
    def attempt(self) -> int | None:
        """Number of the attempt that wrote this journal; None: of none, and never hidden."""
        attempt = self.header.get("attempt")
        return attempt if isinstance(attempt, int) else None

    @property
    def owner(self) -> bool:
        """Whether this writer speaks for the run's state; where the header is damaged, it may."""
        return bool(self.header.get("owner", True))

    def positions(self) -> dict[str, int] | None:
        """Return the positions that this attempt goes on from, or None if it names none."""
        positions = self.header.get("positions")
        return positions if isinstance(positions, dict) else None

    def columns(self, schema: int) -> tuple[str | None, ...]:
        """Return the paths of a schema; None for a path that was lost.

        Raises:
            ValueError: If there is no such schema.
        """
        known = self._columns.get(schema)
        if known is None:
            numbers = self.schemas.get(schema)
            if numbers is None:
                msg = f"row of schema {schema}, which is not in the journal"
                raise ValueError(msg)
            known = self._columns[schema] = tuple(self.paths.get(number) for number in numbers)
        return known

    def saw_rows(self, count: int, first_t: int, last_t: int) -> None:
        """Count records with points; times in nanoseconds since the Unix epoch."""
        if not self.rows or first_t < self.first_row_t:
            self.first_row_t = first_t
        self.last_row_t = max(self.last_row_t, last_t)
        self.rows += count

    def define_path(self, number: int, path: str) -> None:
        """Take a PATH frame."""
        if self.paths.get(number) != path:
            self.paths[number] = path
            self._columns.clear()

    def define_schema(self, number: int, paths: tuple[int, ...]) -> None:
        """Take a SCHEMA frame."""
        self.schemas[number] = paths
        self._columns.pop(number, None)

    def note(self, offset: int, message: str) -> None:
        """Count what could not be applied."""
        self.errors += 1
        if len(self.notes) < _NOTES:
            self.notes.append([offset, message[:300]])


class RunState:
    """Everything that the journals of one run say, as far as they are folded.

    Attributes:
        attributes: The families of every path.
        deletes: Greatest key of the deletes of every path or namespace that was deleted.
        clears: The same for paths that were cleared.
        journals: By writer id.
        state: Key and record of the newest state that an owner wrote.
        dirty: Paths whose rows in the index are out of date.
        needs_refold: Whether summaries have to be counted anew from the journals.
    """

    def __init__(self) -> None:
        self.attributes: dict[str, dict[str, FamilyState]] = {}
        self.deletes: dict[str, Key] = {}
        self.clears: dict[str, Key] = {}
        self.journals: dict[str, JournalState] = {}
        self.state: tuple[Key, dict[str, Any]] = (NEVER, {})
        self.dirty: set[str] = set()
        self.needs_refold = False
        self._cuts: dict[str, float] | None = None
        self._namespaces: set[str] | None = None

    # ------------------------------------------------------------------ journals and attempts

    def add_journal(
        self, journal: JournalState, header: dict[str, Any] | None = None
    ) -> JournalState:
        """Take up a journal; given its header beforehand, what it hides is never counted."""
        self.journals[journal.writer] = journal
        if header:
            self._take_header(journal, header)
        return journal

    def _take_header(self, journal: JournalState, header: dict[str, Any]) -> None:
        if journal.header:
            return
        journal.header = header
        self._cuts = None
        if any(other.point_end >= self.cut(other) for other in self.journals.values()):
            self.needs_refold = True

    def cut(self, journal: JournalState, attempt: int | None = None) -> float:
        """Return the offset from which on points of a journal are hidden, infinity if none are.

        A journal of attempt a is cut where every later attempt that names positions went on from.

        Args:
            journal: One of this run's.
            attempt: Look at the run as this attempt left it; None for the latest.
        """
        if attempt is None:
            if self._cuts is None:
                self._cuts = {writer: self._cut(one, None) for writer, one in self.journals.items()}
            if journal.writer in self._cuts:
                return self._cuts[journal.writer]
        return self._cut(journal, attempt)

    def _cut(self, journal: JournalState, attempt: int | None) -> float:
        own = journal.attempt
        if own is None:
            return math.inf
        if attempt is not None and own > attempt:
            return 0
        cut = math.inf
        for other in self.journals.values():
            later, positions = other.attempt, other.positions()
            if (
                later is None
                or positions is None
                or later <= own
                or (attempt is not None and later > attempt)
            ):
                continue
            position = positions.get(journal.writer, 0)
            cut = min(cut, position if isinstance(position, int | float) else 0)
        return cut

    def reset_series(self) -> None:
        """Empty all summaries and go back to the start of every journal; registers stay."""
        for path, families in self.attributes.items():
            for state in families.values():
                if isinstance(state, SeriesState):
                    state.reset()
                    self.dirty.add(path)
        for journal in self.journals.values():
            journal.restart()
        self.needs_refold = False

    # ------------------------------------------------------------------ what is visible

    def tombstone(self, path: str) -> Key:
        """Return T(path): the greatest key among deletes of the path and of everything above it."""
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
        """Return the key after which points and elements of a path count: of deletes and clears."""
        return max(self.tombstone(path), self.clears.get(path, NEVER))

    def surviving(self, path: str) -> list[FamilyState]:
        """Return the families that a path holds, the visible one first."""
        after = self.tombstone(path) if self.deletes else NEVER
        found = [state for state in self.attributes.get(path, {}).values() if state.key > after]
        if len(found) > 1:
            found.sort(key=lambda state: state.key, reverse=True)
        return found

    def visible(self) -> Iterator[tuple[str, FamilyState]]:
        """Yield every path that shows something, sorted, with the family that it shows."""
        for path in sorted(self.attributes):
            if found := self.surviving(path):
                yield path, found[0]

    def conflicts(self) -> dict[str, list[str]]:
        """Return the families that lost, by path."""
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
        """Return the state of a family of a path, empty if it is new, and mark the path as changed.

        Raises:
            ValueError: If the path is none.
        """
        families = self.attributes.get(path)
        if families is None:
            if not isinstance(path, str) or not path or len(path) > 4096:  # noqa: PLR2004 - four times what writers take
                msg = f"expected a path, got {path!r:.120}"
                raise ValueError(msg)
            families = self.attributes[path] = {}
            self._namespaces = None
        state = families.get(family)
        if state is None:
            state = families[family] = state_class(family)(family)
        self.dirty.add(path)
        return state

    def series(self, path: Any, family: str, key: Key) -> SeriesState:
        """Return the state of a series that gets a point, hidden or not, with this key."""
        state = self.family(path, family)
        assert isinstance(state, SeriesState)  # noqa: S101 - families and classes correspond
        state.key = max(state.key, key)
        return state

    def delete(self, path: Any, key: Key) -> None:
        """Hide what the path and everything below it hold up to ``key``."""
        if not isinstance(path, str) or not path:
            msg = f"expected a path or namespace, got {path!r:.120}"
            raise ValueError(msg)
        if key <= self.deletes.get(path, NEVER):
            return
        self.deletes[path] = key
        for inner in self._inside(path):
            self._cut_off(inner, key)

    def clear(self, path: Any, key: Key) -> None:
        """Empty the series or set at the path; it stays."""
        if not isinstance(path, str) or not path:
            msg = f"expected a path, got {path!r:.120}"
            raise ValueError(msg)
        if key > self.clears.get(path, NEVER):
            self.clears[path] = key
            if path in self.attributes:
                self._cut_off(path, key)

    def _cut_off(self, path: str, key: Key) -> None:
        self.dirty.add(path)
        for state in self.attributes[path].values():
            if not isinstance(state, SeriesState) or state.low is None or key < state.low:
                continue
            if key >= state.high:
                state.reset()
            else:
                self.needs_refold = True

    def _inside(self, namespace: str) -> list[str]:
        if self._namespaces is None:
            self._namespaces = set()
            for path in self.attributes:
                slash = path.rfind("/")
                while slash > 0 and (above := path[:slash]) not in self._namespaces:
                    self._namespaces.add(above)
                    slash = path.rfind("/", 0, slash)
        found = [namespace] if namespace in self.attributes else []
        if namespace in self._namespaces:
            below = namespace + "/"
            found += [path for path in self.attributes if path.startswith(below)]
        return found
