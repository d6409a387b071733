"""Tables of file contents, their SQL statements, and how they are rebuilt from the objects.

The tables can be rebuilt from the names of the objects::

    blobs/<project>/.sha256/<digest>.<size>.<upload>.one-<n>       a content in one part
    blobs/<project>/.sha256/<digest>.<size>.<upload>.<offset>-<n>  a part
    blobs/<project>/.sha256/<digest>.<size>.<upload>.whole-<n>     JSON: the parts of a content

``<n>`` is random, so two processes never write the same object. The names do not contain the runs
that use a content; they are derived from the journals (`settle_blobs`).
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.format import ZLIB
from seamark.journal.reader import Block, JournalReader, payload_of
from seamark.journal.safe import Source
from seamark.server.database import Text
from seamark.server.objects import ObjectStore
from seamark.store.database import Database, Upsert

metadata = sa.MetaData()
blob = sa.Table(
    "blob",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("digest", Text, primary_key=True),  # SHA-256, hex
    sa.Column("size", sa.BigInteger, nullable=False),  # bytes
    sa.Column("upload", Text, nullable=False),  # upload with the parts
    # ns since the Unix epoch, as are all times here
    sa.Column("arrived", sa.BigInteger, nullable=False),
    sa.Column("reserved", sa.BigInteger, nullable=False),  # kept until this time
)
"""Complete contents."""
upload = sa.Table(
    "blob_upload",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("digest", Text, primary_key=True),
    sa.Column("size", sa.BigInteger, primary_key=True),  # declared by the sender
    sa.Column("upload", Text, nullable=False, unique=True),
    sa.Column("offset", sa.BigInteger, nullable=False),  # number of stored bytes
    sa.Column("touched", sa.BigInteger, nullable=False),
)
"""Incomplete contents. All clients that send the same content share a row."""
part = sa.Table(
    "blob_part",
    metadata,
    sa.Column("upload", Text, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("length", sa.BigInteger, nullable=False),
    sa.Column("object", Text, nullable=False),
)
use = sa.Table(
    "blob_use",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("digest", Text, primary_key=True),
    sa.Column("run", Text, primary_key=True),
    sa.Index("blob_use_by_run", "project", "run"),
)
"""Runs that use a content; a used content is kept."""
garbage = sa.Table(
    "blob_garbage",
    metadata,
    sa.Column("object", Text, primary_key=True),
    sa.Column("after", sa.BigInteger, nullable=False),  # deleted after this time
)
"""Released objects that may still be read."""
PREFIX: Final = "blobs/"
ONE: Final = "one"
WHOLE: Final = "whole"
_DIGEST_FOLDER: Final = ".sha256"
_OBJECT_NAME: Final = re.compile(
    r"blobs/(?P<project>.+)/\.sha256/"
    r"(?P<digest>[0-9a-f]{64})\.(?P<size>\d{1,19})\.(?P<upload>[0-9a-f]{16})\."
    r"(?P<what>one|whole|\d{1,19})-(?P<attempt>[0-9a-f]{8})"
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Return whether a value is a SHA-256 in lower-case hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


class BlobObject(NamedTuple):
    """Fields of the name of an object.

    `what` is ``one``, ``whole``, or the offset of a part. `upload` distinguishes uploads of the
    same content, `attempt` objects with the same bytes. `size` is the size of the content in bytes.
    """

    project: str
    digest: str
    size: int
    upload: str
    what: str
    attempt: str

    @property
    def name(self) -> str:
        """Name of the object."""
        return (
            f"{PREFIX}{self.project}/{_DIGEST_FOLDER}/"
            f"{self.digest}.{self.size}.{self.upload}.{self.what}-{self.attempt}"
        )


def new_object(project: str, digest: str, size: int, upload: str, what: str | int) -> BlobObject:
    """Return the description of a new object; see `BlobObject`."""
    return BlobObject(project, digest, size, upload, str(what), secrets.token_hex(4))


def parse(name: str) -> BlobObject | None:
    """Parse the name of an object; return None for other objects."""
    found = _OBJECT_NAME.fullmatch(name)
    if found is None:
        return None
    size, rest = int(found["size"]), found.group("upload", "what", "attempt")
    return BlobObject(found["project"], found["digest"], size, *rest)


_project: Final[sa.BindParameter[str]] = sa.bindparam("at_project")
_digest: Final[sa.BindParameter[str]] = sa.bindparam("at_digest")
_upload: Final[sa.BindParameter[str]] = sa.bindparam("at_upload")
_at_blob: Final = sa.and_(blob.c.project == _project, blob.c.digest == _digest)
USED: Final = (
    sa.select(use.c.run)
    .where(use.c.project == blob.c.project, use.c.digest == blob.c.digest)
    .exists()
)
# ---------------------------------------------------------------------- contents

FIND: Final = sa.select(blob.c.size, blob.c.upload).where(_at_blob)
RESERVE: Final = sa.update(blob).where(_at_blob).values(reserved=sa.bindparam("until"))
ADD_BLOB: Final = Upsert(blob, tuple(blob.c.keys()), ("project", "digest"))
EXISTING: Final = sa.select(blob.c.digest).where(
    blob.c.project == _project, blob.c.digest.in_(sa.bindparam("digests", expanding=True))
)
UNUSED: Final = sa.select(blob.c.project, blob.c.digest, blob.c.upload).where(
    blob.c.reserved < sa.bindparam("now"), ~USED
)
DELETE_BLOB: Final = sa.delete(blob).where(_at_blob, blob.c.reserved < sa.bindparam("now"), ~USED)
ADD_USE: Final = Upsert(use, tuple(use.c.keys()), ("project", "digest", "run"))
USED_BY: Final = sa.select(use.c.project, use.c.digest).where(use.c.run == sa.bindparam("at_run"))
DELETE_USE: Final = sa.delete(use).where(
    use.c.project == _project, use.c.digest == _digest, use.c.run == sa.bindparam("at_run")
)
DELETE_USES_OF_RUN: Final = sa.delete(use).where(
    use.c.project == _project, use.c.run == sa.bindparam("at_run")
)
# ---------------------------------------------------------------------- uploads

UPLOAD: Final = sa.select(upload.c.upload, upload.c.offset).where(
    upload.c.project == _project,
    upload.c.digest == _digest,
    upload.c.size == sa.bindparam("at_size"),
)
UPLOADS: Final = sa.select(upload.c.size, upload.c.upload, upload.c.offset).where(
    upload.c.project == _project, upload.c.digest == _digest
)
ADD_UPLOAD: Final = Upsert(upload, tuple(upload.c.keys()), ("project", "digest", "size"))
ADVANCE_UPLOAD: Final = (
    sa.update(upload)
    .where(upload.c.upload == _upload, upload.c.offset == sa.bindparam("at_offset"))
    .values({"offset": sa.bindparam("to_offset"), "touched": sa.bindparam("now")})
)
DELETE_UPLOAD: Final = sa.delete(upload).where(upload.c.upload == _upload)
ABANDONED: Final = sa.select(upload.c.upload).where(upload.c.touched < sa.bindparam("before"))
PARTS: Final = (
    sa.select(part.c.offset, part.c.length, part.c.object)
    .where(part.c.upload == _upload, part.c.offset >= 0)
    .order_by(part.c.offset)
)
OBJECTS: Final = sa.select(part.c.object).where(part.c.upload == _upload)
ADD_PART: Final = Upsert(part, tuple(part.c.keys()), ("upload", "offset"))
DELETE_PARTS: Final = sa.delete(part).where(part.c.upload == _upload)
# ---------------------------------------------------------------------- garbage

ADD_GARBAGE: Final = Upsert(garbage, tuple(garbage.c.keys()), ("object",))
GARBAGE: Final = sa.select(garbage.c.object).where(garbage.c.after <= sa.bindparam("now"))
DELETE_GARBAGE: Final = sa.delete(garbage).where(garbage.c.object == sa.bindparam("at_object"))
UNKNOWN_RUN: Final = ""
"""Placeholder for the runs that use a content, until `settle_blobs` has examined the journals.
"""
_LOST_RUN: Final = "."
"""Placeholder for a run with lost bytes of a journal; no run has this name."""
_ANY_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_FOLDER_KEY: Final = b'"dir"'
"""Key of a folder's record, whose content is the list of its members."""
_MAX_LIST_BYTES: Final = 64 << 20
_ANY_KIND: Final = -1
"""Pseudo kind of frames that are selected only by their flag."""


