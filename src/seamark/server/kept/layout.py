"""Layout of stored journals: tables, and objects that hold parts of journals.

An object begins with a list of its parts::

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
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
from seamark.server.failures import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seamark.server.objects import ObjectStore

__all__ = [
    "CLAIMED",
    "GROWING",
    "LIVE",
    "PREFIX",
    "REMOVE_NS",
    "Part",
    "is_sound",
    "journals",
    "metadata",
    "names_of_worker",
    "objects",
    "packed",
    "read_parts",
    "release",
    "runs",
    "segments",
    "unpacked",
]


metadata = sa.MetaData()
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only that counts by itself there
LIVE = 0
"""State of an object named by segments."""
RELEASED = 1
"""State of an object that nothing names any more; its row is removed with it."""
CLAIMED = 2
"""State of an orphan. Its row stays, so that nothing can name it later."""
GROWING = 3
"""State of an object to which bytes are added; it stays even if nothing names it."""
runs = sa.Table(
    "kept_run",
    metadata,
    sa.Column("number", _Number, primary_key=True, autoincrement=True),
    # Project path, a slash, and the run id, which has none.
    sa.Column("key", _Text, nullable=False, unique=True),
    sa.Column("project", _Text, nullable=False),
    sa.Column("run", _Text, nullable=False),
    # Bytes of all journals, gaps included; only grows.
    sa.Column("position", sa.BigInteger, nullable=False),
    # Since when more is kept than somebody has noted as folded, ns since the epoch.
    sa.Column("waiting_ns", sa.BigInteger),
    # Bytes that lie in objects which several runs share, and when the last of them came.
    sa.Column("loose", sa.BigInteger, nullable=False),
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # When it was purged, ns since the epoch: nothing of it is taken any more.
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
    sa.Column("number", _Number, primary_key=True, autoincrement=True),
    sa.Column("run", sa.BigInteger, nullable=False),
    sa.Column("name", _Text, nullable=False),
    # Bytes that are kept, gaps included. It advances by compare-and-set.
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # How far its writer's clock was ahead of ours at worst, ns; 0 if by less than an hour.
    sa.Column("ahead_ns", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("run", "name"),
)
objects = sa.Table(
    "kept_object",
    metadata,
    sa.Column("number", _Number, primary_key=True, autoincrement=True),
    sa.Column("name", _Text, nullable=False, unique=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    # From when on it may be removed, ns since the epoch.
    sa.Column("remove_ns", sa.BigInteger),
    # Whether it holds bytes of a run that was purged, beside others.
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
    # Which object holds it; the one that says so, for a declared gap.
    sa.Column("object", sa.BigInteger, nullable=False, index=True),
    # Where in the object, bytes; none for a declared gap.
    sa.Column("place", sa.BigInteger),
    # When the last of it came, ns since the epoch by the clock of the server.
    sa.Column("heard_ns", sa.BigInteger, nullable=False),
    # Whether it still shares its object with other runs.
    sa.Column("loose", sa.SmallInteger, nullable=False),
)
REMOVE_NS: Final = 24 * 3600 * 10**9
"""Time for which an unnamed object stays for concurrent readers, in nanoseconds."""
_AT_ONCE: Final = 500
_object, _segment = objects, segments


def release(
    connection: sa.Connection, numbers: Sequence[int], remove_ns: int, *, stale: bool = False
) -> None:
    """Let go of those objects that no segment names any more; those that grow stay as they are.

    They may be removed from `remove_ns` on, ns since the Unix epoch. With `stale`, those that are
    still named hold bytes that have to go, and are written anew.
    """
    for start in range(0, len(numbers), _AT_ONCE):
        some = list(numbers[start : start + _AT_ONCE])
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


_LONGEST_FRAME: Final = FILE_HEADER_BYTES + FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES
_OVERHEAD: Final = 64 << 10
"""Generous upper limit of the bytes that compression adds to incompressible data."""
_WINDOW_BYTES: Final = 32 << 20
"""Maximum memory that a zstd frame may request before it writes anything, in bytes."""
_PART_BYTES: Final = 1 << 20
_TOO_LONG: Final[dict[str, Any]] = {"limit": "plain_bytes", "allowed": PLAIN_BYTES}


def unpacked(body: bytes, packing: str) -> bytes:
    """Return a request body decoded by its ``Content-Encoding``, ``zstd`` or ``identity``."""
    if packing in ("", "identity"):
        data = body
    elif packing != "zstd":
        msg = f"Content-Encoding: expected zstd or none, got {packing!r:.40}"
        raise Rejected(msg, "bad-encoding", 415)
    elif not body:
        data = b""
    else:
        data = _inflated(body)
    if len(body) > BATCH_BYTES + _OVERHEAD and len(data) > _LONGEST_FRAME:
        msg = f"batch_bytes: at most {BATCH_BYTES} are accepted, got {len(body)}: send less at once"
        raise Rejected(msg, "too-large", 413, **_TOO_LONG)
    return data


def _inflated(body: bytes) -> bytes:
    # Piece by piece: what a frame says of its size is somebody's word.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    plain = io.BytesIO()  # grows in place, where a list of parts would be held twice
    try:
        with decompressor.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
            while part := reader.read(_PART_BYTES):
                if plain.tell() + len(part) > PLAIN_BYTES:
                    msg = f"plain_bytes: at most {PLAIN_BYTES} are accepted: send less at once"
                    raise Rejected(msg, "too-large", 413, **_TOO_LONG)
                plain.write(part)
    except zstandard.ZstdError as error:
        msg = f"the body is not zstd: {error}"
        raise Rejected(msg, "bad-encoding") from error
    return plain.getvalue()


PREFIX: Final = "journals/"
"""Prefix of the names of these objects."""
_MAGIC: Final = b"\x89SMO\r\n\x1a\n"
_HEAD: Final = struct.Struct("<8sII")
_MAX_BYTES: Final = 64 << 20
"""Maximum size of a list, thousands of times what is written."""
_FORMAT: Final = 1
_FOLDER: Final = 1000


class Part(NamedTuple):
    """A stretch of a journal in an object; `offset` and `length` are of the journal, in bytes.

    `heard_ns` is when the last of it came, ns since the Unix epoch by the clock of the server, and
    `ahead_ns` how far its writer's clock was ahead, 0 if by less than an hour. `crc` (CRC32) and
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


