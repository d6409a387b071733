"""Layout of stored journals: tables, and objects that hold parts of journals.

An object starts with a list of its parts::

    0   8  89 53 4D 4F 0D 0A 1A 0A     magic
    8   4  u32 length of the list      12  4  u32 crc32 of the list
    16  …  the list: JSON, then the bytes of its parts, one after the other

The list has the time of writing and, for each part, its run, journal, offset in the journal,
length, time of arrival and CRC. A declared gap is a part without bytes. A growing object
(`seamark.server.kept.commit`) repeats this layout (magic, list, bytes) and ends with zeros.
"""

from __future__ import annotations

import io
import json
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
import zstandard

from seamark.errors import PathError
from seamark.journal.format import (
    FILE_HEADER_BYTES,
    FRAME_HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    WHOLE,
    dump_json,
    whole,
)
from seamark.journal.shipping import BATCH_BYTES, PLAIN_BYTES, BatchError, check_journal_name
from seamark.paths import check_scope
from seamark.server.database import RowNumber, Text
from seamark.server.failures import Refusal
from seamark.server.objects import ObjectStore

metadata = sa.MetaData()
LIVE = 0
"""State of an object that segments refer to."""
RELEASED = 1
"""State of an object without segments; its row is removed with it."""
CLAIMED = 2
"""State of an orphan. Its row stays, so that the object cannot be registered later."""
GROWING = 3
"""State of an object to which bytes are appended; it stays even without segments."""
runs = sa.Table(
    "kept_run",
    metadata,
    sa.Column("number", RowNumber, primary_key=True, autoincrement=True),
    # Project path, a slash, and the run id (without slashes).
    sa.Column("key", Text, nullable=False, unique=True),
    sa.Column("project", Text, nullable=False),
    sa.Column("run", Text, nullable=False),
    # Bytes of all journals, gaps included; only grows.
    sa.Column("position", sa.BigInteger, nullable=False),
    # Start of the wait of bytes not noted as folded, ns since the Unix epoch.
    sa.Column("waiting_ns", sa.BigInteger),
    # Bytes in objects shared by several runs, and time of arrival of the last ones.
    sa.Column("loose", sa.BigInteger, nullable=False),
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # Time of the purge, ns since the Unix epoch; no more data is accepted.
    sa.Column("purged_ns", sa.BigInteger),
)
sa.Index(
    "kept_run_waiting",
    runs.c.waiting_ns,
    sqlite_where=runs.c.waiting_ns.isnot(None),
    postgresql_where=runs.c.waiting_ns.isnot(None),
)
sa.Index(
    "kept_run_loose",
    runs.c.loose,
    sqlite_where=runs.c.loose > 0,
    postgresql_where=runs.c.loose > 0,
)
sa.Index("kept_run_of_project", runs.c.project, runs.c.run)
journals = sa.Table(
    "kept_journal",
    metadata,
    sa.Column("number", RowNumber, primary_key=True, autoincrement=True),
    sa.Column("run", sa.BigInteger, nullable=False),
    sa.Column("name", Text, nullable=False),
    # Number of stored bytes, gaps included. It advances by compare-and-set.
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # Largest lead of its writer's clock over the server's, ns; 0 if less than an hour.
    sa.Column("ahead_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("run", "name"),
)
objects = sa.Table(
    "kept_object",
    metadata,
    sa.Column("number", RowNumber, primary_key=True, autoincrement=True),
    sa.Column("name", Text, nullable=False, unique=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    # Time from which it may be removed, ns since the Unix epoch.
    sa.Column("remove_ns", sa.BigInteger),
    # Whether it holds bytes of a purged run in addition to others.
    sa.Column("stale", sa.SmallInteger, nullable=False),
)
sa.Index(
    "kept_object_remove",
    objects.c.remove_ns,
    sqlite_where=objects.c.remove_ns.isnot(None),
    postgresql_where=objects.c.remove_ns.isnot(None),
)
sa.Index(
    "kept_object_stale",
    objects.c.stale,
    sqlite_where=objects.c.stale > 0,
    postgresql_where=objects.c.stale > 0,
)
segments = sa.Table(
    "kept_segment",
    metadata,
    sa.Column("journal", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("length", sa.BigInteger, nullable=False),
    # Object that holds the bytes, or declares the gap.
    sa.Column("object", sa.BigInteger, nullable=False, index=True),
    # Offset in the object, in bytes; null for a declared gap.
    sa.Column("place", sa.BigInteger),
    # Time of arrival of the last bytes, ns since the Unix epoch by the server's clock.
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # Whether the object is shared with other runs.
    sa.Column("loose", sa.SmallInteger, nullable=False),
)
REMOVE_NS: Final = 24 * 3600 * 10**9
"""Lifetime of a released object, for concurrent readers, in nanoseconds."""
_ROWS_AT_ONCE: Final = 500
_object, _segment = objects, segments


def release(
    connection: sa.Connection, numbers: Sequence[int], remove_ns: int, *, stale: bool = False
) -> None:
    """Release the objects that no segment refers to any more, except growing ones.

    They may be removed from `remove_ns` on, ns since the Unix epoch. With `stale`, objects that are
    still referred to hold bytes that must be removed, and will be rewritten.
    """
    for start in range(0, len(numbers), _ROWS_AT_ONCE):
        some = list(numbers[start : start + _ROWS_AT_ONCE])
        named = sa.select(_segment.c.object).where(_segment.c.object.in_(some)).distinct()
        left = {row[0] for row in connection.execute(named)}
        gone = [number for number in some if number not in left]
        if gone:
            connection.execute(
                sa.update(_object)
                .where(_object.c.number.in_(gone), _object.c.state != GROWING)
                .values(state=RELEASED, remove_ns=remove_ns, stale=0)
            )
        if left and stale:
            connection.execute(
                sa.update(_object).where(_object.c.number.in_(sorted(left))).values(stale=1)
            )


_MAX_FRAME_BYTES: Final = FILE_HEADER_BYTES + FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES
_MAX_OVERHEAD_BYTES: Final = 64 << 10
"""Generous upper limit of the bytes that compression adds to incompressible data."""
_MAX_WINDOW_BYTES: Final = 32 << 20
"""Maximum memory that a zstd frame may request in advance, in bytes."""
_READ_BYTES: Final = 1 << 20
_PLAIN_LIMIT: Final[dict[str, Any]] = {"limit": "plain_bytes", "allowed": PLAIN_BYTES}


def unpacked(body: bytes, packing: str) -> bytes:
    """Return a request body decoded by its ``Content-Encoding``, ``zstd`` or ``identity``."""
    if packing in ("", "identity"):
        data = body
    elif packing != "zstd":
        raise Refusal(
            415, "bad-encoding", f"Content-Encoding: expected zstd or none, got {packing!r:.40}"
        )
    elif not body:
        data = b""
    else:
        data = _inflated(body)
    if len(body) > BATCH_BYTES + _MAX_OVERHEAD_BYTES and len(data) > _MAX_FRAME_BYTES:
        raise Refusal(
            413,
            "too-large",
            f"batch_bytes: at most {BATCH_BYTES} are accepted, got {len(body)}: send less",
            **_PLAIN_LIMIT,
        )
    return data


def _inflated(body: bytes) -> bytes:
    # Decompressed in pieces, as the declared size of a frame is not trusted.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    plain = io.BytesIO()  # grows in place; joining a list of parts would need twice the memory
    try:
        with decompressor.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
            while part := reader.read(_READ_BYTES):
                if plain.tell() + len(part) > PLAIN_BYTES:
                    raise Refusal(
                        413,
                        "too-large",
                        f"plain_bytes: at most {PLAIN_BYTES} are accepted: send less",
                        **_PLAIN_LIMIT,
                    )
                plain.write(part)
    except zstandard.ZstdError as error:
        raise Refusal(422, "bad-encoding", f"the body is not valid zstd: {error}") from error
    return plain.getvalue()


PREFIX: Final = "journals/"
"""Prefix of the names of these objects."""
_MAGIC: Final = b"\x89SMO\r\n\x1a\n"
_HEAD: Final = struct.Struct("<8sII")
_MAX_LIST_BYTES: Final = 64 << 20
"""Maximum size of a list in bytes, thousands of times the size of real ones."""
_FORMAT: Final = 1
_OBJECTS_PER_FOLDER: Final = 1000


class Part(NamedTuple):
    """Range of a journal in an object; `offset` and `length` in the journal, in bytes.

    `heard_ns` is the time of arrival of its last bytes, ns since the Unix epoch by the server's
    clock. `ahead_ns` is the lead of its writer's clock, 0 if less than an hour. `crc` (CRC32) and
    `place`, its offset in the object, are None for a declared gap.
    """

    project: str
    run: str
    journal: str
    offset: int
    length: int
    heard_ns: int
    ahead_ns: int
    crc: int | None
    place: int | None = None

    @property
    def end(self) -> int:
        """End of the part in the journal."""
        return self.offset + self.length


def object_names() -> Iterator[str]:
    """Yield unique names for objects: a random id and a counter."""
    worker = secrets.token_hex(8)
    for number in count():
        yield f"{PREFIX}{worker}/{number // _OBJECTS_PER_FOLDER}/{number:08d}"


def packed(
    parts: Sequence[Part],
    made_ns: int,
    *,
    shared: bool,
    sizes: Sequence[int],
    start: int = 0,
) -> tuple[bytes, list[Part]]:
    """Return the magic and the list of parts as bytes, and the parts with their places.

    `sizes` has the number of bytes of each part in the object, 0 for a declared gap. `start` is the
    offset of the result in the object. `shared` tells whether the parts belong to several runs.
    """
    listed = {
        "format": _FORMAT,
        "made_ns": made_ns,
        "shared": shared,
        "parts": [part[:8] for part in parts],
    }
    text = dump_json(listed)
    head = _HEAD.pack(_MAGIC, len(text), zlib.crc32(text)) + text
    placed, place = [], start + len(head)
    for part, size in zip(parts, sizes, strict=True):
        placed.append(part._replace(place=place if size else None))
        place += size
    return head, placed


class Listed(NamedTuple):
    """Contents of an object according to its lists; `end` is the end of the last part.

    `shared` tells whether the parts belong to several runs, `whole` whether the rest of the object
    is zeros, the space for growth.
    """

    parts: list[Part]
    shared: bool
    end: int
    whole: bool = True


def read_parts(objects: ObjectStore, name: str, size: int) -> Listed:
    """Return the contents of an object; raise `ValueError` if its start is invalid or damaged.

    An object that has grown holds several lists, each with its parts. After a power loss its end
    may be incomplete; such data was not acknowledged, and is skipped.
    """
    found: list[Listed] = []
    end, whole = 0, True
    while end < size:
        if not objects.get(name, end, _HEAD.size).strip(b"\0"):
            break
        try:
            section = _section(objects, name, end, size)
        except (ValueError, TypeError, KeyError, RecursionError):
            if not found:
                raise
            whole = False
            rest = objects.get(name, end, size - end)
            if (after := rest.find(_MAGIC, 1)) < 0:
                break
            end += after
        else:
            found.append(section)
            end = section.end
    if found and (end < size or found[1:]) and not _are_intact(objects, name, found[-1].parts):
        found.pop()  # its list was written, but not its bytes
        whole = False
    parts = [part for section in found for part in section.parts]
    shared = not found or found[0].shared
    return Listed(parts, shared, found[-1].end if found else 0, whole)


def _are_intact(objects: ObjectStore, name: str, parts: Sequence[Part]) -> bool:
    return all(
        part.place is None or zlib.crc32(objects.get(name, part.place, part.length)) == part.crc
        for part in parts
    )


def _section(objects: ObjectStore, name: str, start: int, size: int) -> Listed:
    head = objects.get(name, start, _HEAD.size)
    if len(head) < _HEAD.size:
        raise ValueError(f"object {name!r} is truncated")
    magic, length, crc = _HEAD.unpack(head)
    if magic != _MAGIC or length > min(_MAX_LIST_BYTES, size):
        raise ValueError(f"object {name!r} holds no journals")
    text = objects.get(name, start + _HEAD.size, length)
    if len(text) < length or zlib.crc32(text) != crc:
        raise ValueError(f"object {name!r} is damaged: the CRC of its list does not match")
    listed = json.loads(text)
    if listed["format"] != _FORMAT:
        raise ValueError(f"object {name!r} was written by a newer Seamark")
    parts, place = [], start + _HEAD.size + length
    for one in listed["parts"]:
        part = _checked_part(one)
        if part.crc is not None:
            part = part._replace(place=place)
            place += part.length
        parts.append(part)
    if place > size:
        raise ValueError(f"object {name!r} has {size} bytes, expected {place} by its list")
    return Listed(parts, bool(listed["shared"]), place)


def _checked_part(one: Any) -> Part:
    # A bucket may hold objects of other programs.
    part = Part(*one)
    numbers = (part.offset, part.length, part.heard_ns, part.ahead_ns)
    try:
        check_scope(part.project)
        check_journal_name(part.journal)
    except (PathError, BatchError) as error:
        raise ValueError(str(error)) from error
    if not all(whole(number) for number in numbers) or part.end >= WHOLE or "/" in part.run:
        raise ValueError(f"expected the name, place and CRC of a part, got {one!r:.200}")
    if part.crc is not None and not whole(part.crc, 1 << 32):
        raise ValueError(f"part {one!r:.200} has no CRC")
    return part
