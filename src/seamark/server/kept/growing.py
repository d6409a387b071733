"""Growing objects, each for many groups of batches: a group is synced once, and named later.

Where the tables are files of one machine (SQLite), what is small is added to an object that grows.
Its bytes are durable before anybody is answered; the rows that name them are not, and need not be:
after a loss of power the object says what the tables have lost. For that its own row is durable
before the first byte, and with it all rows before: only the newest object can hold acknowledged
bytes that the tables do not know of. It has the state `GROWING`, and is looked through before
anything else is taken (`take_up`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.server.kept import tables
from seamark.server.kept.commit import commit, insert_object
from seamark.server.kept.parts import Part, read_parts
from seamark.server.kept.plan import key_of, read_rows
from seamark.server.kept.releasing import REMOVE_NS, release

if TYPE_CHECKING:
    from seamark.server.kept.plan import Key
    from seamark.server.objects import GrowingObject, ObjectStore
    from seamark.store.database import Database

__all__ = ["GROWN_BYTES", "SMALL_BYTES", "Growing", "take_up"]

GROWN_BYTES: Final = 1 << 20
"""How large an object may grow."""
SMALL_BYTES: Final = 64 << 10
"""What is more at once gets an object of its own."""
_OLD_NS: Final = 600 * 10**9
"""An object grows no longer than this."""
_ANY: Final = 1 << 62
_log: Final = logging.getLogger("seamark.server")
_object = tables.objects
_GROWING: Final = (
    sa.select(_object.c.number, _object.c.name)
    .where(_object.c.state == tables.GROWING)
    .order_by(_object.c.number)
)
_SEAL: Final = (
    sa.update(_object)
    .values(state=tables.LIVE, size=sa.bindparam("end"))
    .where(_object.c.number == sa.bindparam("row"), _object.c.state == tables.GROWING)
)


class Growing:
    """The object of one process that grows; for one thread at a time.

    Args:
        database: The set of tables that is called ``kept``.
        objects: Where bytes lie.
        names: Gives names that nobody else gives.
        now_ns: Clock, nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        names: Iterator[str],
        now_ns: Callable[[], int],
    ) -> None:
        self._database, self._objects, self._names = database, objects, names
        self._now_ns = now_ns
        self._file: GrowingObject | None = None
        self._until_ns = 0
        self._grows = True
        self.name = ""
        self.number = 0

    def open(self, size: int) -> GrowingObject | None:
        """Return the object to which so many bytes can be added; None where they get their own.

        Raises:
            OSError: If none can be made now.
            Conflict: If another transaction is in the way.
        """
        if size > SMALL_BYTES or not self._grows:
            return None
        if self._file is None or self._file.capacity < size or self.is_old():
            self.seal()
            self._file = self._begin()
        return self._file

    def _begin(self) -> GrowingObject | None:
        name, now = next(self._names), self._now_ns()
        file = self._objects.grow(name, GROWN_BYTES)
        if file is None:
            self._grows = False
            return None
        try:
            with self._database.writing() as connection:  # lasting, with all before it
                self.number = insert_object(
                    self._database, connection, name, GROWN_BYTES, state=tables.GROWING
                )
        except BaseException:
            file.close()
            raise
        self.name, self._until_ns = name, now + _OLD_NS
        return file

    def is_old(self) -> bool:
        """Return whether it is time to `seal` it."""
        return self._file is not None and self._now_ns() > self._until_ns

    def abandon(self) -> None:
        """Add nothing more to an object that could not be written; it is taken up later."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def seal(self) -> None:
        """Let the object be one like all others.

        Raises:
            OSError: If that cannot be written now; it is taken up later.
            Conflict: If another transaction is in the way; likewise.
        """
        file = self._file
        if file is None:
            return
        self.abandon()
        _seal(self._database, self._objects, self.number, self.name, file.end, self._now_ns())


def _seal(
    database: Database, objects: ObjectStore, number: int, name: str, end: int, now_ns: int
) -> None:
    """Let an object that grew be one like all others; nobody writes to it any more."""
    objects.cut(name, end)
    with database.writing(lasting=False) as connection:
        database.run(connection, _SEAL, row=number, end=end)
        release(connection, [number], now_ns + REMOVE_NS)


def take_up(
    database: Database,
    objects: ObjectStore,
    *,
    gone: Callable[[str, str], bool],
    now_ns: Callable[[], int],
) -> int:
    """Name what objects hold that grew when their process ended, as far as the tables lack it.

    Nobody may send anything meanwhile.

    Args:
        database: The set of tables that is called ``kept``.
        objects: Where bytes lie.
        gone: Tells whether a run (project path, run id) was purged; asked for runs that the tables
            do not know.
        now_ns: Clock, nanoseconds since the Unix epoch.

    Returns:
        How many bytes of journals were named.

    Raises:
        OSError: If an object cannot be read now.
    """
    with database.reading() as connection:
        rows = database.rows(connection, _GROWING)
    total = 0
    for number, name in rows:
        size = next((each.size for each in objects.listed(name) if each.name == name), None)
        if size is None:
            _log.error("the object %r is not there any more", name)
            continue
        try:
            listed = read_parts(objects, name, size)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            _log.error("what was kept last cannot be read: %s", error)
            continue
        new, sizes = _missing_parts(database, listed.parts, gone)
        if new and (number, name) == rows[-1]:  # of the others it was never acknowledged
            commit(database, name, size, new, sizes, _ANY, grown=number)
            total += sum(part.length for part in new)
        _seal(database, objects, number, name, listed.end, now_ns())
    if total:
        _log.info("took up %d bytes of journals that had been kept last", total)
    if rows:
        with database.writing():  # lasting, with what was written above
            pass
    return total


def _missing_parts(
    database: Database, parts: Sequence[Part], gone: Callable[[str, str], bool]
) -> tuple[list[Part], dict[Key, int]]:
    """Return the parts that the tables lack, and how far the journals of these are kept."""
    with database.reading() as connection:
        keys = {(key_of(part.project, part.run), part.journal) for part in parts}
        runs, journals = read_rows(connection, keys)
    ends: dict[Key, int] = {}
    sizes: dict[Key, int] = {}
    new: list[Part] = []
    for part in parts:
        run = key_of(part.project, part.run)
        key = run, part.journal
        if (runs[run].purged_ns is not None) if run in runs else gone(part.project, part.run):
            continue
        known = ends.get(key, journals[key].size if key in journals else 0)
        if part.offset > known:
            _log.error("journal %r of %r lacks what is before byte %d", *reversed(key), part.offset)
        elif part.offset == known:  # rows come whole: of what they have a part of, they have others
            sizes.setdefault(key, known)
            ends[key] = part.end
            new.append(part)
    return new, sizes