def names_of_worker() -> Iterator[str]:
    """Yield names that no other process gives: a random id, and a number that counts up."""
    worker = secrets.token_hex(8)
    for number in count():
        yield f"{PREFIX}{worker}/{number // _FOLDER}/{number:08d}"


def packed(
    parts: Sequence[Part],
    made_ns: int,
    *,
    shared: bool,
    sizes: Sequence[int],
    start: int = 0,
) -> tuple[bytes, list[Part]]:
    """Return the bytes before those of the parts, and the parts with their places.

    `sizes` are the bytes that each part has in the object, 0 for a declared gap; `start` is the
    place of all this in the object. `shared` tells whether it is of several runs.
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
    """Contents of an object, as the lists in it declare them; `end` is that of the last part.

    `shared` tells whether the parts are of several runs, `whole` whether everything else in the
    object is zeros, which it may grow into.
    """

    parts: list[Part]
    shared: bool
    end: int
    whole: bool = True


def read_parts(objects: ObjectStore, name: str, size: int) -> Listed:
    """Return the contents of an object; `ValueError` if its beginning is invalid or damaged.

    One that grew holds several lists, each with its parts. Its end may be torn, if a machine lost
    power: what is there was not acknowledged, and is passed over.
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
    if found and (end < size or found[1:]) and not _are_sound(objects, name, found[-1].parts):
        found.pop()  # its list got there, and its bytes did not
        whole = False
    parts = [part for section in found for part in section.parts]
    shared = not found or found[0].shared
    return Listed(parts, shared, found[-1].end if found else 0, whole)


def is_sound(objects: ObjectStore, name: str, part: Part) -> bool:
    """Return whether the bytes of a part are those that were written."""
    if part.place is None:
        return True
    return zlib.crc32(objects.get(name, part.place, part.length)) == part.crc


def _are_sound(objects: ObjectStore, name: str, parts: Sequence[Part]) -> bool:
    return all(is_sound(objects, name, part) for part in parts)


def _section(objects: ObjectStore, name: str, start: int, size: int) -> Listed:
    head = objects.get(name, start, _HEAD.size)
    if len(head) < _HEAD.size:
        msg = f"object {name!r} is cut short"
        raise ValueError(msg)
    magic, length, crc = _HEAD.unpack(head)
    if magic != _MAGIC or length > min(_MAX_BYTES, size):
        msg = f"object {name!r} holds no journals"
        raise ValueError(msg)
    text = objects.get(name, start + _HEAD.size, length)
    if len(text) < length or zlib.crc32(text) != crc:
        msg = f"object {name!r} is damaged: its list does not have its CRC"
        raise ValueError(msg)
    listed = json.loads(text)
    if listed["format"] != _FORMAT:
        msg = f"object {name!r} was written by a newer Seamark"
        raise ValueError(msg)
    parts, place = [], start + _HEAD.size + length
    for one in listed["parts"]:
        part = _sound(one)
        if part.crc is not None:
            part = part._replace(place=place)
            place += part.length
        parts.append(part)
    if place > size:
        msg = f"object {name!r} has {size} bytes, its list says {place}"
        raise ValueError(msg)
    return Listed(parts, bool(listed["shared"]), place)


def _sound(one: Any) -> Part:
    # A bucket may hold what somebody else has put there.
    part = Part(*one)
    numbers = (part.offset, part.length, part.heard_ns, part.ahead_ns)
    try:
        check_scope(part.project)
        check_journal_name(part.journal)
    except (PathError, BatchError) as error:
        raise ValueError(str(error)) from error
    if not all(whole(number) for number in numbers) or part.end >= WHOLE or "/" in part.run:
        msg = f"expected the name, place and CRC of a part, got {one!r:.200}"
        raise ValueError(msg)
    if part.crc is not None and not whole(part.crc, 1 << 32):
        msg = f"part {one!r:.200} has no CRC"
        raise ValueError(msg)
    return part
