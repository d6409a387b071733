"""Database of a store: transactions, statements and damage.

SQLite and PostgreSQL (and CockroachDB by its protocol) take the same statements of SQLAlchemy Core.
Code that differs between the engines is in this module.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.functions import FunctionElement


class DamageError(Exception):
    """Checksum mismatch of packed bytes: the database that holds them is damaged."""


BUSY_S: Final = 30.0
"""Maximum time to wait for another process's transaction, in seconds."""
_ROWS_PER_FETCH: Final = 4096
_MAX_CREATIONS: Final = 5
_MAX_ATTEMPTS: Final = 20
_CONFLICTS: Final = ("40001", "40P01")
"""SQLSTATE codes: serialization failure (with strict isolation) and deadlock."""
_BAD_PATTERN: Final = "2201B"
_FLAGS: Final = re.compile(r"\(\?([aimsux]+)\)")
_PYTHON_ONLY: Final = re.compile(r"\\.|\{,(?=\d)|\(\?P<\w+>", re.DOTALL)
_UNSAFE: Final = re.compile("[\x00\ud800-\udfff]")
_WRITES_OPTION: Final = "seamark_writes"
_LASTING_OPTION: Final = "seamark_lasting"
_ISOLATION: Final = {"postgresql": "REPEATABLE READ", "cockroachdb": "SERIALIZABLE"}
"""Isolation level that gives a reader one snapshot; SQLite needs none."""
_COMPILED: Final[dict[str, dict[Any, tuple[str, tuple[str, ...], dict[str, Any]]]]] = {}
"""Compiled statements by dialect. Statements are module constants, shared by all databases."""
_WAL_S: Final = 0.3
_CACHE_KIB: Final = 256 << 10
_MAX_IDLE: Final = 4
"""Maximum number of idle connections."""
T = TypeVar("T")


class Conflict(Exception):  # noqa: N818 - not an error: another process was faster
    """Concurrent change of the rows of a transaction, which has to be repeated with new rows."""


def retry(work: Callable[[], T]) -> T:
    """Repeat a call while it raises `Conflict`; raise the `Conflict` of the last attempt."""
    for _ in range(_MAX_ATTEMPTS - 1):
        with contextlib.suppress(Conflict):
            return work()
    return work()


class _ThreadState(threading.local):
    """Transaction in which a thread reads; None outside `Database.holding`."""

    connection: sa.Connection | None = None


