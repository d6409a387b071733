"""Maintenance of stored objects: compaction, rewriting and garbage collection.

Several fold workers may run the maintenance at once: each step is completed or undone.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.format import FILE_HEADER_BYTES, salt_of
from seamark.journal.frames import walk
from seamark.journal.shipping import check_journal_name
from seamark.server.kept import layout
from seamark.server.kept.commit import OutrunError, insert_object
from seamark.server.kept.layout import (
    PREFIX,
    REMOVE_NS,
    Part,
    object_names,
    packed,
    read_parts,
    release,
)
from seamark.server.kept.plan import key_of, read_rows
from seamark.server.objects import ObjectInfo, ObjectStore
from seamark.store.database import Conflict, Database, insertion

_random: Final = random.Random()  # noqa: S311 - leaves the global generator unchanged
COMPACT_BYTES: Final = 1 << 20
"""Size from which data of a run in shared objects is moved to its own object, in bytes."""
REST_NS: Final = 600 * 10**9
"""Silence after which data of any size is moved to the run's own object, in nanoseconds.
"""
OBJECT_BYTES: Final = 64 << 20
"""Maximum size of an object in bytes, unless a single range is larger."""
ORPHAN_NS: Final = 3600 * 10**9
"""Age from which an object that is not in the tables counts as an orphan, in nanoseconds."""
ORPHANS_EVERY_NS: Final = 3600 * 10**9
"""Interval of searches for orphans, in nanoseconds; each search lists all objects."""

_TASKS_AT_ONCE: Final = 50
_OBJECTS_AT_ONCE: Final = 500
_RETRY_NS: Final = 3600 * 10**9
"""Delay before a failed task is retried, in nanoseconds."""

_log: Final = logging.getLogger("seamark.server")
_run, _journal, _object, _segment = layout.runs, layout.journals, layout.objects, layout.segments

_SELECT_DUE: Final = (
    sa.select(_object.c.number, _object.c.name, _object.c.state)
    .where(_object.c.remove_ns <= sa.bindparam("now"))
    .order_by(_object.c.remove_ns)
    .limit(_TASKS_AT_ONCE)
)
_SELECT_LOOSE: Final = (
    sa.select(_run.c.number)
    .where(_run.c.loose > 0, _run.c.purged_ns.is_(None))
    .where(sa.or_(_run.c.loose >= sa.bindparam("bytes"), _run.c.heard_ns < sa.bindparam("before")))
    .order_by(_run.c.loose.desc())
    .limit(_TASKS_AT_ONCE)
)
_RANGES: Final = (
    sa.select(
        _run.c.number,
        _run.c.project,
        _run.c.run,
        _journal.c.number,
        _journal.c.name,
        _journal.c.ahead_ns,
        _segment.c.offset,
        _segment.c.length,
        _segment.c.object,
        _object.c.name,
        _segment.c.place,
        _segment.c.heard_ns,
        _segment.c.loose,
    )
    .join_from(_segment, _journal, _journal.c.number == _segment.c.journal)
    .join(_run, _run.c.number == _journal.c.run)
    .join(_object, _object.c.number == _segment.c.object)
    .order_by(_run.c.number, _journal.c.number, _segment.c.offset)
)
_OF_RUN: Final = _RANGES.where(_run.c.number == sa.bindparam("number"), _segment.c.loose > 0)
_OF_OBJECT: Final = _RANGES.where(_segment.c.object == sa.bindparam("number"))
_SELECT_STALE: Final = (
    sa.select(_object.c.number)
    .where(_object.c.stale > 0, _object.c.state != layout.GROWING)
    .order_by(_object.c.number)
    .limit(8)
)
_LOCK_RUN: Final = (
    sa.select(_run.c.number).where(_run.c.number == sa.bindparam("number")).with_for_update()
)
_DELETE_SEGMENT: Final = sa.delete(_segment).where(
    _segment.c.journal == sa.bindparam("its_journal"),
    _segment.c.offset == sa.bindparam("its_offset"),
    _segment.c.length == sa.bindparam("its_length"),
    _segment.c.object == sa.bindparam("its_object"),
)
_REDUCE_LOOSE: Final = (
    sa.update(_run)
    .values(loose=_run.c.loose - sa.bindparam("less", type_=sa.BigInteger))
    .where(_run.c.number == sa.bindparam("row"))
)
_NEW_SEGMENT: Final = insertion(_segment)


class _Range(NamedTuple):
    run: int
    project: str
    run_id: str
    journal: int
    file: str
    ahead_ns: int
    offset: int
    length: int
    object: int
    name: str
    place: int | None
    heard_ns: int
    loose: int

    @property
    def bytes(self) -> int:
        return 0 if self.place is None else self.length


class Caretaker:
    """Maintenance of objects that hold journals."""

    def __init__(
        self, database: Database, objects: ObjectStore, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._database, self._objects, self._now_ns = database, objects, now_ns
        self._names = object_names()
        # Not at once, as a server that restarts in a loop should not list a bucket each time.
        self._next_orphans = now_ns() + _random.randrange(ORPHANS_EVERY_NS // 10)
        self._failed: dict[tuple[str, int], int] = {}

    def tend(self, stop: Callable[[], bool]) -> None:
        """Run a limited amount of each kind of due work; `stop` returns whether to end early."""
        self.remove_due(stop)
        self.compact(stop)
        self.rewrite(stop)
        if self._now_ns() >= self._next_orphans and not stop():
            self._next_orphans = self._now_ns() + ORPHANS_EVERY_NS
            self.claim_orphans(stop)

    # ------------------------------------------------------------------ removal

    def remove_due(self, stop: Callable[[], bool]) -> None:
        """Remove objects that were released long enough ago."""
        rows = self._database.fetch(_SELECT_DUE, now=self._now_ns())
        for number, name, state in rows:
            if stop():
                return
            try:
                self._objects.delete(name)
            except OSError as error:
                _log.warning("cannot remove object %r: %s", name, error)
                continue
            mine = _object.c.number == number
            done: Any = sa.delete(_object).where(mine)
            if state == layout.CLAIMED:  # its writer may still try to register this name
                done = sa.update(_object).where(mine).values(remove_ns=None)
            with self._database.writing() as connection:
                connection.execute(done)

    def claim_orphans(self, stop: Callable[[], bool]) -> None:
        """Claim the names of objects that are not in the tables, so that they cannot be registered.

        A process that died before registering its object has acknowledged nothing; a slow process
        finds the name claimed and writes another object. An object with bytes that are stored
        nowhere else is not changed, as the tables may have been lost or restored from a backup.
        """
        unknown = 0
        before = self._now_ns() - ORPHAN_NS
        old = (found for found in self._objects.listed(PREFIX) if found.made_ns < before)
        while some := list(islice(old, _OBJECTS_AT_ONCE)):
            if stop():
                return
            names = [found.name for found in some]
            known = sa.select(_object.c.name, _object.c.state, _object.c.remove_ns).where(
                _object.c.name.in_(names)
            )
            with self._database.reading() as connection:
                rows = {row[0]: tuple(row[1:]) for row in connection.execute(known)}
            for found in some:
                if found.name not in rows:
                    if self._is_redundant(found):
                        self._claim(found.name, found.size)
                    else:
                        unknown += 1
                elif rows[found.name] == (layout.CLAIMED, None):  # the file appeared late
                    with contextlib.suppress(OSError):
                        self._objects.delete(found.name)

        if unknown:
            _log.warning(
                "%d objects hold bytes of journals that are not in the tables, and are kept:"
                " register them with `seamark server refold --objects`",
                unknown,
            )

    def _is_redundant(self, found: ObjectInfo) -> bool:
        # An object is redundant if all its bytes are also in other objects or were purged.
        try:
            parts = read_parts(self._objects, found.name, found.size).parts
        except FileNotFoundError:
            return True
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return False
        keys = {(key_of(part.project, part.run), part.journal) for part in parts}
        with self._database.reading() as connection:
            runs, journals = read_rows(connection, keys)
        for part in parts:
            run = key_of(part.project, part.run)
            if run in runs and runs[run].purged_ns is not None:
                continue
            known = journals.get((run, part.journal))
            if known is None or known.size < part.end:
                return False
        return True

    def _claim(self, name: str, size: int) -> None:
        with contextlib.suppress(OutrunError, Conflict), self._database.writing() as connection:
            number = insert_object(self._database, connection, name, size)
            connection.execute(
                sa.update(_object)
                .where(_object.c.number == number)
                .values(state=layout.CLAIMED, remove_ns=self._now_ns() + REMOVE_NS)
            )

    # ------------------------------------------------------------------ rewriting

    def compact(self, stop: Callable[[], bool]) -> None:
        """Move data of runs from shared objects to objects of one run."""
        now = self._now_ns()
        rows = self._database.fetch(_SELECT_LOOSE, bytes=COMPACT_BYTES, before=now - REST_NS)
        for (number,) in rows:
            self._rewrite(stop, "run", number, _OF_RUN)

    def rewrite(self, stop: Callable[[], bool]) -> None:
        """Rewrite objects that hold bytes of purged runs in addition to others."""
        rows = self._database.fetch(_SELECT_STALE)
        for (number,) in rows:
            self._rewrite(stop, "object", number, _OF_OBJECT)
            with self._database.writing() as connection:
                release(connection, [number], self._now_ns() + REMOVE_NS)

    def _rewrite(self, stop: Callable[[], bool], what: str, number: int, statement: Any) -> None:
        if stop() or self._failed.get((what, number), 0) > self._now_ns():
            return
        rows = self._database.fetch(statement, number=number)
        try:
            for group in _groups(_Range(*row) for row in rows):
                if stop():
                    return
                self._rewrite_group(group)
        except (OutrunError, Conflict):
            return  # another process moved them
        except (OSError, ValueError) as error:
            _log.error("cannot compact %s %d: %s", what, number, error)
            now = self._now_ns()
            self._failed = {key: at for key, at in self._failed.items() if at > now}
            self._failed[what, number] = now + _RETRY_NS

    def _rewrite_group(self, group: list[_Range]) -> None:
        merged = list(_merged(group))
        data = [self._read(ranges) for ranges in merged]
        parts = [
            Part(
                first.project,
                first.run_id,
                first.file,
                first.offset,
                ranges[-1].offset + ranges[-1].length - first.offset,
                max(each.heard_ns for each in ranges),
                first.ahead_ns,
                None if first.place is None else zlib.crc32(bytes_),
            )
            for ranges, bytes_ in zip(merged, data, strict=True)
            for first in ranges[:1]
        ]
        sizes = [len(each) for each in data]
        name = next(self._names)
        head, parts = packed(parts, self._now_ns(), shared=False, sizes=sizes)
        self._objects.put(name, head, *data)
        try:
            self._replace_segments(group, merged, parts, name, len(head) + sum(sizes))
        except (OutrunError, Conflict):
            with contextlib.suppress(OSError):
                self._objects.delete(name)
            raise

    def _read(self, ranges: list[_Range]) -> bytes:
        # Each frame is checked again.
        first = ranges[0]
        if first.place is None:
            return b""
        pieces = [self._objects.get(each.name, each.place or 0, each.length) for each in ranges]
        data = b"".join(pieces)
        start = max(0, FILE_HEADER_BYTES - first.offset)
        salt = salt_of(check_journal_name(first.file)[1])
        if start + walk(data[start:], salt)[1] != sum(each.length for each in ranges):
            raise ValueError(
                f"journal {first.file!r}: damaged in object {first.name!r} or a following one"
            )
        return data

    def _replace_segments(
        self,
        group: list[_Range],
        merged: list[list[_Range]],
        parts: list[Part],
        name: str,
        size: int,
    ) -> None:
        with self._database.writing() as connection:
            run = group[0].run  # that of all ranges
            connection.execute(_LOCK_RUN, {"number": run}).all()
            number = insert_object(self._database, connection, name, size)
            for each in group:
                taken = self._database.run(
                    connection,
                    _DELETE_SEGMENT,
                    its_journal=each.journal,
                    its_offset=each.offset,
                    its_length=each.length,
                    its_object=each.object,
                )
                if taken != 1:
                    raise OutrunError
            self._database.run_many(
                connection,
                _NEW_SEGMENT,
                (
                    (
                        ranges[0].journal,
                        part.offset,
                        part.length,
                        number,
                        part.place,
                        part.heard_ns,
                        0,
                    )
                    for ranges, part in zip(merged, parts, strict=True)
                ),
            )
            less = sum(each.length for each in group if each.loose)
            self._database.run(connection, _REDUCE_LOOSE, row=run, less=less)
            release(connection, sorted({each.object for each in group}), self._now_ns() + REMOVE_NS)


def _groups(ranges: Iterable[_Range]) -> Iterator[list[_Range]]:
    group: list[_Range] = []
    size = 0
    for each in ranges:
        if group and (each.run != group[0].run or size + each.bytes > OBJECT_BYTES):
            yield group
            group, size = [], 0
        group.append(each)
        size += each.bytes
    if group:
        yield group


def _merged(group: Iterable[_Range]) -> Iterator[list[_Range]]:
    found: list[_Range] = []
    for each in group:
        if found and (
            each.journal != found[-1].journal
            or each.offset != found[-1].offset + found[-1].length
            or (each.place is None) != (found[-1].place is None)
        ):
            yield found
            found = []
        found.append(each)
    if found:
        yield found
