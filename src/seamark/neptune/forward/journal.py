"""Translation of a journal and its files to operations of Neptune's protocol.

Values without an exact equivalent in the protocol are counted by kind.
"""

from __future__ import annotations

import base64
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, ClassVar, Final, NamedTuple

from seamark.blobs import open_blob
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder
from seamark.journal.format import FILE_HEADER_BYTES, Kind, file_of
from seamark.journal.frames import walk
from seamark.journal.reader import Block, JournalReader, RawFrame, decode_json, payload_of
from seamark.journal.safe import parts_of
from seamark.neptune.forward.client import RemoteAttribute
from seamark.paths import is_inside
from seamark.process.interrupts import quietly
from seamark.reading.attributes import is_background
from seamark.reading.facts import FORWARD
from seamark.store.fold.decode import decode
from seamark.store.fold.payloads import Names, atom_of, legible, record_points

Place = tuple[int, int]
"""Position in a journal: offset of a frame in bytes, and number of one of its items."""
START: Final = (FILE_HEADER_BYTES, 0)

_DECODE_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of unreadable data; other errors are bugs."""
_RECORDS: Final = frozenset({Kind.HEADER, Kind.OP, Kind.TEXT, Kind.HISTOGRAM})
_LATEST_ONLY: Final = frozenset({"atom", "file", "header", "own", "state"})
"""Kinds of items of which only the latest per path is valid."""
_POINT_KINDS: Final = frozenset({"number", "text", "histogram", "image"})
_SYS_PREFIX: Final = "monitoring/seamark/"
_SETTABLE: Final = frozenset(
    {"sys/name", "sys/description", "sys/failed", "sys/tags", "sys/group_tags"}
)
_SETS: Final = ("sys/tags", "sys/group_tags")
_HEADER_FIELDS: Final = {"run": "id", "project": "project", "user": "owner", "host": "hostname"}
_INT32: Final = 1 << 31
_IMAGE_EXTENSIONS: Final = frozenset({"png", "jpg", "jpeg", "gif", "bmp", "webp", "tiff"})
_MAX_IMAGE_BYTES: Final = 15 << 20
_MAX_POINTS: Final = 5000
"""Maximum number of points per request."""
_CHARACTERS_PER_POINT: Final = 200
"""Number of characters that count as one point."""


class Item(NamedTuple):
    """Recorded item: a point of a series, a value, a header or an op.

    `what` is ``"number"``, ``"text"``, ``"histogram"`` or ``"image"`` (a point of a series),
    ``"atom"``, ``"header"``, or the name of an op. For a file to send, it is its name in a file
    set, or empty. `value` is the number, text or file; type and value of an atom; or the record of
    an op. `t` is the time given by the user, else that of the record, in ns since the Unix epoch.
    """

    place: Place
    what: str
    path: str
    value: Any
    step: float
    t: int


def _items_of_block(
    block: Block, names: Names, wanted: frozenset[str] | None, stop: int
) -> Iterator[Item]:
    # The items of a frame and their order must not depend on the frames around it.
    decoded = decode(block, names, wanted, stop)
    found: list[tuple[int, str, str, Any, float, int]] = []
    for batch in decoded.batches:
        for path, (rows, values) in batch.series.items():
            which = slice(None) if rows is None else rows
            offset, step, t = (
                one[which].tolist() for one in (batch.offset, batch.step, batch.time)
            )
            all_of_it = itertools.repeat("number"), itertools.repeat(path)
            found += zip(offset, *all_of_it, values.tolist(), step, t, strict=False)
    for raw in decoded.records:
        if raw[1] in _RECORDS:
            with quietly(only=_DECODE_ERRORS):
                some = _items_of_record(raw, payload_of(block.data, raw))
                found += [(block.base + raw[0], *one) for one in some if isinstance(one[1], str)]
    found.sort(key=itemgetter(0, 2))
    for offset, of_frame in itertools.groupby(found, itemgetter(0)):
        for number, (_, *rest) in enumerate(of_frame):
            yield Item((offset, number), *rest)


def _items_of_record(raw: RawFrame, payload: bytes) -> list[tuple[str, str, Any, float, int]]:
    # Unreadable records are left out, as by all readers.
    record = decode_json(payload)
    record = legible(record) if b"\\u" in payload else record
    _, kind, _, _, t, _ = raw
    op = str(record["op"]) if kind == Kind.OP else ""
    if op == "assign":
        return [("atom", path, atom, 0.0, t) for path, atom in record["atoms"].items()]
    if op == "delete":
        return [(op, path, None, 0.0, t) for path in record["paths"]]
    path = record.get("path", "")
    if kind == Kind.HEADER or op not in ("", "file_point"):
        return [(op or "header", path, record, 0.0, t)]
    what = {Kind.TEXT: "text", Kind.HISTOGRAM: "histogram"}.get(Kind(kind), "image")
    return [
        (what, path, value, step, t if time is None else time)
        for _, step, value, time in record_points(kind, payload, path)
    ]


def assigned(path: str, kind: str, value: Any) -> dict[str, Any]:
    """Return the operation that assigns a single value; datetimes are in ms."""
    name = "valueMilliseconds" if kind == "datetime" else "value"
    return {"path": path, f"assign{kind.capitalize()}": {name: value}}


class SharedState:
    """State of a run on the server, shared by its journals.

    On the server, a path holds one type, and no paths may be below it. `kinds` has the types;
    `sets` has the elements of the sets that are sent as texts. `newest` has the time of the last
    assignment that was read, ns since the Unix epoch, so that an older value of an earlier attempt
    that is sent late does not replace a newer one.
    """

    def __init__(self) -> None:
        self.sets: dict[str, set[str]] = {}
        self.newest: dict[str, int] = {}
        self.see({})

    def see(self, seen: Mapping[str, RemoteAttribute]) -> None:
        """Set the attributes of all paths from those on the server."""
        self.kinds: dict[str, str] = {}
        self._spaces = Counter[str]()
        for path, one in seen.items():
            self.put(path, one.kind)

    def place(self, path: str) -> str:
        """Return the server's path for a path of the run; a reserved or occupied path is moved."""
        *above, last = default_path(path).split("/")
        found = ""
        for name in above:
            found += f"{name}_/" if found + name in self.kinds else f"{name}/"
        return found + (f"{last}_" if self._spaces[found + last] else last)

    def put(self, path: str, kind: str | None) -> None:
        """Note the new type of a path, or None for a deleted attribute."""
        change = (kind is not None) - (path in self.kinds)
        self._spaces.update({path[: slash.start()]: change for slash in re.finditer("/", path)})
        self.kinds.pop(path, None)
        if kind is not None:
            self.kinds[path] = kind

    def inside(self, path: str) -> list[str]:
        """Return the removable attributes at and below a path of the run."""
        both, kept = (default_path(path), f"{default_path(path)}_"), ("sys/", f"{FORWARD}/")
        removable = [each for each in self.kinds if not each.startswith(kept)]
        return [each for each in removable if any(is_inside(each, one) for one in both)]


