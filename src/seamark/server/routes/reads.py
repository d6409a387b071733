"""Reads of one run that are not just a method of its reader; see `seamark.server.reads`."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

from msgspec import Meta

from seamark.errors import ArgumentError
from seamark.reading.answers import Facts, Opening, Overview, PartOfSeries, SomePoints
from seamark.reading.names import generated_name
from seamark.reading.points import Attempt, Points
from seamark.reading.stragglers import RankTiming, rank_timings
from seamark.reading.verbs import Path, Paths
from seamark.server.answering import OneRun, fitting
from seamark.server.reads import of_run, router
from seamark.store.read.run import RunReader
from seamark.store.read.series import Mark

__all__ = ["MOST_POINTS", "router"]

MOST_POINTS: Final = 1_000_000
"""Points of numbers in one answer."""
_MOST_READ: Final = 1 << 24
"""Points of one series that are read to answer for some of them."""
_MOST_RECORDS: Final = 10_000
_MOST_PAGES: Final = 16
_STREAMS: Final = frozenset({"stdout", "stderr"})
_INT: Final = (1 << 53) - 1
_TOLD: Final = ("attempt", "owner", "lineage", "rank", "restarts", "job", "continues", "ranks")
"""What of a HEADER matters to who goes on; the rest says where somebody else works."""

Last = Annotated[int, Meta(ge=1, le=_MOST_READ)]
Lines = Annotated[int, Meta(ge=1, le=_MOST_RECORDS)]
Place = Annotated[str, Meta(max_length=100)]


@of_run()
def overview(one: OneRun) -> Overview:
    """Return how a run is doing, and what went wrong with it."""
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
        read.troubles(),
    )


@of_run(heavy=True, timely=True)
def facts(one: OneRun) -> Facts:
    """Return all that is known of a run but its points, of one moment."""
    read = one.read
    return Facts(overview(one), read.ranks(), read.journals(), read.attributes())


def _name(read: RunReader, run: str) -> str:
    """Return what a run is called: by the name that was given, or the generated one."""
    found = read.attribute("sys/name")
    given = None if found is None else found.value
    return given if isinstance(given, str) and given else generated_name(run)


@of_run(timely=True)
def stragglers(one: OneRun) -> list[RankTiming]:
    """Return how long the steps of each rank take, the slowest first."""
    return rank_timings(one.read)


@of_run(heavy=True, timely=True)
def opening(one: OneRun) -> Opening:
    """Return what has to be known before a run is gone on with."""
    journals, found = one.read.journals(), one.read.attributes()
    training, writers = one.read.training(), one.read.series_writers()
    headers = {each.writer: {key: each.header.get(key) for key in _TOLD} for each in journals}
    steps = {each.path: getattr(each.value, "last_step", None) for each in found}
    return Opening(
        largest_t=max((journal.last_t for journal in journals), default=0),
        journals={one.writer: headers[one.writer] | {"bytes": one.offset} for one in journals},
        families={each.path: each.family for each in found},
        last_steps={
            path: float(step)
            for path, step in steps.items()
            if isinstance(step, (int, float)) and math.isfinite(step)
        },
        trained=frozenset(path for path, own in writers.items() if not training.isdisjoint(own)),
        failed=one.read.has_failed(),
        resumable=one.read.is_resumable(),
    )


@of_run(heavy=True)
def some_points(
    one: OneRun, paths: Paths, attempt: Attempt = "latest", limit: Last | None = None
) -> SomePoints:
    """Return exact points of the first of some float series, or the last ``limit`` of each."""
    wanted = list(dict.fromkeys(paths))
    room, found = MOST_POINTS, dict[str, Points]()
    for at, path in enumerate(wanted):
        # Never more than fits is read: of another attempt than the latest nobody knows the length.
        part = one.read.points_part(path, attempt, most=max(room, 1), last=limit)
        if part is None or part[1] is not None or len(part[0]) > room:
            return SomePoints(found, len(wanted) - at, alone=not found)
        found[path] = part[0] if limit is None else part[0][max(0, len(part[0]) - limit) :]
        room -= max(len(part[0]), 1)
    return SomePoints(found, 0, alone=False)


@of_run(heavy=True)
def points_part(
    one: OneRun,
    path: Path,
    attempt: Attempt = "latest",
    after: Place = "",
    last: Last | None = None,
) -> PartOfSeries:
    """Return a float series part by part, however long it is: ``next`` is ``after`` of the next.

    ``last`` begins with so many of the last points. Where both are null, points that were read are
    hidden now, as by a new attempt: begin again.
    """
    mark, chosen = _mark_of(after), attempt
    found = one.read.points_part(path, chosen, most=MOST_POINTS, after=mark, last=last)
    if found is None:
        return PartOfSeries(None, None)
    part, ends = found
    return PartOfSeries(part, ends and f"{ends.step.hex()}:{ends.done}:{ends.hidden}")


def _mark_of(text: str) -> Mark | None:
    """Return where the part before ended.

    Raises:
        ArgumentError: If it is nothing that was answered before.
    """
    if not text:
        return None
    try:
        step, done, hidden = text.split(":")
        mark = Mark(float.fromhex(step), int(done), int(hidden))
    except (ValueError, OverflowError):
        mark = None
    if mark is None or not math.isfinite(mark.step) or not 0 <= mark.done <= _INT:
        msg = f"after: expected what the part before gave as next, got {text!r:.120}"
        raise ArgumentError(msg)
    return mark


@of_run()
def log(one: OneRun, path: Paths | None = None, tail: Lines = 200) -> list[tuple[int, str, Any]]:
    """Return the last lines that a run printed, and a few more, by the time of their recording.

    Each is (time in ns since the Unix epoch, path, text). ``path`` names series of texts; by
    default those of standard output and standard error.
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
        for _ in range(_MOST_PAGES):
            page = read.text_page(journal.file, paths, begin)
            last, begin = (last + page.points)[-_MOST_RECORDS:], page.end
            if not page.more:
                break
        found += last
    found.sort(key=lambda point: point[0])
    newest = found[: -_MOST_RECORDS - 1 : -1]
    return list(fitting(newest, 0))[::-1]
