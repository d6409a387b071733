"""Curves of a series, and the first points of its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from seamark.errors import ArgumentError
from seamark.paths import check_path
from seamark.reading.curves import NAMED_AXES, Curve, Drawing, Look
from seamark.reading.points import Points
from seamark.store.drawing import draw_series
from seamark.store.fold.run_state import JournalState
from seamark.store.groups import DrawingGroup, drawing_groups, group_bounds, load_group
from seamark.store.read import series
from seamark.store.read.inherited import Share
from seamark.store.read.series import (
    piece_of,
    read_floats,
    shown_journals,
    tail_pieces,
    visible_points,
)
from seamark.store.runs import Store
from seamark.store.steps import Piece, is_falling
from seamark.values.arrays import Floats, Ints

_NS: Final = 1e9


class Begin(NamedTuple):
    """First visible point of an attempt (0-based) in a series, and its position on the x axis."""

    attempt: int
    step: float
    time_ns: int
    x: float | None


def check_axis(x: str) -> str:
    """Check an axis of first points; raise `ArgumentError` for ``"order"``, or `PathError`."""
    if x == "order":
        raise ArgumentError(
            "x: expected 'step', 'time', 'relative' or the path of a series, got 'order'"
        )
    return x if x in NAMED_AXES else check_path(x)


def read_begins(
    store: Store,
    connection: sa.Connection,
    share: Share,
    paths: Sequence[str],
) -> dict[str, list[Begin]]:
    """Return the first points of the run's own attempts in float series; ``x`` is the step.

    They are sorted by attempt. Attempts without visible points are omitted.
    """
    spans = {at: one for at, one in shown_journals(share).items() if one[0].attempt is not None}
    found: dict[str, dict[int, series.Piece]] = {path: {} for path in paths}

    def take(path: str, kept: series.Piece) -> bool:
        if not len(kept.step):
            return False
        at = int(np.argmin(kept.t))
        one, own = kept.part(slice(at, at + 1)), found[path]
        attempt = int(one.journal.attempt or 0)
        own[attempt] = min(
            own.get(attempt, one), one, key=lambda piece: (int(piece.t[0]), piece.journal.uid)
        )
        return True

    for path, pieces in tail_pieces(store, connection, share, paths, spans).items():
        for piece in pieces:
            take(path, piece)
    run = int(share.run.number or 0)
    for path, number in store.numbers.known(connection, paths).items():
        begun = set[int]()  # journals whose first point is known: times rise within a journal
        bounds = group_bounds(store.database, connection, run, number)
        for at, place, _, _, low_t in sorted(bounds, key=itemgetter(4)):
            if at in begun or at not in spans or place >= spans[at][1].end:
                continue
            known = found[path].get(int(spans[at][0].attempt or 0))
            if known is not None and int(known.t[0]) < low_t:
                continue
            group = load_group(store.database, connection, run, number, at, place)
            if take(path, visible_points(share, path, *spans[at], group)):
                begun.add(at)
    return {
        path: [
            Begin(attempt, float(one.step[0]), int(one.time[0]), float(one.step[0]))
            for attempt, one in sorted(own.items())
        ]
        for path, own in found.items()
    }


def place_on_axis(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    begins: Sequence[Begin],
    x: str,
    created_ns: int,
) -> list[Begin]:
    """Convert first points to an axis, see `check_axis`; if it is a series, read all its points.

    Relative times are seconds since ``created_ns``, nanoseconds since the Unix epoch.
    """
    if x == "step" or not begins:
        return list(begins)
    if x in NAMED_AXES:
        origin_ns = created_ns if x == "relative" else 0
        return [one._replace(x=(one.time_ns - origin_ns) / _NS) for one in begins]
    other = read_floats(store, connection, shares, [x])[x]
    found = []
    for one in begins:
        at = int(np.searchsorted(other.step, one.step, side="right")) - 1
        value = float(other.value[at]) if at >= 0 else np.nan
        found.append(one._replace(x=value if np.isfinite(value) else None))
    return found


def read_curve(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    path: str,
    points: int,
) -> Curve:
    """Return the curve of a float series; raise `ArgumentError` if ``points`` is less than 2."""
    return draw_series(_load_pieces(store, connection, shares, path)[0], points).curve


def read_drawing(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    path: str,
    look: Look,
    created_ns: int,
) -> Drawing:
    """Return the drawing of a float series; raise `ArgumentError` if ``look`` is invalid.

    If the x axis is another series, all points of both series are read. Otherwise the cost depends
    only on the number of parts.
    """
    look.check()
    left_out, falls = 0, True
    if look.x in NAMED_AXES:
        origin_ns = created_ns if look.x == "relative" else 0
        pieces, falls = _load_pieces(store, connection, shares, path, look.x, origin_ns)
    else:
        found = read_floats(store, connection, shares, [path, look.x])
        x, value = _points_along(found[path], found[look.x])
        left_out = len(found[path]) - len(x)
        pieces = [Piece(x, value)] if len(x) else []
    drawing = draw_series(
        pieces,
        look.points,
        low=look.low,
        high=look.high,
        window=look.window,
        half_life=look.half_life,
        log_x=look.log_x,
        log_y=look.log_y,
        ends=look.window is None and look.half_life is None,
    )
    left_out += drawing.left_out
    return replace(drawing, left_out=left_out, falls=drawing.falls and falls)


def _points_along(points: Points, other: Points) -> tuple[Floats, Floats]:
    # Omits points before the first point of the other series, and points where it is not finite.
    place = np.searchsorted(other.step, points.step, side="right") - 1
    x = np.full(len(place), np.nan)
    x[place >= 0] = other.value[place[place >= 0]]
    kept = np.isfinite(x)
    return x[kept], points.value[kept]


def _load_pieces(
    store: Store,
    connection: sa.Connection,
    shares: Sequence[Share],
    path: str,
    x: str = "step",
    origin_ns: int = 0,
) -> tuple[list[Piece], bool]:
    # Returns pieces sorted by position on the x axis, and whether x falls within one journal.
    listed: list[series.Piece] = []
    packed: list[_Packed] = []
    for share in shares:
        _add_visible(store, connection, share, path, listed, packed)
    listed = [one for one in listed if len(one.step)]
    if x == "order":
        return _number_in_order(listed, packed), False
    found: list[tuple[float, int, Piece]] = []
    written: dict[bytes, list[tuple[int, Piece]]] = {}
    for one in _merge_overlapping(listed):
        place = one.step if x == "step" else _seconds(one.time, origin_ns)
        made = Piece(place, one.value)
        found.append((float(place.min()), int(one.t[0]), made))
        written.setdefault(one.journal.uid, []).append((int(one.t[0]), made))
    for group, _, journal in packed:
        if x != "step":
            whole = group.whole()
            group.move_to(_seconds(whole.times(whole.t()), origin_ns))
        found.append((group.first, group.low_t, group))
        written.setdefault(journal.uid, []).append((group.low_t, group))
    found.sort(key=lambda one: one[:2])
    return [piece for _, _, piece in found], any(map(_falls, written.values()))


def _merge_overlapping(listed: Sequence[series.Piece]) -> list[series.Piece]:
    # Rows of one journal with different series are in separate pieces. Pieces whose times overlap
    # are merged by time.
    found: list[series.Piece] = []
    for own in _group_by_journal(listed):
        own.sort(key=lambda one: (int(one.t[0]), one.place))
        if all(before.t[-1] <= behind.t[0] for before, behind in pairwise(own)):
            found += own
            continue
        arrays = zip(*(one[1:5] for one in own), strict=True)
        step, value, t, time = (np.concatenate(some) for some in arrays)
        whole = own[0]._replace(step=step, value=value, t=t, time=time)
        found.append(whole.part(np.argsort(t, kind="stable")))
    return found


def _group_by_journal(listed: Sequence[series.Piece]) -> list[list[series.Piece]]:
    found: dict[bytes, list[series.Piece]] = {}
    for one in listed:
        found.setdefault(one.journal.uid, []).append(one)
    return list(found.values())


def _falls(written: list[tuple[int, Piece]]) -> bool:
    return is_falling([piece for _, piece in sorted(written, key=itemgetter(0))])


class _Packed(NamedTuple):
    """Group without hidden points, and an upper limit of their times."""

    group: DrawingGroup
    last_t: int
    journal: JournalState


def _add_visible(
    store: Store,
    connection: sa.Connection,
    share: Share,
    path: str,
    listed: list[series.Piece],
    packed: list[_Packed],
) -> None:
    after, last, journals = share.after(path), share.end(path), shown_journals(share)
    if last == -np.inf:
        return
    listed += tail_pieces(store, connection, share, [path])[path]
    number = store.numbers.number(connection, path)
    groups = []
    if number is not None and any(journal.chunked for journal, _ in journals.values()):
        groups = drawing_groups(store.database, connection, share.run.number or 0, number)
    for at, group in enumerate(groups):
        if group.journal not in journals:
            continue
        journal, span = journals[group.journal]
        same = at + 1 < len(groups) and groups[at + 1].journal == group.journal
        end = groups[at + 1].place if same else journal.chunked
        if group.place >= span.end or end <= span.begin or not group.count or group.first > last:
            continue
        whole = span.begin <= group.place and end <= span.end and group.last <= last
        if whole and group.low_t > after[0]:
            last_t = groups[at + 1].low_t if same else journal.last_t
            packed.append(_Packed(group, last_t, journal))
            continue
        listed.append(visible_points(share, path, journal, span, group.whole()))


def _number_in_order(listed: Sequence[series.Piece], packed: Sequence[_Packed]) -> list[Piece]:
    # Sorted by time, journal and place. If the times of two stretches overlap, as with several
    # writers, all points are read.
    every: list[tuple[int, int, DrawingGroup | tuple[Ints, Floats]]] = [
        (one.low_t, last, one) for one, last, _ in packed
    ]
    for own in _group_by_journal(listed):
        own.sort(key=lambda one: one.place)
        t = np.concatenate([one.t for one in own])
        order = np.argsort(t, kind="stable")
        value = np.concatenate([one.value for one in own])[order]
        every.append((int(t[order[0]]), int(t[order[-1]]), (t, value)))
    every.sort(key=lambda one: one[:2])
    if all(before[1] <= behind[0] for before, behind in pairwise(every)):
        found: list[Piece] = []
        start = 0
        for *_, one in every:
            if isinstance(one, DrawingGroup):
                one.number_from(start)
                found.append(one)
            else:
                found.append(Piece(np.arange(start, start + len(one[0]), dtype=float), one[1]))
            start += found[-1].count
        return found
    whole = [*listed]
    whole += [piece_of(journal, one.whole()) for one, _, journal in packed]
    whole.sort(key=lambda one: (one.journal.uid, one.place))
    order = np.argsort(np.concatenate([one.t for one in whole]), kind="stable")
    value = np.concatenate([one.value for one in whole])[order]
    return [Piece(np.arange(len(value), dtype=np.float64), value)]


def _seconds(times: Ints, origin_ns: int) -> Floats:
    seconds: Floats = (times - origin_ns) / _NS
    return seconds
