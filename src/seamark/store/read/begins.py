"""First point of each attempt in a series, for pictures; the cost does not grow with the points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from seamark.errors import ArgumentError
from seamark.paths import check_path
from seamark.store.groups import group_bounds, load_group
from seamark.store.read.series import (
    read_floats,
    shown,
    shown_journals,
    tail_pieces,
    unpacked,
)

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.fold.run_state import JournalState
    from seamark.store.read.forks import Share
    from seamark.store.read.series import Piece
    from seamark.store.runs import Store

__all__ = ["Begin", "check_axis", "placed", "read_begins"]

_AXES: Final = ("step", "time", "relative")
_NS: Final = 1e9


class Begin(NamedTuple):
    """First shown point of an attempt (0-based) in a series, and its place on the chosen axis."""

    attempt: int
    step: float
    time_ns: int
    x: float | None


def check_axis(x: str) -> str:
    """Return an axis for attempts; raise `ArgumentError` for ``"order"``, or `PathError`."""
    if x == "order":
        msg = "x: expected 'step', 'time', 'relative' or the path of a series, got 'order'"
        raise ArgumentError(msg)
    return x if x in _AXES else check_path(x)


def read_begins(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
) -> dict[str, list[Begin]]:
    """Return where the run's own attempts begin in float series, with ``x`` the step.

    They are sorted by number. Attempts without shown points are left out.
    """
    search = _Search(store, connection, share, paths)
    return {
        path: [
            Begin(attempt, float(one.step[0]), int(one.time[0]), float(one.step[0]))
            for attempt, one in sorted(found.items())
        ]
        for path, found in search.found.items()
    }


def placed(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    begins: Sequence[Begin],
    x: str,
    created_ns: int,
) -> list[Begin]:
    """Return the same on an axis, see `check_axis`; every point of a series on it is read.

    Relative times count from ``created_ns``, nanoseconds since the Unix epoch.
    """
    if x == "step" or not begins:
        return list(begins)
    if x in _AXES:
        origin_ns = created_ns if x == "relative" else 0
        return [one._replace(x=(one.time_ns - origin_ns) / _NS) for one in begins]
    other = read_floats(store, connection, shares, [x])[x]
    found = []
    for one in begins:
        at = int(np.searchsorted(other.step, one.step, side="right")) - 1
        value = float(other.value[at]) if at >= 0 else np.nan
        found.append(one._replace(x=value if np.isfinite(value) else None))
    return found


class _Search:
    """Search for the first point of each attempt, ``found`` by path and number of the attempt."""

    def __init__(
        self, store: Store, connection: sa.Connection, share: Share, paths: Sequence[str]
    ) -> None:
        self.found: dict[str, dict[int, Piece]] = {path: {} for path in paths}
        self._database, self._connection, self._share = store.database, connection, share
        self._spans = {
            at: one for at, one in shown_journals(share).items() if one[0].attempt is not None
        }
        lacking: dict[int, list[str]] = {}
        for path, number in store.numbers.known(connection, paths).items():
            groups = self._groups(number)
            for at in self._in_time(groups):
                if not self._look_in_groups(path, number, at, groups.get(at, [])):
                    lacking.setdefault(at, []).append(path)
        for at in self._in_time({}):
            journal, _ = self._spans[at]
            wanted = [path for path in lacking.get(at, ()) if self._may_begin(path, journal)]
            tails = tail_pieces(store, connection, share, wanted, {at}) if wanted else {}
            for path, pieces in tails.items():
                for piece in pieces:
                    self._take(path, piece)

    def _groups(self, number: int) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        if any(journal.chunked for journal, _ in self._spans.values()):
            run = int(self._share.run.number or 0)
            for at, place, _, _, low_t in group_bounds(
                self._database, self._connection, run, number
            ):
                found.setdefault(at, []).append((place, low_t))
        return found

    def _in_time(self, groups: Mapping[int, Sequence[tuple[int, int]]]) -> list[int]:
        def begins(at: int) -> int:
            own = groups.get(at)
            return own[0][1] if own else int(self._spans[at][0].first_t or 0)

        return sorted(self._spans, key=begins)

    def _may_begin(self, path: str, journal: JournalState) -> bool:
        found = self.found[path].get(int(journal.attempt or 0))
        return found is None or int(found.t[0]) >= int(journal.first_t or 0)

    def _look_in_groups(
        self, path: str, number: int, at: int, groups: Sequence[tuple[int, int]]
    ) -> bool:
        """Search the groups of a journal; return whether that settles it."""
        journal, span = self._spans[at]
        known = self.found[path].get(int(journal.attempt or 0))
        deleted = self._share.after(path)[0]
        for here, (place, low_t) in enumerate(groups):
            if place >= span.end or (known is not None and int(known.t[0]) < low_t):
                return True
            if here + 1 < len(groups) and groups[here + 1][1] < deleted:
                continue  # times rise within a journal: nothing of it is shown
            run = int(self._share.run.number or 0)
            group = load_group(self._database, self._connection, run, number, at, place)
            if self._take(path, unpacked(journal, span, group)):
                return True
        return False

    def _take(self, path: str, piece: Piece) -> bool:
        """Keep the first point of a piece if it precedes the known; return if there is one."""
        kept = shown(self._share, path, piece)
        if not len(kept.step):
            return False
        at = int(np.argmin(kept.t))
        first, own = kept.part(slice(at, at + 1)), self.found[path]
        attempt = int(first.journal.attempt or 0)
        if attempt not in own or _key(first) < _key(own[attempt]):
            own[attempt] = first
        return True


def _key(piece: Piece) -> tuple[int, bytes]:
    return int(piece.t[0]), piece.journal.uid
