"""Operations of Neptune's client as records of a journal, with the contents of files."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from seamark.errors import ArgumentError, PathError
from seamark.journal.format import Kind, dump_json
from seamark.paths import STAGES, check_path, check_writable
from seamark.values import encode_atom, escape

if TYPE_CHECKING:
    from seamark.neptune.server.log import Batch, Sent
    from seamark.neptune.server.projects import Container
    from seamark.server.state import Server

__all__ = ["PART_BYTES", "Changes", "expect_free", "keep_content"]


PART_BYTES: Final = 8 << 20
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
)


def keep_content(server: Server, container: Container, data: bytes) -> str:
    """Store bytes durably, and return their SHA-256 (hex)."""
    digest = hashlib.sha256(data).hexdigest()
    project, run = container
    for start in range(0, len(data), PART_BYTES) or (0,):
        part = data[start : start + PART_BYTES]
        server.blobs.put(project, run, digest, len(data), start, part)
    return digest


def kind_of_image(data: bytes) -> str:
    """Return the extension of a picture, determined from its first bytes."""
    for begin, ext in _IMAGES:
        if data.startswith(begin):
            return ext
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return "png"


class RefusedError(Exception):
    """Error in a single operation; the others of its batch are done."""


_STAGE: Final = "sys/stage"
_SETS: Final = ("sys/tags", "sys/group_tags")
_LONG_TEXT: Final = 4 << 20
"""Longer texts are kept as files are, bytes."""
_FRAME_BYTES: Final = 4 << 20
_FRAME_POINTS: Final = 100_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LONGEST_UNIT: Final = 1000
_MOST_ERRORS: Final = 1000
"""So many are told of one batch: an answer is no longer than what is asked."""
_TOLD: Final = (
    RefusedError,
    ArgumentError,
    PathError,
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)
_MS: Final = 1_000_000
_I63: Final = 1 << 63
_POINTS: Final[dict[str, tuple[str, Any]]] = {
    "logFloats": ("float_series", 0.0),
    "logStrings": ("string_series", ""),
    "logImages": ("file_series", {}),
}
"""What adds points to a series: its family, and a value of no meaning."""
_LIKE_STRINGS: Final = frozenset({"atom:string", "atom:text", "atom:null", "atom:json"})
"""What the client takes for strings."""


class _Column(NamedTuple):
    steps: list[float]
    values: list[float]
    times: list[int]


def _write_column(batch: Batch, path: str, column: _Column) -> None:
    for at in range(0, len(column.steps), _FRAME_POINTS):
        some = slice(at, at + _FRAME_POINTS)
        batch.column(path, column.steps[some], column.values[some], column.times[some])


class Changes:
    """A batch of operations on paths, as the client sends them.

    `sent` is the request that they came in; it is noted where doing them again would do something
    else, as points are kept however many have the same step. `errors` has what was wrong, in order.
    """

    def __init__(
        self,
        server: Server,
        container: Container,
        operations: list[Any],
        sent: Sent | None = None,
    ) -> None:
        self._server, self._container, self._operations = server, container, operations
        self._sent, self._logs = sent, False
        self.errors: list[str] = []
        self._atoms: dict[str, list[Any]] = {}
        self._columns: dict[str, _Column] = {}
        self._kept: dict[tuple[int, int], dict[str, Any] | None] = {}

    def fill(self, batch: Batch) -> None:
        """Add the operations to a batch; impossible ones are among the `errors`."""
        self.errors, self._atoms, self._columns, self._logs = [], {}, {}, False
        wrong = 0
        for place, each in enumerate(self._operations):
            path = each.get("path") if isinstance(each, dict) else None
            try:
                self._add(batch, place, path, each)
            except _TOLD as error:
                if wrong < _MOST_ERRORS:
                    self.errors.append(_describe_error(path, error))
                wrong += 1
        if wrong > _MOST_ERRORS:
            self.errors.append(f"and {wrong - _MOST_ERRORS:,} more")
        self._flush(batch)
        if self._sent is not None and self._logs:
            batch.ends_request(self._sent)

    def _add(self, batch: Batch, place: int, path: Any, each: Any) -> None:
        if not isinstance(each, dict):
            msg = "expected an object"
            raise RefusedError(msg)
        if path == _STAGE and self._container.kind == "model_version":
            self._change_stage(batch, each)
            return
        checked = path if batch.may_write(path) else check_writable(path)
        for name, what in each.items():
            if name == "path":
                continue
            if name in _POINTS and what["entries"] == []:
                self._announce(batch, checked, name, place)
                continue
            if name in _ASSIGNED:
                kind, value_of = _ASSIGNED[name]
                self._assign(batch, checked, kind, value_of(what))
                continue
            if name == "logFloats":
                self._log_floats(batch, checked, what or {})
                continue
            act = self._ACTS.get(name)
            if act is None:
                msg = f"the operation {name!r:.60} is not known here"
                raise RefusedError(msg)
            self._flush(batch)
            act(self, batch, checked, what or {}, place)

    # ------------------------------------------------------------------ single values

    def _change_stage(self, batch: Batch, each: Mapping[str, Any]) -> None:
        if set(each) != {"path", "assignString"} or each["assignString"]["value"] not in STAGES:
            msg = f"expected one of the stages {', '.join(STAGES)}, got {each!r:.200}"
            raise RefusedError(msg)
        self._assign(batch, _STAGE, "atom:string", each["assignString"]["value"])

    def _assign(self, batch: Batch, path: str, kind: str, value: Any) -> None:
        there, atom = batch.kind(path), list(encode_atom(value))
        if there == "atom:float" and kind == "atom:int":
            kind, atom = there, ["float", float(value)]
        if there not in (None, kind) and not {there, kind} <= _LIKE_STRINGS:
            raise _clash(path, there, kind)
        if atom[0] == "string" and (kept := self._long_text(atom[1])) is not None:
            atom = ["text", kept]
        self._atoms[path] = atom
        batch.holds(path, kind)

    def _long_text(self, text: str) -> dict[str, Any] | None:
        # The record of a text that is stored as a file; None for a shorter one.
        if len(text) * 4 <= _LONG_TEXT or len(data := text.encode()) <= _LONG_TEXT:
            return None
        digest = keep_content(self._server, self._container, data)
        return {"sha256": digest, "size": len(data)}

    def _flush(self, batch: Batch) -> None:
        some: dict[str, Any] = {}
        size = 0
        for path, atom in self._atoms.items():
            some[path] = atom
            size += len(path) + (len(atom[1]) * 4 if isinstance(atom[1], str) else 32)
            if size > _FRAME_BYTES:
                batch.op({"op": "assign", "atoms": some})
                some, size = {}, 0
        if some:
            batch.op({"op": "assign", "atoms": some})
        for path, column in self._columns.items():
            _write_column(batch, path, column)
        self._atoms, self._columns = {}, {}

    # ------------------------------------------------------------------ series

    def _points(
        self, batch: Batch, path: str, what: Mapping[str, Any], family: str
    ) -> tuple[list[float], list[int]]:
        _expect(batch, path, family)
        steps, times = [], []
        for each in what["entries"]:
            step = each.get("step")
            step = batch.next_step(path) if step is None else float(step)
            if not math.isfinite(step):
                msg = f"{path}: a step is a finite number, got {step}"
                raise ArgumentError(msg)
            batch.saw_step(path, step)
            steps.append(step)
            times.append(time_ms(each["timestampMilliseconds"]))
        if steps:
            batch.holds(path, family)
            self._logs = True
        return steps, times

    def _log_floats(self, batch: Batch, path: str, what: Mapping[str, Any]) -> None:
        # Points of one path become one column, whatever is between.
        values = [float(each["value"]) for each in what["entries"]]
        steps, times = self._points(batch, path, what, "float_series")
        if not steps:
            return
        column = self._columns.get(path)
        if column is None:
            self._columns[path] = column = _Column(steps, values, times)
        else:
            column.steps.extend(steps)
            column.values.extend(values)
            column.times.extend(times)
        if len(column.steps) >= _FRAME_POINTS:
            _write_column(batch, path, self._columns.pop(path))

    def _log_strings(self, batch: Batch, path: str, what: Mapping[str, Any], _: int) -> None:
        some: list[Any] = []
        size = 0
        values = [each["value"] for each in what["entries"]]
        steps, times = self._points(batch, path, what, "string_series")
        for step, time, value in zip(steps, times, values, strict=True):
            text = str(escape(str(value)))
            size += 4 * len(text) + 64
            some.append([step, self._long_text(text) or text, time])
            if size > _FRAME_BYTES:
                batch.frame(Kind.TEXT, dump_json({"path": path, "points": some}))
                some, size = [], 0
        if some:
            batch.frame(Kind.TEXT, dump_json({"path": path, "points": some}))

    def _log_images(self, batch: Batch, path: str, what: Mapping[str, Any], place: int) -> None:
        values = [each["value"] for each in what["entries"]]
        steps, times = self._points(batch, path, what, "file_series")
        for number, (step, time, value) in enumerate(zip(steps, times, values, strict=True)):
            file = self._image(place, number, value)
            record = {"op": "file_point", "path": path, "step": step, "file": file, "time": time}
            for name in ("name", "description"):
                if value.get(name):
                    record[name] = str(escape(str(value[name])))
            batch.op(record)

    def _image(self, place: int, number: int, value: Mapping[str, Any]) -> dict[str, Any]:
        known = self._kept.get((place, number))
        if known is None:
            try:
                data = base64.b64decode(value.get("data") or "", validate=True)
            except (binascii.Error, ValueError) as error:
                msg = f"an image is not written as base64: {error}"
                raise ArgumentError(msg) from error
            ext = kind_of_image(data)
            digest = keep_content(self._server, self._container, data)
            known = {"name": f"image.{ext}", "ext": ext, "size": len(data), "sha256": digest}
            self._kept[place, number] = known
        return known

    def _announce(self, batch: Batch, path: str, name: str, place: int) -> None:
        # The client before 0.9 asks for a series before it sends any points. A journal says so only
        # by a point that is taken away again.
        family, value = _POINTS[name]
        _expect(batch, path, family)
        if batch.kind(path) is not None:
            return
        point = {"value": value, "timestampMilliseconds": self._server.now_ns() // _MS}
        self._add(batch, place, path, {name: {"entries": [point]}})
        self._flush(batch)
        self._clear_series(batch, path, {}, place)

    def _clear_series(self, batch: Batch, path: str, _: Mapping[str, Any], __: int) -> None:
        there = batch.kind(path)
        if there is None:
            return
        if there.startswith("atom") or there in ("file", "file_set", "artifact", "string_set"):
            raise _clash(path, there, "a series")
        batch.op({"op": "clear", "path": path})
        batch.emptied(path)

    def _config(self, batch: Batch, path: str, what: Mapping[str, Any], _: int) -> None:
        _expect(batch, path, "float_series")
        known: dict[str, Any] = {
            name: float(what[name]) for name in ("min", "max") if what.get(name) is not None
        }
        if what.get("unit") is not None:
            known["unit"] = str(escape(str(what["unit"])[:_LONGEST_UNIT]))
        batch.op({"op": "series_config", "path": path, **known})

    # ------------------------------------------------------------------ sets, files, artifacts

    @staticmethod
    def _change_set(batch: Batch, path: str, op: str, values: Any) -> None:
        if path not in _SETS:
            msg = f"sets of strings are at {' and '.join(_SETS)} only"
            raise RefusedError(msg)
        _expect(batch, path, "string_set")
        values = [str(escape(str(each))) for each in values]
        if values or op == "assign_set":
            batch.op({"op": op, "path": path, "values": values})
            batch.holds(path, "string_set")

    def _insert(self, batch: Batch, path: str, what: Mapping[str, Any], _: int) -> None:
        self._change_set(batch, path, "add", what["values"])

    def _remove(self, batch: Batch, path: str, what: Mapping[str, Any], _: int) -> None:
        self._change_set(batch, path, "remove", what["values"])

    def _clear_set(self, batch: Batch, path: str, _: Mapping[str, Any], __: int) -> None:
        self._change_set(batch, path, "assign_set", [])

    def _delete(self, batch: Batch, path: str, _: Mapping[str, Any], __: int) -> None:
        if path.startswith("sys/"):
            msg = "fields below sys/ cannot be deleted"
            raise RefusedError(msg)
        if batch.kind(path) is None:
            return
        batch.op({"op": "delete", "paths": [path]})
        batch.removed(path)

    def _delete_files(self, batch: Batch, path: str, what: Mapping[str, Any], _: int) -> None:
        _expect(batch, path, "file_set")
        given = [str(each).strip("/") for each in what["filePaths"]]
        members = self._members(path)
        gone = [
            name
            for name in members
            if any(one in (name, "") or name.startswith(f"{one}/") for one in given)
        ]
        if gone:
            batch.op({"op": "unfiles", "path": path, "names": gone})

    def _members(self, path: str) -> list[str]:
        from seamark.neptune.server.reading import Read

        found = Read(self._server, self._container).attribute(path)
        return list(found.value) if found is not None and found.family == "file_set" else []

    def _artifact(self, batch: Batch, path: str, what: Mapping[str, Any], _: int) -> None:
        from seamark.neptune.server.reading import record_of

        _expect(batch, path, "artifact")
        record = record_of(self._server, self._container, str(what["hash"]))
        batch.op({"op": "artifact", "path": path, **record})
        batch.holds(path, "artifact")

    def _clear_artifact(self, batch: Batch, path: str, _: Mapping[str, Any], __: int) -> None:
        _expect(batch, path, "artifact")
        empty = {"files": [], "references": [], "hash": hashlib.sha256(b"").hexdigest()}
        batch.op({"op": "artifact", "path": path, "kind": "tracked", **empty})
        batch.holds(path, "artifact")

    _ACTS: ClassVar[dict[str, Callable[[Changes, Batch, str, Any, int], None]]] = {
        "logStrings": _log_strings,
        "logImages": _log_images,
        "clearFloatSeries": _clear_series,
        "clearStringSeries": _clear_series,
        "clearImageSeries": _clear_series,
        "configFloatSeries": _config,
        "insertStrings": _insert,
        "removeStrings": _remove,
        "clearStringSet": _clear_set,
        "deleteAttribute": _delete,
        "deleteFiles": _delete_files,
        "assignArtifact": _artifact,
        "clearArtifact": _clear_artifact,
    }


def _describe_error(path: Any, error: Exception) -> str:
    if isinstance(error, RefusedError):
        return f"{_text(path)}: {error!s:.1000}"
    if isinstance(error, ArgumentError | PathError):
        return f"{error!s:.1000}"
    return f"{_text(path)}: not as expected: {error!s:.1000}"


def _text(path: Any) -> str:
    return path[:200] if isinstance(path, str) else type(path).__name__


# ---------------------------------------------------------------------- values


def _int(what: Mapping[str, Any]) -> int:
    value = what["value"]
    if type(value) is not int:
        msg = f"expected an integer, got {value!r:.60}"
        raise RefusedError(msg)
    return value


def _bool(what: Mapping[str, Any]) -> bool:
    if type(what["value"]) is not bool:
        msg = f"expected true or false, got {what['value']!r:.60}"
        raise RefusedError(msg)
    return bool(what["value"])


_ASSIGNED: Final[dict[str, tuple[str, Callable[[Mapping[str, Any]], Any]]]] = {
    "assignFloat": ("atom:float", lambda what: float(what["value"])),
    "assignInt": ("atom:int", _int),
    "assignBool": ("atom:bool", _bool),
    "assignString": ("atom:string", lambda what: str(what["value"])),
    "assignDatetime": (
        "atom:datetime",
        lambda what: _EPOCH + timedelta(milliseconds=int(what["valueMilliseconds"])),
    ),
}


def time_ms(value: Any) -> int:
    """Return a time in milliseconds as nanoseconds since the Unix epoch, or `ArgumentError`."""
    found = int(value) * _MS
    if not -_I63 <= found < _I63:
        msg = f"expected a time in milliseconds since 1970, got {value!r:.60}"
        raise ArgumentError(msg)
    return found


def expect_free(batch: Batch, path: str, family: str) -> str:
    """Return a free path; `ArgumentError` if other data is there."""
    checked = check_writable(check_path(path))
    if (there := batch.kind(checked)) not in (None, family):
        msg = f"{checked}: holds {there}, and cannot be made {family}"
        raise ArgumentError(msg)
    return checked


def _expect(batch: Batch, path: str, family: str) -> None:
    if (there := batch.kind(path)) not in (None, family):
        raise _clash(path, there, family)


def _clash(path: str, there: str | None, kind: str) -> RefusedError:
    del path
    words = [str(one).removeprefix("atom:").replace("_", " ") for one in (there, kind)]
    return RefusedError(f"holds {words[0]}, and cannot be made {words[1]}")
