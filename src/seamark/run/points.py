"""Points of series on their way into the journal: of which family they are, one or many of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, ValueKindError
from seamark.journal.format import Kind
from seamark.paths import check_path, check_writable, join_path
from seamark.reading.browsing import Browsable
from seamark.run.kept import observed
from seamark.types import File, Histogram, Series, Single
from seamark.values import Escaped, flatten, is_container, shown, to_float, to_step, to_time_ns

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.run.recorder import Recorder

__all__ = ["append_point", "append_text", "as_file", "assign_series", "extend_series"]

_OWN: Final = (File, Histogram)
"""Our own types, one point each, though a histogram is a dataclass with fields."""
_RECORDED: Final = {"string_series": Kind.TEXT, "histogram_series": Kind.HISTOGRAM}
"""The series whose points are JSON records, and of which kind."""
_AT_ONCE: Final = 1000
"""How many texts or histograms go into one write; another thread that records waits for it."""

Point = tuple[Any, float | None, int | None]
"""Value, step and time of a point, the time in ns since the Unix epoch."""


def append_point(recorder: Recorder, path: str, point: Point, described: Mapping[str, Any]) -> None:
    """Add one point to the series at a path, or one to each series below it for a mapping.

    Args:
        recorder: Where to.
        path: Attribute path.
        point: Its step and time are checked.
        described: ``name`` and ``description`` of a file.

    Raises:
        ValueKindError: If there is no series for such a value.
        FamilyError: If a path holds another family; nothing is written then.
        ReadOnlyError: If it was opened for reading.
    """
    value, step, time_ns = point
    leaves = _leaves(recorder, path, value)
    parts: dict[str, dict[str, Any]] = {}
    kinds = {check_writable(at): family_of(leaf) for at, leaf in leaves.items()}
    for at, family in kinds.items():
        leaf = leaves[at]
        if family == "file_series":
            leaf = as_file(leaf)
            _ = leaf.size  # raises where there is no file, before anything is begun
        parts.setdefault(family, {})[at] = to_float(leaf) if family == "float_series" else leaf
    writer = recorder.to_append() if leaves else None
    if writer is None:
        return
    recorder.begin_points()
    seen = observed(recorder.kept, parts)
    # All or nothing: no point is written if another one has no place.
    writer.expect({recorder.series_path(at): kinds[at] for at in kinds.keys() - seen.keys()})
    for at, number in seen.items():
        recorder.kept.observe(at, number)
    for family, values in parts.items():
        if family == "float_series":
            for at in values:
                writer.claim(recorder.series_path(at), family)
            recorder.row(values, step, time_ns)
        elif family == "file_series":
            for at, file in values.items():
                _append_file(recorder, writer, at, (file, step, time_ns), described)
        else:
            records = [
                _record(recorder, writer, family, at, (each, step, time_ns))
                for at, each in values.items()
            ]
            recorder.append_points(writer, records, _RECORDED[family])


def _leaves(recorder: Recorder, path: str, value: Any) -> dict[str, Any]:
    """Return the points that a value stands for, by path; None is left out and counted.

    A mapping that is empty, as the parameters of a trial may be, stands for none.
    """
    inside = is_container(value) and not isinstance(value, _OWN)
    found = flatten(value, path, _OWN) if inside else {path: value}
    if inside:
        found = {at: leaf for at, leaf in found.items() if not isinstance(leaf, dict) or leaf}
    leaves = {at: leaf.value if isinstance(leaf, Single) else leaf for at, leaf in found.items()}
    if any(leaf is None for leaf in leaves.values()):
        leaves = {at: leaf for at, leaf in leaves.items() if leaf is not None}
        recorder.drop("none", 1, f"append: None is no point of a series, left out at {path!r}")
    return leaves


def append_text(recorder: Recorder, writer: JournalWriter, path: str, text: str) -> None:
    """Add a captured text to a string series; unlike other points, it begins no run that waits.

    Args:
        recorder: Where to.
        writer: Its journal, which is open.
        path: Attribute path.
        text: The point.

    Raises:
        FamilyError: If the path holds another family.
    """
    record = _record(recorder, writer, "string_series", check_path(path), (text, None, None))
    recorder.append_points(writer, [record], Kind.TEXT)


def extend_series(
    recorder: Recorder,
    path: str,
    values: Iterable[Any],
    steps: Iterable[float] | None,
    timestamps: Iterable[float | datetime] | None,
    described: Mapping[str, Any],
) -> None:
    """Add many points to the series at a path, or to each series below it for a mapping.

    Args:
        recorder: Where to.
        path: Attribute path.
        values: The points, or a mapping of them.
        steps: As many, or None to number the points.
        timestamps: As many, or None.
        described: ``name`` and ``description`` of files.

    Raises:
        ArgumentError: If the lengths differ, or a step is not a finite number.
        ValueKindError: If there is no series for a value; nothing is written then.
        FamilyError: If a path holds another family; nothing is written then.
        ReadOnlyError: If it was opened for reading.
    """
    steps = None if steps is None else list(steps)  # an iterator serves only once
    timestamps = None if timestamps is None else list(timestamps)
    series = [
        _Points(check_writable(at), points, steps, timestamps)
        for at, points in _sequences(path, values)
    ]
    series = [each for each in series if each.points]
    files = [each for each in series if each.family == "file_series"]
    told = {each.path: list(_of_each(described, len(each.points))) for each in files}
    if series and (writer := recorder.to_append()):
        recorder.begin_points()
        series = [each for each in series if not _is_observed(recorder, each)]
        writer.expect({recorder.series_path(each.path): each.family for each in series})
        for each in series:
            _extend(recorder, writer, each, told.get(each.path, ()))


def _is_observed(recorder: Recorder, series: _Points) -> bool:
    """Take in the points of a path that keeps none; return whether it is one."""
    if series.family != "float_series" or not recorder.kept.takes(series.path):
        return False
    for each in [to_float(point) for point in series.points]:
        recorder.kept.observe(series.path, each)
    return True


def assign_series(recorder: Recorder, found: Mapping[str, Series]) -> None:
    """Replace the points of series by others.

    Args:
        recorder: Where to.
        found: The points, by path.
    """
    for path, series in found.items():
        recorder.clear(path)
        extend_series(
            recorder, path, series.values, series.steps, series.timestamps, series.described
        )


class _Points:
    """The checked points of one series that is to be extended.

    Raises:
        ArgumentError: If the lengths differ, or a step or time is not legal.
        ValueKindError: If a value has no place in a series, or they are of several kinds.
    """

    def __init__(
        self,
        path: str,
        points: list[Any],
        steps: Iterable[float] | None,
        timestamps: Iterable[float | datetime] | None,
    ) -> None:
        self.path = path
        self.points = points
        self.steps: list[float] | None = _as_long(steps, len(points), "steps", to_step)
        self.times_ns: list[int] | None = _as_long(
            timestamps, len(points), "timestamps", to_time_ns
        )
        kinds = sorted({family_of(point) for point in points})
        if len(kinds) > 1:
            msg = f"{path!r}: expected values of one kind, got {' and '.join(kinds)}"
            raise ValueKindError(msg)
        self.family = kinds[0] if kinds else ""


def _extend(
    recorder: Recorder, writer: JournalWriter, series: _Points, told: Sequence[Mapping[str, Any]]
) -> None:
    path, steps, times = series.path, series.steps, series.times_ns
    if series.family == "float_series":
        floats = [to_float(point) for point in series.points]
        recorder.append_column(path, floats, steps, times)
        return
    points = zip(series.points, steps or repeat(None), times or repeat(None), strict=False)
    if series.family in _RECORDED:
        while part := list(islice(points, _AT_ONCE)):
            records = [_record(recorder, writer, series.family, path, each) for each in part]
            recorder.append_points(writer, records, _RECORDED[series.family])
        return
    for (value, step, time_ns), described in zip(points, told, strict=True):
        _append_file(recorder, writer, path, (as_file(value), step, time_ns), described)


def _of_each(described: Mapping[str, Any], count: int) -> Iterator[dict[str, Any]]:
    """Yield ``name`` and ``description`` of each file: ``names`` and ``descriptions`` tell many.

    Raises:
        ArgumentError: If there are not as many as there are files.
    """
    several: dict[str, list[Any]] = {}
    for name in ("names", "descriptions"):
        given = described.get(name)
        several[name] = [None] * count if given is None else list(given)
        if len(several[name]) != count:
            msg = f"{name}: expected {count}, one a file, got {len(several[name])}"
            raise ArgumentError(msg)
    for name, description in zip(several["names"], several["descriptions"], strict=True):
        told = {"name": name, "description": description}
        yield {key: described.get(key) if value is None else value for key, value in told.items()}


def _record(
    recorder: Recorder, writer: JournalWriter, family: str, path: str, point: Point
) -> dict[str, Any]:
    """Return the record of a text or histogram."""
    value, number, time_ns = point
    at = recorder.series_path(path)
    writer.claim(at, family)
    if family == "string_series":
        text = recorder.text(at, value)
        record = {"path": at, "points": [[writer.take_step(at, number), text, time_ns]]}
        return record | {"escaped": True} if isinstance(text, Escaped) else record
    edges, counts = [float(edge) for edge in value.edges], [float(n) for n in value.counts]
    return {"path": at, "points": [[writer.take_step(at, number), edges, counts, time_ns]]}


def _append_file(
    recorder: Recorder,
    writer: JournalWriter,
    path: str,
    point: Point,
    described: Mapping[str, Any],
) -> None:
    file, number, time_ns = point
    at = recorder.series_path(path)
    writer.claim(at, "file_series")
    op = {
        "op": "file_point",
        "path": at,
        "step": writer.take_step(at, number),
        "file": recorder.content.put(file),
        "time": time_ns,
    }
    told = {key: described.get(key) for key in ("name", "description")}
    op |= {key: str(value) for key, value in told.items() if value is not None}
    recorder.append_points(writer, [op])


def _sequences(path: str, values: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the path and the points of each series that a sequence, or a mapping of them, extends.

    Raises:
        ValueKindError: If there is something else than a sequence.
    """
    if isinstance(values, Mapping):
        for key, part in values.items():
            yield from _sequences(join_path(path, check_path(str(key))), part)
        return
    if not isinstance(values, Iterable) or isinstance(values, Browsable):
        msg = f"{path!r}: expected several values in a sequence, got {shown(values)}"
        raise ValueKindError(msg)
    yield path, list(values)


