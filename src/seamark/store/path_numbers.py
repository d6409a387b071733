"""The numbers of attribute paths, which repeat from run to run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import sqlalchemy as sa

from seamark.store import schema
from seamark.store.database import Upsert, can_hold

if TYPE_CHECKING:
    from seamark.store.database import Database

__all__ = ["PathNumbers"]

_PART = 500
_ADD = Upsert(schema.path, ("path",), ("path",))
_ALL = sa.select(schema.path.c.id, schema.path.c.path)
_ONE = _ALL.where(schema.path.c.path == sa.bindparam("at"))


class PathNumbers:
    """The table of paths, kept in memory as far as it was asked for.

    A number never changes its path, and is never used again: what is kept can be missing something,
    never wrong.

    Args:
        database: Of the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}
        self._paths: dict[int, str] = {}

    def number(self, connection: sa.Connection, path: str) -> int | None:
        """Return the number of a path, or None if no run ever had it."""
        return self.known(connection, [path]).get(path)

    def known(self, connection: sa.Connection, paths: Collection[str]) -> dict[str, int]:
        """Return the numbers of these paths, as far as they have any."""
        numbers = self._numbers
        missing = [path for path in paths if path not in numbers and can_hold(path)]
        if len(missing) == 1:  # often one that no run has
            self._take(self._database.rows(connection, _ONE, at=missing[0]))
        elif missing:
            self._learn(connection, schema.path.c.path, missing)
        return {path: numbers[path] for path in paths if path in numbers}

    def paths(self, connection: sa.Connection, numbers: Collection[int]) -> dict[int, str]:
        """Return the paths with these numbers."""
        paths = self._paths
        missing = [number for number in numbers if number not in paths]
        if missing:
            self._learn(connection, schema.path.c.id, missing)
        return {number: paths[number] for number in numbers if number in paths}

    def everything(self, connection: sa.Connection) -> dict[str, int]:
        """Return all paths of all runs with their numbers."""
        self._take(self._database.rows(connection, _ALL))
        return dict(self._numbers)  # another thread may learn some while this one walks

    def ensure(self, paths: Iterable[str]) -> dict[str, int]:
        """Return numbers for these paths, in a transaction of its own if there are new ones.

        They are added in order, so that two who add some at once wait for each other in one
        direction only.
        """
        wanted = set(paths)
        missing = sorted(path for path in wanted if path not in self._numbers)
        if missing:
            with self._database.reading() as connection:
                self._learn(connection, schema.path.c.path, missing)
            fresh = [(path,) for path in missing if path not in self._numbers]
            if fresh:
                with self._database.writing() as connection:
                    self._database.run_many(connection, _ADD, fresh)
                with self._database.reading() as connection:
                    self._learn(connection, schema.path.c.path, [path for (path,) in fresh])
        return {path: self._numbers[path] for path in wanted}

    def _learn(
        self,
        connection: sa.Connection,
        column: sa.Column[str] | sa.Column[int],
        wanted: list[str] | list[int],
    ) -> None:
        for start in range(0, len(wanted), _PART):
            part = _ALL.where(column.in_(wanted[start : start + _PART]))
            self._take(self._database.query(connection, part))

    def _take(self, rows: Iterable[tuple[int, str]]) -> None:
        for number, path in rows:
            self._numbers[path], self._paths[number] = number, path
