"""Making the tables of contents again from the names of the objects, and finding stray objects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from seamark.server.blobs import statements as sql
from seamark.server.blobs.names import ONE, PREFIX, WHOLE, BlobObject, parse

if TYPE_CHECKING:
    from seamark.server.blobs.objects import Objects
    from seamark.store.database import Database

__all__ = ["UNKNOWN_RUN", "rebuild_blobs"]

UNKNOWN_RUN: Final = ""
"""In the place of the runs that need a content, where nobody knows them yet."""


def rebuild_blobs(database: Database, objects: Objects, now_ns: int) -> int:
    """Fill the tables of contents from the objects; what is in them already stays.

    Which runs need what is not known then: what is found so stays, also after all of the runs that
    needed it were purged.

    Args:
        database: Holds the tables.
        objects: Where the bytes are.
        now_ns: Nanoseconds since the Unix epoch.

    Returns:
        How many contents there are.
    """
    database.create_tables(sql.metadata)
    count = 0
    for each in filter(None, map(parse, objects.names(PREFIX))):
        if each.what not in (ONE, WHOLE):
            continue
        parts = _parts_of(objects, each)
        if parts is None:
            continue
        with database.writing() as connection:
            given = {"project": each.project, "digest": each.digest, "size": each.size}
            new = database.run(
                connection, sql.KEEP, **given, upload=each.upload, arrived=now_ns, reserved=now_ns
            )
            if new:
                database.run_many(connection, sql.ADD_PART, [(each.upload, *one) for one in parts])
            row = (each.project, each.digest, UNKNOWN_RUN)
            database.run_many(connection, sql.USE, [row])
        count += new
    return count


def _parts_of(objects: Objects, found: BlobObject) -> Iterable[tuple[int, int, str]] | None:
    """Return offset, length and object of each part; None if the list cannot be read."""
    if found.what == ONE:
        return [(0, found.size, found.name)]
    try:
        listed = json.loads(objects.get(found.name))["parts"]
        parts = [(int(offset), int(length), str(name)) for offset, length, name in listed]
    except (ValueError, KeyError, TypeError, FileNotFoundError):
        return None
    return [*parts, (-1, 0, found.name)]
