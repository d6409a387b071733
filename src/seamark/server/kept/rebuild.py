"""Rebuilding of the tables of journals from the objects.

An object describes its contents. Ranges may overlap, because objects were being compacted or were
never registered; the range that reaches furthest is used, as overlapping bytes are equal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.server.kept import layout
from seamark.server.kept.commit import insert_object
from seamark.server.kept.layout import PREFIX, Part, read_parts
from seamark.server.kept.plan import key_of
from seamark.server.objects import ObjectStore
from seamark.store.database import Database, insertion

_log: Final = logging.getLogger("seamark.server")
_SEGMENT: Final = insertion(layout.segments)


class Rebuilt(NamedTuple):
    """Result of a rebuild.

    `damaged` has the names of unreadable objects. `missing` has the journals that lack a range:
    (key of the run, file name, first missing byte).
    """

    damaged: list[str]
    missing: list[tuple[str, str, int]]


class _Found(NamedTuple):
    part: Part
    name: str
    shared: bool


def needs_rebuild(database: Database, objects: ObjectStore) -> bool:
    """Return whether there are objects but no rows about their contents."""
    with database.reading() as connection:
        if connection.execute(sa.select(layout.objects.c.number).limit(1)).first():
            return False
    return next(objects.listed(PREFIX), None) is not None


def rebuild(
    database: Database, objects: ObjectStore, *, gone: Callable[[str, str], bool]
) -> Rebuilt:
    """Rebuild the tables of journals, while no process receives or folds data.

    `gone` returns whether a run was purged; its bytes are left to the garbage collection.
    """
    found: dict[str, dict[str, list[_Found]]] = {}
    sizes: dict[str, int] = {}
    damaged: list[str] = []
    for info in objects.listed(PREFIX):
        try:
            listed = read_parts(objects, info.name, info.size)
        except FileNotFoundError:
            continue  # was due for removal
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            _log.error("rebuild: %s", error)
            damaged.append(info.name)
            continue
        sizes[info.name] = info.size
        if not listed.whole:
            _log.error("rebuild: %r is damaged", info.name)
            damaged.append(info.name)
        for part in listed.parts:
            of_run = found.setdefault(key_of(part.project, part.run), {})
            of_run.setdefault(part.journal, []).append(_Found(part, info.name, listed.shared))
    return _Writer(database, sizes, gone).write(found, sorted(set(damaged)))


def _longest_chain(found: Iterable[_Found]) -> Iterator[tuple[int, int, _Found]]:
    # Ranges without gaps from the start on: offset, end, location.
    left = sorted(found, key=lambda each: (each.part.offset, -each.part.end, each.shared))
    known = index = 0
    while True:
        best: _Found | None = None
        while index < len(left) and left[index].part.offset <= known:
            if left[index].part.end > (best.part.end if best else known):
                best = left[index]
            index += 1
        if best is None:
            return
        yield known, best.part.end, best
        known = best.part.end


class _Writer:
    def __init__(
        self, database: Database, sizes: dict[str, int], gone: Callable[[str, str], bool]
    ) -> None:
        self._database, self._sizes, self._gone = database, sizes, gone
        self._numbers: dict[str, int] = {}

    def write(self, found: dict[str, dict[str, list[_Found]]], damaged: list[str]) -> Rebuilt:
        missing: list[tuple[str, str, int]] = []
        purged = {key for key, files in found.items() if self._is_purged(files)}
        with self._database.writing() as connection:
            for table in (layout.segments, layout.journals, layout.runs, layout.objects):
                connection.execute(sa.delete(table))
            stale = self._runs_to_write(found[key] for key in purged)
            for key in sorted(found):
                if key in purged:
                    self._write_purged(connection, key, found[key])
                    continue
                chains = {}
                for file, parts in sorted(found[key].items()):
                    chain = list(_longest_chain(parts))
                    known = chain[-1][1] if chain else 0
                    if max(each.part.end for each in parts) > known:
                        missing.append((key, file, known))
                    if chain:
                        chains[file] = chain
                if chains:
                    self._write_run(connection, key, chains, stale)
        return Rebuilt(damaged, missing)

    def _is_purged(self, files: dict[str, list[_Found]]) -> bool:
        part = next(iter(files.values()))[0].part
        return self._gone(part.project, part.run)

    @staticmethod
    def _runs_to_write(runs: Iterable[dict[str, list[_Found]]]) -> set[str]:
        return {each.name for files in runs for parts in files.values() for each in parts}

    @staticmethod
    def _write_purged(connection: sa.Connection, key: str, files: dict[str, list[_Found]]) -> None:
        parts = [each.part for some in files.values() for each in some]
        heard = max(part.heard_ns for part in parts)
        _inserted(
            connection,
            layout.runs,
            key=key,
            project=parts[0].project,
            run=parts[0].run,
            position=0,
            loose=0,
            heard_ns=heard,
            purged_ns=heard,
        )

    def _write_run(
        self,
        connection: sa.Connection,
        key: str,
        chains: dict[str, list[tuple[int, int, _Found]]],
        stale: set[str],
    ) -> None:
        every = [each for chain in chains.values() for each in chain]
        heard = max(where.part.heard_ns for _, _, where in every)
        first = every[0][2].part
        run = _inserted(
            connection,
            layout.runs,
            key=key,
            project=first.project,
            run=first.run,
            position=sum(end - start for start, end, _ in every),
            waiting_ns=heard,
            loose=sum(end - start for start, end, where in every if where.shared),
            heard_ns=heard,
        )
        for file, chain in chains.items():
            journal = _inserted(
                connection,
                layout.journals,
                run=run,
                name=file,
                size=chain[-1][1],
                heard_ns=max(where.part.heard_ns for _, _, where in chain),
                ahead_ns=max(where.part.ahead_ns for _, _, where in chain),
            )
            rows: list[Any] = []
            for start, end, where in chain:
                part = where.part
                place = None if part.place is None else part.place + start - part.offset
                number = self._object(connection, where.name, stale)
                rows.append(
                    (journal, start, end - start, number, place, part.heard_ns, int(where.shared))
                )
            self._database.run_many(connection, _SEGMENT, rows)

    def _object(self, connection: sa.Connection, name: str, stale: set[str]) -> int:
        if name not in self._numbers:
            self._numbers[name] = insert_object(
                self._database, connection, name, self._sizes[name], stale=name in stale
            )
        return self._numbers[name]


def _inserted(connection: sa.Connection, table: sa.Table, **values: Any) -> int:
    made = connection.execute(sa.insert(table).values(**values).returning(table.c.number))
    return int(made.scalar_one())
