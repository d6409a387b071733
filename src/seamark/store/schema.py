"""Tables of a store, numbers of attribute paths, and the time after which a run counts as silent.

A store is derived from journals, so a store of another version is rebuilt, not migrated.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any, Final

import sqlalchemy as sa

from seamark.journal.reader import SETTLE_NS
from seamark.reading.states import CRASHED
from seamark.store.cells import OPEN
from seamark.store.database import Database, Upsert, among, can_hold

SCHEMA_VERSION: Final = "19"
"""Version of the tables and fold rules; a store of another version is rebuilt."""
metadata = sa.MetaData()
_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_Double: sa.Double[float] = sa.Double()
# Texts sort by code point as in Python, independent of the locale of the database, because
# namespaces are ranges of paths.
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", _Text, primary_key=True),
    sa.Column("value", _Text, nullable=False),
)
"""``schema`` (the version) and metadata of the module that uses the store."""
path = sa.Table(
    "path",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("path", _Text, nullable=False, unique=True),
)
"""Attribute paths and their numbers. Runs share paths; the path of a number never changes."""
run = sa.Table(
    "run",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("project", _Text, nullable=False),
    sa.Column("name", _Text, nullable=False),
    sa.Column("kind", _Text, nullable=False),  # see seamark.paths.kind_of
    # As written, or "open"; readers derive "crashed" and the meaning of "open".
    sa.Column("state", _Text, nullable=False),
    sa.Column("owner", _Text, nullable=False),
    sa.Column("sys_id", _Text),  # id in the program it was imported from; null: its own id
    # ns since the epoch, as all times in this table
    sa.Column("created", sa.BigInteger, nullable=False),
    sa.Column("modified", sa.BigInteger, nullable=False),
    sa.Column("started", sa.BigInteger),  # when it first was in state "running"; null if never
    sa.Column("ended", sa.BigInteger),  # last record of an owner; the end only if the run has ended
    sa.Column("detail", _Text),  # user's description of the state
    sa.Column("running", sa.BigInteger, nullable=False),  # ns
    sa.Column("beat", sa.BigInteger, nullable=False),  # last sign of life of an owner
    sa.Column("trashed", sa.SmallInteger, nullable=False),
    sa.Column("forked_from", _Text),  # parent as named by the run; null: not a fork
    sa.Column("forked_at", _Double),  # last step inherited from the parent
    sa.Column("registers", _Text, nullable=False),  # JSON: deletes, clears, changes, state
    sa.Column("version", sa.BigInteger, nullable=False),  # incremented each time the run is saved
    sa.UniqueConstraint("project", "name"),
)
sa.Index(
    "run_by_creation", run.c.project, run.c.kind, run.c.trashed, run.c.created.desc(), run.c.name
)
journal = sa.Table(
    "journal",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("file", _Text, nullable=False),
    sa.Column("writer", _Text, nullable=False),
    sa.Column("uid", sa.LargeBinary, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False),  # end of the folded part, bytes
    sa.Column("prefix_crc", sa.BigInteger, nullable=False),  # CRC32 of the bytes before "offset"
    sa.Column("chunked", sa.BigInteger, nullable=False),  # points before this offset are in chunks
    sa.Column("point_end", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.BigInteger),
    sa.Column("owner", sa.SmallInteger, nullable=False),
    sa.Column("closed", sa.SmallInteger, nullable=False),
    sa.Column("first_t", sa.BigInteger),
    sa.Column("last_t", sa.BigInteger, nullable=False),
    sa.Column("heard", sa.BigInteger),  # arrival from another machine; null: a local file
    sa.Column("positions", _Text),  # JSON, as in the header; null if it has none
    sa.Column("header", _Text, nullable=False),  # JSON
    sa.Column("facts", _Text, nullable=False),  # JSON
    sqlite_with_rowid=False,
)
journal_path = sa.Table(
    "journal_path",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("journal", sa.Integer, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),  # in this journal
    sa.Column("place", sa.BigInteger, primary_key=True),  # of its PATH frame, bytes
    sa.Column("path", _Id, nullable=False),
    sqlite_with_rowid=False,
)
"""Paths of a journal's numbers, each valid from the frame that defines it."""
journal_schema = sa.Table(
    "journal_schema",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("journal", sa.Integer, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("place", sa.BigInteger, primary_key=True),  # of its SCHEMA frame, bytes
    sa.Column("paths", sa.LargeBinary, nullable=False),  # numbers of paths, u32 little-endian
    sqlite_with_rowid=False,
)
attribute = sa.Table(
    "attribute",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Id, primary_key=True),
    sa.Column("family", sa.SmallInteger, primary_key=True),  # see seamark.store.cells
    sa.Column("visible", sa.SmallInteger, nullable=False),
    sa.Column("type", _Text, nullable=False),  # type of an atom, otherwise the family
    # class of the number: -1 -inf, 0 finite, 1 inf, 2 NaN; null: not a number
    sa.Column("class", sa.SmallInteger),
    sa.Column("number", _Double),  # null unless finite, because SQLite turns NaN into null
    # ints, bools, datetimes in microseconds since the epoch, sizes of other values
    sa.Column("whole", sa.BigInteger),
    sa.Column("text", _Text),
    sa.Column("t", sa.BigInteger),  # the three parts of the key; null: never assigned
    sa.Column("writer", sa.Integer),
    sa.Column("place", sa.Integer),
    sa.Column("registers", _Text),  # JSON
    sqlite_with_rowid=False,
)
"""One row per run, path and family; ``visible`` is 1 for the family shown at the path."""
INDEXED_CHARACTERS: Final = 64
"""Number of characters indexed by PostgreSQL, which cannot index long texts."""
_sqlite_columns = ("path", "run", "visible", "class", "number", "whole", "text", "type")
_postgresql_columns = ("path", "class", "number", "visible", "run")
sa.Index("attribute_by_path_text", *(attribute.c[name] for name in _sqlite_columns)).ddl_if(
    dialect="sqlite"
)
sa.Index(
    "attribute_by_value",
    *(attribute.c[name] for name in _postgresql_columns),
    postgresql_include=["type", "whole"],  # compare and sort numbers without reading the rows
).ddl_if(dialect="postgresql")
sa.Index(
    "attribute_by_text",
    attribute.c.path,
    sa.func.substr(attribute.c.text, 1, INDEXED_CHARACTERS),
    attribute.c.run,
    postgresql_where=attribute.c.text.is_not(None),
).ddl_if(dialect="postgresql")
series = sa.Table(
    "series",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Id, primary_key=True),
    sa.Column("family", sa.SmallInteger, primary_key=True),
    sa.Column("low", _Double),  # of the finite values of a float series, as the next two
    sa.Column("high", _Double),
    sa.Column("mean", _Double),
    sa.Column("count", sa.BigInteger),
    sa.Column("first_step", _Double),
    sa.Column("last_step", _Double),
    sqlite_with_rowid=False,
)
"""Additional columns of series. The table is separate because most attributes are atoms."""
for _name in ("low", "high"):
    _indexed = series.c.path, series.c[_name], series.c.run
    sa.Index(f"series_by_{_name}", *_indexed).ddl_if(dialect="postgresql")
