"""Tables of file contents, their SQL statements, and how they are rebuilt from the objects.

The tables can be rebuilt from the names of the objects::

    blobs/<project>/.sha256/<digest>.<size>.<upload>.one-<n>       a content in one part
    blobs/<project>/.sha256/<digest>.<size>.<upload>.<offset>-<n>  a part
    blobs/<project>/.sha256/<digest>.<size>.<upload>.whole-<n>     JSON: the parts of a content

``<n>`` is random, so two processes never write the same object. Which runs need a content is not in
the names.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import sqlalchemy as sa

from seamark.store.database import Upsert

if TYPE_CHECKING:
    from seamark.server.objects import ObjectStore
    from seamark.store.database import Database

__all__ = [
    "ADD_PART",
    "ADVANCE",
    "BEGIN",
    "END_GARBAGE",
    "END_UPLOAD",
    "FIND",
    "FORGET_PARTS",
    "FORGET_RUN",
    "GARBAGE",
    "GIVEN_UP",
    "KEEP",
    "LEAVE",
    "LET_GO",
    "OBJECTS",
    "ONE",
    "PARTS",
    "RESERVE",
    "UNUSED",
    "UPLOAD",
    "UPLOADS",
    "USE",
    "WHOLE",
    "BlobObject",
    "blob",
    "is_digest",
    "metadata",
    "new_object",
    "parse",
    "rebuild_blobs",
    "upload",
    "use",
]


metadata = sa.MetaData()
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
blob = sa.Table(
    "blob",
    metadata,
    sa.Column("project", _Text, primary_key=True),
    sa.Column("digest", _Text, primary_key=True),  # SHA-256, hex
    sa.Column("size", sa.BigInteger, nullable=False),  # bytes
    sa.Column("upload", _Text, nullable=False),  # whose parts hold it
    # ns since the Unix epoch, as are all times here
    sa.Column("arrived", sa.BigInteger, nullable=False),
    sa.Column("reserved", sa.BigInteger, nullable=False),  # not garbage before this time
)
"""Contents that are whole."""
upload = sa.Table(
    "blob_upload",
    metadata,
    sa.Column("project", _Text, primary_key=True),
    sa.Column("digest", _Text, primary_key=True),
    sa.Column("size", sa.BigInteger, primary_key=True),  # as the sender says
    sa.Column("upload", _Text, nullable=False, unique=True),
    sa.Column("offset", sa.BigInteger, nullable=False),  # so many bytes are there
    sa.Column("touched", sa.BigInteger, nullable=False),
)
"""Contents on their way. All who send the same one add to the same row."""
part = sa.Table(
    "blob_part",
    metadata,
    sa.Column("upload", _Text, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("length", sa.BigInteger, nullable=False),
    sa.Column("object", _Text, nullable=False),
)
use = sa.Table(
    "blob_use",
    metadata,
    sa.Column("project", _Text, primary_key=True),
    sa.Column("digest", _Text, primary_key=True),
    sa.Column("run", _Text, primary_key=True),
    sa.Index("blob_use_by_run", "project", "run"),
)
"""Which runs have asked for a content or sent it: as long as one is left, it is kept."""
garbage = sa.Table(
    "blob_garbage",
    metadata,
    sa.Column("object", _Text, primary_key=True),
    sa.Column("after", sa.BigInteger, nullable=False),  # deleted from this time on
)
"""Objects that hold nothing any more, until those who read them are done."""
TABLES: Final = (blob, upload, part, use, garbage)
PREFIX: Final = "blobs/"
ONE: Final = "one"
WHOLE: Final = "whole"
_FOLDER: Final = ".sha256"
_NAME: Final = re.compile(
    r"blobs/(?P<project>.+)/\.sha256/"
    r"(?P<digest>[0-9a-f]{64})\.(?P<size>\d{1,19})\.(?P<upload>[0-9a-f]{16})\."
    r"(?P<what>one|whole|\d{1,19})-(?P<attempt>[0-9a-f]{8})"
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Return whether something is a SHA-256 in lower-case hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


class BlobObject(NamedTuple):
    """Fields of the name of an object.

    `what` is ``one``, ``whole``, or the offset of a part. `upload` tells uploads of a content
    apart, `attempt` objects with the same bytes. `size` is that of the content, in bytes.
    """

    project: str
    digest: str
    size: int
    upload: str
    what: str
    attempt: str

    @property
    def name(self) -> str:
        """The name."""
        return (
            f"{PREFIX}{self.project}/{_FOLDER}/"
            f"{self.digest}.{self.size}.{self.upload}.{self.what}-{self.attempt}"
        )


def new_object(project: str, digest: str, size: int, upload: str, what: str | int) -> BlobObject:
    """Return an object that does not exist yet; see `BlobObject`."""
    return BlobObject(project, digest, size, upload, str(what), secrets.token_hex(4))


def parse(name: str) -> BlobObject | None:
    """Return the parsed name of an object; None for other objects."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    size, rest = int(found["size"]), found.group("upload", "what", "attempt")
    return BlobObject(found["project"], found["digest"], size, *rest)


