"""The numbers of attribute paths, which repeat from run to run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.store import schema
from seamark.store.database import Upsert, can_hold

if TYPE_CHECKING:
    from seamark.store.database import Database

__all__ = ["PathNumbers"]

MOST_BYTES: Final = 32 << 20
"""How much memory is taken by what is kept, about."""

_PART = 500
_EACH_BYTES: Final = 250
"""About what a path takes beside its text: its number, and its place in two dictionaries."""
_ADD = Upsert(schema.path, ("path",), ("path",))
_ALL = sa.select(schema.path.c.id, schema.path.c.path)
_ONE = _ALL.where(schema.path.c.path == sa.bindparam("at"))


class _Generation:
    """Paths that were asked for in one stretch of time."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.paths: dict[int, str] = {}
        self.bytes = 0


class PathNumbers:
    """The table of paths, those kept in memory that were asked for last; for any thread.

    A number never changes its path, and is never used again: what is kept can be missing something,
    never wrong. There are as many paths as strangers send, so that not all are kept: two
    generations, and when the younger one is full, the older one is let go of. What was asked for
    since it began has moved to the younger one.

    Args:
        database: Of the store.
        most_bytes: How much memory is taken by what is kept, about; None for `MOST_BYTES`.
    """

    def __init__(self, database: Database, most_bytes: int | None = None) -> None:
        self._database = database
        self._most_bytes = MOST_BYTES if most_bytes is None else most_bytes
        self._young, self._old = _Generation(), _Generation()

    def __len__(self) -> int:
        return len(self._young.numbers) + len(self._old.numbers)

    def number(self, connection: sa.Connection, path: str) -> int | None:
        """Return the number of a path, or None if no run ever had it."""
        return self.known(connection, [path]).get(path)

    def known(self, connection: sa.Connection, paths: Collection[str]) -> dict[str, int]:
        """Return the numbers of these paths, as far as they have any."""
        found = self._stored_numbers(paths)
        missing = [path for path in paths if path not in found and can_hold(path)]
        if not missing:
            return found
        if len(missing) == 1:  # often one that no run has
            found.update(self._take(self._database.rows(connection, _ONE, at=missing[0])))
        else:
            found.update(self._learn(connection, schema.path.c.path, missing))
        return {path: found[path] for path in paths if path in found}

    def paths(self, connection: sa.Connection, numbers: Collection[int]) -> dict[int, str]:
        """Return the paths with these numbers."""
        young, old = self._young.paths, self._old.paths
        found: dict[int, str] = {}
        missing: list[int] = []
        for number in numbers:
            path = young.get(number)
            if path is None:
                path = old.get(number)
                if path is None:
                    missing.append(number)
                    continue
                self._keep(number, path)
            found[number] = path
        if not missing:
            return found
        learned = self._learn(connection, schema.path.c.id, missing)
        found.update((number, path) for path, number in learned.items())
        return {number: found[number] for number in numbers if number in found}

    def everything(self, connection: sa.Connection) -> dict[str, int]:
        """Return all paths of all runs with their numbers."""
        rows = self._database.rows(connection, _ALL)
        if len(rows) * _EACH_BYTES < self._most_bytes // 4:  # else it would drive out all others
            self._take(rows)
        return {path: number for number, path in rows}

    def ensure(self, paths: Iterable[str]) -> dict[str, int]:
        """Return numbers for these paths, in a transaction of its own if there are new ones.

        They are added in order, so that two who add some at once wait for each other in one
        direction only.
        """
        wanted = set(paths)
        found = self._stored_numbers(wanted)
        missing = sorted(wanted - found.keys())
        if missing:
            with self._database.reading() as connection:
                found.update(self._learn(connection, schema.path.c.path, missing))
            fresh = [(path,) for path in missing if path not in found]
            if fresh:
                with self._database.writing() as connection:
                    self._database.run_many(connection, _ADD, fresh)
                with self._database.reading() as connection:
                    found.update(self._learn(connection, schema.path.c.path, missing))
        return found

    def _learn(
        self,
        connection: sa.Connection,
        column: sa.Column[str] | sa.Column[int],
        wanted: list[str] | list[int],
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        for start in range(0, len(wanted), _PART):
            part = _ALL.where(column.in_(wanted[start : start + _PART]))
            found.update(self._take(self._database.query(connection, part)))
        return found

    def _stored_numbers(self, paths: Iterable[str]) -> dict[str, int]:
        """Return the numbers that are kept of some paths, in their order."""
        young, old = self._young.numbers, self._old.numbers
        found: dict[str, int] = {}
        for path in paths:
            number = young.get(path)
            if number is None:
                number = old.get(path)
                if number is None:
                    continue
                self._keep(number, path)
            found[path] = number
        return found

    def _take(self, rows: Iterable[tuple[int, str]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, path in rows:
            found[path] = number
            self._keep(number, path)
        return found

    def _keep(self, number: int, path: str) -> None:
        young = self._young
        if path in young.numbers:
            return
        young.numbers[path], young.paths[number] = number, path
        young.bytes += _EACH_BYTES + sys.getsizeof(path)
        if young.bytes > self._most_bytes // 2:
            # Of two threads that come here at once one may let go of more: it is asked for again.
            self._old, self._young = young, _Generation()
