"""Series in parts, for drawing: what is read grows with the parts and not with the points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from seamark.reading.curves import Curve, Drawing, check_points
from seamark.store.groups import Drawn, drawn_groups
from seamark.store.pyramid import Listed, Piece, Pyramid, draw_series, reduce_series
from seamark.store.read.series import Sources, cut_of, newer, read_floats, tail_pieces, unpacked

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.reading.points import Points
    from seamark.store.read import series
    from seamark.store.runs import Store, StoredRun
    from seamark.values.arrays import Floats, Ints

__all__ = ["Look", "read_curve", "read_drawing"]

_NS: Final = 1e9


@dataclass(frozen=True, slots=True)
class Look:
    """How a series is to be drawn; as `seamark.reading.reader.Reader.drawing` is asked for it.

    Attributes:
        points: At most this many representative points.
        by: ``"step"``, ``"time"``, or the path of the series that gives x.
        origin_ns: What times are counted from, nanoseconds since the Unix epoch.
        window: Of the smoothed line, in units of x; None for none.
        log_x: Whether the x axis is logarithmic.
        log_y: Whether the y axis is.
    """

    points: int
    by: str = "step"
    origin_ns: int = 0
    window: float | None = None
    log_x: bool = False
    log_y: bool = False


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
    pieces = _pieces(store, connection, run, sources, path, attempt, Look(points))
    return reduce_series(pieces, limit)


def read_drawing(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    path: str,
    attempt: int | str,
    look: Look,
) -> Drawing:
    """Return a float series as it is drawn; arguments as of `read_curve`.

    Along another series every point of both is read; else what grows with the parts, and times.

    Raises:
        ArgumentError: If ``look.points`` is not a number of at least 2.
    """
    check_points(look.points)
    left_out = 0
    if look.by in ("step", "time"):
        pieces = _pieces(store, connection, run, sources, path, attempt, look)
    else:
        found = read_floats(store, connection, run, sources, [path, look.by], attempt)
        x, value = _along(found[path], found[look.by])
        left_out = len(found[path]) - len(x)
        pieces = [Listed(x, value)] if len(x) else []
    drawing = draw_series(
        pieces,
        look.points,
        window=look.window,
        log_x=look.log_x,
        log_y=look.log_y,
        ends=look.window is None,
    )
    return replace(drawing, left_out=drawing.left_out + left_out)


def _along(points: Points, other: Points) -> tuple[Floats, Floats]:
    """Return x and values: x is the value of the other series at the same step, or the last before.

    Points before its first, and those where it is not finite, are left out.
    """
    place = np.searchsorted(other.step, points.step, side="right") - 1
    x = np.full(len(place), np.nan)
    x[place >= 0] = other.value[place[place >= 0]]
    kept = np.isfinite(x)
    return x[kept], points.value[kept]


def _pieces(
    store: Store,
    connection: sa.Connection,
    run: StoredRun,
    sources: Sources,
    path: str,
    attempt: int | str,
    look: Look,
) -> list[Piece]:
    """Return a series as consecutive stretches, in the order of x and time."""
    state, after = run.state, run.state.emptied(path)
    found: list[tuple[float, int, Piece]] = []

    def add(points: series.Piece) -> None:
        kept = newer(points, after)
        if len(kept.step):
            x = kept.step if look.by == "step" else _seconds(kept.time, look)
            found.append((float(x.min()), int(kept.t.min()), Listed(x, kept.value)))

    for piece in tail_pieces(store, connection, run, sources, [path], attempt)[path]:
        add(piece)
    number = store.numbers.number(connection, path)
    assert run.number is not None  # noqa: S101 - it was loaded
    groups = []
    if number is not None and any(journal.chunked for journal in state.journals.values()):
        groups = drawn_groups(store.database, connection, run.number, number)
    journals = {journal.number: journal for journal in state.journals.values()}
    cuts = {number: cut_of(state, journal, attempt) for number, journal in journals.items()}
    for at, group in enumerate(groups):
        journal, cut = journals[group.journal], cuts[group.journal]
        if group.place >= cut or not group.count:
            continue
        same = at + 1 < len(groups) and groups[at + 1].journal == group.journal
        end = groups[at + 1].place if same else journal.chunked
        if end <= cut and group.low_t > after[0]:
            whole: Piece = group if look.by == "step" else _Timed(group, look)
            found.append((whole.first, group.low_t, whole))
            continue
        add(unpacked(journal, group.whole(), cut))
    found.sort(key=lambda one: one[:2])
    return [piece for _, _, piece in found]


def _seconds(times: Ints, look: Look) -> Floats:
    seconds: Floats = (times - look.origin_ns) / _NS
    return seconds


class _Timed:
    """A group whose place on the x axis is time; a `Piece`."""

    stride = None

    def __init__(self, group: Drawn, look: Look) -> None:
        whole = group.whole()
        self._group = group
        self._steps = _seconds(whole.times(whole.t()), look)
        self.count = group.count
        self.first, self.last = float(self._steps[0]), float(self._steps[-1])
        self.rising = bool((self._steps[1:] >= self._steps[:-1]).all())

    def steps(self) -> Floats:
        """Return the times."""
        return self._steps

    def values(self) -> Floats:
        """Return all values."""
        return self._group.values()

    def will_read(self) -> None:
        """Have the values read together with those of others."""
        self._group.will_read()

    def values_at(self, places: Ints) -> Floats:
        """Return some of the values."""
        return self._group.values_at(places)

    def pyramid(self, *, coarse: bool = False) -> Pyramid | None:
        """Return what is known of the cells."""
        return self._group.pyramid(coarse=coarse)