_project: Final[sa.BindParameter[str]] = sa.bindparam("at_project")
_digest: Final[sa.BindParameter[str]] = sa.bindparam("at_digest")
_upload: Final[sa.BindParameter[str]] = sa.bindparam("at_upload")
_at_blob: Final = sa.and_(blob.c.project == _project, blob.c.digest == _digest)
_used: Final = (
    sa.select(use.c.run)
    .where(use.c.project == blob.c.project, use.c.digest == blob.c.digest)
    .exists()
)
# ---------------------------------------------------------------------- contents

FIND: Final = sa.select(blob.c.size, blob.c.upload).where(_at_blob)
RESERVE: Final = sa.update(blob).where(_at_blob).values(reserved=sa.bindparam("until"))
KEEP: Final = Upsert(blob, tuple(blob.c.keys()), ("project", "digest"))
THERE: Final = sa.select(blob.c.digest).where(
    blob.c.project == _project, blob.c.digest.in_(sa.bindparam("digests", expanding=True))
)
UNUSED: Final = sa.select(blob.c.project, blob.c.digest, blob.c.upload).where(
    blob.c.reserved < sa.bindparam("now"), ~_used
)
LEAVE: Final = sa.delete(blob).where(_at_blob, blob.c.reserved < sa.bindparam("now"), ~_used)
USE: Final = Upsert(use, tuple(use.c.keys()), ("project", "digest", "run"))
FORGET_RUN: Final = sa.delete(use).where(
    use.c.project == _project, use.c.run == sa.bindparam("at_run")
)
# ---------------------------------------------------------------------- on their way

UPLOAD: Final = sa.select(upload.c.upload, upload.c.offset).where(
    upload.c.project == _project,
    upload.c.digest == _digest,
    upload.c.size == sa.bindparam("at_size"),
)
UPLOADS: Final = sa.select(upload.c.size, upload.c.upload, upload.c.offset).where(
    upload.c.project == _project, upload.c.digest == _digest
)
BEGIN: Final = Upsert(upload, tuple(upload.c.keys()), ("project", "digest", "size"))
ADVANCE: Final = (
    sa.update(upload)
    .where(upload.c.upload == _upload, upload.c.offset == sa.bindparam("at_offset"))
    .values({"offset": sa.bindparam("to_offset"), "touched": sa.bindparam("now")})
)
END_UPLOAD: Final = sa.delete(upload).where(upload.c.upload == _upload)
GIVEN_UP: Final = sa.select(upload.c.upload).where(upload.c.touched < sa.bindparam("before"))
PARTS: Final = (
    sa.select(part.c.offset, part.c.length, part.c.object)
    .where(part.c.upload == _upload, part.c.offset >= 0)
    .order_by(part.c.offset)
)
OBJECTS: Final = sa.select(part.c.object).where(part.c.upload == _upload)
ADD_PART: Final = Upsert(part, tuple(part.c.keys()), ("upload", "offset"))
FORGET_PARTS: Final = sa.delete(part).where(part.c.upload == _upload)
# ---------------------------------------------------------------------- left over

LET_GO: Final = Upsert(garbage, tuple(garbage.c.keys()), ("object",))
GARBAGE: Final = sa.select(garbage.c.object).where(garbage.c.after <= sa.bindparam("now"))
END_GARBAGE: Final = sa.delete(garbage).where(garbage.c.object == sa.bindparam("at_object"))
_TAKEN_UP: Final = "."
"""In the place of the runs that need a content that was taken up: no run is called so."""


def rebuild_blobs(database: Database, objects: ObjectStore, now_ns: int) -> int:
    """Fill the tables of contents from the objects, keeping existing rows; return the count.

    Which runs need what was not known then is not in the names of objects: it stays for good.
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
                connection, KEEP, **given, upload=each.upload, arrived=now_ns, reserved=now_ns
            )
            if new:
                database.run_many(connection, ADD_PART, [(each.upload, *one) for one in parts])
                database.run_many(connection, USE, [(each.project, each.digest, _TAKEN_UP)])
        count += new
    return count


def _parts_of(objects: ObjectStore, found: BlobObject) -> Iterable[tuple[int, int, str]] | None:
    if found.what == ONE:
        return [(0, found.size, found.name)]
    try:
        listed = json.loads(objects.get(found.name))["parts"]
        parts = [(int(offset), int(length), str(name)) for offset, length, name in listed]
    except (ValueError, KeyError, TypeError, FileNotFoundError):
        return None
    return [*parts, (-1, 0, found.name)]
