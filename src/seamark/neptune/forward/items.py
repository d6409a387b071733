"""Items of a journal, read one after the other to be sent to another program.

The same frame always gives the same items, whatever came before, so that a position within a frame
can be stored and resumed from.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.journal.format import USER_TIME, Kind
from seamark.journal.reader import decode_json
from seamark.process.interrupts import let_pass
from seamark.store.fold.payloads import record_points, unpack_sparse

if TYPE_CHECKING:
    from seamark.journal.reader import Frame

__all__ = ["NUMERIC", "Item", "Items"]

NUMERIC: Final = frozenset({int(Kind.ROW), int(Kind.SPARSE), int(Kind.COLUMN)})
"""Kinds of frames that hold nothing but points of series of numbers."""

_I64: Final = struct.Struct("<q")
_NUMBER: Final = struct.Struct("<I")


class Item(NamedTuple):
    """Recorded item: a point of a series, a value, a header or an op.

    Attributes:
        what: ``"number"``, ``"text"``, ``"histogram"`` or ``"image"`` (a point of a series),
            ``"atom"``, ``"header"``, or the name of an op.
        path: Path of the item; empty where an op names it itself.
        value: The number, text or file; type and value of an atom; the record of an op.
        step: Step of a point.
        t: Time in nanoseconds since the Unix epoch: the caller's own where one was given.
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
        """Take note of what later frames refer to."""
        if frame.kind == Kind.PATH and len(frame.payload) > _NUMBER.size:
            number = _NUMBER.unpack_from(frame.payload)[0]
            self._paths[number] = frame.payload[_NUMBER.size :].decode("utf-8", "replace")
        elif frame.kind == Kind.SCHEMA and len(frame.payload) >= _NUMBER.size:
            count = len(frame.payload) // _NUMBER.size
            numbers = struct.unpack_from(f"<{count}I", frame.payload)
            self._schemas[numbers[0]] = numbers[1:]

    def of(self, frame: Frame) -> list[Item]:
        """Return what a frame says; what of it cannot be read is left out, as by every reader."""
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
