"""Items of a journal, the paths held by the server, and the operations and files to send.

The same frame always gives the same items, so a transfer can be resumed within a frame.
"""

from __future__ import annotations

import math
import re
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.errors import ArgumentError
from seamark.journal.format import USER_TIME, Kind, file_of
from seamark.journal.reader import decode_json
from seamark.journal.safe import parts_of
from seamark.paths import is_inside
from seamark.process.interrupts import let_pass
from seamark.reading.facts import FORWARD
from seamark.store.fold.payloads import record_points, unpack_sparse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.journal.reader import Frame
    from seamark.neptune.forward.client import Seen

__all__ = [
    "NUMERIC",
    "OWN",
    "Batch",
    "Held",
    "Item",
    "Items",
    "Task",
    "Work",
    "entry_of",
    "is_own",
    "usual",
]


NUMERIC: Final = frozenset({int(Kind.ROW), int(Kind.SPARSE), int(Kind.COLUMN)})
"""Kinds of frames that hold nothing but points of series of numbers."""
_I64: Final = struct.Struct("<q")
_NUMBER: Final = struct.Struct("<I")


class Item(NamedTuple):
    """Recorded item: a point of a series, a value, a header or an op.

    `what` is ``"number"``, ``"text"``, ``"histogram"`` or ``"image"`` (a point of a series),
    ``"atom"``, ``"header"``, or the name of an op. `path` is empty where an op names it itself.
    `value` is the number, text or file; type and value of an atom; the record of an op. `t` is in
    ns since the Unix epoch: the caller's own where one was given.
    """

    what: str
    path: str
    value: Any
    step: float = 0.0
    t: int = 0


class Items:
    """Reads the frames of one journal, from its first one on."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._schemas: dict[int, tuple[int, ...]] = {}

    def learn(self, frame: Frame) -> None:
        """Note the definitions that later frames refer to."""
        if frame.kind == Kind.PATH and len(frame.payload) > _NUMBER.size:
            number = _NUMBER.unpack_from(frame.payload)[0]
            self._paths[number] = frame.payload[_NUMBER.size :].decode("utf-8", "replace")
        elif frame.kind == Kind.SCHEMA and len(frame.payload) >= _NUMBER.size:
            count = len(frame.payload) // _NUMBER.size
            numbers = struct.unpack_from(f"<{count}I", frame.payload)
            self._schemas[numbers[0]] = numbers[1:]

    def of(self, frame: Frame) -> list[Item]:
        """Return the items of a frame; unreadable ones are left out, as by every reader."""
        self.learn(frame)
        try:
            if frame.kind in NUMERIC:
                return list(self._numbers(frame))
            if frame.kind in (Kind.TEXT, Kind.HISTOGRAM):
                return list(_points(frame))
            if frame.kind == Kind.OP:
                return list(_op(frame))
            if frame.kind == Kind.HEADER:
                return [Item("header", "", decode_json(frame.payload), t=frame.t)]
        except (ValueError, TypeError, KeyError, AttributeError, struct.error) as error:
            let_pass(error)
        return []

    def _numbers(self, frame: Frame) -> Iterator[Item]:
        payload, t = frame.payload, frame.t
        if frame.kind == Kind.COLUMN:
            yield from self._column(frame)
            return
        if frame.flags & USER_TIME:
            t = _I64.unpack_from(payload, 8)[0]
        if frame.kind == Kind.SPARSE:
            step, numbers, values = unpack_sparse(payload, frame.flags)
        else:
            numbers = self._schemas[frame.aux]
            step = struct.unpack_from("<d", payload)[0]
            start = 16 if frame.flags & USER_TIME else 8
            values = struct.unpack_from(f"<{len(numbers)}d", payload, start)
        if math.isfinite(step):
            for number, value in zip(numbers, values, strict=True):
                if (path := self._paths.get(number)) is not None:
                    yield Item("number", path, value, step, t)

    def _column(self, frame: Frame) -> Iterator[Item]:
        number, count = struct.unpack_from("<II", frame.payload)
        steps = struct.unpack_from(f"<{count}d", frame.payload, 8)
        values = struct.unpack_from(f"<{count}d", frame.payload, 8 + 8 * count)
        times = [frame.t] * count
        if frame.flags & USER_TIME:
            times = list(struct.unpack_from(f"<{count}q", frame.payload, 8 + 16 * count))
        if (path := self._paths.get(number)) is None:
            return
        for step, value, t in zip(steps, values, times, strict=True):
            if math.isfinite(step):
                yield Item("number", path, value, step, t)


def _points(frame: Frame) -> Iterator[Item]:
    path = decode_json(frame.payload)["path"]
    what = "text" if frame.kind == Kind.TEXT else "histogram"
    for _, step, value, time in record_points(int(frame.kind), frame.payload, path):
        yield Item(what, path, value, step, frame.t if time is None else time)


def _op(frame: Frame) -> Iterator[Item]:
    record = decode_json(frame.payload)
    op, path = record["op"], record.get("path", "")
    if not isinstance(path, str):
        return
    if op == "assign":
        for each, (kind, value) in record["atoms"].items():
            yield Item("atom", each, (kind, value), t=frame.t)
    elif op == "delete":
        for each in record["paths"]:
            if isinstance(each, str):
                yield Item("delete", each, None, t=frame.t)
    elif op == "file_point":
        for _, step, value, time in record_points(int(frame.kind), frame.payload, path):
            yield Item("image", path, value, step, frame.t if time is None else time)
    else:
        yield Item(str(op), path, record, t=frame.t)


OWN: Final = FORWARD
"""Below it we keep, on both sides, how far a run is and what could not be held."""
_BELOW_SYS: Final = "monitoring/seamark/"
_SETTABLE: Final = frozenset(
    {"sys/name", "sys/description", "sys/failed", "sys/tags", "sys/group_tags"}
)


def is_own(path: str) -> bool:
    """Return whether a path has facts about forwarding itself."""
    return is_inside(path, OWN)


def usual(path: str) -> str:
    """Return the server's path for a path without conflicts; paths below ``sys/`` are reserved."""
    return _BELOW_SYS + path if path.startswith("sys/") and path not in _SETTABLE else path