def default_path(path: str) -> str:
    """Return the server's path for a path without conflicts; paths below ``sys/`` are reserved."""
    return _SYS_PREFIX + path if path.startswith("sys/") and path not in _SETTABLE else path


class Journal:
    """Journal that is being sent to the server.

    Its part that was sent before is read at once, because later records may depend on it. Create
    all journals of a run before `shared` gets the current state of the server.

    Attributes:
        sent: Position up to which the server has it; with `doubt`, the server may have more.
        files: Files to send, by path and name, in the order of their records.
        unsupported: Counts of unsupported values, by kind.
        last_t: Time of the last frame that was read, ns since the Unix epoch.
        is_closed: Whether that frame ends the journal.
    """

    def __init__(
        self, folder: RunFolder, name: str, seen: Mapping[str, RemoteAttribute], shared: SharedState
    ) -> None:
        self.name, self.path = name, folder.journal_dir / name
        self._folder, self._shared, self._names = folder, shared, Names()
        self._prefix = f"{FORWARD}/{name.rpartition('.')[0]}/"
        stored = {
            path.removeprefix(self._prefix): one.value
            for path, one in seen.items()
            if path.startswith(self._prefix)
        }
        self.sent, self._files_sent = (
            _parse_place(stored.get("position")),
            _parse_place(stored.get("files")),
        )
        self.doubt, self.last_t, self.is_closed = True, 0, False
        self.files: dict[tuple[str, str], Item] = {}
        self._tokens: dict[str, Any] = {}
        self._statistics: set[str] = set()
        self.unsupported = Counter[str]()
        end = self.sent[0] + (self.sent[1] > 0)
        for item in self._read(FILE_HEADER_BYTES, end, frozenset()):
            if item.place < self.sent and item.what not in _POINT_KINDS:
                self._apply(item)
        self._begin_request()
        self.unsupported = Counter(
            {kind: count for kind, count in stored.items() if type(count) is int}
        )

    def _begin_request(self) -> None:
        self._operations: list[dict[str, Any]] = []
        self._open: dict[str, list[dict[str, Any]]] = {}
        self._request_points = 0

    def _read(self, start: int, end: int, wanted: frozenset[str] | None = None) -> Iterator[Item]:
        if start >= end:
            return
        with JournalReader(self.path, walk=walk) as reader:
            for block in reader.blocks(start):
                if block.base >= end:
                    return
                _, kind, _, _, self.last_t, _ = block.frames.raw(-1)
                self.is_closed = kind == Kind.CLOSE
                yield from _items_of_block(block, self._names, wanted, end)

    def requests(self, end: int) -> Iterator[list[dict[str, Any]]]:
        """Yield the operations of each request, up to an offset.

        Get the next item only after the last request was accepted.
        """
        last = Item((end, 0), "", "", None, 0.0, 0)
        for item in itertools.chain(self._read(self.sent[0], end), [last]):
            if item.place < self.sent:
                continue
            if self._request_points >= _MAX_POINTS or item is last:
                yield [*self._operations, *self._position("position", item.place)]
                self._begin_request()
                self.sent, self.doubt = item.place, False
            self._apply(item)

    def _position(self, name: str, place: Place) -> list[dict[str, Any]]:
        # The current counts of unsupported values are sent with it.
        counts = [assigned(self._prefix + kind, "int", n) for kind, n in self.unsupported.items()]
        return [assigned(self._prefix + name, "string", f"{place[0]}+{place[1]}"), *counts]

    @property
    def done(self) -> int:
        """Offset up to which the server has the journal and its files, in bytes."""
        return min([self.sent[0], *(one.place[0] for one in self.files.values())])

    def is_replaced(self, task: Item) -> bool:
        """Return whether a newer value replaces a file, as of a later attempt."""
        newest = self._shared.newest.get(_member(task.path, task.what), 0)
        return task.t < max(newest, self._shared.newest.get(task.path, 0))

    def begin_file(self, task: Item) -> tuple[str, list[dict[str, Any]]]:
        """Return the server's path for a file, and the operations that prepare the path."""
        target = self._prepare_path(task.path, "fileSet" if task.what else "file")
        operations = self._operations
        self._begin_request()
        return target, operations

    def end_file(self, task: Item) -> list[dict[str, Any]]:
        """Return the operations that mark a file as done."""
        if self.files.get(key := (task.path, task.what)) is task:
            del self.files[key]
        return self._position(
            "files", min((one.place for one in self.files.values()), default=self.sent)
        )

    # ---------------------------------------------------------------- operations

    def _apply(self, item: Item) -> None:
        newest, key = self._shared.newest, item.path or item.what
        try:
            if is_inside(item.path, FORWARD):
                return
            if item.what in _LATEST_ONLY:
                if item.t < newest.get(key, 0):
                    return
                newest[key] = item.t
            if (act := self._HANDLERS.get(item.what)) is not None:
                act(self, item)
        except FileMissingError:
            self.unsupported["files_gone"] += 1
        except _DECODE_ERRORS:
            self.unsupported["damaged"] += 1

    def _prepare_path(self, path: str, kind: str) -> str:
        # An attribute of another type at this path is removed.
        target = self._shared.place(path)
        there = self._shared.kinds.get(target)
        if there is None and target != default_path(path):
            self.unsupported["renamed"] += 1
        if there not in (None, kind):
            self._add_operation(target, "deleteAttribute")
        if there != kind:
            self._shared.put(target, kind)
        return target

    def _add_operation(self, path: str, verb: str, **given: Any) -> None:
        if verb.startswith(("clear", "delete")):
            self._open = {}  # later points must follow this operation
        self._operations.append({"path": path, verb: given})
        self._request_points += 5

    def _assign(self, path: str, kind: str, value: Any) -> None:
        self._operations.append(assigned(self._prepare_path(path, kind), kind, value))
        self._request_points += 5 + (
            len(value) // _CHARACTERS_PER_POINT if isinstance(value, str) else 0
        )

    def _point(self, item: Item, kind: str, verb: str, value: Any, size: int = 0) -> None:
        path = self._prepare_path(item.path, kind)
        if path not in self._open:
            self._open[path] = []
            self._operations.append({"path": path, verb: {"entries": self._open[path]}})
        is_whole = item.step.is_integer() and math.fabs(item.step) < 1 << 53
        entry = {"value": value, "step": int(item.step) if is_whole else item.step}
        self._open[path].append({**entry, "timestampMilliseconds": item.t // 1_000_000})
        self._request_points += 1 + size // _CHARACTERS_PER_POINT

    # ---------------------------------------------------------------- series

    def _number(self, item: Item) -> None:
        if math.isfinite(item.value):
            self._point(item, "floatSeries", "logFloats", item.value)
        else:
            self.unsupported["not_finite"] += 1

    def _text(self, item: Item) -> None:
        if isinstance(item.value, str):
            self._point(item, "stringSeries", "logStrings", item.value, len(item.value))
        else:
            self.unsupported["long_texts"] += 1

    def _image(self, item: Item) -> None:
        file = item.value["file"]
        is_image = str(file.get("ext", "")).lower() in _IMAGE_EXTENSIONS
        if not is_image or file.get("size", 0) > _MAX_IMAGE_BYTES:
            self.unsupported["other_file_series"] += 1
        elif (file := self._stored_file(file)) is not None:
            with open_blob(self._folder, file["sha256"], file.get("size")) as source:
                data = base64.b64encode(source.read()).decode()
            names = ("name", "description")
            about = {each: item.value[each] for each in names if item.value.get(each) is not None}
            self._point(item, "imageSeries", "logImages", {"data": data, **about}, len(data))

    def _clear(self, item: Item) -> None:
        kind = self._kind_of(item.path)
        if kind.endswith(("Series", "Set")):
            self._add_operation(self._shared.place(item.path), f"clear{kind[0].upper()}{kind[1:]}")

    def _kind_of(self, path: str) -> str:
        return self._shared.kinds.get(self._shared.place(path), "")

    def _statistic(self, item: Item) -> None:
        if item.path not in self._statistics:  # count each path once
            self._statistics.add(item.path)
            self.unsupported["statistics"] += 1

    # ---------------------------------------------------------------- single values

    def _atom(self, item: Item) -> None:
        kind, value = item.value
        loss = ""
        if kind == "text":
            self.unsupported["long_texts"] += 1
            return
        if kind == "datetime":
            moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
            value = int(moment.timestamp() * 1000)
        elif kind in ("int", "float"):
            value = atom_of(kind, value) if isinstance(value, str) else value
            if isinstance(value, float) and not math.isfinite(value):
                kind, value, loss = "string", str(value), "not_finite_values"
            elif kind == "int" and not -_INT32 <= value < _INT32:
                is_large = abs(value) >= 1 << 1023
                kind, value = ("string", hex(value)) if is_large else ("float", float(value))
                loss = "large_integers"
            elif kind == "float" or self._kind_of(item.path) == "float":
                kind, value = "float", float(value)
        elif kind != "bool":
            if not is_background(item.path):
                loss = {"null": "nulls", "json": "lists"}.get(kind, "")
            kind, value = "string", "None" if value is None else str(value)
        self.unsupported.update([loss] if loss else [])
        self._assign(item.path, kind, value)

    def _header(self, item: Item) -> None:
        for key, name in _HEADER_FIELDS.items() if item.value.get("owner") is True else ():
            if isinstance(value := item.value.get(key), str):
                self._assign(f"sys/{name}", "string", value)

    def _state(self, item: Item) -> None:
        self._assign("sys/state", "string", str(item.value["state"]))
        if isinstance(error := item.value.get("error"), dict):
            words = f"{error.get('type')}: {error.get('message')}"
            self._assign("sys/error", "string", words)

    # ---------------------------------------------------------------- sets, removing

    def _change_set(self, item: Item) -> None:
        values = [str(one) for one in item.value["values"]]
        kept = set() if item.what == "assign_set" else self._shared.sets.get(item.path, set())
        kept = kept.difference(values) if item.what == "remove" else kept.union(values)
        self._shared.sets[item.path] = kept
        if item.path not in _SETS:
            self.unsupported.update([] if is_background(item.path) else ["sets"])
            self._assign(item.path, "string", ", ".join(sorted(kept)))
            return
        self._shared.put(item.path, "stringSet")
        if item.what == "assign_set":
            self._add_operation(item.path, "clearStringSet")
        if values:
            verb = "removeStrings" if item.what == "remove" else "insertStrings"
            self._add_operation(item.path, verb, values=values)

    def _delete(self, item: Item) -> None:
        left = [one for one in self.files.items() if not is_inside(one[0][0], item.path)]
        self.files = dict(left)
        for target in self._shared.inside(item.path):
            if item.t >= self._shared.newest.get(target, 0):
                self._add_operation(target, "deleteAttribute")
                self._shared.put(target, None)

    # ---------------------------------------------------------------- files

    def _queue_known_file(self, item: Item) -> None:
        token = item.value.get("token")
        if item.what != "digest" or self._tokens.get(item.path) == token:  # else replaced
            self._tokens[item.path] = token
            self._queue_file(item, "", item.value.get("file"))

    def _queue_members(self, item: Item) -> None:
        for name, file in item.value.get("members", {}).items():
            self._queue_file(item, name, file)

    def _queue_file(self, item: Item, name: str, given: Any) -> None:
        with quietly(only=(ValueError, TypeError)):
            name = "/".join(parts_of(str(name), "member")) if name else ""
            file = self._stored_file(given)
            if file is not None and item.place >= self._files_sent:
                self.files.pop((item.path, name), None)  # it is superseded
                newest, member = self._shared.newest, _member(item.path, name)
                newest[member] = max(item.t, newest.get(member, 0))
                self.files[item.path, name] = item._replace(what=name, value=file)

    def _stored_file(self, given: Any) -> dict[str, Any] | None:
        file = file_of(given)
        loss = ["folders"] if file.get("dir") else ["references"] if "ref" in file else []
        self.unsupported.update(loss)
        return file if "sha256" in file and not loss else None  # else the digest follows

    def _remove_members(self, item: Item) -> None:
        names = [str(one) for one in item.value["names"]]
        for name in names:
            self.files.pop((item.path, name), None)
        self._add_operation(self._shared.place(item.path), "deleteFiles", filePaths=names)

    _HANDLERS: ClassVar[dict[str, Callable[[Journal, Item], object]]] = {
        "number": _number,
        "text": _text,
        "image": _image,
        "histogram": lambda self, _: self.unsupported.update(["histograms"]),
        "artifact": lambda self, _: self.unsupported.update(["artifacts"]),
        "statistic": _statistic,
        "atom": _atom,
        "header": _header,
        "state": _state,
        "clear": _clear,
        "delete": _delete,
        **dict.fromkeys(("add", "remove", "assign_set"), _change_set),
        **dict.fromkeys(("file", "own", "digest"), _queue_known_file),
        "files": _queue_members,
        "unfiles": _remove_members,
    }


def _member(path: str, name: str) -> str:
    return f"{path}\0{name}"


def _parse_place(text: Any) -> Place:
    found = re.fullmatch(r"([0-9]+)\+([0-9]+)", str(text or ""))
    return START if found is None else (int(found[1]), int(found[2]))