def family_of(value: Any) -> str:
    """Return the family of the series that a point belongs to.

    Raises:
        ValueKindError: If it has no place in a series.
    """
    if isinstance(value, str):
        return "string_series"
    if isinstance(value, Histogram):
        return "histogram_series"
    if isinstance(value, File):
        return "file_series"
    try:
        to_float(value)
    except ValueKindError as refused:
        if File.is_convertable(value):
            return "file_series"
        msg = (
            "append: expected a number, a string, a File, an image or a Histogram, "
            f"got {shown(value)}"
        )
        raise ValueKindError(msg) from refused
    return "float_series"


def as_file(value: Any, include_plotlyjs: bool | str | None = None) -> File:  # noqa: FBT001
    """Return what was given as a file: a path, a `File`, or what `File.create_from` takes.

    Args:
        value: What was given.
        include_plotlyjs: For a Plotly chart, see `File.as_html`.

    Raises:
        ValueKindError: If it cannot be made into one.
    """
    if isinstance(value, File):
        return value
    if isinstance(value, (str, os.PathLike)):
        return File.from_path(value)
    return File.create_from(value, include_plotlyjs)


def _as_long(
    values: Iterable[Any] | None, length: int, what: str, convert: Callable[[Any], Any]
) -> list[Any] | None:
    if values is None:
        return None
    converted = [convert(value) for value in values]
    if len(converted) != length:
        msg = f"{what}: expected {length}, one for each value, got {len(converted)}"
        raise ArgumentError(msg)
    return converted
