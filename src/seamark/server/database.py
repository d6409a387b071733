"""Database of a server with time limits, translated errors and linear-time regular expressions."""

from __future__ import annotations

import contextlib
import functools
import re
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from seamark.errors import ArgumentError, QueryError, SeamarkError
from seamark.store.database import Conflict, Database

Text: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Text column, compared by bytes on all database engines."""
RowNumber: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Column of automatic row numbers."""
STATEMENT_S: Final = 10.0
"""Time limit of a reader's statement, in seconds."""
_WRITE_S: Final = 60.0
_CHECK_INSTRUCTIONS: Final = 100_000
"""Number of SQLite instructions between two checks of the time limit; some milliseconds."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CANCELLED: Final = "57014"
_INVALID_VALUES: Final = ("22", "54")
"""Prefixes of SQLSTATE codes of invalid or oversized values."""
_UNAVAILABLE_WORDS: Final = ("locked", "unable to open", "disk I/O", "full", "readonly")
_CONNECTION_ERRORS: Final = ("OperationalError", "InterfaceError", "ConnectionTimeout")
_UNAVAILABLE: Final = ("08", "57P", "53")
"""Prefixes of SQLSTATE codes: connection lost, shutting down or starting, out of resources."""
_UNDEFINED: Final = ("42P01", "3F000")
"""SQLSTATE codes of a missing table or schema."""


class DatabaseUnreachable(SeamarkError, ConnectionError):  # noqa: N818 - named after the state
    """The database cannot be reached or has no space left; a retry may succeed."""


class TooSlow(QueryError):  # noqa: N818 - named after the state
    """A query exceeded the time limit of the database."""


class ServerDatabase(Database):
    """Set of tables that is used by many threads and processes.

    `statement_s` limits the time of a statement of `reading`, in seconds; 0 is no limit. Errors of
    a database that is not available are raised as `DatabaseUnreachable`.
    """

    def __init__(self, engine: sa.Engine, statement_s: float = STATEMENT_S) -> None:
        super().__init__(engine)
        self._statement_s = statement_s

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Run a block on one state of all tables; a slow statement raises `TooSlow`."""
        with (
            translate_errors(self._statement_s),
            super().reading() as connection,
            self._limit_time(connection),
        ):
            yield connection

    @contextlib.contextmanager
    def writing(self, *, lasting: bool = True) -> Iterator[sa.Connection]:
        """Run a block as one transaction, or raise `Conflict` without writing anything."""
        with translate_errors(_WRITE_S), super().writing(lasting=lasting) as connection:
            if self.dialect == "postgresql" and self._statement_s:
                milliseconds = int(max(_WRITE_S, self._statement_s) * 1000)
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
            yield connection

    @contextlib.contextmanager
    def _limit_time(self, connection: sa.Connection) -> Iterator[None]:
        # PostgreSQL has its own time limit.
        if self.dialect != "sqlite" or not self._statement_s:
            yield
            return
        given: Any = connection.connection.dbapi_connection
        end = time.monotonic() + self._statement_s
        given.set_progress_handler(lambda: int(time.monotonic() > end), _CHECK_INSTRUCTIONS)
        try:
            yield
        finally:
            given.set_progress_handler(None, 0)

    def pattern(self, pattern: str) -> str:
        """Return a regular expression for this database; SQLite refuses backtracking."""
        if self.dialect != "sqlite":
            return super().pattern(pattern)
        written = _re2_syntax(pattern)
        _compiled_re2(written)
        return written


@contextlib.contextmanager
def translate_errors(statement_s: float) -> Iterator[None]:
    """Translate errors of an unavailable or slow database."""
    try:
        yield
    except (SeamarkError, Conflict):
        raise
    except Exception as error:
        found = translated_error(error, statement_s)
        if found is None:
            raise
        raise found from error


def translated_error(error: BaseException, statement_s: float) -> SeamarkError | None:
    """Return the translation of an error of the driver or the pool; None for other errors."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseUnreachable("all connections to the database are in use; try again later")
    inner = getattr(error, "orig", None) or error
    if inner is not error and isinstance(inner, ValueError | OverflowError | TypeError):
        return ArgumentError("the request has a text or a number that the database cannot store")
    code = getattr(inner, "sqlstate", None)
    if code == _CANCELLED or (isinstance(inner, sqlite3.Error) and "interrupted" in str(inner)):
        return TooSlow(f"the query took longer than {statement_s:g} s: request less data at a time")
    if isinstance(inner, sqlite3.OperationalError):
        why = str(inner)
        if any(word in why for word in _UNAVAILABLE_WORDS):
            return DatabaseUnreachable(f"the database cannot be used now: {why}")
        return None
    kind, code = type(inner), code or ""
    if not kind.__module__.startswith("psycopg"):
        return None
    if kind.__name__ == "DataError" or code.startswith(_INVALID_VALUES):
        return ArgumentError("the request has a text or a number that the database cannot store")
    if code.startswith(_UNAVAILABLE) or (not code and kind.__name__ in _CONNECTION_ERRORS):
        first = (str(inner).strip() or "connection lost").splitlines()[0]
        return DatabaseUnreachable(f"the database cannot be reached: {first}")
    return None


def is_undefined(error: BaseException) -> bool:
    """Return whether an error means that a table or a schema does not exist."""
    inner = getattr(error, "orig", None) or error
    if isinstance(inner, sqlite3.OperationalError):
        return "no such table" in str(inner)
    return getattr(inner, "sqlstate", None) in _UNDEFINED


# ---------------------------------------------------------------------- regular expressions


def _re2_syntax(pattern: str) -> str:
    return _ESCAPE.sub(lambda found: r"\z" if found[1] == "Z" else found[0], pattern)


@functools.lru_cache(maxsize=256)
def _compiled_re2(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        why = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise QueryError(
            f"query: expected a regular expression without backtracking, got {pattern!r}: {why}"
        ) from None


def bound_patterns(engine: sa.Engine) -> None:
    """Make SQLite match patterns with RE2, in linear time, instead of SQLAlchemy's ``re``."""

    @sa.event.listens_for(engine, "connect")
    def _add_regexp(connection: Any, _: Any) -> None:
        connection.create_function("regexp", 2, _is_match, deterministic=True)


def _is_match(pattern: str | None, value: object) -> bool | None:
    if pattern is None or value is None:
        return None
    return _compiled_re2(pattern).search(str(value)) is not None


K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Dictionary of at most `most` entries, which removes the one that was set the longest ago."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._max_entries = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._max_entries:
            self.popitem(last=False)
