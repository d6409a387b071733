"""Recording of points of series: their families, single points, rows and batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, SeamarkError, ValueKindError
from seamark.journal.format import Kind
from seamark.paths import check_path, check_series_path, join_path
from seamark.process.interrupts import formattable, let_pass, quietly
from seamark.reading.browsing import Browsable
from seamark.types import File, FileSeries, FloatSeries, Histogram, Series, Single, StringSeries
from seamark.values import Escaped, flatten, is_container, to_float, to_step, to_time_ns
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter
    from seamark.run.aggregation import Aggregator
    from seamark.run.contents import Contents
    from seamark.run.journal_access import JournalAccess


_OWN: Final = (File, Histogram)
"""Types of Seamark that make one point each, although a histogram is a dataclass with fields."""
_KINDS: Final = {
    "string_series": Kind.TEXT,
    "histogram_series": Kind.HISTOGRAM,
    "file_series": Kind.OP,
}
"""Record kind by family, for series whose points are JSON records."""
_SERIES: Final[Mapping[str, Callable[[Any], Series]]] = {
    one.family: one for one in (FloatSeries, StringSeries, FileSeries)
}
_AT_ONCE: Final = 1000
"""Maximum number of texts or histograms in one write, during which other threads wait."""
_NUMBERS: Final = frozenset({float, int})
_EXACT: Final = 2**53
_KNOWN_LIMIT: Final = 4096
_EPOCH: Final = "epoch"
_PHASES: Final = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "validate", "validation"), "val"),
    **dict.fromkeys(("test", "testing", "eval", "evaluate", "evaluation"), "test"),
}
"""Names of the three phases of a training; any other word is a namespace."""

Point = tuple[Any, float | None, int | None]
"""Value, step and time of a point, the time in ns since the Unix epoch."""


class Points:
    """Records the points of series of one process."""

    def __init__(self, access: JournalAccess, contents: Contents, kept: Aggregator) -> None:
        self._access, self._contents, self._kept = access, contents, kept
        self._known: dict[tuple[str, tuple[Any, ...]], tuple[str, ...]] = {}

    # ---------------------------------------------------------------- rows of numbers

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: Any,
        timestamp: Any,
        base: str = "",
        phase: Any = None,
        epoch: Any = None,
    ) -> None:
        """Record one number for each path below a base, all at one step; never raises."""
        access = self._access
        if base or phase is not None or epoch is not None:
            if access.writer is None:
                access.row({}, None)  # start the run, so that omitted values can be counted
            metrics = self._in_phase(metrics, base, phase, epoch)
            if not metrics:
                return
        time_ns = None
        if timestamp is not None:
            what = "log_metrics: the timestamp is left out"
            with quietly(lambda error: access.drop("timestamp", warn=f"{what}: {error}")):
                time_ns = to_time_ns(timestamp)
        access.row(metrics, step, time_ns)

    def _in_phase(self, metrics: Any, base: str, phase: Any, epoch: Any) -> dict[str, Any]:
        drop = self._access.drop
        what = "phase"
        try:
            own = "" if phase is None else _PHASES.get(phase) or check_path(phase)
            prefix = "".join(f"{each}/" for each in (base, own) if each)
            what = "expected a mapping of paths to numbers"
            found = {f"{prefix}{key}": value for key, value in metrics.items()}
        except Exception as error:  # noqa: BLE001 - see `let_pass`
            let_pass(error)
            # Methods of the metrics and of their errors may fail, too.
            count = dict.__len__(metrics) if issubclass(type(metrics), dict) else 1
            why = error if isinstance(error, SeamarkError) else repr(formattable(error))
            drop("metrics", max(1, count), f"log_metrics: {what}: {why!s:.400}")
            return {}
        if epoch is not None:
            if prefix + _EPOCH in found:
                drop(_EPOCH, 1, "log_metrics: epoch= replaces the metric 'epoch'")
            found[prefix + _EPOCH] = epoch
        return found

    def quick_row(self, path: str, value: Any, step: Any) -> Mapping[str, float] | None:
        """Return a row of plain numbers of known series, which need no check; None for others."""
        if step is not None and not (type(step) in _NUMBERS and math.isfinite(step)):
            return None
        if type(value) is not dict:
            plain = type(value) is float or (type(value) is int and -_EXACT < value < _EXACT)
            return {path: value} if plain and self._paths_below(path, ()) else None
        kinds, numbers = set(map(type, value.values())), value.values()
        plain = kinds == {float} or (
            bool(kinds) and kinds <= _NUMBERS and all(-_EXACT < each < _EXACT for each in numbers)
        )
        paths = self._paths_below(path, tuple(value)) if plain else ()
        return dict(zip(paths, numbers, strict=True)) if paths else None

    def _paths_below(self, path: str, keys: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the paths of keys below a path if all are known float series, else ()."""
        found = self._known.get((path, keys))
        if found is None:
            writer, own = self._access.writer, self._access.series_path
            families = {} if writer is None else writer.families
            paths = tuple(f"{path}/{key}" for key in keys) or (path,)
            known = all(families.get(own(each)) == "float_series" for each in paths)
            if not known or not all(isinstance(key, str) for key in keys):
                return ()
            if len(self._known) >= _KNOWN_LIMIT:
                self._known.clear()
            found = self._known[path, keys] = paths
        return found

    # ---------------------------------------------------------------- one point

    def append(self, path: str, point: Point, described: Mapping[str, Any]) -> None:
        """Add one point, or one for each leaf of a mapping: all, or none if a path is unusable."""
        value, step, time_ns = point
        leaves = self._split_value(path, value)
        parts: dict[str, dict[str, Any]] = {}
        kinds = {check_series_path(at): family_of(leaf) for at, leaf in leaves.items()}
        for at, family in kinds.items():
            leaf = leaves[at]
            if family == "file_series":
                leaf = File.create_from(leaf)
                _ = leaf.size  # raises if a file is missing, before anything is started
            parts.setdefault(family, {})[at] = to_float(leaf) if family == "float_series" else leaf
        writer = self._access.to_append() if leaves else None
        if writer is None:
            return
        self._access.announce()
        floats = parts.pop("float_series", {})
        seen = {at for at in floats if self._kept.aggregates(at)}
        # All or nothing: no point is written if another one cannot be.
        writer.expect({self._access.series_path(at): kinds[at] for at in kinds.keys() - seen})
        for at in seen:
            self._kept.observe(at, floats.pop(at))
        for at in floats:
            writer.claim(self._access.series_path(at), "float_series")
        if floats:
            self._access.row(floats, step, time_ns)
        for family, values in parts.items():
            records = [
                self._record(writer, family, at, (each, step, time_ns), described)
                for at, each in values.items()
            ]
            self._contents.append_points(writer, records, _KINDS[family])

    def _split_value(self, path: str, value: Any) -> dict[str, Any]:
        # An empty mapping, such as a trial without parameters, adds no point.
        found = {path: value}
        if is_container(value) and not isinstance(value, _OWN):
            leaves = flatten(value, path, _OWN)
            found = {at: leaf for at, leaf in leaves.items() if not isinstance(leaf, dict) or leaf}
        leaves = {
            at: leaf.value if isinstance(leaf, Single) else leaf for at, leaf in found.items()
        }
        if any(leaf is None for leaf in leaves.values()):
            leaves = {at: leaf for at, leaf in leaves.items() if leaf is not None}
            self._access.drop(
                "none", 1, f"append: None is not a point of a series, left out at {path!r}"
            )
        return leaves

    def append_text(self, writer: JournalWriter, path: str, text: str) -> None:
        """Add a captured text to a string series; unlike other points, it does not start a run."""
        record = self._record(writer, "string_series", check_path(path), (text, None, None), {})
        self._contents.append_points(writer, [record], Kind.TEXT)

    def extend(
        self,
        path: str,
        values: Iterable[Any],
        steps: Iterable[float] | None,
        timestamps: Iterable[float | datetime] | None,
        described: Mapping[str, Any],
    ) -> None:
        """Add many points, or a mapping of such points; raise before anything is written."""
        steps = None if steps is None else list(steps)  # an iterator can be consumed only once
        timestamps = None if timestamps is None else list(timestamps)
        series = [
            _Batch(check_series_path(at), points, steps, timestamps)
            for at, points in _sequences(path, values)
        ]
        series = [each for each in series if each.points]
        if series and (writer := self._access.to_append()):
            self._access.announce()
            series = [each for each in series if not self._is_observed(each)]
            writer.expect({self._access.series_path(each.path): each.family for each in series})
            for each in series:
                self._extend(writer, each, described)

    def _is_observed(self, series: _Batch) -> bool:
        if series.family != "float_series" or not self._kept.aggregates(series.path):
            return False
        for each in [to_float(point) for point in series.points]:
            self._kept.observe(series.path, each)
        return True

    def _extend(self, writer: JournalWriter, series: _Batch, described: Mapping[str, Any]) -> None:
        path, steps, times = series.path, series.steps, series.times_ns
        if series.family == "float_series":
            at = self._access.series_path(path)
            self._access.announce((at,))
            writer.append_column(at, [to_float(point) for point in series.points], steps, times)
            return
        points = zip(series.points, steps or repeat(None), times or repeat(None), strict=False)
        at_once = 1 if series.family == "file_series" else _AT_ONCE
        while part := list(islice(points, at_once)):
            records = [self._record(writer, series.family, path, each, described) for each in part]
            self._contents.append_points(writer, records, _KINDS[series.family])

    def _record(
        self,
        writer: JournalWriter,
        family: str,
        path: str,
        point: Point,
        described: Mapping[str, Any],
    ) -> dict[str, Any]:
        value, number, time_ns = point
        at = self._access.series_path(path)
        writer.claim(at, family)
        if family == "string_series":
            text = self._contents.text(at, value)
            record = {"path": at, "points": [[writer.take_step(at, number), text, time_ns]]}
            return record | {"escaped": True} if isinstance(text, Escaped) else record
        if family == "file_series":
            op = {
                "op": "file_point",
                "path": at,
                "step": writer.take_step(at, number),
                "file": self._contents.files.put(File.create_from(value)),
                "time": time_ns,
            }
            texts = {key: described.get(key) for key in ("name", "description")}
            return op | {key: str(text) for key, text in texts.items() if text is not None}
        edges, counts = [float(edge) for edge in value.edges], [float(n) for n in value.counts]
        return {"path": at, "points": [[writer.take_step(at, number), edges, counts, time_ns]]}

    # ---------------------------------------------------------------- series as a whole

    def as_series(self, path: str, values: Sequence[Any]) -> Any:
        """Return a list as points if this process wrote a series at the path, else unchanged."""
        writer = self._access.writer
        family = writer.families.get(self._access.series_path(path), "") if writer else ""
        return _SERIES[family](values) if family in _SERIES else values

    def clear(self, writer: JournalWriter, path: str) -> None:
        """Reset the state of a series that is cleared."""
        self._kept.clear(path)
        writer.forget_steps([path])

    def forget(self, writer: JournalWriter, path: str) -> None:
        """Forget a path that is deleted, and everything below it."""
        writer.forget(path)
        self._kept.forget(path)
        self._known.clear()


class _Batch:
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
            raise ValueKindError(
                f"{path!r}: expected values of one kind, got {' and '.join(kinds)}"
            )
        self.family = kinds[0] if kinds else ""


def _sequences(path: str, values: Any) -> Iterator[tuple[str, list[Any]]]:
    if isinstance(values, Mapping):
        for key, part in values.items():
            yield from _sequences(join_path(path, check_path(str(key))), part)
        return
    if not isinstance(values, Iterable) or isinstance(values, Browsable):
        raise argument_error(values, f"{path!r}", "a sequence of values", ValueKindError)
    yield path, list(values)


def family_of(value: Any) -> str:
    """Return the family of the series that a point belongs to."""
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
        raise argument_error(
            value, "append", "a number, a string, a File, an image or a Histogram", ValueKindError
        ) from refused
    return "float_series"


def _as_long(
    values: Iterable[Any] | None, length: int, what: str, convert: Callable[[Any], Any]
) -> list[Any] | None:
    if values is None:
        return None
    converted = [convert(value) for value in values]
    if len(converted) != length:
        raise ArgumentError(f"{what}: expected {length}, one for each value, got {len(converted)}")
    return converted
