"""First point of each attempt in a series, found without reading the other points.

A picture marks them however much it is reduced, so the cost must not grow with the points.
"""

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
    """First point of an attempt in a series.

    Attributes:
        attempt: Number of the attempt, from 0.
        step: Step of the point that it recorded first, of those that are shown.
        time_ns: Time of that point, nanoseconds since the Unix epoch.
        x: Place of that point on the axis that was asked for; None where it has none.
    """

    attempt: int
    step: float
    time_ns: int
    x: float | None


def check_axis(x: str) -> str:
    """Return what is to be along x, if attempts can be placed on it.

    Raises:
        ArgumentError: If they cannot: in the order of recording.
        PathError: If it is neither a word for an axis nor a path.
    """
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
    """Return where the attempts of a run begin in float series, with ``x`` the step.

    What a fork has of the run that it was forked from is recorded by no attempt of its own.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        share: What is shown of the run itself.
        paths: Of the series; those without points have no attempts.

    Returns:
        Attempts by path, the first first; those of which no point is shown are left out.
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
    """Return the same with their places on an axis.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        shares: Of which runs the series at ``x`` is made, itself first; every point is read.
        begins: With the step as ``x``.
        x: See `check_axis`.
        created_ns: From when on relative times count, nanoseconds since the Unix epoch.
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
    """Looks for the first point of each attempt in some series of a run.

    Attributes:
        found: By path and number of the attempt, a piece with the point.
    """

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
        """Return place and smallest time of the groups of a series, by journal."""
        found: dict[int, list[tuple[int, int]]] = {}
        if any(journal.chunked for journal, _ in self._spans.values()):
            run = int(self._share.run.number or 0)
            for at, place, _, _, low_t in group_bounds(
                self._database, self._connection, run, number
            ):
                found.setdefault(at, []).append((place, low_t))
        return found

    def _in_time(self, groups: Mapping[int, Sequence[tuple[int, int]]]) -> list[int]:
        """Return the journals, those first that may have the first points."""

        def begins(at: int) -> int:
            own = groups.get(at)
            return own[0][1] if own else int(self._spans[at][0].first_t or 0)

        return sorted(self._spans, key=begins)

    def _may_begin(self, path: str, journal: JournalState) -> bool:
        """Return whether a journal may have a point before the one that is known."""
        found = self.found[path].get(int(journal.attempt or 0))
        return found is None or int(found.t[0]) >= int(journal.first_t or 0)

    def _look_in_groups(
        self, path: str, number: int, at: int, groups: Sequence[tuple[int, int]]
    ) -> bool:
        """Look for the first point in the groups of a journal; return whether that is settled."""
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
        """Keep the first point of a piece if it is before the known; return whether it has one."""
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
