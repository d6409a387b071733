"""Stores on both engines: their tables anew, from this process and from others."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from bytes_source import BytesSource
from journal_builder import fold_run

from seamark.store import schema
from seamark.store.database import Database, file_connection, sqlite_engine
from seamark.store.query.statements import choose
from seamark.store.read.run import RunReader
from seamark.store.read.tables import query_runs
from seamark.store.runs import Store
from seamark.store.schema import PathNumbers

PROJECT = "p"
_SQLITE = "sqlite:///"


@contextmanager
def fresh_tables(engine: str, folder: Path, postgresql: Callable[[], str]) -> Iterator[str]:
    """Make the tables of an empty store, in a folder or on a server, and yield their URL."""
    if engine == "sqlite":
        file = folder / f"{uuid.uuid4().hex}.db"
        sqlite3.connect(file).close()
        yield make_tables(f"{_SQLITE}{file}")
        return
    name = f"seamark_{uuid.uuid4().hex}"
    url = sa.make_url(postgresql()).set(drivername="postgresql+psycopg")
    server = sa.create_engine(url, poolclass=sa.NullPool)
    with server.begin() as connection:
        connection.execute(sa.schema.CreateSchema(name))
    try:
        # What a power cut takes is no subject here.
        options = f"-csearch_path={name} -csynchronous_commit=off"
        own = url.update_query_dict({"options": options})
        yield make_tables(own.render_as_string(hide_password=False))
    finally:
        with server.begin() as connection:
            connection.execute(sa.schema.DropSchema(name, cascade=True))


def make_tables(url: str) -> str:
    """Make the tables at a URL, and return it."""
    store = open_store(url)
    try:
        store.database.create_tables(schema.metadata)
    finally:
        store.database.engine.dispose()
    return url


def open_store(url: str, **options: Any) -> Store:
    """Return a store on the tables at a URL, with an engine of its own and these options."""
    if url.startswith(_SQLITE):
        engine = sqlite_engine(partial(file_connection, Path(url.removeprefix(_SQLITE))))
    else:
        engine = sa.create_engine(url, **options)
    database = Database(engine)
    return Store(database, PathNumbers(database))


def sources_of(journals: list[Any], ends: list[int] | None = None) -> dict[str, Any]:
    """Return what opens hand-made journals, as far as they are there; see `fold_run`."""
    ends = ends or [journal.offset for journal in journals]
    return {
        journal.file: partial(BytesSource, journal.file, journal.data[:end])
        for journal, end in zip(journals, ends, strict=True)
        if end >= journal.ends[0]
    }


def fold(
    store: Store,
    run: str,
    journals: list[Any],
    ends: list[int] | None = None,
    project: str = PROJECT,
) -> RunReader:
    """Fold hand-made journals, as far as they are there, and return the reader of the run."""
    fold_run(store, project, run, sources_of(journals, ends), lambda: 0)
    return look(store, run, journals)


def reader_of(
    store: Store, run: str, sources: Mapping[str, Callable[[], Any]], *, now_ns: int = 0
) -> RunReader:
    """Return the reader of a run whose journals these are."""
    return RunReader(
        lambda: store, PROJECT, run, lambda *_: lambda name: sources[name](), now_ns=lambda: now_ns
    )


def look(store: Store, run: str, journals: list[Any]) -> RunReader:
    """Return the reader of a run with these hand-made journals."""
    return reader_of(store, run, sources_of(journals))


def rows(points: Any) -> list[tuple[float, float, int, int]]:
    """Return points as tuples of step, value, time and attempt."""
    columns = (points.step, points.value, points.time_ns, points.attempt)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def in_parts(
    view: RunReader, path: str, attempt: Any, most: int, last: int | None = None
) -> list[tuple[float, float, int, int]]:
    """Return the rows of a series that is read part by part."""
    found: list[tuple[float, float, int, int]] = []
    after = None
    while True:
        part, begins, after = view.points_part(path, attempt, most=most, after=after, last=last)
        assert len(part) <= most
        assert begins == (not found)
        found += rows(part)
        if after is None:
            return found


class Tables:
    """The runs of a store at a time, to query; ``told`` has the errors of unknown paths."""

    def __init__(self, store: Store, now_ns: int = 0) -> None:
        self.store = store
        self.now_ns = now_ns
        self.told: list[str] = []

    def tell(self, error: Exception) -> None:
        """Note an error instead of raising it, as a project does."""
        self.told.append(str(error))

    def select(self, selection: Any) -> list[tuple[str, str]]:
        """Return (project, run id) of the runs that match."""
        with self.store.database.reading() as connection:
            return choose(self.store, connection, selection, self.now_ns, self.tell).refs

    def table(self, selection: Any, columns: Any = None) -> Any:
        """Return the runs that match as a table."""
        with self.store.database.reading() as connection:
            return query_runs(self.store, connection, selection, columns, self.now_ns, self.tell)


def count_rows(store: Store, run: int) -> dict[str, int]:
    """Return how many rows of a run each table has."""
    with store.database.reading() as connection:
        return {
            table.name: connection.execute(
                sa.select(sa.func.count()).select_from(table).where(table.c.run == run)
            ).scalar_one()
            for table in schema.TABLES_OF_RUN
        }
