"""Checks of the contents of frames, and their numbered paths and schemas."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from seamark.journal.format import USER_TIME, WHOLE, Kind, digest_of_text, file_of, whole
from seamark.journal.reader import decode_json
from seamark.values.statistics import load_aggregate

PATH_BYTES: Final = 2048
"""Maximum bytes of a path, twice that of writers; PostgreSQL cannot index longer paths."""
Load = Callable[[set[int], set[int]], tuple[dict[int, str], dict[int, tuple[int, ...]]]]
"""Function that returns the known paths and schemas with the given numbers."""


@dataclass(slots=True, eq=False)
class Names:
    """Paths and schemas of a journal by number; a schema is a tuple of path numbers.

    ``load`` returns definitions before the first decoded frame; None at the start of a journal. An
    invalid or missing path is empty, and a missing schema is None. ``new_paths`` and
    ``new_schemas`` hold (number, offset of the frame in bytes, path or path numbers).
    """

    load: Load | None = None
    paths: dict[int, str] = field(default_factory=dict)
    schemas: dict[int, tuple[int, ...] | None] = field(default_factory=dict)
    new_paths: list[tuple[int, int, str]] = field(default_factory=list)
    new_schemas: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    _columns: dict[int, tuple[str | None, ...]] = field(default_factory=dict)

    def need(self, paths: Iterable[int], schemas: Iterable[int]) -> None:
        """Load paths and schemas that were defined earlier in the journal."""
        if self.load is None:
            return
        missing = set(schemas).difference(self.schemas)
        if missing:
            self.schemas |= {**dict.fromkeys(missing), **self.load(set(), missing)[1]}
        wanted = {one for number in missing for one in self.schemas[number] or ()}
        wanted = wanted.union(paths).difference(self.paths)
        if wanted:
            self.paths |= {**dict.fromkeys(wanted, ""), **self.load(wanted, set())[0]}

    def columns(self, schema: int) -> tuple[str | None, ...] | None:
        """Return the paths of a schema, None for each lost path; None if the schema was lost."""
        known = self._columns.get(schema)
        if known is None and (numbers := self.schemas.get(schema)) is not None:
            known = self._columns[schema] = tuple(
                self.paths.get(number) or None for number in numbers
            )
        return known

    def define_path(self, number: int, place: int, path: str) -> None:
        """Apply a PATH frame."""
        self.need([number], ())
        if self.paths.get(number) != path:
            self.paths[number] = path
            self.new_paths.append((number, place, path))
            self._columns.clear()

    def define_schema(self, number: int, place: int, paths: tuple[int, ...]) -> None:
        """Apply a SCHEMA frame."""
        self.need(paths, [number])
        if self.schemas.get(number) != paths:
            self.schemas[number] = paths
            self.new_schemas.append((number, place, paths))
            self._columns.pop(number, None)


ATOM_TYPES: Final[dict[str, type | None]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "string": str,
    "datetime": str,
    "null": type(None),
    "json": str,
    "text": None,
}
"""Class of the JSON value by type of atom; None if `atom_of` has to convert it."""
_TRACKED_KEYS: Final = ("size", "sha256", "mtime_ns", "ref", "inode")
_SOURCE_KEYS: Final = ("project", "name", "id", "uri")
_MAX_PART_CHARS: Final = 64
_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")


def record_points(
    kind: int, payload: bytes, path: str
) -> Iterator[tuple[int, float, Any, int | None]]:
    """Yield (index, step, value, caller's time in ns) of the valid points in a record.

    The value of a file point is a dict of its file, name and description.
    """
    try:
        record = decode_json(payload)
        if b"\\u" in payload:
            record = legible(record)
        if record.get("path") != path:
            return
        if kind == Kind.OP:
            if record.get("op") == "file_point":
                extra = _texts_of(record, "name", "description")
                yield (
                    0,
                    step_of(record["step"]),
                    {"file": file_of(record["file"]), **extra},
                    _time_of(record.get("time")),
                )
            return
        points, place = list_of(record["points"]), 2 if kind == Kind.TEXT else 3
    except (ValueError, TypeError, KeyError, AttributeError):
        return
    value = text_of_point if kind == Kind.TEXT else histogram_of_point
    for index, point in enumerate(points):
        try:
            time = point[place] if len(point) > place else None
            yield index, step_of(point[0]), value(point), _time_of(time)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError):
            continue


def _time_of(value: Any) -> int | None:
    return value if type(value) is int and -WHOLE <= value < WHOLE else None


def time_of_point(point: list[Any], place: int, t: int) -> int:
    """Return the caller's time at a place of a point, or ``t`` if the caller gave none; in ns."""
    time = _time_of(point[place]) if len(point) > place else None
    return t if time is None else time


def _texts_of(record: dict[str, Any], *names: str) -> dict[str, str | None]:
    found = {name: record.get(name) for name in names}
    return {name: each if isinstance(each, str) else None for name, each in found.items()}


def text_of_point(point: list[Any]) -> str | dict[str, Any]:
    """Return the text of a point, or the blob record of a very long text; raise if invalid."""
    return digest_of_text(point[1]) if isinstance(point[1], dict) else text_of(point[1])


def histogram_of_point(point: list[Any]) -> list[list[float]]:
    """Return edges and counts of a point; raise ValueError unless there is one more edge."""
    edges, counts = [float(edge) for edge in point[1]], [float(count) for count in point[2]]
    if len(edges) != len(counts) + 1:
        raise ValueError(
            f"histogram: expected one more edge than counts, got {len(edges)} and {len(counts)}"
        )
    return [edges, counts]


def unpack_sparse(payload: bytes, flags: int) -> tuple[float, tuple[int, ...], tuple[float, ...]]:
    """Return step, path numbers and values of a SPARSE payload; ValueError for a wrong length."""
    (step,) = struct.unpack_from("<d", payload)
    start = 16 if flags & USER_TIME else 8
    (size,) = struct.unpack_from("<I", payload, start)
    values = start + 8 + ((4 * size + 7) & ~7)
    if values + 8 * size != len(payload):
        raise ValueError(f"sparse row: expected {values + 8 * size} bytes, got {len(payload)}")
    return (
        step,
        struct.unpack_from(f"<{size}I", payload, start + 8),
        struct.unpack_from(f"<{size}d", payload, values),
    )


def legible(value: Any) -> Any:
    """Escape NUL and lone surrogates in JSON, which databases cannot store."""
    if isinstance(value, str):
        return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", value)
    if isinstance(value, list):
        return [legible(item) for item in value]
    if isinstance(value, dict):
        return {legible(name): legible(item) for name, item in value.items()}
    return value


def atom_of(kind: str, value: Any) -> Any:
    """Convert the JSON form of a value that JSON cannot represent; raise TypeError if invalid."""
    if kind == "float" and (value in ("nan", "inf", "-inf") or type(value) is int):
        return float(value)
    if kind == "int" and isinstance(value, str):  # too long for JSON parsers
        return int(value, 16)
    if kind == "text":
        return digest_of_text(value)
    raise TypeError(f"expected a value of type {kind}, got {value!r:.60}")


def text_of(value: Any) -> str:
    """Return the value if it is a string; raise TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r:.60}")
    return value


def list_of(value: Any) -> list[Any]:
    """Return the value if it is a list; raise TypeError otherwise."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {value!r:.60}")
    return value