def rebuild_blobs(
    database: Database, objects: ObjectStore, now_ns: int, *, whole: bool = True
) -> int:
    """Rebuild the tables of contents from the objects, keeping existing rows; return the count.

    `settle_blobs` then determines the runs that use them. Without `whole`, some journals lost bytes
    that may refer to contents; in this case all contents are kept permanently.
    """
    database.create_tables(metadata)
    count = 0
    for each in filter(None, (parse(one.name) for one in objects.listed(PREFIX))):
        if each.what not in (ONE, WHOLE):
            continue
        parts = _parts_of(objects, each)
        if parts is None:
            continue
        with database.writing() as connection:
            given = {"project": each.project, "digest": each.digest, "size": each.size}
            new = database.run(
                connection, ADD_BLOB, **given, upload=each.upload, arrived=now_ns, reserved=now_ns
            )
            if new:
                database.run_many(connection, ADD_PART, [(each.upload, *one) for one in parts])
                row = (each.project, each.digest, UNKNOWN_RUN if whole else _LOST_RUN)
                database.run_many(connection, ADD_USE, [row])
        count += new
    return count


def settle_blobs(
    database: Database,
    objects: ObjectStore,
    runs: Callable[[], Iterable[tuple[str, str, int]]],
    opened: Callable[[str, str], Iterator[tuple[str, Source]]],
    reserved_ns: int,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Determine the runs that use the contents found by `rebuild_blobs`; return the count.

    A run uses each content whose digest appears in any record of its journals. Contents without a
    run are kept until `reserved_ns` (nanoseconds since the Unix epoch), for senders that have
    already checked that a content exists, and are collected afterwards. `runs` returns project, run
    id and position of all runs, `opened` the name and the bytes of each journal of a run. Once
    `stop` returns True, the rest is left to the next call.

    Raises:
        OSError: If a journal cannot be read now, or needs a newer version of this package; contents
            of its project are not changed.
    """
    rows = database.fetch(USED_BY, at_run=UNKNOWN_RUN)
    unknown: dict[str, set[str]] = {}
    for project, digest in rows:
        unknown.setdefault(project, set()).add(digest)
    count = 0
    for project, digests in sorted(unknown.items()) if unknown else ():
        found: list[tuple[str, str, str]] = []
        for where, run, _ in runs():
            if stop():
                return count
            if where == project:
                named = _digests_of(database, objects, project, run, opened(project, run)) & digests
                found += [(project, digest, run) for digest in sorted(named)]
        with database.writing() as connection:
            database.run_many(connection, ADD_USE, found)
            for digest in sorted(digests):
                at = {"at_project": project, "at_digest": digest}
                database.run(connection, RESERVE, **at, until=reserved_ns)
                database.run(connection, DELETE_USE, **at, at_run=UNKNOWN_RUN)
        count += len(digests)
    return count


def _digests_of(
    database: Database,
    objects: ObjectStore,
    project: str,
    run: str,
    journals: Iterable[tuple[str, Source]],
) -> set[str]:
    found: set[str] = set()
    lists: set[str] = set()
    for name, source in journals:
        with JournalReader(source) as reader:
            for block in reader.blocks(unknown=True):
                for data in _plain_data(block):
                    digests = {each.decode() for each in _ANY_DIGEST.findall(data)}
                    found |= digests
                    if _FOLDER_KEY in data:
                        lists |= digests
            if reader.stopped is not None:
                raise OSError(f"journal {name!r} of {project}/{run}: {reader.stopped}")
    for digest in sorted(lists):
        found |= _members(database, objects, project, digest)
    return found


def _plain_data(block: Block) -> Iterator[bytes]:
    yield block.data
    for frame in block.frames.some(_ANY_KIND, ZLIB):
        with contextlib.suppress(ValueError):
            yield payload_of(block.data, frame)


def _members(database: Database, objects: ObjectStore, project: str, digest: str) -> set[str]:
    with database.reading() as connection:
        rows = database.rows(connection, FIND, at_project=project, at_digest=digest)
        if not rows or rows[0][0] > _MAX_LIST_BYTES:
            return set()
        parts = database.rows(connection, PARTS, at_upload=rows[0][1])
    data = b"".join(objects.get(name) for _, _, name in parts)
    return {each.decode() for each in _ANY_DIGEST.findall(data)}


def _parts_of(objects: ObjectStore, found: BlobObject) -> Iterable[tuple[int, int, str]] | None:
    if found.what == ONE:
        return [(0, found.size, found.name)]
    try:
        listed = json.loads(objects.get(found.name))["parts"]
        parts = [(int(offset), int(length), str(name)) for offset, length, name in listed]
    except (ValueError, KeyError, TypeError, FileNotFoundError):
        return None
    return [*parts, (-1, 0, found.name)]
