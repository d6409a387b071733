"""Making the tables of contents again from the names of the objects.

Who needs a content no object says: that is found out from the journals, once they are there again.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from seamark.journal.format import ZLIB
from seamark.journal.reader import JournalReader, payload_of
from seamark.server.blobs import tables as sql
from seamark.server.blobs.tables import ONE, PREFIX, WHOLE, BlobObject, parse

if TYPE_CHECKING:
    from seamark.journal.reader import Block
    from seamark.journal.source import Source
    from seamark.server.objects import ObjectStore
    from seamark.store.database import Database

__all__ = ["UNKNOWN_RUN", "rebuild_blobs", "settle_blobs"]

UNKNOWN_RUN: Final = ""
"""In the place of the runs that need a content, until the journals were asked; see `settle_blobs`.
"""
_LOST_RUN: Final = "."
"""The same where a journal cannot be asked, because bytes of it are lost: no run is called so."""
_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_LISTS: Final = b'"dir"'
"""In a record that names a folder, whose content is the list of its members."""
_LIST_BYTES: Final = 64 << 20
_PACKED: Final = -1
"""A kind that no frame has: frames are asked for by their flag alone."""


def rebuild_blobs(
    database: Database, objects: ObjectStore, now_ns: int, *, whole: bool = True
) -> int:
    """Fill the tables of contents from the objects; what is in them already stays.

    Which runs need what is not known then: `settle_blobs` finds it out.

    Args:
        database: Holds the tables.
        objects: Where the bytes are.
        now_ns: Nanoseconds since the Unix epoch.
        whole: Whether all journals could be read. If not, nobody knows what those need of which
            bytes are lost, and what is found here stays for good.

    Returns:
        How many contents there are.
    """
    database.create_tables(sql.metadata)
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
                connection, sql.KEEP, **given, upload=each.upload, arrived=now_ns, reserved=now_ns
            )
            if new:
                database.run_many(connection, sql.ADD_PART, [(each.upload, *one) for one in parts])
                row = (each.project, each.digest, UNKNOWN_RUN if whole else _LOST_RUN)
                database.run_many(connection, sql.USE, [row])
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
    """Find out which runs need the contents that `rebuild_blobs` found.

    A run needs what any record of its journals names, however it does. Senders that are about to
    name something ask first, so that what no journal names is kept for as long as after any
    question, and collected then.

    Args:
        database: Holds the tables.
        objects: Where the bytes are.
        runs: Returns project, run id and position of all runs.
        opened: Yields name and bytes of each journal of a run.
        reserved_ns: Until when what nobody names is kept, nanoseconds since the Unix epoch.
        stop: Returns whether to give up; what was not settled then is settled another time.

    Returns:
        Of how many contents it is known now who needs them.

    Raises:
        OSError: If a journal cannot be read now, or needs a newer version of this package; nothing
            is settled in its project.
    """
    with database.reading() as connection:
        rows = database.rows(connection, sql.USED_BY, at_run=UNKNOWN_RUN)
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
                named = _named(database, objects, project, run, opened(project, run)) & digests
                found += [(project, digest, run) for digest in sorted(named)]
        with database.writing() as connection:
            database.run_many(connection, sql.USE, found)
            for digest in sorted(digests):
                at = {"at_project": project, "at_digest": digest}
                database.run(connection, sql.RESERVE, **at, until=reserved_ns)
                database.run(connection, sql.END_USE, **at, at_run=UNKNOWN_RUN)
        count += len(digests)
    return count


def _named(
    database: Database,
    objects: ObjectStore,
    project: str,
    run: str,
    journals: Iterable[tuple[str, Source]],
) -> set[str]:
    """Return every digest that is named in the journals of a run, or in a list that they name."""
    found: set[str] = set()
    lists: set[str] = set()
    for name, source in journals:
        with JournalReader(source) as reader:
            for block in reader.blocks(unknown=True):
                for data in _plain(block):
                    digests = {each.decode() for each in _DIGEST.findall(data)}
                    found |= digests
                    if _LISTS in data:
                        lists |= digests
            if reader.stopped is not None:
                msg = f"journal {name!r} of {project}/{run}: {reader.stopped}"
                raise OSError(msg)
    for digest in sorted(lists):
        found |= _members(database, objects, project, digest)
    return found


def _plain(block: Block) -> Iterator[bytes]:
    """Yield the bytes of frames, decompressed where they are compressed."""
    yield block.data
    for frame in block.frames.some(_PACKED, ZLIB):
        with contextlib.suppress(ValueError):
            yield payload_of(block.data, frame)


def _members(database: Database, objects: ObjectStore, project: str, digest: str) -> set[str]:
    """Return what a content names if it is a list of members; a longer one is none."""
    with database.reading() as connection:
        rows = database.rows(connection, sql.FIND, at_project=project, at_digest=digest)
        if not rows or rows[0][0] > _LIST_BYTES:
            return set()
        parts = database.rows(connection, sql.PARTS, at_upload=rows[0][1])
    data = b"".join(objects.get(name) for _, _, name in parts)
    return {each.decode() for each in _DIGEST.findall(data)}


def _parts_of(objects: ObjectStore, found: BlobObject) -> Iterable[tuple[int, int, str]] | None:
    """Return offset, length and object of each part; None if the list cannot be read."""
    if found.what == ONE:
        return [(0, found.size, found.name)]
    try:
        listed = json.loads(objects.get(found.name))["parts"]
        parts = [(int(offset), int(length), str(name)) for offset, length, name in listed]
    except (ValueError, KeyError, TypeError, FileNotFoundError):
        return None
    return [*parts, (-1, 0, found.name)]
