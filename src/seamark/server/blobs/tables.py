"""The tables of contents: what is whole, what is on its way, which objects hold it, who names it.

All of it can be made again from the names of the objects, but for who names what, which follows
from the journals and is filled as senders ask.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

__all__ = ["blob", "garbage", "metadata", "part", "upload", "use"]

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
