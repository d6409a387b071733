"""Answers to reads: authorization, time of the data, encoding and compression.

Strings, booleans, null, finite floats and ints below 2**53 are plain JSON (a float has a point or
an exponent). Every other value is an object with the key ``$``, which names its type:

- ``{"$": "float", "v": "nan"}``, ``"inf"``, ``"-inf"``; ``{"$": "int", "v": "-0x2386f26fc10000"}``;
- ``{"$": "datetime", "v": "2026-01-31T12:00:00+00:00"}``, ISO 8601;
- ``{"$": "dict", "v": {...}}``: an object that has a key ``$`` of its own;
- ``{"$": "f8", "v": "<base64>"}`` and ``"i8"``: arrays of little-endian float64 and int64. With
  ``?arrays=json`` a list of numbers replaces the base64 text; ``"nan"``, ``"inf"`` and ``"-inf"``
  stand for values that JSON cannot represent;
- the name of a class, next to its fields: ``{"$": "Attribute", "path": ...}``.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import sqlalchemy as sa
import zstandard
from fastapi import Request, Response

from seamark.errors import ArgumentError, QueryError, RunNotFoundError
from seamark.paths import PROJECT_LOG, projects_above
from seamark.reading.codec import pack
from seamark.reading.names import RunName
from seamark.reading.points import TextPage
from seamark.reading.reader import Answer, Count, Question
from seamark.reading.tables import RunsTable
from seamark.server.access import NOBODY, Readable, Role
from seamark.server.changes import BEHIND, POSITION, from_header
from seamark.server.failures import Refusal, later
from seamark.server.guard import expect, open_to_all, serving_of
from seamark.store import schema
from seamark.store.cells import OPEN
from seamark.store.schema import silent_from
from seamark.values.aggregates import Keep
from seamark.values.arrays import Floats, Ints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seamark.server.access import Serving


_TAG: Final = "$"
_VALUE: Final = "v"
_MAX_EXACT: Final = 1 << 53
_MAX_DEPTH: Final = 128
_DEPTH_MARK: Final = "..."
_ENVELOPE_MODULE: Final = "seamark.reading.codec"
_ARRAY_TAGS: Final = {"float64": "f8", "int64": "i8"}
_PLAIN_TYPES: Final = {str, bool, type(None)}
_NAMED_TUPLES: Final = (RunName, TextPage)
"""Tuples that are encoded as objects; other tuples are lists."""


def to_json(value: Any, *, plain_arrays: bool = False) -> bytes:
    """Return a value of an answer as JSON; raise `TypeError` for other classes.

    Data below 128 levels of nesting becomes ``"..."``; Seamark records nothing that deep.
    """
    given = _members_of(value) if isinstance(value, Answer) else value
    made = _Encoder(plain_arrays=plain_arrays).value(given, 0)
    try:
        return msgspec.json.encode(made)
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(made, separators=(",", ":"), allow_nan=False).encode("ascii")


class _Encoder:
    def __init__(self, *, plain_arrays: bool) -> None:
        self._plain_arrays = plain_arrays

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in _PLAIN_TYPES:
            return value
        if kind is float:
            return value if value - value == 0 else {_TAG: "float", _VALUE: str(value)}
        if kind is int:
            return value if -_MAX_EXACT < value < _MAX_EXACT else {_TAG: "int", _VALUE: hex(value)}
        if depth > _MAX_DEPTH:
            return _DEPTH_MARK
        if kind is dict:
            made = self._members(value, depth)
            return {_TAG: "dict", _VALUE: made} if _TAG in made else made
        return self._object(value, depth)

    def _list(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.value(one, depth + 1) for one in values]

    def _members(self, members: dict[Any, Any], depth: int) -> dict[str, Any]:
        return {str(key): self.value(one, depth + 1) for key, one in members.items()}

    def _object(self, value: Any, depth: int) -> Any:
        name = type(value).__name__
        if isinstance(value, RunsTable | Keep):
            return {_TAG: name} | self._members(_parts_of(value), depth)
        if is_dataclass(value):
            made = self._members(
                {one.name: getattr(value, one.name) for one in fields(value)}, depth
            )
            return made if type(value).__module__ == _ENVELOPE_MODULE else {_TAG: name} | made
        if isinstance(value, _NAMED_TUPLES):
            return {_TAG: name} | self._members(value._asdict(), depth)
        if isinstance(value, list | tuple):
            return self._list(value, depth)
        if isinstance(value, set | frozenset):
            return sorted(value)
        if isinstance(value, str):  # an Escaped
            return str.__str__(value)
        if isinstance(value, datetime):
            return {_TAG: "datetime", _VALUE: value.isoformat()}
        return self._array(value)

    def _array(self, array: Any) -> dict[str, Any]:
        name = _ARRAY_TAGS.get(getattr(getattr(array, "dtype", None), "name", ""))
        if name is None:
            raise TypeError(f"{type(array).__qualname__} cannot be written as JSON")
        if self._plain_arrays:
            return {_TAG: name, _VALUE: [_finite(one) for one in array.tolist()]}
        packed = array.astype(f"<{name}", copy=False).tobytes()
        return {_TAG: name, _VALUE: base64.b64encode(packed).decode("ascii")}


def _members_of(answer: Answer[Any]) -> dict[str, Any]:
    if answer.unchanged:
        return {"unchanged": True}
    found = {name: getattr(answer, name) for name in ("seen", "next", "told", "total")}
    said = {name: one for name, one in found.items() if one not in ("", None, [])}
    return {"answer": answer.answer} | said


def _parts_of(table: RunsTable | Keep) -> dict[str, Any]:
    if isinstance(table, Keep):
        return {"state": table.state_dict()}
    return {
        "columns": table.columns,
        "cells": [table[column] for column in table.columns],
        "refs": table.refs,
        "total": table.known_total,
        "offset": table.offset,
    }


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else str(number)


# ---------------------------------------------------------------------- API description

_SPECIAL: Final = {
    "description": "Value that JSON cannot represent.",
    "type": "object",
    "properties": {_TAG: {"enum": ["float", "int", "datetime", "dict"]}, _VALUE: {}},
    "required": [_TAG, _VALUE],
}
_SPECIAL_REF: Final = {"$ref": "#/components/schemas/Special"}
_TAGGED: Final[dict[type, dict[str, Any]]] = {
    RunsTable: {
        "columns": {"type": "array", "items": {"type": "string"}},
        "cells": {"type": "array", "items": {"type": "array"}},
        "refs": {"type": "array", "items": {"type": "array"}},
        "total": {"type": ["integer", "null"]},
        "offset": {"type": "integer"},
    },
}


def schemas_of(kinds: Iterable[Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a schema of the JSON of each type, and the components to which they refer."""
    found, components = msgspec.json.schema_components(
        list(kinds), schema_hook=_schema, ref_template="#/components/schemas/{name}"
    )
    return list(map(_extended, found)), _extended(components) | {"Special": _SPECIAL}


