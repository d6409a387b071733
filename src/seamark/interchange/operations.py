"""Conversion of the operations of Neptune's client to records of a journal.

The server applies operations to the journal of a request, and the import of the client's folders to
the journal of an imported run. Both refuse operations that Neptune's server refused.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, ClassVar, Final

from seamark.errors import ArgumentError, PathError
from seamark.interchange.draft import Fields, Records
from seamark.interchange.source import extension_of
from seamark.journal.format import is_long
from seamark.paths import check_series_path, is_inside
from seamark.values import Atom, encode_atom, escape


class RefusedError(Exception):
    """Error in a single operation; the other operations of its batch are applied."""


OPERATION_ERRORS: Final = (
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
"""Errors of a malformed operation."""
_MAX_WAITING: Final = 100_000
"""Maximum number of points held back to be written series by series."""
_CHARACTERS_PER_POINT: Final = 50
"""Number of characters of text that count as one point."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND_NS: Final = 1_000_000
_INT64_LIMIT: Final = 1 << 63
_LIKE_STRINGS: Final = frozenset({"atom:string", "atom:text", "atom:null", "atom:json"})
"""Kinds that the client treats as strings."""


class State(Records):
    """Journal, and the state of the paths of its run, on which later operations depend.

    Attributes:
        kinds: Kind of each path, such as ``"atom:float"``, or its family.
        steps: Last step of each series with points.
    """

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        self.steps: dict[str, float] = {}

    def removed(self, path: str) -> None:
        """Record that the value of a path was removed."""
        self.kinds.pop(path, None)
        self.steps.pop(path, None)


