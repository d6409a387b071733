"""The three sets of tables of a server, found from one URL.

``account`` (who may do what; to be backed up), ``kept`` (which object holds which bytes; derived
from the objects) and ``store_v<version>`` (the folded runs; derived from what is kept). On
PostgreSQL they are schemas of one database, on SQLite files beside each other.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, QueryError, SeamarkError
from seamark.server.settings import FILE_SUFFIXES
from seamark.store import schema
from seamark.store.database import BUSY_S, Conflict, Database, Upsert, file_connection, set_up_files
from seamark.store.path_numbers import PathNumbers
from seamark.store.runs import Store

__all__ = [
    "DatabaseUnreachable",
    "Databases",
    "Live",
    "SchemaNewer",
    "ServerDatabase",
    "TooSlow",
    "bound_patterns",
    "is_undefined",
    "lock_file",
    "open_databases",
    "redacted",
    "store_name",
]

STATEMENT_S: Final = 10.0
"""How long one statement of a reader may take, seconds."""
_WRITE_S: Final = 60.0
_CONNECT_S: Final = 5
_POOL_WAIT_S: Final = 10.0
_SET: Final = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = %s"
"""Change a setting of PostgreSQL that a database which speaks its protocol may not know."""
_LOOK_S: Final = 1.0
"""How often it is asked which store is live, seconds."""
_TICKS: Final = 100_000
"""After how many steps of SQLite's machine the clock is looked at: some milliseconds."""
_CACHE_KIB: Final = 32 << 10
_REMOTE_FILES: Final = frozenset(
    {
        *("afs", "beegfs", "ceph", "cifs", "coda", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"),
        *(
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
            "nfs",
            "nfs4",
            "orangefs",
            "smb2",
            "smb3",
            "smbfs",
        ),
    }
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_CANCELLED: Final = "57014"
_UNFIT: Final = "22"
"""Beginning of codes: values that are none."""
_LOST: Final = ("OperationalError", "InterfaceError", "ConnectionTimeout")
_AWAY: Final = ("08", "57P", "53")
"""Beginnings of codes: connection lost, shutting down or starting, and out of something."""
_UNDEFINED: Final = ("42P01", "3F000")
"""No such table, no such schema."""


class DatabaseUnreachable(SeamarkError, ConnectionError):  # noqa: N818 - says what is so
    """The database cannot be reached, or has no room left; the same may work later."""


class SchemaNewer(SeamarkError):  # noqa: N818 - says what is so
    """The tables were made by a newer Seamark than this one."""


class TooSlow(QueryError):  # noqa: N818 - says what is so
    """A question took the database longer than it may."""


# ---------------------------------------------------------------------- one set of tables


class ServerDatabase(Database):
    """A set of tables that many threads and processes use.

    Statements of `reading` are bounded in time; whatever means that the database is not there now
    is `DatabaseUnreachable`.

    Args:
        engine: Of SQLAlchemy, with a pool.
        statement_s: How long a reader's statement may take, seconds; 0 for as long as it likes.
    """

    def __init__(self, engine: sa.Engine, statement_s: float = STATEMENT_S) -> None:
        super().__init__(engine)
        self._statement_s = statement_s

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Run a block that sees one state of all tables, also if others write meanwhile.

        Raises:
            TooSlow: If a statement took too long.
            DatabaseUnreachable: If the database is not there.
        """
        with _told(self._statement_s), super().reading() as connection, self._bounded(connection):
            yield connection

    @contextlib.contextmanager
    def writing(self, *, lasting: bool = True) -> Iterator[sa.Connection]:
        """Run a block as one transaction that may write, from its start.

        Args:
            lasting: See `seamark.store.database.Database.writing`.

        Raises:
            Conflict: If another transaction is in the way, so that nothing was written.
            DatabaseUnreachable: If the database is not there.
        """
        with _told(_WRITE_S), super().writing(lasting=lasting) as connection:
            if self.dialect == "postgresql" and self._statement_s:
                milliseconds = int(max(_WRITE_S, self._statement_s) * 1000)
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {milliseconds}")
            yield connection

    @contextlib.contextmanager
    def _bounded(self, connection: sa.Connection) -> Iterator[None]:
        """Bound the time that SQLite takes; PostgreSQL does so by itself."""
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
        """Return a regular expression as this database reads it.

        Raises:
            QueryError: If it needs backtracking, which a server does not do (SQLite).
        """
        if self.dialect != "sqlite":
            return super().pattern(pattern)
        written = _as_re2(pattern)
        _re2(written)
        return written


@contextlib.contextmanager
def _told(statement_s: float) -> Iterator[None]:
    """Say in plain words that a database is gone, or took too long."""
    try:
        yield
    except SeamarkError:
        raise
    except Conflict:
        raise
    except Exception as error:
        found = _meaning(error, statement_s)
        if found is None:
            raise
        raise found from error


def _meaning(error: BaseException, statement_s: float) -> SeamarkError | None:
    """Return what an error of a driver or of the pool means; None if it is no matter of these."""
    if isinstance(error, sa.exc.TimeoutError):
        return DatabaseUnreachable("all connections to the database are in use; try again later")
    inner = getattr(error, "orig", None) or error
    code = getattr(inner, "sqlstate", None)
    if code == _CANCELLED or (isinstance(inner, sqlite3.Error) and "interrupted" in str(inner)):
        return TooSlow(f"the database took longer than {statement_s:g} s: ask for less at a time")
    if isinstance(inner, sqlite3.OperationalError):
        said = str(inner)
        if any(word in said for word in ("locked", "unable to open", "disk I/O", "full")):
            return DatabaseUnreachable(f"the database cannot be used now: {said}")
        return None
    kind = type(inner)
    if kind.__module__.startswith("psycopg") and (
        kind.__name__ == "DataError" or (code or "").startswith(_UNFIT)
    ):
        return ArgumentError("the request has a text or a number that no database can hold")
    if kind.__module__.startswith("psycopg") and (
        (code is None and kind.__name__ in _LOST) or (code or "").startswith(_AWAY)
    ):
        first = (str(inner).strip() or "connection lost").splitlines()[0]
        return DatabaseUnreachable(f"the database cannot be reached: {first}")
    return None


def is_undefined(error: BaseException) -> bool:
    """Return whether an error means that a table or a schema is not there (any more)."""
    inner = getattr(error, "orig", None) or error
    if isinstance(inner, sqlite3.OperationalError):
        return "no such table" in str(inner)
    return getattr(inner, "sqlstate", None) in _UNDEFINED


# ---------------------------------------------------------------------- regular expressions


def _as_re2(pattern: str) -> str:
    """Return a regular expression of Python as RE2 writes it."""
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


# ---------------------------------------------------------------------- all of them


@dataclass(frozen=True, slots=True)
class Live:
    """Name and version of the folded tables that readers use.

    Attributes:
        name: Name of the set of tables, such as ``"store_v8"``.
        version: Version of its tables and of the rules of the fold.
    """

    name: str
    version: int


_tables = sa.MetaData()
_Text = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_live = sa.Table(
    "live",
    _tables,
    sa.Column("key", _Text, primary_key=True),
    sa.Column("store", _Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
_LIVE: Final = sa.select(_live.c.store, _live.c.version).where(_live.c.key == "live")
_SWITCH: Final = Upsert(_live, ("key", "store", "version"), ("key",), overwrite=True)
_BEGIN: Final = Upsert(_live, ("key", "store", "version"), ("key",))
_SAID: Final = sa.select(schema.meta.c.value).where(schema.meta.c.key == "schema")
_SAY: Final = Upsert(schema.meta, ("key", "value"), ("key",))


def store_name(version: str = schema.SCHEMA_VERSION, copy: int = 0) -> str:
    """Return what the folded tables of a version are called.

    Args:
        version: Of the tables.
        copy: Which of several of one version, 0-based.
    """
    return f"store_v{version}" + (f"_{copy}" if copy else "")


class Databases:
    """The three sets of tables; opened by `open_databases`, safe to use from many threads.

    Attributes:
        url: Where they are, the password hidden.
        is_sqlite: Whether they are files, which one process at a time writes.
        account: Users, tokens, roles, tombstones; made and migrated by `seamark.server.accounts`.
        kept: Which object holds which bytes, and which store is live.
    """

    def __init__(self, places: _Places, statement_s: float) -> None:
        self._places = places
        self._statement_s = statement_s
        self._lock = threading.Lock()
        self._store: tuple[str, Store] | None = None
        self._looked = 0.0
        self.url = redacted(places.url)
        self.is_sqlite = places.is_sqlite
        self.account = ServerDatabase(places.engine("account"), statement_s)
        self.kept = ServerDatabase(places.engine("kept"), statement_s)
        self.kept.create_tables(_tables)

    # ------------------------------------------------------------------ stores

    def live(self) -> Live | None:
        """Return which store is live; None if none was ever made.

        Raises:
            SchemaNewer: If a newer Seamark made it.
        """
        with self.kept.reading() as connection:
            rows = self.kept.rows(connection, _LIVE)
        if not rows:
            return None
        found = Live(*rows[0])
        if found.version > int(schema.SCHEMA_VERSION):
            msg = (
                f"the tables of {self.url} were folded by a newer Seamark (version {found.version}"
                f" of the tables, this one knows {schema.SCHEMA_VERSION}): update this Seamark"
            )
            raise SchemaNewer(msg)
        return found

    def store(self) -> Store:
        """Return the store that is live, as far as this version can read it, else its own.

        A switch to another is noticed within a second.

        Raises:
            SchemaNewer: If a newer Seamark took over.
            DatabaseUnreachable: If the database is not there.
        """
        with self._lock:
            now = time.monotonic()
            if self._store is None or now - self._looked > _LOOK_S:
                live = self.live()
                self._looked = now
                if live is not None and live.version == int(schema.SCHEMA_VERSION):
                    name = live.name
                else:
                    name = store_name()
                if self._store is None or self._store[0] != name:
                    store = self.store_at(name)
                    if self._store is not None:
                        self._store[1].database.engine.dispose()
                    self._store = name, store
                if live is None:
                    self.begin(name)
            return self._store[1]

    @property
    def store_in_use(self) -> str:
        """Name of the store that `store` returns."""
        self.store()
        assert self._store is not None  # noqa: S101 - made in the line above
        return self._store[0]

    def store_at(self, name: str) -> Store:
        """Return a store by its name, its tables made if they are not there.

        Its engine is the caller's to dispose of.

        Raises:
            SchemaNewer: If it has another version than this Seamark.
        """
        from seamark.server.folding.tables import metadata

        database = ServerDatabase(self._places.engine(name), self._statement_s)
        database.create_tables(schema.metadata, metadata)
        with database.writing() as connection:
            said = database.rows(connection, _SAID)
            if not said:
                database.run(connection, _SAY, key="schema", value=schema.SCHEMA_VERSION)
        if said and said[0][0] != schema.SCHEMA_VERSION:
            database.engine.dispose()
            msg = f"{name!r} of {self.url} has version {said[0][0]}, not {schema.SCHEMA_VERSION}"
            raise SchemaNewer(msg)
        return Store(database, PathNumbers(database), here=False)

    def begin(self, name: str) -> None:
        """Make a store the live one if there is none yet."""
        with self.kept.writing() as connection:
            self.kept.run(
                connection, _BEGIN, key="live", store=name, version=int(schema.SCHEMA_VERSION)
            )

    def switch(self, name: str) -> None:
        """Make a store of this version the live one, for all processes."""
        with self.kept.writing() as connection:
            self.kept.run(
                connection, _SWITCH, key="live", store=name, version=int(schema.SCHEMA_VERSION)
            )
        self._looked = -_LOOK_S

    def take_over(self, store: Store) -> None:
        """Make the store that `store` returns the live one, if one of an older version is."""
        live, current = self.live(), self._store
        older = live is None or live.version < int(schema.SCHEMA_VERSION)
        if older and current is not None and current[1] is store:
            self.switch(current[0])

    def stores(self) -> list[str]:
        """Return the names of all stores that are there."""
        return sorted(name for name in self._places.names() if name.startswith("store_v"))

    def drop_store(self, name: str) -> None:
        """Remove a store that is not live (any more)."""
        self._places.drop(name)

    # ------------------------------------------------------------------ the rest

    def ping(self) -> None:
        """Ask the database whether it is there.

        Raises:
            DatabaseUnreachable: If it is not.
        """
        with self.kept.reading() as connection:
            connection.exec_driver_sql("SELECT 1").fetchall()

    def close(self) -> None:
        """Close all connections; harmless when called twice."""
        with self._lock:
            if self._store is not None:
                self._store[1].database.engine.dispose()
                self._store = None
        for database in (self.account, self.kept):
            database.engine.dispose()


def open_databases(url: str, *, statement_s: float = STATEMENT_S, pool: int = 4) -> Databases:
    """Open the three sets of tables at a URL; what is missing is made, but nothing in ``account``.

    Args:
        url: ``postgresql://user@host/database``; or ``sqlite:///folder``, or ``sqlite:///name.db``
            whose stem begins the names of the files.
        statement_s: How long one statement of a reader may take, seconds; 0: as long as it likes,
            for processes that fold.
        pool: How many connections are kept open for each set; PostgreSQL only.

    Raises:
        ArgumentError: If the URL names no place that can be used.
        DatabaseUnreachable: If nobody answers there.
        SchemaNewer: If a newer Seamark uses them.
    """
    with _told(statement_s):
        databases = Databases(_places_of(url, statement_s, pool), statement_s)
    try:
        databases.live()
    except BaseException:
        databases.close()
        raise
    return databases


def lock_file(url: str) -> Path | None:
    """Return what a server locks that runs on files; None for PostgreSQL, which many may share.

    Raises:
        ArgumentError: If the URL names no place that can be used.
    """
    places = _places_of(url, 0, 1)
    return places.lock if isinstance(places, _Files) else None


def redacted(url: str) -> str:
    """Return a URL with its password hidden, to be shown."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return re.sub(r"://[^@/]*@", "://***@", url)


# ---------------------------------------------------------------------- where they are


class _Places:
    """Location of the sets of tables: files of SQLite, or schemas of a PostgreSQL database.

    Args:
        url: URL, as it was given.
        is_sqlite: Whether they are files of SQLite.
    """

    def __init__(self, url: str, *, is_sqlite: bool) -> None:
        self.url = url
        self.is_sqlite = is_sqlite

    def engine(self, name: str) -> sa.Engine:
        """Return an engine on one set, which is made if it is not there."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the names of those that are there."""
        raise NotImplementedError

    def drop(self, name: str) -> None:
        """Remove one with all that is in it."""
        raise NotImplementedError


def _places_of(url: str, statement_s: float, pool: int) -> _Places:
    try:
        made = sa.make_url(url)
    except sa.exc.ArgumentError:
        made = None
    kind = "" if made is None else made.get_backend_name()
    if made is None or kind not in ("sqlite", "postgresql"):
        msg = (
            "store: expected a URL such as sqlite:///folder or postgresql://user@host/database,"
            f" got {redacted(url)!r}"
        )
        raise ArgumentError(msg)
    if kind == "sqlite":
        if not made.database or made.database == ":memory:":
            msg = f"store: expected a folder, as in sqlite:///seamark-server, got {url!r}"
            raise ArgumentError(msg)
        return _Files(url, Path(made.database))
    return _Schemas(url, made.set(drivername="postgresql+psycopg"), statement_s, pool)


class _Files(_Places):
    """Files of SQLite beside each other, for nobody but their owner."""

    def __init__(self, url: str, path: Path) -> None:
        super().__init__(url, is_sqlite=True)
        path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
        single = path.suffix in FILE_SUFFIXES
        self.folder = path.parent if single else path
        self._prefix = f"{path.stem}." if single else ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            msg = f"store: the folder {str(self.folder)!r} cannot be made: {error.strerror}"
            raise ArgumentError(msg) from error
        kind = _file_system(self.folder)
        if kind in _REMOTE_FILES:
            msg = (
                f"store: {str(self.folder)!r} lies on a network file system ({kind}), on which"
                " SQLite loses data: name a folder on a disk of this machine, or a PostgreSQL"
            )
            raise ArgumentError(msg)

    @property
    def lock(self) -> Path:
        """Path of the file, beside the others, that a server locks while it runs on them."""
        return self.folder / f"{self._prefix}server.lock"

    def engine(self, name: str) -> sa.Engine:
        file = self._file(name)
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            msg = f"store: the file {str(file)!r} cannot be written: {error.strerror}"
            raise ArgumentError(msg) from error
        durable = not name.startswith("store_v")
        return _pooled_files(lambda: file_connection(file), durable=durable)

    def names(self) -> list[str]:
        found = (path.name for path in self.folder.glob(f"{self._prefix}*.db"))
        return sorted(name[len(self._prefix) : -len(".db")] for name in found)

    def drop(self, name: str) -> None:
        for end in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._file(name)}{end}").unlink()

    def _file(self, name: str) -> Path:
        return self.folder / f"{self._prefix}{name}.db"


def _pooled_files(connect: Callable[[], sqlite3.Connection], *, durable: bool) -> sa.Engine:
    """Return an engine on a file with a connection for every thread that asks.

    Args:
        connect: Opens the file.
        durable: Whether what was committed outlives a loss of power; what is folded need not.
    """

    def opened() -> sqlite3.Connection:
        connection = connect()
        try:
            connection.isolation_level = None  # SQLAlchemy's BEGIN below is the only one
            set_up_files(connection, cache_kib=_CACHE_KIB)
            if durable:
                connection.execute("PRAGMA synchronous=FULL").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine(
        "sqlite://",
        creator=opened,
        poolclass=sa.QueuePool,
        pool_size=4,
        max_overflow=60,  # more than a process has threads that answer
        pool_timeout=BUSY_S,
    )

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        cursor = connection.connection.cursor()
        if writes := options.get("seamark_writes"):
            lasts = durable and options.get("seamark_lasting", True)
            if connection.info.get("lasts", durable) != lasts:
                cursor.execute(f"PRAGMA synchronous={'FULL' if lasts else 'NORMAL'}")
                connection.info["lasts"] = lasts
        cursor.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        cursor.close()

    bound_patterns(engine)
    return engine


class _Schemas(_Places):
    """Schemas of one database of PostgreSQL."""

    def __init__(self, url: str, made: sa.URL, statement_s: float, pool: int) -> None:
        super().__init__(url, is_sqlite=False)
        self._url, self._statement_s, self._pool = made, statement_s, pool

    def engine(self, name: str) -> sa.Engine:
        made = sa.schema.CreateSchema(name, if_not_exists=True)
        with contextlib.suppress(sa.exc.IntegrityError, sa.exc.ProgrammingError):
            self._run(made)  # somebody else makes it at the same time
        engine = sa.create_engine(
            self._url,
            pool_size=self._pool,
            max_overflow=self._pool,
            pool_timeout=_POOL_WAIT_S,
            pool_pre_ping=True,  # the database may have been stopped and started in between
            pool_use_lifo=True,
            connect_args={"connect_timeout": _CONNECT_S},
        )
        milliseconds = int(self._statement_s * 1000)

        # Before SQLAlchemy asks for the schema that is the default one.
        @sa.event.listens_for(engine, "connect", insert=True)
        def _connected(connection: Any, _: Any) -> None:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f'SET search_path TO "{name}"')
                cursor.execute(f"SET statement_timeout TO {milliseconds}")
                cursor.execute("SET idle_in_transaction_session_timeout TO 120000")
                # Compiling a statement takes longer than running it for a page.
                cursor.execute(_SET, ["off", "jit"])
                if milliseconds:  # a plan for any path, value and page is a poor one for most
                    cursor.execute(_SET, ["force_custom_plan", "plan_cache_mode"])
            connection.autocommit = False

        return engine

    def names(self) -> list[str]:
        engine = sa.create_engine(self._url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            return sorted(sa.inspect(connection).get_schema_names())

    def drop(self, name: str) -> None:
        self._run(sa.schema.DropSchema(name, cascade=True, if_exists=True))

    def _run(self, statement: Any) -> None:
        engine = sa.create_engine(
            self._url, poolclass=sa.NullPool, connect_args={"connect_timeout": _CONNECT_S}
        )
        with engine.begin() as connection:
            connection.execute(statement)


def _file_system(folder: Path) -> str:
    """Return the kind of file system that a folder lies on; empty where that is not known."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    real, best, kind = os.path.realpath(folder), "", ""
    for line in lines.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:  # noqa: PLR2004 - the mount point is the fifth
            continue
        point = fields[4].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, after.split(" ")[0]
    return kind
