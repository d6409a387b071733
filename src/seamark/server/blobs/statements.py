"""SQL statements on the tables of contents; each is compiled once."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from seamark.server.blobs.tables import blob, garbage, metadata, part, upload, use
from seamark.store.database import Upsert

__all__ = [
    "ADD_PART",
    "ADVANCE",
    "BEGIN",
    "END_GARBAGE",
    "END_UPLOAD",
    "END_USE",
    "FIND",
    "FORGET_PARTS",
    "FORGET_RUN",
    "GARBAGE",
    "GIVEN_UP",
    "KEEP",
    "LEAVE",
    "LET_GO",
    "OBJECTS",
    "PARTS",
    "RESERVE",
    "UNUSED",
    "UPLOAD",
    "UPLOADS",
    "USE",
    "USED_BY",
    "metadata",
]

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
USED_BY: Final = sa.select(use.c.project, use.c.digest).where(use.c.run == sa.bindparam("at_run"))
END_USE: Final = sa.delete(use).where(
    use.c.project == _project, use.c.digest == _digest, use.c.run == sa.bindparam("at_run")
)
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
