"""Reads of one run that a server folded; see `seamark.server.routes` for all routes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Query, Response
from pydantic import BaseModel, Field

from seamark.errors import ArgumentError
from seamark.reading.curves import Look
from seamark.reading.names import generated_name
from seamark.reading.stragglers import rank_timings
from seamark.server.answering import OneRun, attempt_of, fitting, heavy, one_run
from seamark.server.failures import Refusal
from seamark.server.models import answers
from seamark.store.read.run import RunReader
from seamark.store.read.series import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.reading.points import Points

__all__ = ["MOST_PARTS", "MOST_POINTS", "router"]

router: Final = APIRouter(prefix="/runs/{project:path}/{run}", tags=["run"])

MOST_POINTS: Final = 1_000_000
"""Points of numbers in one answer."""
MOST_PARTS: Final = 1 << 18
"""Representative points that a curve may have."""
_MOST_CURSOR: Final = 2048
_MOST_READ: Final = 1 << 24
"""Points of one series that are read to answer for some of them."""
_MOST_RECORDS: Final = 10_000
_MOST_PATHS: Final = 1000
_MOST_LINES: Final = 10_000
_MOST_PAGES: Final = 16
_STREAMS: Final = frozenset({"stdout", "stderr"})
_INT: Final = (1 << 53) - 1

One = Annotated[OneRun, Depends(one_run)]
Path = Annotated[str, Query(max_length=4096, description="Attribute path.")]
Attempt = Annotated[
    str, Query(max_length=10, description="latest, all, replaced, or the number of one.")
]
Offset = Annotated[int, Query(ge=0, le=_INT, description="How many to leave out.")]
Records = Annotated[int, Query(ge=1, le=_MOST_RECORDS, description="How many at most.")]
Paths = Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=_MOST_PATHS)]


class _PathsBody(BaseModel):
    paths: Paths


class _PointsBody(BaseModel):
    paths: Paths
    attempt: Annotated[int, Field(ge=0)] | str = "latest"
    limit: Annotated[int, Field(ge=1, le=_INT)] | None = None
    offset: Annotated[int, Field(ge=0, le=_INT)] = 0


class _TextsBody(BaseModel):
    file: Annotated[str, Field(max_length=1024)]
    paths: Paths
    begin: Annotated[int, Field(ge=0, le=_INT)] = 0


class _BeginBody(BaseModel):
    file: Annotated[str, Field(max_length=1024)]
    paths: Paths
    since_ns: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    lines: Annotated[int, Field(ge=0, le=_INT)] | None = None
    points: Annotated[int, Field(ge=0, le=_INT)] | None = None


@router.get("/overview", operation_id="getOverview", responses=answers("overview", tagged=True))
def overview(one: One) -> Response:
    """Return how a run is doing, and what went wrong with it."""
    read = one.read

    def make() -> dict[str, Any]:
        with one.moment():
            return {
                "project": one.project,
                "run": one.run,
                "name": _name(read, one.run),
                "state": read.state,
                "reason": read.reason,
                "signal": read.signal,
                "traceback": read.traceback,
                "failed": read.has_failed(),
                "crash": read.crash(),
                "troubles": read.troubles(),
            }

    return one.told(make)


def _name(read: RunReader, run: str) -> str:
    """Return what a run is called: by the name that was given, or the generated one."""
    found = read.attribute("sys/name")
    given = None if found is None else found.value
    return given if isinstance(given, str) and given else generated_name(run)


@router.get("/ranks", operation_id="getRanks", responses=answers("ranks"))
def ranks(one: One) -> Response:
    """Return how each rank is doing; that changes with time alone, so it has no ETag."""
    return one.answer(lambda: {"ranks": one.read.ranks()})


@router.get("/stragglers", operation_id="getStragglers", responses=answers("stragglers"))
def stragglers(one: One) -> Response:
    """Return how long the steps of each rank take, the slowest first."""

    def make() -> dict[str, Any]:
        with one.moment():
            return {"ranks": rank_timings(one.read)}

    return one.answer(make)


@router.get("/writers", operation_id="getWriters", responses=answers("writers", tagged=True))
def writers(one: One) -> Response:
    """Return what is known of every journal."""
    return one.told(lambda: {"journals": one.read.journals()})


@router.get(
    "/attributes", operation_id="getAttributes", responses=answers("attributes", tagged=True)
)
def attributes(
    one: One,
    namespace: Path = "",
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=_INT)] = _INT,
) -> Response:
    """Return what is visible at and below a path, sorted by path; ask again for what is left."""

    def make() -> dict[str, Any]:
        with heavy():
            found = one.read.attributes(namespace)
            return {"attributes": fitting(found, offset, limit), "total": len(found)}

    return one.told(make)


@router.post("/attributes", operation_id="readAttributes", responses=answers("attributes"))
def some_attributes(one: One, body: _PathsBody) -> Response:
    """Return what some paths show, in their order; those that show nothing are left out."""

    def make() -> dict[str, Any]:
        found = one.read.some(body.paths)
        return {"attributes": fitting(found, 0, len(found)), "total": len(found)}

    return one.answer(make)


@router.get("/attribute", operation_id="getAttribute", responses=answers("attribute", tagged=True))
def attribute(one: One, path: Path) -> Response:
    """Return what a path shows, or null."""
    return one.told(lambda: {"attribute": one.read.attribute(path)})


@router.get("/has", operation_id="has", responses=answers("has", tagged=True))
def has(one: One, path: Path) -> Response:
    """Return whether a path, or anything below it, shows something."""
    return one.told(lambda: {"has": one.read.has(path)})


@router.get("/families", operation_id="getFamilies", responses=answers("families", tagged=True))
def families(one: One) -> Response:
    """Return what each path holds, without reading it."""
    return one.told(lambda: {"families": one.read.families()})


@router.get("/points", operation_id="getPoints", responses=answers("points", tagged=True))
def points(
    one: One,
    path: Annotated[list[str], Query(max_length=_MOST_PATHS)],
    attempt: Attempt = "latest",
    limit: Annotated[int | None, Query(ge=1, le=_INT)] = None,
    offset: Offset = 0,
) -> Response:
    """Return exact points of float series, by path."""
    return one.told(lambda: _points(one, path, attempt_of(attempt), limit, offset))


@router.post("/points", operation_id="readPoints", responses=answers("points"))
def many_points(one: One, body: _PointsBody) -> Response:
    """Return exact points of many float series, by path."""
    attempt = attempt_of(str(body.attempt))
    return one.answer(lambda: _points(one, body.paths, attempt, body.limit, body.offset))


def _points(
    one: OneRun, paths: list[str], attempt: Any, limit: int | None, offset: int
) -> dict[str, Any]:
    """Return as many points as go into one answer, path by path."""
    wanted = list(dict.fromkeys(paths))
    if limit is None or limit > _MOST_READ:
        for each in one.read.some(wanted):
            if each.family == "float_series" and each.value.count > _MOST_READ:
                hint = (
                    f"{each.path!r:.200} has {each.value.count:,} points, over {_MOST_READ:,}: ask "
                    f"for the last ones (limit), for parts (points-part), or for a curve"
                )
                raise Refusal(413, "too-many-points", hint, limit=_MOST_READ)
    found: dict[str, Points] = {}
    totals: dict[str, int] = {}
    room = MOST_POINTS
    with heavy(), one.moment():
        for path in wanted:
            if room <= 0:
                break
            series = one.read.points(path, attempt, limit=limit)
            part = series[offset : offset + room]
            totals[path], found[path] = len(series), part
            room -= max(len(part), 1)
    return {"points": found, "total": totals}


@router.get(
    "/points-part",
    operation_id="getPointsPart",
    responses=answers("points-part", tagged=True),
)
def points_part(
    one: One,
    path: Path,
    attempt: Attempt = "latest",
    after: Annotated[str, Query(max_length=100)] = "",
    last: Annotated[int | None, Query(ge=1, le=_MOST_READ)] = None,
) -> Response:
    """Return a float series part by part, however long it is: ``next`` is ``after`` of the next.

    ``last`` begins with so many of the last points. Where both are null, points that were read are
    hidden now, as by a new attempt: begin again.
    """
    chosen: Any = attempt_of(attempt)
    mark = _mark_of(after)

    def make() -> dict[str, Any]:
        with heavy():
            found = one.read.points_part(path, chosen, most=MOST_POINTS, after=mark, last=last)
        if found is None:
            return {"points": None, "next": None}
        part, ends = found
        told = None if ends is None else f"{ends.step.hex()}:{ends.done}:{ends.hidden}"
        return {"points": part, "next": told}

    return one.told(make)


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


@router.get("/curve", operation_id="getCurve", responses=answers("curve", tagged=True))
def curve(
    one: One,
    path: Path,
    points: Annotated[int, Query(ge=2, le=MOST_PARTS)] = 1000,
    attempt: Attempt = "latest",
) -> Response:
    """Return a float series in parts, for drawing; `points` are representative ones at most."""
    chosen: Any = attempt_of(attempt)
    return one.told(lambda: {"curve": one.read.curve(path, points, chosen)})


@router.get("/drawing", operation_id="getDrawing", responses=answers("drawing", tagged=True))
def drawing(
    one: One,
    path: Path,
    points: Annotated[int, Query(ge=2, le=MOST_PARTS)] = 1000,
    attempt: Attempt = "latest",
    since: Annotated[
        str, Query(max_length=_MOST_CURSOR, description="Cursor of an earlier drawing.")
    ] = "",
    x: Annotated[
        str, Query(max_length=4096, description="step, order, time, relative or a path")
    ] = "step",
    low: float | None = None,
    high: float | None = None,
    window: float | None = None,
    half_life: float | None = None,
    log_x: bool = False,  # noqa: FBT001, FBT002 - from the address
    log_y: bool = False,  # noqa: FBT001, FBT002 - from the address
    width: float = 0.0,
) -> Response:
    """Return a float series along an axis of choice, for drawing."""
    chosen: Any = attempt_of(attempt)
    look = Look(points, x, low, high, window, half_life, log_x, log_y, width)
    look.check()

    def make() -> dict[str, Any]:
        with heavy():
            return {"drawing": one.read.drawing(path, look, chosen, since)}

    return one.told(make)


class _Records:
    """Selection of records of a series: the parameters that its three routes have in common."""

    def __init__(
        self,
        one: One,
        path: Path,
        attempt: Attempt = "latest",
        offset: Offset = 0,
        limit: Records = _MOST_RECORDS,
    ) -> None:
        self._one, self._path, self._attempt = one, path, attempt_of(attempt)
        self._offset, self._limit = offset, limit

    def told(self, read: Callable[[RunReader, str, Any], list[Any]]) -> Response:
        """Return those that a verb of the reader gives."""

        def make() -> dict[str, Any]:
            found = read(self._one.read, self._path, self._attempt)
            return {"points": fitting(found, self._offset, self._limit), "total": len(found)}

        return self._one.told(make)


Some = Annotated[_Records, Depends()]


@router.get("/texts", operation_id="getTexts", responses=answers("texts", tagged=True))
def texts(some: Some) -> Response:
    """Return texts of a series by step; one too long for a journal is ``{sha256, size}``."""
    return some.told(RunReader.texts)


@router.get("/files", operation_id="getFiles", responses=answers("files", tagged=True))
def files(some: Some) -> Response:
    """Return the records of the files of a series by step; their content is at ``blobs/{sha256}``.

    What a record refers to elsewhere is never opened.
    """
    return some.told(RunReader.files)


@router.get(
    "/histograms", operation_id="getHistograms", responses=answers("histograms", tagged=True)
)
def histograms(some: Some) -> Response:
    """Return the histograms of a series by step."""
    return some.told(RunReader.histograms)


@router.get("/last", operation_id="getLast", responses=answers("last", tagged=True))
def last(one: One, path: Path) -> Response:
    """Return the last point of a series; null if there is none."""
    return one.told(lambda: {"last": one.read.last(path)})


@router.get("/log", operation_id="getLog", responses=answers("log", tagged=True))
def log(
    one: One,
    path: Annotated[list[str] | None, Query(max_length=100)] = None,
    tail: Annotated[int, Query(ge=1, le=_MOST_LINES)] = 200,
) -> Response:
    """Return the last lines that a run printed, and a few more, by the time of their recording.

    ``path`` names series of texts; by default those of standard output and standard error.
    """

    def make() -> dict[str, Any]:
        with one.moment():
            return {"texts": _last_texts(one, path, tail)}

    return one.told(make)


def _last_texts(one: OneRun, paths: list[str] | None, tail: int) -> list[list[Any]]:
    read, found = one.read, []
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
    newest = [list(point) for point in reversed(found)]
    return list(fitting(newest, 0, _MOST_RECORDS))[::-1]


@router.post("/text-page", operation_id="readTextPage", responses=answers("text-page"))
def text_page(one: One, body: _TextsBody) -> Response:
    """Return texts that one journal holds, in the order of writing, as many as fit into a page."""
    return one.answer(lambda: {"page": one.read.text_page(body.file, body.paths, body.begin)})


@router.post("/text-begin", operation_id="findTextBegin", responses=answers("text-begin"))
def text_begin(one: One, body: Annotated[_BeginBody, Body()]) -> Response:
    """Return where in a journal to begin to read for the last texts, in bytes."""

    def make() -> dict[str, Any]:
        begin = one.read.text_begin(
            body.file,
            body.paths,
            since_ns=body.since_ns,
            lines=body.lines,
            points=body.points,
        )
        return {"begin": begin}

    return one.answer(make)
