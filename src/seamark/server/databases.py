"""The three sets of tables of a server, at one URL.

``account`` has users and their permissions, and needs backups. ``kept`` maps bytes of journals to
objects, and is derived from the objects. ``store_v<version>`` has the folded runs, and is derived
from the journals. The sets are schemas of a PostgreSQL database, or SQLite files in a folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from seamark.errors import ArgumentError, SeamarkError
from seamark.server.database import (
    STATEMENT_S,
    ServerDatabase,
    Text,
    bound_patterns,
    translate_errors,
)
from seamark.store import schema
from seamark.store.database import Upsert, file_connection, sqlite_engine
from seamark.store.runs import Store
from seamark.store.schema import PathNumbers

_CONNECT_S: Final = 5
_POOL_WAIT_S: Final = 10.0
_CHANGE_SETTING: Final = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = %s"
"""Statement that changes a PostgreSQL setting, if the (compatible) database has it."""
_LIVE_CHECK_S: Final = 1.0
"""Interval of checks for the live store, in seconds."""
_MAX_THREADS: Final = 64
"""Maximum number of threads of a process that answer requests."""
_CACHE_KIB: Final = _MAX_THREADS * (32 << 10)
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
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
    }
)


class SchemaNewer(SeamarkError):  # noqa: N818 - named after the state
    """The tables were created by a newer version of Seamark."""


@dataclass(frozen=True, slots=True)
class Live:
    """Name, such as ``"store_v8"``, and version of the folded tables in use."""

    name: str
    version: int


_tables = sa.MetaData()
_live = sa.Table(
    "live",
    _tables,
    sa.Column("key", Text, primary_key=True),
    sa.Column("store", Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
_READ_LIVE: Final = sa.select(_live.c.store, _live.c.version).where(_live.c.key == "live")
_SWITCH_LIVE: Final = Upsert(_live, ("key", "store", "version"), ("key",), overwrite=True)
_INSERT_LIVE: Final = Upsert(_live, ("key", "store", "version"), ("key",))


def store_name(version: str = schema.SCHEMA_VERSION, copy: int = 0) -> str:
    """Return the name of the folded tables of a version; the `copy` is 0-based."""
    return f"store_v{version}" + (f"_{copy}" if copy else "")


class Databases:
    """The three sets of tables, opened by `open_databases`; thread-safe.

    The password in `url` is hidden. `is_sqlite` tells whether the sets are files, which one process
    at a time can write.
    """

    def __init__(self, places: _Files | _Schemas, statement_s: float) -> None:
        self._places = places
        self._statement_s = statement_s
        self._lock = threading.Lock()
        self._store: tuple[str, Store] | None = None
        self._checked_s = 0.0
        self.url = redacted(places.url)
        self.is_sqlite = places.is_sqlite
        self.account = ServerDatabase(places.engine("account"), statement_s)
        self.kept = ServerDatabase(places.engine("kept"), statement_s)
        self.kept.create_tables(_tables)

    # ------------------------------------------------------------------ stores

    def live(self) -> Live | None:
        """Return the live store, or None; raise `SchemaNewer` if a newer Seamark created it."""
        rows = self.kept.fetch(_READ_LIVE)
        if not rows:
            return None
        found = Live(*rows[0])
        if found.version > int(schema.SCHEMA_VERSION):
            raise SchemaNewer(
                f"the tables of {self.url} were folded by a newer Seamark (version {found.version}"
                f" of the tables, supported: {schema.SCHEMA_VERSION}): update Seamark"
            )
        return found

    def store(self) -> Store:
        """Return the live store if this version can read it, else the store of this version.

        A switch to another store is noticed within a second; `SchemaNewer` if it is newer.
        """
        return self._current_store()[1]

    @property
    def store_in_use(self) -> str:
        """Name of the store returned by `store`."""
        return self._current_store()[0]

    def _current_store(self) -> tuple[str, Store]:
        with self._lock:
            now = time.monotonic()
            if self._store is None or now - self._checked_s > _LIVE_CHECK_S:
                live = self.live()
                self._checked_s = now
                is_ours = live is not None and live.version == int(schema.SCHEMA_VERSION)
                name = live.name if live is not None and is_ours else store_name()
                if self._store is None or self._store[0] != name:
                    store = self.store_at(name)
                    if self._store is not None:
                        self._store[1].database.engine.dispose()
                    self._store = name, store
                if live is None:
                    self._write_live(name, _INSERT_LIVE)
            return self._store

    def store_at(self, name: str) -> Store:
        """Return a store by name, created if missing; the caller disposes of its engine."""
        from seamark.server.folding.tables import metadata

        database = ServerDatabase(self._places.engine(name), self._statement_s)
        database.create_tables(schema.metadata, metadata)
        return Store(database, PathNumbers(database), here=False)

    def switch(self, name: str) -> None:
        """Make a store of this version the live one, for all processes."""
        self._write_live(name, _SWITCH_LIVE)
        self._checked_s = -_LIVE_CHECK_S

    def _write_live(self, name: str, statement: Upsert) -> None:
        version = int(schema.SCHEMA_VERSION)
        with self.kept.writing() as connection:
            self.kept.run(connection, statement, key="live", store=name, version=version)

    def take_over(self, store: Store) -> None:
        """Make the store returned by `store` the live one, if the live one has an older version."""
        live, current = self.live(), self._store
        older = live is None or live.version < int(schema.SCHEMA_VERSION)
        if older and current is not None and current[1] is store:
            self.switch(current[0])

    def stores(self) -> list[str]:
        """Return the names of all existing stores."""
        return sorted(name for name in self._places.names() if name.startswith("store_v"))

    def drop_store(self, name: str) -> None:
        """Remove a store, which must not be live."""
        self._places.drop(name)

    def close(self) -> None:
        """Close all connections; harmless when called twice."""
        with self._lock:
            if self._store is not None:
                self._store[1].database.engine.dispose()
                self._store = None
        for database in (self.account, self.kept):
            database.engine.dispose()


def open_databases(url: str, *, statement_s: float = STATEMENT_S, pool: int = 4) -> Databases:
    """Open the three sets of tables at a URL; missing ones are created, but not in ``account``.

    The URL is ``postgresql://user@host/database`` or ``sqlite:///folder``. `statement_s` limits the
    time of a reader's statement, in seconds; 0 is no limit, for processes that fold. `pool` is the
    number of connections kept open for each set on PostgreSQL.

    Raises:
        ArgumentError: If the URL is invalid or cannot be used.
        DatabaseUnreachable: If the database does not answer.
        SchemaNewer: If a newer Seamark uses them.
    """
    with translate_errors(statement_s):
        databases = Databases(_places_of(url, statement_s, pool), statement_s)
    try:
        databases.live()
    except BaseException:
        databases.close()
        raise
    return databases


def lock_file(url: str) -> Path | None:
    """Return the lock file of a server on SQLite; None for PostgreSQL, which can be shared."""
    places = _places_of(url, 0, 1)
    return places.lock if isinstance(places, _Files) else None


def redacted(url: str) -> str:
    """Return a URL for display, with its password hidden."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return re.sub(r"://[^@/]*@", "://***@", url)