def _schema(kind: Any) -> dict[str, Any]:
    if kind in (Floats, Ints):
        name, of = ("f8", "float64") if kind is Floats else ("i8", "int64")
        about = f"{of} values: base64 of little-endian bytes; a list with ?arrays=json."
        properties: dict[str, Any] = {_TAG: {"const": name}, _VALUE: {"type": ["string", "array"]}}
    else:
        about = (kind.__doc__ or "").partition("\n")[0]
        properties = {_TAG: {"const": kind.__name__}} | _TAGGED[kind]
    required = list(properties)
    return {"description": about, "type": "object", "properties": properties, "required": required}


def _extended(schema: Any) -> Any:
    # Values that JSON cannot represent are objects.
    if isinstance(schema, list):
        return list(map(_extended, schema))
    if not isinstance(schema, dict):
        return schema
    for kind in _NAMED_TUPLES if "prefixItems" in schema else ():
        if schema.get("title") == kind.__name__:
            schema = _named_tuple_schema(schema, kind._fields)
    if schema.get("type") in ("integer", "number") or schema.get("format") == "date-time":
        return {"anyOf": [schema, _SPECIAL_REF]}
    return {key: _extended(one) for key, one in schema.items()}


def _named_tuple_schema(schema: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    properties = dict(zip(fields, schema["prefixItems"], strict=True))
    return {
        "title": schema["title"],
        "description": schema.get("description", ""),
        "type": "object",
        "properties": {_TAG: {"const": schema["title"]}, **properties},
        "required": [_TAG, *fields],
    }


T = TypeVar("T")
NOW: Final = "Seamark-Now"
"""Response header: time of the server, nanoseconds since the Unix epoch."""
LOOKED: Final = "Seamark-Looked"
"""Response header: time of the last scan for changes by the same clock; 0 for never."""
LEFT: Final = "Seamark-Left"
"""Response header: number of runs not read yet; absent if 0."""
UNREAD: Final = "Seamark-Unread"
"""Response header: number of unreadable folders; absent if 0."""
MAX_ANSWER_BYTES: Final = 16 << 20
"""Maximum size of a list in one answer, in bytes before compression."""
_MIN_COMPRESSED_BYTES: Final = 1 << 11
_ITEMS_AT_ONCE: Final = 64
_MAX_HEAVY: Final = 4
_HEAVY_WAIT_S: Final = 20.0
_RUN_STATE: Final = sa.select(
    schema.run.c.version,
    schema.run.c.state,
    schema.run.c.beat,
    schema.run.c.forked_from,
).where(schema.run.c.project == sa.bindparam("project"), schema.run.c.name == sa.bindparam("name"))
_MSGPACK: Final = "application/msgpack"
_VARY: Final = "Accept, Accept-Encoding"
_heavy_slots: Final = threading.BoundedSemaphore(_MAX_HEAVY)


class ReadRequest:
    """Request for reading, with the methods that answer it.

    `question` is the body of a verb. `told` collects messages about paths that no run has.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.question: Any = Question()
        self.told: list[str] = []
        self.server: Serving = serving_of(request)
        self.now_ns = self.server.now_ns()
        self._behind = 0

    def wait(self, allowed: Callable[[str], bool]) -> None:
        """Wait until the positions in the request's header are folded, for `allowed` projects."""
        given = self.request.headers.get(POSITION)
        if given:
            wanted = {
                ref: position for ref, position in from_header(given).items() if allowed(ref[0])
            }
            self._behind = self.server.behind(wanted)

    def answer(self, make: Callable[[], Any], tag: str) -> Response:
        """Return the response; a list is cut to the size of one answer.

        `tag` changes whenever the answer may change, and is empty if that is unknown. `make` is not
        called if the client has the current answer.
        """
        if tag and self.question.seen == tag:
            return self._encoded(Answer(unchanged=True))
        found = make()
        if isinstance(found, list):
            found = self.part_of(found)
        answer = found if isinstance(found, Answer) else Answer(found)
        answer.seen, answer.told = tag, self.told
        return self._encoded(answer)

    def part_of(self, items: Sequence[T], total: int | None = None) -> Answer[list[T]]:
        """Return the next part of a list that fits into one answer."""
        begin = self.place(Count) or 0
        some = fitting(items, begin)
        end = begin + len(some)
        return Answer(list(some), next=to_next(end) if end < len(items) else None, total=total)

    def place(self, kind: Any) -> Any:
        """Return the end of the previous part, as passed to `to_next`; None for the first part."""
        if not self.question.next:
            return None
        try:
            return msgspec.json.decode(self.question.next, type=kind)
        except (msgspec.MsgspecError, ValueError):
            got = f"{self.question.next!r:.120}"
            raise ArgumentError(
                f"next: expected the value that the previous part returned, got {got}"
            ) from None

    def _encoded(self, answer: Answer[Any]) -> Response:
        if _MSGPACK in self.request.headers.get("accept", ""):
            return self._response(pack(answer), _MSGPACK)
        plain = self.request.query_params.get("arrays") == "json"
        return self._response(to_json(answer, plain_arrays=plain), "application/json")

    def _response(self, body: bytes, media_type: str) -> Response:
        looked = self.server.changing.looked(self.now_ns)
        headers = {NOW: str(self.now_ns), LOOKED: str(looked.looked_ns), "Vary": _VARY}
        if looked.left:
            headers[LEFT] = str(looked.left)
        if looked.unread:
            headers[UNREAD] = str(looked.unread)
        if self._behind:
            headers[BEHIND] = str(self._behind)
        body, encoding = compressed(body, self.request.headers.get("accept-encoding", ""))
        if encoding:
            headers["Content-Encoding"] = encoding
        return Response(body, headers=headers, media_type=media_type)


class Several(ReadRequest):
    """Request about everything that the requester may read; `may_read` checks a project."""

    def __init__(self, request: Request) -> None:
        who = open_to_all(request)
        super().__init__(request)
        readable = self.server.accounts.readable(who)
        if who == NOBODY and not readable.everything and not readable.projects:
            raise Refusal(
                401,
                "token-needed",
                "no project is public: send a token (Authorization: Bearer ...)",
                headers={"WWW-Authenticate": "Bearer"},
            )
        self._readable = readable
        self.may_read = partial(may_read, readable)
        self.sees_all = readable.everything and not readable.excluded
        self.wait(self.may_read)

    def unknown(self, error: QueryError) -> None:
        """Refuse an unknown path, or report it in the answer, as the request specifies."""
        if self.question.unknown == "refuse":
            raise error
        self.told.append(str(error))

    def cursor(self) -> str:
        """Return the cursor after all changes up to now."""
        return self.server.changing.cursor(self.now_ns)

    def tag(self) -> str:
        """Return a tag that changes with any run and the requester's rights; cheap to compute."""
        seen = self._readable
        rights = repr((seen.everything, sorted(seen.projects), sorted(seen.excluded))).encode()
        return f"{self.server.changing.tag(self.now_ns)}.{zlib.crc32(rights):08x}"

    def only_readable(self, refs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the readable runs without duplicates; others are treated as missing."""
        return [ref for ref in dict.fromkeys(refs) if self.may_read(ref[0])]


class OneRun(ReadRequest):
    """Request about one run that the requester may read."""

    def __init__(self, request: Request, project: str, run: str) -> None:
        expect(request, project, Role.VIEWER)
        super().__init__(request)
        self.project, self.run = project, run
        self.wait(lambda one: one == project)
        self.read = self.server.reader(project, run)

    def tag(self) -> str:
        """Return a tag that changes with any readable data of the run."""
        store = self.server.store()
        database = store.database
        rows = database.fetch(_RUN_STATE, project=self.project, name=self.run)
        if not rows:
            raise RunNotFoundError(f"run {self.run!r} does not exist in project {self.project!r}")
        version, state, beat, parent = rows[0]
        if parent is not None:  # its data may belong to ancestors
            return self.server.changing.tag(self.now_ns)
        silent = state in ("running", OPEN) and (
            silent_from(state, beat) < self.now_ns
            # On the machine of its process, the end of the process is detected before the silence.
            or (store.here and self.read.state != state)
        )
        with database.reading() as connection:  # the run inherits the tags of projects
            above = [
                f".{project}.{row[0]}"
                for project in projects_above(self.project, self.run)
                for row in database.rows(connection, _RUN_STATE, project=project, name=PROJECT_LOG)
            ]
        inherits = f".{zlib.crc32(''.join(above).encode()):08x}" if above else ""
        return f"{self.server.changing.name()}.{version}.{int(silent)}{inherits}"


def several(request: Request) -> Several:
    """Return a request about everything that the requester may read; for use as a dependency."""
    # Not the class itself: older versions of FastAPI do not resolve the annotations of a class.
    return Several(request)


def may_read(readable: Readable, project: str) -> bool:
    """Return whether a project may be read; the nearest listed project at or above it decides."""
    parts = project.split("/")
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        if path in readable.projects:
            return True
        if path in readable.excluded:
            return False
    return readable.everything


@contextmanager
def heavy() -> Iterator[None]:
    """Limit the number of concurrent blocks that need much memory; refuse (503) after 20 s."""
    if not _heavy_slots.acquire(timeout=_HEAVY_WAIT_S):
        raise later(
            error="busy",
            hint="too many large reads at the moment; send the request again",
            seconds=5,
        )
    try:
        yield
    finally:
        _heavy_slots.release()


def to_next(place: Any) -> str:
    """Return the ``next`` of an answer, which `ReadRequest.place` decodes."""
    return msgspec.json.encode(place).decode()


def fitting(items: Sequence[T], offset: int) -> Sequence[T]:
    """Return the items from an offset that fit into one answer, at least one."""
    size, end = 0, offset
    while end < len(items) and size < MAX_ANSWER_BYTES:
        some = items[end : end + _ITEMS_AT_ONCE]
        size += len(pack(list(some)))
        end += len(some)
    return items[offset:end]


def compressed(body: bytes, accepted: str) -> tuple[bytes, str]:
    """Return a body, compressed if large enough, and its ``Content-Encoding`` (empty: none)."""
    if len(body) < _MIN_COMPRESSED_BYTES:
        return body, ""
    names = {
        name.strip()
        for name, _, quality in (one.partition(";") for one in accepted.lower().split(","))
        if quality.replace(" ", "") not in ("q=0", "q=0.0")
    }
    if "zstd" in names:
        return zstandard.ZstdCompressor(level=3).compress(body), "zstd"
    if "gzip" in names:
        return gzip.compress(body, 3, mtime=0), "gzip"
    return body, ""