class Database:
    """Tables of a store, accessed through an engine."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.dialect = engine.dialect.name
        style = "qmark" if self.dialect == "sqlite" else "format"
        kind: Any = type(engine.dialect)
        self._dialect = kind(paramstyle=style)  # positional parameters
        self._compiled = _COMPILED.setdefault(self.dialect, {})
        self._thread_state = _ThreadState()
        isolation = _ISOLATION.get(self.dialect)
        options = {} if isolation is None else {"isolation_level": isolation}
        self._reading_engine = engine.execution_options(**{_WRITES_OPTION: False}, **options)

    def create_tables(self, *tables: sa.MetaData) -> None:
        """Create missing tables; other processes may do so at the same time."""
        for last in range(_MAX_CREATIONS, 0, -1):
            try:
                with self.writing() as connection:
                    for metadata in tables:
                        metadata.create_all(connection)
            except (Conflict, sa.exc.IntegrityError, sa.exc.ProgrammingError):
                if last == 1:  # another process may have created one: retry
                    raise
            else:
                return

    @contextlib.contextmanager
    def writing(self, *, lasting: bool = True) -> Iterator[sa.Connection]:
        """Run a block as one transaction that takes the write lock at its start.

        Without ``lasting``, a power failure may undo the transaction until the next lasting one
        commits, unless the whole database is durable. Raises `Conflict`, and writes nothing, if
        another transaction interferes.
        """
        assert self._thread_state.connection is None, "written while a snapshot is held"  # noqa: S101 - see `holding`
        options = {_WRITES_OPTION: True, _LASTING_OPTION: lasting}
        try:
            with (
                self.engine.connect().execution_options(**options) as connection,
                connection.begin(),
            ):
                yield connection
        except Exception as error:
            if _sqlstate(error) in _CONFLICTS:
                raise Conflict from error
            raise

    def reading(self) -> contextlib.AbstractContextManager[sa.Connection]:
        """Run a block that reads one snapshot of all tables, even while other processes write."""
        held = self._thread_state.connection
        return self._reading_engine.begin() if held is None else contextlib.nullcontext(held)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Run a block in which this thread reads one snapshot of all tables and writes nothing."""
        with self.reading() as connection:
            outer, self._thread_state.connection = self._thread_state.connection, connection
            try:
                yield
            finally:
                self._thread_state.connection = outer

    def among(self, column: sa.ColumnElement[int], numbers: Iterable[int]) -> Any:
        """Return the condition that a column equals one of many numbers."""
        if self.dialect == "sqlite":
            return column.in_(as_literals(numbers))
        return column == sa.any_(sa.literal(list(numbers), sa.ARRAY(sa.BigInteger)))

    def pattern(self, pattern: str) -> str:
        """Translate a Python regular expression to this database's syntax; see `is_bad_pattern`."""
        return pattern if self.dialect == "sqlite" else _to_posix(pattern)

    @staticmethod
    def is_bad_pattern(error: BaseException) -> bool:
        """Return whether an error means that the database rejects a regular expression."""
        return _sqlstate(error) == _BAD_PATTERN

    def rows(
        self, connection: sa.Connection, statement: Any, **values: Any
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; it must be a module constant and is compiled once.

        A list is the value of a parameter of `among`; for an empty list, there are no rows.
        """
        if [] in values.values():
            return []
        text, names, given = self._compiled.get(statement) or self._compile(statement)
        bound = {**given, **values}
        if self.dialect == "sqlite" and list in map(type, values.values()):
            bound |= {name: json.dumps(one) for name, one in values.items() if type(one) is list}
        with contextlib.closing(connection.connection.cursor()) as cursor:
            cursor.execute(text, [*map(bound.__getitem__, names)])
            found: list[tuple[Any, ...]] = cursor.fetchall()  # type: ignore[assignment]  # as the driver has them
        return found

    def fetch(self, statement: Any, **values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement as in `rows`, in a separate transaction."""
        with self.reading() as connection:
            return self.rows(connection, statement, **values)

    def query(self, connection: sa.Connection, statement: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that is used only once."""
        with contextlib.closing(connection.execute(statement)) as result:
            cursor: Any = result.cursor  # rows of SQLAlchemy would be slower
            found: list[tuple[Any, ...]] = cursor.fetchall()
        return found

    def stream(self, connection: sa.Connection, statement: Any) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a statement that is used only once, in batches."""
        with contextlib.closing(connection.execute(statement)) as result:
            cursor: Any = result.cursor  # rows of SQLAlchemy would be slower
            while part := cursor.fetchmany(_ROWS_PER_FETCH):
                yield list(part)

    def run(self, connection: sa.Connection, statement: Any, **values: Any) -> int:
        """Run a statement that writes; return the number of changed rows."""
        text, names, given = self._compiled.get(statement) or self._compile(statement)
        with contextlib.closing(connection.connection.cursor()) as cursor:
            cursor.execute(text, [*map({**given, **values}.__getitem__, names)])
            return int(cursor.rowcount)

    def run_many(
        self, connection: sa.Connection, statement: Any, rows: Iterable[Sequence[Any]]
    ) -> None:
        """Run a statement for each row of values, in the order of its columns."""
        rows = list(rows)
        if not rows:
            return
        text, _, _ = self._compiled.get(statement) or self._compile(statement)
        with contextlib.closing(connection.connection.cursor()) as cursor:
            cursor.executemany(text, rows)

    def run_each(
        self, connection: sa.Connection, statement: Any, rows: Iterable[Mapping[str, Any]]
    ) -> int:
        """Run a statement for each row of named values; return the changed rows, < 0 if unknown."""
        text, names, given = self._compiled.get(statement) or self._compile(statement)
        with contextlib.closing(connection.connection.cursor()) as cursor:
            cursor.executemany(
                text,
                [[row[name] if name in row else given[name] for name in names] for row in rows],
            )
            return int(cursor.rowcount)

    def _compile(self, statement: Any) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        made = statement.of(self.dialect) if isinstance(statement, Upsert) else statement
        compiled = made.compile(dialect=self._dialect)
        names = tuple(compiled.positiontup or ())
        found = self._compiled[statement] = (str(compiled), names, dict(compiled.params))
        return found


def as_literals(values: Iterable[Any]) -> Any:
    """Return values for `in_` as literals, because engines limit the number of parameters.

    SQLite reads a short list in the order of an index, unlike the parameter of `among`.
    """
    return sa.bindparam(None, list(values), expanding=True, literal_execute=True)


class one_of(FunctionElement[bool]):  # noqa: N801 - named like an SQL function
    """Condition that a column equals one of the values in a list; see `among`."""

    type = sa.Boolean()
    inherit_cache = True
    name = "one_of"

    def self_group(self, against: Any = None) -> Any:
        """Return the condition unchanged: SQLAlchemy appends ``= 1``, which prevents index use."""
        return self


@compiles(one_of)
def _in_json(element: Any, compiler: Any, **options: Any) -> str:
    column, values = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - compiled parts


@compiles(one_of, "postgresql")
@compiles(one_of, "cockroachdb")
def _in_array(element: Any, compiler: Any, **options: Any) -> str:
    first, _ = element.clauses
    column, values = (compiler.process(one, **options) for one in element.clauses)
    kind = "BIGINT" if isinstance(first.type, sa.Integer) else "TEXT"
    return f"{column} = ANY (CAST({values} AS {kind}[]))"


def among(column: sa.ColumnElement[Any], name: str = "at") -> sa.ColumnElement[bool]:
    """Return the condition that a column equals one of the values of a list; see `Database.rows`.

    Args:
        column: Column of numbers or texts.
        name: Name of the parameter.
    """
    return one_of(column, sa.bindparam(name))


def can_hold(text: str) -> bool:
    """Return whether a database can store a text: it has no NUL and no lone surrogate."""
    return _UNSAFE.search(text) is None


def _to_posix(pattern: str) -> str:
    given = _FLAGS.match(pattern)
    flags = given[1] if given else ""
    lines = {(False, False): "p", (False, True): "s", (True, False): "n", (True, True): "w"}
    options = lines["m" in flags, "s" in flags] + "".join(sorted(set("ix").intersection(flags)))
    rest = pattern[given.end() :] if given else pattern
    return f"(?{options})" + _PYTHON_ONLY.sub(_translate_token, rest)


def _translate_token(found: re.Match[str]) -> str:
    word = found[0]
    if word.startswith("("):
        return "("
    return {r"\b": r"\y", r"\B": r"\Y", "{,": "{0,"}.get(word, word)


def _sqlstate(error: BaseException) -> str | None:
    found: str | None = getattr(getattr(error, "orig", error), "sqlstate", None)
    return found


@dataclass(frozen=True, eq=False)
class Upsert:
    """Statement that writes rows which may exist; SQLAlchemy has a different one for each engine.

    ``keys`` identify a row; with ``overwrite`` the other ``columns`` of an existing row are
    replaced. ``returned`` names the column whose value is returned for new rows.
    """

    table: sa.Table
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    overwrite: bool = False
    returned: sa.Column[Any] | None = None

    def of(self, dialect: str) -> Any:
        """Return the statement for an engine."""
        insert: Any
        if dialect == "sqlite":
            from sqlalchemy.dialects.sqlite import insert
        else:
            from sqlalchemy.dialects.postgresql import insert
        made = insert(self.table).values({name: sa.bindparam(name) for name in self.columns})
        if self.overwrite:
            rest = {name: made.excluded[name] for name in self.columns if name not in self.keys}
            made = made.on_conflict_do_update(index_elements=self.keys, set_=rest)
        else:
            made = made.on_conflict_do_nothing(index_elements=self.keys)
        return made if self.returned is None else made.returning(self.returned)


def insertion(table: sa.Table) -> sa.Insert:
    """Return a statement that inserts whole rows; values are in the order of the columns."""
    return sa.insert(table).values({name: sa.bindparam(name) for name in table.columns.keys()})  # noqa: SIM118 - its keys are names


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not wait for another process that switches the same new file at this moment.
    deadline = time.monotonic() + _WAL_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def sqlite_engine(
    connect: Callable[[], sqlite3.Connection],
    *,
    threads: int = 1,
    cache_kib: int = _CACHE_KIB,
    durable: bool = False,
) -> sa.Engine:
    """Return an SQLite engine whose writing transactions start with BEGIN IMMEDIATE.

    Another process that writes does not block reading (write-ahead log).

    Args:
        connect: Opens a connection.
        threads: Number of simultaneous connections, each for one thread.
        cache_kib: Maximum cache size of all connections together, in KiB, allocated as needed: a
            query may read a page of every run.
        durable: Whether commits survive a power failure, except those of transactions that need not
            last; see `Database.writing`.
    """

    def opened() -> sqlite3.Connection:
        connection = connect()
        try:
            connection.isolation_level = None  # only the BEGIN below starts transactions
            _switch_to_wal(connection)
            for setting in (
                # Without FULL, a power failure may lose the last commits but never corrupts the
                # file.
                f"synchronous={'FULL' if durable else 'NORMAL'}",
                "wal_autocheckpoint=8000",
                f"cache_size=-{cache_kib // threads}",
                "temp_store=MEMORY",
            ):
                connection.execute(f"PRAGMA {setting}").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    pool: dict[str, Any] = {"poolclass": StaticPool}
    if threads > 1:
        kept = min(threads, _MAX_IDLE)
        pool = {"poolclass": sa.QueuePool, "pool_size": kept, "max_overflow": threads - kept}
    engine = sa.create_engine("sqlite://", creator=opened, **pool)

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        writes, lasts = options.get(_WRITES_OPTION), options.get(_LASTING_OPTION, True)
        if durable and writes and connection.info.get("lasts", True) != lasts:
            connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if lasts else 'NORMAL'}")
            connection.info["lasts"] = lasts
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def file_connection(file: Path) -> sqlite3.Connection:
    """Open an existing database file."""
    return sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw", timeout=BUSY_S, check_same_thread=False, uri=True
    )


def memory_engine() -> sa.Engine:
    """Return an engine for a database in memory."""
    return sqlite_engine(lambda: sqlite3.connect(":memory:", check_same_thread=False))