# ---------------------------------------------------------------------- locations


def _places_of(url: str, statement_s: float, pool: int) -> _Files | _Schemas:
    try:
        made = sa.make_url(url)
    except sa.exc.ArgumentError:
        made = None
    kind = "" if made is None else made.get_backend_name()
    if made is None or kind not in ("sqlite", "postgresql"):
        raise ArgumentError(
            "store: expected a URL such as sqlite:///folder or postgresql://user@host/database,"
            f" got {redacted(url)!r}"
        )
    if kind == "sqlite":
        if not made.database or made.database == ":memory:":
            raise ArgumentError(
                f"store: expected a folder, as in sqlite:///seamark-server, got {url!r}"
            )
        return _Files(url, Path(made.database))
    return _Schemas(url, made.set(drivername="postgresql+psycopg"), statement_s, pool)


class _Files:
    is_sqlite = True

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.folder = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ArgumentError(
                f"store: cannot create the folder {str(self.folder)!r}: {error.strerror}"
            ) from error
        kind = _file_system_type(self.folder)
        if kind in _NETWORK_FILE_SYSTEMS:
            raise ArgumentError(
                f"store: {str(self.folder)!r} is on a network file system ({kind}), on which"
                " SQLite loses data: use a folder on a local disk, or PostgreSQL"
            )

    @property
    def lock(self) -> Path:
        return self.folder / "server.lock"

    def engine(self, name: str) -> sa.Engine:
        file = self._file(name)
        try:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise ArgumentError(
                f"store: cannot write to the file {str(file)!r}: {error.strerror}"
            ) from error
        engine = sqlite_engine(
            lambda: file_connection(file),
            threads=_MAX_THREADS,
            cache_kib=_CACHE_KIB,
            durable=not name.startswith("store_v"),  # the tables can be folded again
        )
        bound_patterns(engine)
        return engine

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.db"))

    def drop(self, name: str) -> None:
        for end in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._file(name)}{end}").unlink()

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.db"


class _Schemas:
    is_sqlite = False

    def __init__(self, url: str, made: sa.URL, statement_s: float, pool: int) -> None:
        self.url = url
        self._url, self._statement_s, self._pool = made, statement_s, pool

    def engine(self, name: str) -> sa.Engine:
        made = sa.schema.CreateSchema(name, if_not_exists=True)
        with contextlib.suppress(sa.exc.IntegrityError, sa.exc.ProgrammingError):
            self._run(made)  # another process creates it at the same time
        engine = sa.create_engine(
            self._url,
            pool_size=self._pool,
            max_overflow=self._pool,
            pool_timeout=_POOL_WAIT_S,
            pool_pre_ping=True,  # the database may have been restarted in between
            pool_use_lifo=True,
            connect_args={"connect_timeout": _CONNECT_S},
        )
        milliseconds = int(self._statement_s * 1000)

        # Runs before SQLAlchemy reads the default schema.
        @sa.event.listens_for(engine, "connect", insert=True)
        def _configure(connection: Any, _: Any) -> None:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f'SET search_path TO "{name}"')
                cursor.execute(f"SET statement_timeout TO {milliseconds}")
                cursor.execute("SET idle_in_transaction_session_timeout TO 120000")
                # Compiling a statement of a page takes longer than running it.
                cursor.execute(_CHANGE_SETTING, ["off", "jit"])
                if milliseconds:  # a generic plan is poor for most paths, values and pages
                    cursor.execute(_CHANGE_SETTING, ["force_custom_plan", "plan_cache_mode"])
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


def _file_system_type(folder: Path) -> str:
    import psutil

    inside = os.path.realpath(folder).rstrip("/") + "/"
    kind, longest = "", 0
    with contextlib.suppress(OSError):  # mounts cannot be listed
        for mount in psutil.disk_partitions(all=True):  # the last one at a path is visible
            point = mount.mountpoint.rstrip("/") + "/"
            if inside.startswith(point) and len(point) >= longest:
                kind, longest = mount.fstype, len(point)
    return kind
