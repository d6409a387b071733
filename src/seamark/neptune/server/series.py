"""Single attributes and the points of series."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Query, Request, Response

from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import Asked, read_of
from seamark.neptune.server.reading import Read, number, shown_step
from seamark.server.failures import Refusal

if TYPE_CHECKING:
    from seamark.reading.points import Points

__all__ = ["At", "router"]

router: Final = Routes()
_MOST: Final = 10_000
_KINDS: Final = {
    "Float": ("float", "int"),
    "Int": ("int",),
    "Bool": ("bool",),
    "String": ("string", "experimentState"),
    "Datetime": ("datetime",),
    "StringSet": ("stringSet",),
    "File": ("file",),
    "Artifact": ("artifact",),
    "FloatSeries": ("floatSeries",),
    "StringSeries": ("stringSeries",),
}

At = Annotated[str, Query(alias="attribute", max_length=8192)]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=0)]


def missing(path: str) -> Refusal:
    """Return the answer for a path that shows nothing of the kind."""
    return Refusal(404, "no-attribute", f"nothing of that kind is at {path[:200]!r}")


def _single(name: str, kinds: tuple[str, ...]) -> None:
    def get(request: Request, identifier: Asked, path: At) -> Response:
        found = read_of(request, identifier).as_attribute(path)
        if found is None or found["type"] not in kinds:
            raise missing(path)
        return answer(found[f"{found['type']}Properties"])

    router.answers(f"get{name}Attribute")(get)


for _name, _kinds in _KINDS.items():
    _single(_name, _kinds)


def _family(read: Read, path: str, family: str) -> int:
    """Return how many points a series has."""
    found = read.attribute(path)
    if found is None or found.family != family:
        raise missing(path)
    return int(found.value.count)


@router.answers("getFloatSeriesValues")
def floats(
    request: Request, identifier: Asked, path: At, limit: Limit = 1000, offset: Offset = 0
) -> Response:
    """Return points of a series of numbers, by step."""
    read = read_of(request, identifier)
    _family(read, path, "float_series")
    points: Points = read.reader.points(path)
    part = points[offset : offset + min(limit, _MOST)]
    steps, values, times = (column.tolist() for column in (part.step, part.value, part.time_ns))
    found = [
        {"timestampMillis": time // 1_000_000, "step": number(step), "value": value}
        for step, value, time in zip(steps, values, times, strict=True)
    ]
    return answer({"totalItemCount": len(points), "values": found})


@router.answers("getStringSeriesValues")
def strings(
    request: Request, identifier: Asked, path: At, limit: Limit = 1000, offset: Offset = 0
) -> Response:
    """Return texts of a series, by step."""
    read = read_of(request, identifier)
    _family(read, path, "string_series")
    points = read.reader.texts(path)
    found = [
        {
            "timestampMillis": point.time_ns // 1_000_000,
            "step": shown_step(point.step),
            "value": point.text if isinstance(point.text, str) else read.text(point.text),
        }
        for point in points[offset : offset + min(limit, _MOST)]
    ]
    return answer({"totalItemCount": len(points), "values": found})


@router.answers("getImageSeriesValues")
def images(request: Request, identifier: Asked, path: At) -> Response:
    """Return how many pictures a series has."""
    read = read_of(request, identifier)
    return answer({"totalItemCount": _family(read, path, "file_series"), "values": []})


@router.answers("getFloatSeriesValuesCSV")
def csv(request: Request, identifier: Asked, path: At) -> Response:
    """Return all points of a series of numbers: step, time in milliseconds, value."""
    read = read_of(request, identifier)
    _family(read, path, "float_series")
    points: Points = read.reader.points(path)
    columns = (points.step, points.time_ns, points.value)
    lines = [
        f"{number(step)},{time // 1_000_000},{value!r}"
        for step, time, value in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Response("\n".join([*lines, ""]), media_type="text/csv")
