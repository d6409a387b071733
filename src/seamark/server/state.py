"""State of one server process: open databases, object storage and services."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

import sqlalchemy as sa

from seamark.server.access import Links
from seamark.server.accounts.accounts import Accounts, within
from seamark.server.accounts.logins import Logins, load_authentication
from seamark.server.accounts.tables import ServerViews, instance_of, link_key_of, migrate
from seamark.server.blobs.blobs import Blob, Blobs
from seamark.server.changes import Positions, ServerChanges
from seamark.server.checks import open_matching_objects
from seamark.server.databases import Databases, open_databases
from seamark.server.kept import layout as kept_tables
from seamark.server.kept.commit import take_up
from seamark.server.kept.intake import Intake
from seamark.server.kept.journals import IntakeJournals
from seamark.server.kept.layout import runs
from seamark.server.purging import ServerClaims, is_purged
from seamark.server.quota import Quota
from seamark.server.settings import Settings
from seamark.server.writer import ServerWriter, is_own_journal
from seamark.store.read.inherited import Sources
from seamark.store.read.run import RunReader
from seamark.store.runs import Store


class Server:
    """State of a process that answers requests; routes find it in ``app.state.server``.

    Routes that read use only the interface `seamark.server.access.Serving`. `instance` is the
    permanent random name of this server.
    """

    read_only = ""

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings, self.databases, self.now_ns = settings, databases, now_ns
        self.changing = ServerChanges(databases)
        self.accounts = Accounts(databases.account, now_ns)
        self.logins = Logins(
            self.accounts, load_authentication(settings.auth), now_ns, processes=settings.workers
        )
        self.views = ServerViews(databases.account)
        self.instance = instance_of(databases.account)
        self.links = Links(link_key_of(databases.account), now_ns)
        self.objects = open_matching_objects(databases, settings.blobs)
        self._is_purged = is_gone = partial(is_purged, databases.account)
        self.quota = quota = Quota(databases.kept, settings.quota)
        self.intake = Intake(
            databases.kept,
            self.objects,
            gone=is_gone,
            now_ns=now_ns,
            max_journals=settings.limits.journals,
            quota=quota,
            reserved=partial(is_own_journal, self.instance),
            grows=databases.is_sqlite,
        )
        self.kept = IntakeJournals(databases.kept, self.objects, now_ns)
        self.blobs = Blobs(databases.kept, self.objects, now_ns=now_ns, quota=quota)
        self.claims = ServerClaims(
            databases.account, databases.store, lambda *run: self.intake.known(*run)[1], now_ns
        )
        self.positions = Positions(databases.store, is_gone)
        self.writer = ServerWriter(
            self.instance, self.kept, self.intake.take, databases.store, now_ns
        )

    def prioritize(self, refs: Iterable[tuple[str, str]]) -> None:
        """Do nothing, as all received data is folded."""

    def has_runs(self, project: str) -> bool:
        """Return whether a project or its sub-projects have runs, purged ones included."""
        found = sa.select(runs.c.run).where(within(runs.c.project, project)).limit(1)
        with self.databases.kept.reading() as connection:
            return connection.execute(found).first() is not None

    def has_project(self, project: str) -> bool:
        """Return whether a project has runs, or settings of its own."""
        return self.has_runs(project) or self.accounts.has_settings(project)

    def store(self) -> Store:
        """Return the live folded store."""
        return self.databases.store()

    def sources(self, project: str, run: str) -> Sources:
        """Return the source that opens the journals of a run."""
        return partial(self.kept.source, project, run)

    def reader(self, project: str, run: str) -> RunReader:
        """Return the reader of a run."""
        return RunReader(
            self.store,
            project,
            run,
            self.sources,
            now_ns=self.now_ns,
        )

    def behind(self, wanted: Mapping[tuple[str, str], int]) -> int:
        """Wait until runs are folded up to given positions; see `Positions.wait_for`."""
        return self.positions.wait_for(wanted)

    def content(self, project: str, run: str, digest: str) -> Blob | None:
        """Return a content of a project, from any of its runs."""
        return self.blobs.find(project, digest)

    def missing_contents(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return the contents that a project does not have."""
        return self.blobs.missing_contents(project, digests)

    def take_up(self) -> None:
        """Register the last data stored by a dead process; called before new data is accepted."""
        take_up(self.databases.kept, self.objects, gone=self._is_purged, now_ns=self.now_ns)

    def close(self) -> None:
        """Store accepted data and close everything; harmless when called twice."""
        self.intake.close()
        self.objects.close()
        self.databases.close()


def open_server(settings: Settings) -> Server:
    """Open all resources that a process needs to answer requests."""
    databases = open_databases(settings.store, statement_s=settings.limits.statement_s)
    try:
        make_tables(databases)
        made = Server(settings, databases)
        made.take_up()
        return made  # noqa: TRY300 - any error closes the databases
    except BaseException:
        databases.close()
        raise


def make_tables(databases: Databases) -> None:
    """Create missing tables, and migrate those of accounts to this version."""
    migrate(databases.account)
    databases.kept.create_tables(kept_tables.metadata)