def artifact_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the content of an artifact op; raise TypeError or ValueError if it is invalid."""
    files = [_tracked_file(file) for file in list_of(record.get("files", []))]
    references = [text_of(one) for one in list_of(record.get("references", []))]
    found: dict[str, Any] = {"kind": text_of(record.get("kind", "tracked")), "files": files}
    if record.get("of") is not None:
        found["of"] = _source_of(record["of"])
    return {**found, "references": references, "hash": text_of(record.get("hash", ""))}


def _source_of(source: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": text_of(source["kind"])}
    found |= {key: text_of(source[key]) for key in _SOURCE_KEYS if source.get(key) is not None}
    if whole(source.get("version")):
        found["version"] = source["version"]
    return found


def _tracked_file(file: Any) -> dict[str, Any]:
    known = file_of({**file, "name": text_of(file["path"])})
    return {"path": known["name"]} | {key: known[key] for key in _TRACKED_KEYS if key in known}


def state_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return state, signal, detail and error of a state op; omit values that are not strings."""
    error = record.get("error")
    found: dict[str, Any] = {"state": record["state"], **_texts_of(record, "signal", "detail")}
    found["error"] = _texts_of(error, "type", "message") if isinstance(error, dict) else None
    return {name: value for name, value in found.items() if value is not None}


def statistic_of(record: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return part, kind and state of a statistic op; raise an error if one is invalid."""
    part, kind = text_of(record["part"]), record.get("kind")
    if not 0 < len(part) <= _MAX_PART_CHARS:
        raise ValueError(f"part: expected 1 to {_MAX_PART_CHARS} characters, got {len(part)}")
    found = load_aggregate(kind, record.get("state"))
    return part, found.kind, found.state_dict()


def counts_of(record: Any) -> dict[str, int]:
    """Return the counts of records lost by a writer, by reason; AttributeError if not a dict."""
    dropped = record.get("dropped") or {}
    return {reason: count for reason, count in dropped.items() if whole(count) and count}


def step_of(value: Any) -> float:
    """Return a step as float; raise ValueError if it is not a finite number."""
    try:
        step = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        step = math.inf
    if not math.isfinite(step):
        raise ValueError(f"step: expected a finite number, got {value!r:.60}")
    return step
