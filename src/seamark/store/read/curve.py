"""Series in parts, for drawing: what is read grows with the parts and not with the points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.reading.curves import Curve, check_points
from seamark.store.groups import drawn_groups
from seamark.store.pyramid import Piece, Pyramid, reduce_series
from seamark.store.read.series import Sources, cut_of, newer, tail_pieces, unpacked

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.runs import Store, StoredRun
    from seamark.values.arrays import Floats, Ints

__all__ = ["read_curve"]


def read_curve(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    path: str,
    points: int,
    attempt: int | str,
) -> Curve:
    """Return a float series in parts.

    Args:
        store: Holds the groups.
        connection: Of the transaction in which the run was loaded.
        run: As loaded.
        sources: Opens its journals.
        path: Of the series.
        points: At most this many representative points.
        attempt: As checked by `seamark.reading.points.check_attempt`.

    Raises:
        ArgumentError: If ``points`` is not a number of at least 2.
    """
    limit = check_points(points)
    state, after = run.state, run.state.emptied(path)
    found: list[tuple[float, int, Piece]] = []
    for piece in tail_pieces(store, connection, run, sources, [path], attempt)[path]:
        kept = newer(piece, after)
        if len(kept.step):
            found.append((float(kept.step.min()), int(kept.t.min()), Listed(kept.step, kept.value)))
    number = store.numbers.number(connection, path)
    assert run.number is not None  # noqa: S101 - it was loaded
    groups = []
    if number is not None and any(journal.chunked for journal in state.journals.values()):
        groups = drawn_groups(store.database, connection, run.number, number)
    journals = {journal.number: journal for journal in state.journals.values()}
    for at, group in enumerate(groups):
        journal = journals[group.journal]
        cut = cut_of(state, journal, attempt)
        if group.place >= cut or not group.count:
            continue
        same = at + 1 < len(groups) and groups[at + 1].journal == group.journal
        end = groups[at + 1].place if same else journal.chunked
        if end <= cut and group.low_t > after[0]:
            found.append((group.first, group.low_t, group))
            continue
        kept = newer(unpacked(journal, group.whole(), cut), after)
        if len(kept.step):
            found.append((float(kept.step.min()), int(kept.t.min()), Listed(kept.step, kept.value)))
    found.sort(key=lambda one: one[:2])
    return reduce_series([piece for _, _, piece in found], limit)


class Listed:
    """Points that were read, as a `seamark.store.pyramid.Piece`."""

    stride = None

    def __init__(self, step: Floats, value: Floats) -> None:
        self._step, self._value = step, value
        self.count = len(step)
        self.first, self.last = float(step[0]), float(step[-1])
        self.rising = bool((step[1:] >= step[:-1]).all())

    def steps(self) -> Floats:
        """Return the steps."""
        return self._step

    def values(self) -> Floats:
        """Return the values."""
        return self._value

    def values_at(self, places: Ints) -> Floats:
        """Return some of the values."""
        return self._value[places]

    def pyramid(self) -> Pyramid | None:
        """Return None: the points are here."""
        return None
