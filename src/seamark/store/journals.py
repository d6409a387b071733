"""Journals of runs in the tables of a store: offsets, losses and names."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final

import sqlalchemy as sa

from seamark.store import schema
from seamark.store.database import Database, among
from seamark.store.fold.payloads import Names
from seamark.store.fold.registers import to_json
from seamark.store.fold.run_state import JournalState, RunState
from seamark.store.schema import PathNumbers


@dataclass(slots=True, eq=False)
class Store:
    """Database with the tables of a store, and the numbers of its paths.

    Attributes:
        here: Whether the processes of its runs can be looked up on this machine. If not, as on a
            server, only the last sign of life decides whether a run is alive, by the clock of the
            folding process.
        is_shared: Whether several threads may use it at the same time.
        last: Run that was loaded or saved last, as stored in the database; None if shared.
    """

    database: Database
    numbers: PathNumbers
    here: bool = True
    is_shared: bool = True
    last: StoredRun | None = None

    def reading(self, given: sa.Connection | None) -> AbstractContextManager[sa.Connection]:
        """Return the given transaction, or a new one."""
        return self.database.reading() if given is None else contextlib.nullcontext(given)


@dataclass(slots=True)
class StoredRun:
    """Loaded state of a run; ``number`` is None while the run has no row in the tables."""

    project: str
    name: str
    number: int | None
    version: int
    state: RunState

    def saved(self, number: int | None) -> None:
        """Mark all changes as saved; the run has this number."""
        self.number, self.version = number, self.version + 1
        self.state.dirty.clear()
        for journal in self.state.journals.values():
            journal.touched = False
            journal.names.new_paths.clear()
            journal.names.new_schemas.clear()


_FACTS: Final = (
    "last_offset",
    "last_crc",
    "close_reason",
    "said",
    "rows",
    "first_row_t",
    "last_row_t",
    "gaps",
    "tail",
    "dropped",
    "unknown",
    "errors",
    "notes",
    "stopped",
    "diverged",
)
_facts_of: Final = attrgetter(*_FACTS)
_journal: Final = schema.journal.c
_in_runs: Final = among(_journal.run)
_OF_RUN: Final = sa.select(*schema.journal.c).where(_journal.run == sa.bindparam("run"))
_OF_RUNS: Final = sa.select(*schema.journal.c).where(_in_runs)
_UNDAMAGED: Final = "," + to_json([[], None, {}, {}, 0, [], None, []])[1:]
"""End of the JSON of ``facts``, for a journal read to its end without gaps and losses."""
_SELECT_DAMAGED: Final = sa.select(_journal.run, _journal.facts).where(
    _journal.facts.not_like(f"%{_UNDAMAGED}"), _in_runs
)
_SELECT_ATTEMPTS: Final = sa.select(_journal.run, _journal.attempt).where(
    _journal.attempt.is_not(None), _in_runs
)
_SELECT_OWNERS: Final = sa.select(
    _journal.run,
    sa.func.coalesce(_journal.heard, _journal.last_t),
    _journal.header,
    _journal.closed,
).where(_journal.owner == 1, _in_runs)


def _select_newest(table: sa.Table, value: sa.Column[Any]) -> Any:
    return (
        sa.select(table.c.number, value)
        .where(
            table.c.run == sa.bindparam("run"),
            table.c.journal == sa.bindparam("journal"),
            table.c.place < sa.bindparam("before"),
            among(table.c.number),
        )
        .order_by(table.c.number, table.c.place)
    )


_NEWEST_PATH: Final = _select_newest(schema.journal_path, schema.journal_path.c.path)
_NEWEST_SCHEMA: Final = _select_newest(schema.journal_schema, schema.journal_schema.c.paths)


# ---------------------------------------------------------------------- rows


def _journal_from_row(row: Sequence[Any], *, facts: bool = True) -> JournalState:
    _, number, file, writer, uid, offset, prefix_crc, chunked, point_end, *more = row
    attempt, owner, closed, first_t, last_t, heard, positions, header, facts_json = more
    return JournalState(
        writer,
        bytes(uid),
        file,
        number,
        attempt,
        bool(owner),
        header,
        positions,
        offset,
        touched=False,
        prefix_crc=prefix_crc,
        chunked=chunked,
        first_t=first_t,
        last_t=last_t,
        heard=heard,
        closed=bool(closed),
        point_end=point_end,
        **(dict(zip(_FACTS, json.loads(facts_json), strict=True)) if facts else {}),
    )


def journal_row(journal: JournalState) -> tuple[Any, ...]:
    """Return the row of a journal, in the order of the columns, without the number of its run."""
    return (
        journal.number,
        journal.file,
        journal.writer,
        journal.uid,
        journal.offset,
        journal.prefix_crc,
        journal.chunked,
        journal.point_end,
        journal.attempt,
        int(journal.owner),
        int(journal.closed),
        journal.first_t,
        journal.last_t,
        journal.heard,
        journal.positions_text,
        journal.header_text,
        to_json(_facts_of(journal)),
    )


# ---------------------------------------------------------------------- journals of runs


def load_journals(store: Store, connection: sa.Connection, run: int) -> list[JournalState]:
    """Return the journals of a run, in the order of their numbers."""
    rows = store.database.rows(connection, _OF_RUN, run=run)
    return [_journal_from_row(row) for row in sorted(rows)]


def load_many_journals(
    store: Store, connection: sa.Connection, runs: Iterable[int]
) -> Iterator[tuple[int, JournalState]]:
    """Yield (number of the run, journal) for several runs; the journals lack their ``facts``."""
    rows = store.database.rows(connection, _OF_RUNS, at=list(runs))
    for row in sorted(rows, key=itemgetter(0, 1)):
        yield row[0], _journal_from_row(row, facts=False)


def load_losses(
    store: Store, connection: sa.Connection, runs: Sequence[int]
) -> dict[int, dict[str, int]]:
    """Return the losses of runs as counts by kind, by number of the run; omit runs without any.

    The kinds are ``gaps`` in journals, ``errors`` (records that cannot be applied) and ``dropped``
    (records that a writer could not write).
    """
    found: dict[int, dict[str, int]] = {}
    for run, text in store.database.rows(connection, _SELECT_DAMAGED, at=list(runs)):
        facts = dict(zip(_FACTS, json.loads(text), strict=True))
        gaps = len(facts["gaps"]) + bool(facts["tail"])
        counts = (("gaps", gaps), ("errors", facts["errors"]))
        for name, count in (*counts, ("dropped", sum(facts["dropped"].values()))):
            if count:
                of_run = found.setdefault(run, {})
                of_run[name] = of_run.get(name, 0) + count
    return found


def load_attempts(store: Store, connection: sa.Connection, runs: Sequence[int]) -> dict[int, int]:
    """Return the number of attempts, by number of the run; omit runs with one attempt."""
    found: dict[int, set[int]] = {}
    for run, attempt in store.database.rows(connection, _SELECT_ATTEMPTS, at=list(runs)):
        found.setdefault(run, set()).add(attempt)
    return {run: len(attempts) for run, attempts in found.items() if len(attempts) > 1}


def load_openings(store: Store, connection: sa.Connection, runs: Sequence[int]) -> dict[int, int]:
    """Return how often runs were opened to record or resumed; omit runs opened once."""
    found: dict[int, set[str]] = {}
    for run, _, text, _ in load_owners(store, connection, runs):
        header = json.loads(text or "null") or {}  # empty if the journal cannot be read
        if not header.get("rank") and isinstance(lineage := header.get("lineage"), str):
            found.setdefault(run, set()).add(lineage)
    return {run: len(lineages) for run, lineages in found.items() if len(lineages) > 1}


def load_owners(
    store: Store, connection: sa.Connection, runs: Sequence[int]
) -> list[tuple[Any, ...]]:
    """Return run, last sign of life (ns, local clock), HEADER (JSON) and closed flag by journal."""
    return store.database.rows(connection, _SELECT_OWNERS, at=list(runs))


# ---------------------------------------------------------------------- names of a journal


def names_before(
    store: Store, run: int, journal: int, before: int, connection: sa.Connection | None = None
) -> Names:
    """Return the names that a journal defines before an offset, loaded on demand."""
    where = {"run": run, "journal": journal, "before": before}

    def load(
        paths: set[int], schemas: set[int]
    ) -> tuple[dict[int, str], dict[int, tuple[int, ...]]]:
        rows = store.database.rows
        with store.reading(connection) as reader:
            # The last definition of a number is valid.
            found_paths = dict(rows(reader, _NEWEST_PATH, at=sorted(paths), **where))
            texts = store.numbers.paths(reader, list(found_paths.values()))
            found_schemas = dict(rows(reader, _NEWEST_SCHEMA, at=sorted(schemas), **where))
        return (
            {number: texts[path] for number, path in found_paths.items() if path in texts},
            {
                number: struct.unpack(f"<{len(packed) // 4}I", packed)
                for number, packed in found_schemas.items()
            },
        )

    return Names(load)
