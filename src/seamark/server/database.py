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

__all__ = [
    "STATEMENT_S",
    "DatabaseUnreachable",
    "Latest",
    "ServerDatabase",
    "TooSlow",
    "bound_patterns",
    "is_undefined",
    "meaning_of",
    "translate_errors",
]


STATEMENT_S: Final = 10.0
"""Time limit of a reader's statement, in seconds."""
_WRITE_S: Final = 60.0
_TICKS: Final = 100_000
"""Number of SQLite instructions between two checks of the time limit; some milliseconds."""
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CANCELLED: Final = "57014"
_UNFIT: Final = ("22", "54")
"""Prefixes of SQLSTATE codes of invalid or oversized values."""
_UNUSABLE: Final = ("locked", "unable to open", "disk I/O", "full", "readonly")
_LOST: Final = ("OperationalError", "InterfaceError", "ConnectionTimeout")
_AWAY: Final = ("08", "57P", "53")
"""Prefixes of SQLSTATE codes: connection lost, shutting down or starting, out of resources."""
_UNDEFINED: Final = ("42P01", "3F000")
"""SQLSTATE codes of a missing table or schema."""


class DatabaseUnreachable(SeamarkError, ConnectionError):  # noqa: N818 - says what is so
    """The database cannot be reached or has no space left; a retry may succeed."""


class TooSlow(QueryError):  # noqa: N818 - says what is so
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
            self._bounded(connection),
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
    def _bounded(self, connection: sa.Connection) -> Iterator[None]:
        # PostgreSQL has its own time limit.
        if self.dialect != "sqlite" or not self._statement_s:
            yield
            return
        given: Any = connection.connection.dbapi_connection
        end = time.monotonic() + self._statement_s
        given.set_progress_handler(lambda: int(time.monotonic() > end), _TICKS)
        try:
            yield
        finally:
            given.set_progress_handler(None, 0)

    def pattern(self, pattern: str) -> str:
        """Return a regular expression for this database; SQLite refuses backtracking."""
        if self.dialect != "sqlite":
            return super().pattern(pattern)
        written = _as_re2(pattern)
        _re2(written)
        return written


@contextlib.contextmanager
def translate_errors(statement_s: float) -> Iterator[None]:
    """Translate errors of an unavailable or slow database."""
    try:
        yield
    except (SeamarkError, Conflict):
        raise
    except Exception as error:
        found = meaning_of(error, statement_s)
        if found is None:
            raise
        raise found from error


def meaning_of(error: BaseException, statement_s: float) -> SeamarkError | None:
    """Return the translation of an error of the driver or the pool; None for other errors."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseUnreachable("all connections to the database are in use; try again later")
    inner = getattr(error, "orig", None) or error
    if inner is not error and isinstance(inner, ValueError | OverflowError | TypeError):
        return ArgumentError("the request has a text or a number that the database cannot store")
    code = getattr(inner, "sqlstate", None)
    if code == _CANCELLED or (isinstance(inner, sqlite3.Error) and "interrupted" in str(inner)):
        return TooSlow(f"the database took longer than {statement_s:g} s: ask for less at a time")
    if isinstance(inner, sqlite3.OperationalError):
        said = str(inner)
        if any(word in said for word in _UNUSABLE):
            return DatabaseUnreachable(f"the database cannot be used now: {said}")
        return None
    kind, code = type(inner), code or ""
    if not kind.__module__.startswith("psycopg"):
        return None
    if kind.__name__ == "DataError" or code.startswith(_UNFIT):
        return ArgumentError("the request has a text or a number that the database cannot store")
    if code.startswith(_AWAY) or (not code and kind.__name__ in _LOST):
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


def _as_re2(pattern: str) -> str:
    return _ESCAPED.sub(lambda found: r"\z" if found[1] == "Z" else found[0], pattern)


@functools.lru_cache(maxsize=256)
def _re2(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        msg = f"query: expected a regular expression without backtracking, got {pattern!r}: {said}"
        raise QueryError(msg) from None


def bound_patterns(engine: sa.Engine) -> None:
    """Make SQLite match patterns with RE2, in linear time, instead of SQLAlchemy's ``re``."""

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: Any, _: Any) -> None:
        connection.create_function("regexp", 2, _matches, deterministic=True)


def _matches(pattern: str | None, value: object) -> bool | None:
    if pattern is None or value is None:
        return None
    return _re2(pattern).search(str(value)) is not None


K = TypeVar("K")
V = TypeVar("V")


class Latest(OrderedDict[K, V]):
    """Dictionary of at most `most` entries, which removes the one that was set the longest ago."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
