"""Routes for reads that are not methods of a run's reader, and for changes of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from seamark.reading.attributes import Opening
from seamark.reading.catalog import Changes
from seamark.reading.codec import Facts, Overview, SeriesPart
from seamark.reading.names import generated_name
from seamark.reading.points import Attempt
from seamark.reading.rank_text import RankTiming, rank_timings
from seamark.reading.reader import Answer, Path, Paths
from seamark.server.answering import OneRun, Several, fitting, to_next
from seamark.server.reads import of_all, of_run, router
from seamark.store.read.run import RunReader
from seamark.store.read.series import Mark

__all__ = ["MAX_POINTS", "Place", "parts_from", "router"]


def _tag(every: Several) -> str:
    # Without a cursor the answer is a new cursor, which is always current.
    return every.tag() if every.question.cursor else ""


@of_all(tag=_tag)
def changes(
    every: Several, cursor: Annotated[str, Meta(max_length=200)] = "", project: Path = ""
) -> Answer[Changes]:
    """Return the runs that changed since a cursor; without one, return a first cursor.

    ``reset`` means that everything may have changed, because the runs were folded again or the
    cursor is invalid. The paths of a run are hints where it changed. ``next`` means that there are
    more changes; its value is also the new cursor.
    """
    since = every.question.next or cursor
    return every.server.changing.since(since, project, every.may_read, every.now_ns)


MAX_POINTS: Final = 1_000_000
"""Maximum number of numeric points per answer."""
_MAX_READ_POINTS: Final = 1 << 24
"""Maximum number of points of a series that are read to return some of them."""
_MAX_RECORDS: Final = 10_000
_MAX_PAGES: Final = 16
_STREAMS: Final = frozenset({"stdout", "stderr"})
Last = Annotated[int, Meta(ge=1, le=_MAX_READ_POINTS)]
Lines = Annotated[int, Meta(ge=1, le=_MAX_RECORDS)]


@of_run()
def overview(one: OneRun) -> Overview:
    """Return the state and the problems of a run."""
    read = one.read
    return Overview(
        one.project,
        one.run,
        _name(read, one.run),
        read.state,
        read.reason,
        read.signal,
        read.traceback,
        read.has_failed(),
        read.crash(),
        read.problems(),
    )


@of_run(heavy=True, timely=True)
def facts(one: OneRun) -> Facts:
    """Return all data of a run at one moment except its points."""
    read = one.read
    return Facts(overview(one), read.ranks(), read.journals(), read.attributes())


def _name(read: RunReader, run: str) -> str:
    found = read.attribute("sys/name")
    given = None if found is None else found.value
    return given if isinstance(given, str) and given else generated_name(run)


@of_run(timely=True)
def stragglers(one: OneRun) -> list[RankTiming]:
    """Return the duration of the steps of each rank, the slowest first."""
    return rank_timings(one.read)


@of_run(heavy=True, timely=True)
def opening(one: OneRun) -> Opening:
    """Return the data that is needed for resuming a run."""
    return one.read.opening()


class Place(NamedTuple):
    """Position in the float series of a run at which the next part begins.

    `path` is empty for the first series; `mark` is the end of its previous part (None: its start).
    """

    project: str
    run: str
    path: str = ""
    mark: Mark | None = None


@of_run(heavy=True)
def points(
    one: OneRun, paths: Paths, attempt: Attempt = "latest", limit: Last | None = None
) -> Answer[list[SeriesPart]]:
    """Return exact points of float series, or the last ``limit`` of each, in parts.

    A series that is too long for one part continues in the next one, where ``begins`` is false. If
    ``begins`` is true again, its earlier points are invalid, because some of them are hidden now.
    """
    wanted, place = list(dict.fromkeys(paths)), one.place(Place)
    found, place = parts_from(place, one.read, wanted, MAX_POINTS, attempt, limit=limit)
    return Answer(found, next=place and to_next(place))


def parts_from(
    place: Place | None,
    read: RunReader,
    paths: Sequence[str],
    room: int,
    attempt: Attempt,
    *,
    limit: int | None = None,
    curve: int | None = None,
) -> tuple[list[SeriesPart], Place | None]:
    """Return float series of a run from a position on, limited by `room`, and the next position.

    The position is None for the start, and after the last part. `room` is a number of points.
    `limit` selects the last points of each series, `curve` a number of representative points.
    """
    found: list[SeriesPart] = []
    begin, mark = 0, None
    if place is not None and place.path in paths:
        begin, mark = paths.index(place.path), place.mark
    for path in paths[begin:]:
        part = SeriesPart(read.project, read.name, path)
        if room < 1:
            return found, Place(*part.key)
        if curve is not None:
            found.append(replace(part, curve=read.curve(path, curve, attempt)))
            room -= len(found[-1])
            continue
        # Reads at most the points that fit, as the length of earlier attempts is unknown.
        some = read.points_part(path, attempt, most=room, after=mark, last=limit)
        found.append(replace(part, begins=some.begins, points=some.points))
        if some.end is not None:
            return found, Place(*part.key, some.end)
        room, mark = room - max(len(some.points), 1), None
    return found, None


@of_run()
def log(one: OneRun, path: Paths | None = None, tail: Lines = 200) -> list[tuple[int, str, Any]]:
    """Return about the last lines printed by a run, by time of recording.

    Each line is (time in ns since the Unix epoch, path, text). ``path`` selects series of texts;
    the default is standard output and standard error.
    """
    read, found = one.read, list[tuple[int, str, Any]]()
    paths = path
    if paths is None:
        paths = [
            path
            for path, family in read.families().items()
            if family == "string_series" and path.rpartition("/")[2] in _STREAMS
        ]
    for journal in read.journals() if paths else ():
        begin = read.text_begin(journal.file, paths, lines=tail)
        last: list[tuple[int, str, Any]] = []
        for _ in range(_MAX_PAGES):
            page = read.text_page(journal.file, paths, begin)
            last, begin = (last + page.points)[-_MAX_RECORDS:], page.end
            if not page.more:
                break
        found += last
    found.sort(key=lambda point: point[0])
    newest = found[: -_MAX_RECORDS - 1 : -1]
    return list(fitting(newest, 0))[::-1]