element = sa.Table(
    "element",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Id, primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True),
    sa.Column("value", _Text, nullable=False),
    sqlite_with_rowid=False,
)
"""Elements of visible string sets."""
chunk = sa.Table(
    "chunk",
    metadata,
    sa.Column("run", _Id, nullable=False),
    sa.Column("path", _Id, nullable=False),  # <= 0: columns shared by the series of a row group
    sa.Column("journal", sa.Integer, nullable=False),
    sa.Column("place", sa.BigInteger, nullable=False),  # start of the row group, bytes
    sa.Column("count", sa.BigInteger, nullable=False),  # number of rows, or of points of the series
    sa.Column("rising", sa.SmallInteger, nullable=False),  # 0: falling, 1: not, 2: progression
    sa.Column("low_step", _Double, nullable=False),  # smallest step, 0 without rows
    sa.Column("high_step", _Double, nullable=False),
    sa.Column("low_t", sa.BigInteger, nullable=False),
    sa.Column("cells", sa.LargeBinary),  # see seamark.store.steps; placed before the long column
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index("chunk_place", "run", "path", "journal", "place", unique=True),
)
TABLES_OF_RUN: Final = (
    attribute,
    series,
    element,
    chunk,
    journal,
    journal_path,
    journal_schema,
)
"""Tables whose rows belong to one run."""
MOST_BYTES: Final = 32 << 20
"""Approximate maximum memory of the cache, in bytes."""
_BYTES_PER_PATH: Final = 250
"""Approximate memory of a path without its text, in bytes: its number, two dict entries."""
_INSERT_PATHS = Upsert(path, ("path",), ("path",))
_ID, _PATH = path.c.id, path.c.path
_SELECT_ALL = sa.select(_ID, _PATH)
_BY_PATH: Final = _SELECT_ALL.where(among(_PATH))
_BY_ID: Final = _SELECT_ALL.where(among(_ID))


