"""The tables of a store, and the file that holds those of the local index.

SQLAlchemy Core, and only what SQLite, PostgreSQL and CockroachDB all take. Nothing here migrates: a
store is derived from journals, so a file of another version is emptied and folded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError

__all__ = [
    "SCHEMA_VERSION",
    "attribute",
    "chunk",
    "connect",
    "element",
    "fetch",
    "index_path",
    "journal",
    "journal_text",
    "meta",
    "metadata",
    "path",
    "run",
    "series",
    "transaction",
]

SCHEMA_VERSION: Final = "5"
"""Changes with the tables and the rules of the fold; an index of another version is made anew."""

BUSY_S: Final = 30.0
"""How long to wait for another process in the middle of a transaction, seconds."""

metadata = sa.MetaData()

_Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
"""``schema`` (version), ``folded_at`` (nanoseconds since the Unix epoch)."""

path = sa.Table(
    "path",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("path", sa.Text, nullable=False, unique=True),
)
"""Attribute paths, numbered: they repeat from run to run."""

run = sa.Table(
    "run",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("project", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # as written; "crashed" is derived at reading time
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column(
        "created", sa.BigInteger, nullable=False
    ),  # ns since the epoch, as are all times here
    sa.Column("modified", sa.BigInteger, nullable=False),
    sa.Column("running", sa.BigInteger, nullable=False),  # ns
    sa.Column("beat", sa.BigInteger, nullable=False),  # last sign of life of an owner
    sa.Column("trashed", sa.SmallInteger, nullable=False),
    sa.Column(
        "listed", sa.BigInteger, nullable=False
    ),  # mtime of the journal folder; 0: do not trust
    sa.Column("registers", sa.Text, nullable=False),  # JSON: deletes, clears, state
    sa.UniqueConstraint("project", "name"),
)

journal = sa.Table(
    "journal",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("file", sa.Text, nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False),
    sa.Column("last_offset", sa.BigInteger, nullable=False),
    sa.Column("last_crc", sa.BigInteger, nullable=False),
    sa.Column(
        "size", sa.BigInteger, nullable=False
    ),  # of the file when it was last looked at, as are the next two
    sa.Column("mtime", sa.BigInteger, nullable=False),
    sa.Column("inode", sa.BigInteger, nullable=False),
    sa.Column(
        "retry", sa.BigInteger, nullable=False
    ),  # when to look again although nothing changed; 0: never
    sa.Column("chunked", sa.BigInteger, nullable=False),  # points before this offset are in chunks
    sqlite_with_rowid=False,
)

journal_text = sa.Table(
    "journal_text",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("facts", sa.Text, nullable=False),  # JSON
    sa.Column("numbers", sa.Text, nullable=False),  # JSON: paths and schemas
    sa.Column("chunk_numbers", sa.Text, nullable=False),  # the same as of ``chunked``
)
"""The long part of ``journal``, which is read as a whole at every refresh."""

attribute = sa.Table(
    "attribute",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Id, primary_key=True),
    sa.Column("family", sa.SmallInteger, primary_key=True),  # index into seamark.values.FAMILIES
    sa.Column("visible", sa.SmallInteger, nullable=False),
    sa.Column("type", sa.Text, nullable=False),  # of an atom, else the family
    sa.Column(
        "class", sa.SmallInteger
    ),  # of the number: -1 -inf, 0 finite, 1 inf, 2 NaN; null: no number
    sa.Column("number", sa.Float),  # null unless finite; SQLite would turn NaN into null
    sa.Column(
        "whole", sa.BigInteger
    ),  # ints, bools, microseconds since the epoch of datetimes, sizes of the rest
    sa.Column("text", sa.Text),
    sa.Column("t", sa.BigInteger),  # the key's three parts; null: never
    sa.Column("writer", sa.Integer),
    sa.Column("place", sa.Integer),
    sa.Column("registers", sa.Text),  # JSON
    sqlite_with_rowid=False,
)
"""One row for every run, path and family; ``visible`` is 1 for the family that the path shows."""

series = sa.Table(
    "series",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Id, primary_key=True),
    sa.Column("family", sa.SmallInteger, primary_key=True),
    sa.Column("low", sa.Float),  # of the finite values of a float series, as are the next two
    sa.Column("high", sa.Float),
    sa.Column("mean", sa.Float),
    sa.Column("count", sa.BigInteger),
    sa.Column("first_step", sa.Float),
    sa.Column("last_step", sa.Float),
    sqlite_with_rowid=False,
)
"""What else can be asked of a series; apart, because most rows of ``attribute`` are atoms."""

element = sa.Table(
    "element",
    metadata,
    sa.Column("run", _Id, primary_key=True),
    sa.Column("path", _Id, primary_key=True),
    sa.Column("value", sa.Text, primary_key=True),
    sqlite_with_rowid=False,
)
"""Elements of visible string sets."""

chunk = sa.Table(
    "chunk",
    metadata,
    sa.Column("run", _Id, nullable=False),
    sa.Column("path", _Id, nullable=False),  # 0: the columns that the series of a row group share
    sa.Column("journal", sa.Integer, nullable=False),
    sa.Column(
        "place", sa.BigInteger, nullable=False
    ),  # where the row group starts in the journal, bytes
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index("chunk_place", "run", "path", "journal", "place", unique=True),
)


def index_path(root: Path) -> Path:
    """Return where the index of a root lies.

    ``SEAMARK_INDEX`` names a folder, or a file ``*.db``; else it is below ``XDG_CACHE_HOME``.

    The name is hashed from the host and the real path of the root: the same path may be another
    folder on another host, and SQLite cannot share a file between hosts although their home folders
    may be one.

    Raises:
        ArgumentError: If ``SEAMARK_INDEX`` points into the root.
    """
    real = os.path.realpath(root)
    name = (
        hashlib.sha256(
            f"{socket.gethostname()}\0{real}".encode("utf-8", "surrogateescape")
        ).hexdigest()[:32]
        + ".db"
    )
    given = os.environ.get("SEAMARK_INDEX")
    if given:
        target = Path(given) if given.endswith(".db") else Path(given, name)
        if os.path.realpath(target).startswith(real + os.sep):
            msg = f"SEAMARK_INDEX: expected a place outside the root {real!r}, got {given!r}"
            raise ArgumentError(msg)
        return target
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "seamark" / name


def connect(file: Path | None) -> sa.Engine:
    """Return an engine for a file that exists, or for memory; its transactions are BEGIN IMMEDIATE.

    Reading outside a transaction is not blocked by another process that writes (write-ahead log).
    """
    url = "sqlite://"

    def open_file() -> sqlite3.Connection:
        target = ":memory:" if file is None else f"{file.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(
            target,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
            uri=file is not None,
        )
        try:
            _set_up(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    return sa.create_engine(
        url, creator=open_file, poolclass=sa.StaticPool, isolation_level="AUTOCOMMIT"
    )


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL").fetchone()
    connection.execute(
        "PRAGMA synchronous=NORMAL"
    )  # never torn, though the last moments may be missing
    connection.execute("PRAGMA wal_autocheckpoint=8000")
    connection.execute(
        "PRAGMA cache_size=-262144"
    )  # KiB, taken as needed: a query may touch a page of every run
    connection.execute("PRAGMA temp_store=MEMORY")


def fetch(connection: sa.Connection, statement: sa.Select[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a statement as the driver has them, in half of SQLAlchemy's time."""
    compiled = statement.compile(connection, compile_kwargs={"render_postcompile": True})
    given = compiled.params
    cursor = connection.connection.cursor()
    cursor.execute(str(compiled), [given[name] for name in compiled.positiontup or ()])
    rows: list[tuple[Any, ...]] = cursor.fetchall()  # type: ignore[assignment]  # the driver's rows are tuples
    return rows


@contextlib.contextmanager
def transaction(connection: sa.Connection) -> Iterator[None]:
    """Run a block as one transaction that holds the right to write from its start."""
    driver = (
        connection.connection
    )  # SQLAlchemy's own BEGIN would wait until the first write to ask for the right
    driver.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        driver.rollback()
        raise
    driver.commit()