class Operations:
    """Converter of operations for a journal; values and points are held in memory until `flush`.

    An invalid operation raises one of `OPERATION_ERRORS` and changes nothing. `keep` stores bytes
    permanently and returns their SHA-256 (hex). `has_logged` is true if there were points, which
    must not be applied twice.
    """

    def __init__(self, to: State, keep: Callable[[bytes], str]) -> None:
        self._to, self._keep = to, keep
        self.has_logged = False
        self._reset()

    def _reset(self) -> None:
        self._atoms: dict[str, Atom] = {}
        self._columns: dict[str, tuple[list[float], list[float], list[int]]] = {}
        self._texts: dict[str, list[tuple[float, Any, int]]] = {}
        self._waiting = 0

    def apply(self, path: str, verb: str, what: Any) -> None:
        """Apply an operation such as ``assignFloat`` to a valid path."""
        if verb in _ASSIGNED:
            kind, value = _assigned_value(verb, what)
            if kind == "atom:int" and self._to.kinds.get(path) == "atom:float":
                kind, value = "atom:float", float(value)
            self.assign(path, kind, encode_atom(value))
        elif verb in self._SERIES:
            family, add, nothing = self._SERIES[verb]
            if what["entries"] != []:
                add(self, path, what["entries"])
            elif self.expect(path, family) is None:
                # The client before 0.9 creates a series before it sends points. A journal can
                # express that only by a point that is removed again.
                add(self, path, [{"value": nothing, "timestampMilliseconds": 0}])
                self.apply(path, "clearFloatSeries", {})
        elif verb in self._ACTIONS:
            self.flush()
            self._ACTIONS[verb](self, path, what or {})
        else:
            raise RefusedError(f"unknown operation {verb!r:.60}")

    def flush(self) -> None:
        """Write all waiting values and points."""
        if self._atoms:
            self._to.assign(self._atoms)
        for path, column in self._columns.items():
            self._to.column(path, *column)
        for path, points in self._texts.items():
            self._to.points("string_series", path, points)
        self._reset()

    def expect(self, path: str, family: str) -> str | None:
        """Return the kind of a path; `RefusedError` if it is of another family."""
        there = self._to.kinds.get(path)
        if there not in (None, family):
            raise _kind_conflict(there, family)
        return there

    def put(self, path: str, family: str, record: Fields) -> None:
        """Put a file or an artifact at a path; `record` is the operation without the path."""
        self.expect(path, family)
        self._to.op({**record, "path": path})
        self._to.kinds[path] = family

    def put_members(self, path: str, members: Mapping[str, Fields], *, reset: bool = False) -> None:
        """Add files to a set of files, or with `reset` replace all of its files."""
        if reset and self._to.kinds.get(path) == "file_set":
            self._delete(path, {})
        self.expect(path, "file_set")
        if members:
            self._to.files(path, members)
            self._to.kinds[path] = "file_set"

    # ------------------------------------------------------------------ single values

    def assign(self, path: str, kind: str, atom: Atom) -> None:
        """Assign a single value."""
        there = self._to.kinds.get(path)
        if there not in (None, kind) and not {there, kind} <= _LIKE_STRINGS:
            raise _kind_conflict(there, kind)
        if atom.type == "string" and is_long(atom.value):
            atom = Atom("text", self._blob(atom.value))
        self._atoms[path] = atom
        self._to.kinds[path] = kind

    def _blob(self, text: str) -> dict[str, Any]:
        data = text.encode()
        return {"sha256": self._keep(data), "size": len(data)}

    # ------------------------------------------------------------------ series

    def time_of(self, entry: Fields) -> int:
        """Return the time of a point, ns since the Unix epoch."""
        return checked_time(int(entry["timestampMilliseconds"]) * _MILLISECOND_NS)

    def _points(
        self, path: str, entries: Sequence[Fields], family: str
    ) -> tuple[list[float], list[int]]:
        self.expect(check_series_path(path), family)
        steps, times = [], []
        last = self._to.steps.get(path)
        for each in entries:
            step = each.get("step")
            if step is None:  # the last step plus one, starting at 0
                step = 0.0 if last is None else last + 1
            step = float(step)
            if not math.isfinite(step):
                raise ArgumentError(f"{path}: expected a finite step, got {step}")
            last = step if last is None else max(last, step)
            steps.append(step)
            times.append(self.time_of(each))
        self._to.kinds[path] = family
        if last is not None:
            self._to.steps[path] = last
        self.has_logged = True
        return steps, times

    def _log_floats(self, path: str, entries: Sequence[Fields]) -> None:
        # Points of one path become one column, even if others are in between.
        values = [float(each["value"]) for each in entries]
        steps, times = self._points(path, entries, "float_series")
        column = self._columns.setdefault(path, ([], [], []))
        column[0].extend(values)
        column[1].extend(steps)
        column[2].extend(times)
        self._count_waiting(len(values))

    def _log_strings(self, path: str, entries: Sequence[Fields]) -> None:
        texts = [escape(str(each["value"])) for each in entries]
        steps, times = self._points(path, entries, "string_series")
        values = [self._blob(text) if is_long(text) else text for text in texts]
        self._texts.setdefault(path, []).extend(zip(steps, values, times, strict=True))
        self._count_waiting(sum(1 + len(text) // _CHARACTERS_PER_POINT for text in texts))

    def _count_waiting(self, weight: int) -> None:
        self._waiting += weight
        if self._waiting >= _MAX_WAITING:
            self.flush()

    def _log_images(self, path: str, entries: Sequence[Fields]) -> None:
        self.flush()
        values = [each["value"] for each in entries]
        contents = [base64.b64decode(one.get("data") or "", validate=True) for one in values]
        steps, times = self._points(path, entries, "file_series")
        for step, time, value, data in zip(steps, times, values, contents, strict=True):
            ext = extension_of("", data[:64]).replace("jpg", "jpeg") or "png"
            file = {"name": f"image.{ext}", "ext": ext, "size": len(data)}
            record = {"op": "file_point", "path": path, "step": step, "time": time}
            for name in ("name", "description"):
                if value.get(name):
                    record[name] = escape(str(value[name]))
            self._to.op({**record, "file": {**file, "sha256": self._keep(data)}})

    def _clear_series(self, path: str, _: Fields) -> None:
        there = self._to.kinds.get(path)
        if there is None:
            return
        if there.startswith("atom") or there in ("file", "file_set", "artifact", "string_set"):
            raise _kind_conflict(there, "a series")
        self._to.op({"op": "clear", "path": path})
        self._to.steps.pop(path, None)

    # ------------------------------------------------------------------ sets, files, artifacts

    def _change_set(self, path: str, op: str, values: Collection[Any]) -> None:
        self.expect(path, "string_set")
        if values or op == "assign_set":
            texts = [escape(str(each)) for each in values]
            self.put(path, "string_set", {"op": op, "values": texts})

    def _delete(self, path: str, _: Fields) -> None:
        if path.startswith("sys/"):
            raise RefusedError("fields below sys/ cannot be deleted")
        if self._to.kinds.get(path) is not None:
            self._to.op({"op": "delete", "paths": [path]})
            self._to.removed(path)

    def _delete_files(self, path: str, what: Fields) -> None:
        self.expect(path, "file_set")
        given = [str(each).strip("/") for each in what["filePaths"]]
        members = self._members(path)
        gone = [name for name in members if any(is_inside(name, one) for one in given)]
        if gone:
            self._to.op({"op": "unfiles", "path": path, "names": gone})

    def _members(self, path: str) -> Collection[str]:
        """Return the names of the files in a set of files."""
        raise NotImplementedError

    def _tracked(self, digest: str) -> Fields:
        """Return kind, files, references and hash of the artifact with a given hash."""
        raise NotImplementedError

    def _put_artifact(self, path: str, what: Fields) -> None:
        self.put(path, "artifact", {"op": "artifact", **self._tracked(str(what["hash"]))})

    def _clear_artifact(self, path: str, _: Fields) -> None:
        empty = {"files": [], "references": [], "hash": hashlib.sha256(b"").hexdigest()}
        self.put(path, "artifact", {"op": "artifact", "kind": "tracked", **empty})

    _SERIES: ClassVar[dict[str, tuple[str, Callable[[Operations, str, Any], None], Any]]] = {
        "logFloats": ("float_series", _log_floats, 0.0),
        "logStrings": ("string_series", _log_strings, ""),
        "logImages": ("file_series", _log_images, {}),
    }
    """Family, method and dummy value of each operation that appends to a series."""
    _ACTIONS: ClassVar[dict[str, Callable[[Operations, str, Any], object]]] = {
        "clearFloatSeries": _clear_series,
        "clearStringSeries": _clear_series,
        "clearImageSeries": _clear_series,
        # Bounds and unit of a chart are not recorded.
        "configFloatSeries": lambda self, path, _: self.expect(path, "float_series"),
        "insertStrings": lambda self, path, what: self._change_set(path, "add", what["values"]),
        "removeStrings": lambda self, path, what: self._change_set(path, "remove", what["values"]),
        "clearStringSet": lambda self, path, _: self._change_set(path, "assign_set", ()),
        "deleteAttribute": _delete,
        "deleteFiles": _delete_files,
        "assignArtifact": _put_artifact,
        "clearArtifact": _clear_artifact,
    }


def _kind_conflict(there: str | None, kind: str) -> RefusedError:
    words = [str(one).removeprefix("atom:").replace("_", " ") for one in (there, kind)]
    return RefusedError(f"holds {words[0]} and cannot become {words[1]}")


# ---------------------------------------------------------------------- values


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


_NUMBERS: Final = (int, float, bool, str)
_ASSIGNED: Final[dict[str, tuple[str, tuple[type, ...], Callable[[Any], Any]]]] = {
    "assignFloat": ("atom:float", _NUMBERS, float),
    "assignInt": ("atom:int", (int,), int),
    "assignBool": ("atom:bool", (bool,), bool),
    "assignString": ("atom:string", _NUMBERS, str),
    "assignDatetime": ("atom:datetime", (int, float), _moment),
}
"""Kind, accepted types and conversion of each operation that assigns a value."""


def _assigned_value(verb: str, what: Fields) -> tuple[str, Any]:
    kind, types, convert = _ASSIGNED[verb]
    value = what["valueMilliseconds" if verb == "assignDatetime" else "value"]
    if type(value) not in types:
        names = ", ".join(each.__name__ for each in types)
        raise RefusedError(f"{verb}: expected {names}, got {value!r:.60}")
    return kind, convert(value)


def checked_time(time_ns: int) -> int:
    """Return a time that a journal can contain, or raise `ArgumentError`."""
    if not -_INT64_LIMIT <= time_ns < _INT64_LIMIT:
        raise ArgumentError(
            f"expected a time in milliseconds since 1970, got {time_ns // _MILLISECOND_NS!r:.60}"
        )
    return time_ns