class PathNumbers:
    """Numbers of attribute paths in the table of paths, cached in memory; safe for threads.

    The path of a number never changes and numbers are never reused, so the cache can be incomplete
    but never wrong. It is emptied when it exceeds about `MOST_BYTES`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, connection: sa.Connection, path: str) -> int | None:
        """Return the number of a path, or None if no run has had it."""
        return self.known(connection, [path]).get(path)

    def known(self, connection: sa.Connection, paths: Collection[str]) -> dict[str, int]:
        """Return the numbers of paths, by path; paths without a number are omitted."""
        kept = self._numbers
        found = {path: kept[path] for path in paths if path in kept}
        missing = [path for path in paths if path not in found and can_hold(path)]
        if not missing:
            return found
        found.update(self._load(connection, _BY_PATH, missing))
        return {path: found[path] for path in paths if path in found}

    def paths(self, connection: sa.Connection, numbers: Collection[int]) -> dict[int, str]:
        """Return the paths with these numbers, by number."""
        kept = self._paths
        found = {number: kept[number] for number in numbers if number in kept}
        missing = [number for number in numbers if number not in found]
        if not missing:
            return found
        learned = self._load(connection, _BY_ID, missing)
        found.update((number, path) for path, number in learned.items())
        return {number: found[number] for number in numbers if number in found}

    def everything(self, connection: sa.Connection) -> dict[str, int]:
        """Return the numbers of all paths of all runs, by path."""
        rows = self._database.rows(connection, _SELECT_ALL)
        if len(rows) * _BYTES_PER_PATH < MOST_BYTES // 4:  # more would evict the rest
            self._add_to_cache(rows)
        return {path: number for number, path in rows}

    def ensure(self, paths: Iterable[str]) -> dict[str, int]:
        """Return numbers of paths; add new paths in one transaction, sorted to avoid deadlocks."""
        wanted, known = set(paths), self._numbers
        found = {path: known[path] for path in wanted if path in known}
        if missing := sorted(wanted.difference(found)):
            with self._database.writing() as connection:
                found.update(self._load(connection, _BY_PATH, missing))
                fresh = sorted(wanted.difference(found))
                self._database.run_many(connection, _INSERT_PATHS, zip(fresh, strict=True))
            if fresh:  # after the commit: a failed transaction frees its numbers
                with self._database.reading() as connection:
                    found.update(self._load(connection, _BY_PATH, fresh))
        return found

    def _load(
        self, connection: sa.Connection, statement: Any, wanted: list[str] | list[int]
    ) -> dict[str, int]:
        return self._add_to_cache(self._database.rows(connection, statement, at=wanted))

    def _add_to_cache(self, rows: Iterable[tuple[int, str]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for number, path in rows:
            found[path] = number
            if path not in self._numbers:
                self._bytes += _BYTES_PER_PATH + sys.getsizeof(path)
            self._numbers[path], self._paths[number] = number, path
        if self._bytes > MOST_BYTES:
            self._numbers, self._paths, self._bytes = {}, {}, 0
        return found


_OPEN_SILENCE_NS: Final = 50 * 10**9
"""Duration of silence that ends a run whose header defines silence as its end, in nanoseconds.

The writers of such a run request a sign of life every 10 s, and one is written at least every 35 s.
"""
_run = run.c
SILENT_FROM: Final[sa.ColumnElement[Any]] = _run.beat + sa.case(
    (_run.state == OPEN, _OPEN_SILENCE_NS), else_=SETTLE_NS
)
"""Time from which a live run in the runs table counts as silent, ns since the Unix epoch."""


def silent_from(state: str, beat: int) -> int:
    """Return `SILENT_FROM` for a state and a last sign of life, in ns since the Unix epoch."""
    return beat + (_OPEN_SILENCE_NS if state == OPEN else SETTLE_NS)


def state_of_row(state: str, beat: int, now_ns: int) -> str:
    """Return the state of a run at ``now_ns``, from its row. Times are ns since the Unix epoch."""
    silent = silent_from(state, beat) < now_ns
    if state == OPEN:
        return "completed" if silent else "running"
    return CRASHED if silent and state == "running" else state