class Held:
    """Contents of each path on the server, shared by the journals of a run.

    On the server a path holds one type, and nothing may be below it. `kinds` has the types, `sets`
    the elements of those sets that are sent as texts. `newest` is the time of the last assignment
    as far as it was read, ns since the Unix epoch: an older value of an earlier attempt that is
    sent late does not replace a newer one.
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        self.kinds: dict[str, str] = {}
        self.sets: dict[str, dict[str, None]] = {}
        self.newest: dict[str, int] = {}
        self._spaces: Counter[str] = Counter()
        self._places: dict[str, str] = {}
        for path, one in seen.items():
            self.holds(path, one.kind)

    def place(self, path: str) -> str:
        """Return the server's path for a path of the run; a reserved or occupied path is moved."""
        found = self._places.get(path)
        if found is None:
            found = self._places[path] = self._place(path)
        return found

    def _place(self, path: str) -> str:
        path = usual(path)
        parts: list[str] = []
        names = path.split("/")
        for number, name in enumerate(names):
            here, last = "/".join([*parts, name]), number == len(names) - 1
            in_the_way = self._spaces[here] > 0 if last else here in self.kinds
            parts.append(f"{name}_" if in_the_way else name)
        return "/".join(parts)

    def holds(self, path: str, kind: str) -> None:
        """Note the new content of a path."""
        if path not in self.kinds:
            for above in _above(path):
                self._spaces[above] += 1
            self._places.clear()
        self.kinds[path] = kind

    def free(self, path: str) -> None:
        """Note that a path holds nothing any more."""
        if self.kinds.pop(path, None) is not None:
            for above in _above(path):
                self._spaces[above] -= 1
            self._places.clear()

    def inside(self, path: str) -> list[str]:
        """Return the removable contents at and below a path of the run."""
        path = usual(path)
        if path.startswith("sys/"):
            return []
        return [
            each
            for each in self.kinds
            if (is_inside(each, path) or is_inside(each, f"{path}_")) and not is_own(each)
        ]


def _above(path: str) -> list[str]:
    names = path.split("/")[:-1]
    return ["/".join(names[: number + 1]) for number in range(len(names))]


_MOST: Final = 5000
_TEXT_WEIGHT: Final = 200
"""Characters that weigh as much as a point."""
Entry = dict[str, Any]


class Batch:
    """Operations of one request, in order; `lacking` counts items without a form, by kind."""

    def __init__(self) -> None:
        self.operations: list[dict[str, Any]] = []
        self.lacking: Counter[str] = Counter()
        self._open: dict[str, list[Entry]] = {}
        self._weight = 0

    @property
    def full(self) -> bool:
        """Whether it is to be sent before anything is added."""
        return self._weight >= _MOST

    def add(self, path: str, operation: str, **given: Any) -> None:
        """Add an operation that is no point of a series."""
        self.operations.append({"path": path, operation: given})
        value = given.get("value")
        self._weight += 5 + (len(value) // _TEXT_WEIGHT if isinstance(value, str) else 0)

    def point(self, path: str, operation: str, entry: Entry) -> None:
        """Add a point of a series."""
        entries = self._open.get(path)
        if entries is None:
            entries = self._open[path] = []
            self.operations.append({"path": path, operation: {"entries": entries}})
        entries.append(entry)
        value = entry["value"]
        self._weight += 1 + (len(value) // _TEXT_WEIGHT if isinstance(value, str) else 0)

    def barrier(self) -> None:
        """Separate following operations from earlier ones: a series is emptied, or a path freed."""
        self._open = {}


def entry_of(value: Any, step: float, t: int) -> Entry:
    """Return a point in the protocol's form, with its time in ms instead of ns."""
    whole = step.is_integer() and math.fabs(step) < 1 << 53
    return {
        "value": value,
        "step": int(step) if whole else step,
        "timestampMilliseconds": t // 1_000_000,
    }


_IMAGES: Final = frozenset({"png", "jpg", "jpeg", "gif", "bmp", "webp", "tiff"})
_MOST_IMAGE: Final = 15 << 20
_EXT: Final = re.compile(r"[A-Za-z0-9_.+-]{1,40}")


class Task(NamedTuple):
    """File to be sent.

    `place` is that of the item that names it: offset of the frame, and number. `what` is
    ``"file"``, ``"member"`` (of a set of files) or ``"image"`` (a point of a series, `item`).
    `digest` is its SHA-256; `ext` is without the dot.
    """

    place: tuple[int, int]
    what: str
    path: str
    name: str
    digest: str
    size: int
    ext: str
    item: Item | None = None


class Work:
    """Unsent files of one journal; used by two threads."""

    def __init__(self, done: tuple[int, int]) -> None:
        self._done = done
        self._lock = threading.Lock()
        self._tasks: dict[tuple[Any, ...], Task] = {}

    # ---------------------------------------------------------------- on the thread that reads

    def file(
        self, place: tuple[int, int], path: str, file: Any, lacking: Counter[str] | None
    ) -> None:
        """Queue a file to be sent."""
        self._add(place, "file", path, "", file, lacking)

    def member(
        self,
        place: tuple[int, int],
        path: str,
        name: str,
        file: Any,
        lacking: Counter[str] | None,
    ) -> None:
        """Queue a member of a set of files to be sent."""
        try:
            name = "/".join(parts_of(name, "member"))
        except ArgumentError as error:
            let_pass(error)
            return
        self._add(place, "member", path, name, file, lacking)

    def image(self, place: tuple[int, int], item: Item, lacking: Counter[str] | None) -> None:
        """Queue a point of a series of images to be sent."""
        file = item.value["file"]
        is_image = str(file.get("ext", "")).lower() in _IMAGES
        if not is_image or file.get("size", 0) > _MOST_IMAGE:
            if lacking is not None:
                lacking["other_file_series"] += 1
            return
        self._add(place, "image", item.path, "", file, lacking, item)

    def _add(
        self,
        place: tuple[int, int],
        what: str,
        path: str,
        name: str,
        given: Any,
        lacking: Counter[str] | None,
        item: Item | None = None,
    ) -> None:
        if place < self._done:
            return
        try:
            file = file_of(given)
        except (ValueError, TypeError) as error:
            let_pass(error)
            return
        lacks = "folders" if file.get("dir") else "references" if "ref" in file else None
        if lacks is not None:
            if lacking is not None:
                lacking[lacks] += 1
            return
        if "sha256" not in file:  # it follows
            return
        ext = str(file.get("ext", ""))
        ext = ext if _EXT.fullmatch(ext) else ""
        size = int(file.get("size", 0))
        task = Task(place, what, path, name, file["sha256"], size, ext, item)
        with self._lock:  # what was put there before need not be sent any more
            self._tasks.pop(key := _key(task), None)
            self._tasks[key] = task

    def forget(self, path: str) -> None:
        """Send nothing to a path or below it that is not there yet."""
        with self._lock:
            for key in [key for key, one in self._tasks.items() if is_inside(one.path, path)]:
                del self._tasks[key]

    def forget_members(self, path: str, names: list[str]) -> None:
        """Send nothing of a set of files by these names."""
        with self._lock:
            for name in names:
                self._tasks.pop((path, name), None)

    # ---------------------------------------------------------------- on the thread that sends

    def next(self) -> Task | None:
        """Return the next task."""
        with self._lock:
            return next(iter(self._tasks.values()), None)

    def after(self, task: Task, end: tuple[int, int]) -> tuple[int, int]:
        """Return the journal position up to which all files are sent once a task is done."""
        with self._lock:
            return min((one.place for one in self._tasks.values() if one is not task), default=end)

    def sent(self, task: Task) -> None:
        """Note that something is there, or never will be."""
        with self._lock:
            if self._tasks.get(key := _key(task)) is task:
                del self._tasks[key]

    def left(self) -> dict[str, int]:
        """Return the files that are still to be sent: sizes in bytes by digest."""
        with self._lock:
            return {one.digest: one.size for one in self._tasks.values()}


def _key(task: Task) -> tuple[Any, ...]:
    return ("", task.place) if task.what == "image" else (task.path, task.name)
