"""What one process of the server has open."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.logins import Logins, deciding_by
from seamark.server.accounts.migrate import migrate
from seamark.server.blobs import Blobs
from seamark.server.claims import ServerClaims
from seamark.server.databases import Databases, open_databases
from seamark.server.kept import tables as kept_tables
from seamark.server.kept.growing import take_up
from seamark.server.kept.intake import Intake
from seamark.server.kept.journals import KeptJournals
from seamark.server.objects import open_objects
from seamark.server.positions import Positions
from seamark.server.quota import Quota
from seamark.server.writer import ServerWriter, is_own_journal
from seamark.store.query.snapshots import Snapshots

if TYPE_CHECKING:
    from seamark.server.settings import Settings
    from seamark.store.runs import Store

__all__ = ["Server", "make_tables", "open_server"]


class Server:
    """The parts of a process that answers, found by its routes in ``app.state.server``.

    Args:
        settings: What the server was told.
        databases: Its three sets of tables.
        now_ns: Nanoseconds since the Unix epoch.

    Attributes:
        settings: What the server was told.
        databases: Its three sets of tables.
        accounts: Who may do what.
        logins: Who asks.
        snapshots: The tables whose pages somebody turns.
        instance: Random name of this server, the same for all of its life.
        objects: What it keeps as objects.
        intake: Takes journals.
        kept: Gives them; see `seamark.server.folding.kept.Kept`.
        claims: Who has claimed what.
        positions: How far runs are folded, and waiting for it.
        writer: Adds records of its own; see `seamark.server.writer.ServerWriter`.
        blobs: Takes and gives files.
        quota: Tells whether a workspace has room for more.
        now_ns: Nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings, self.databases, self.now_ns = settings, databases, now_ns
        self.snapshots = Snapshots()
        self.accounts = Accounts(databases.account, now_ns)
        self.logins = Logins(
            self.accounts, deciding_by(settings.auth), now_ns, processes=settings.workers
        )
        self.instance = self.accounts.instance()
        self.objects = open_objects(settings.blobs)
        self.quota = quota = Quota(databases.kept, settings.quota)
        self.intake = Intake(
            databases.kept,
            self.objects,
            gone=self.accounts.is_purged,
            now_ns=now_ns,
            most_journals=settings.limits.journals,
            quota=quota,
            reserved=partial(is_own_journal, self.instance),
            grows=databases.is_sqlite,
        )
        self.kept = KeptJournals(databases.kept, self.objects, now_ns)
        self.blobs = Blobs(databases.kept, self.objects, now_ns=now_ns, quota=quota)
        self.claims = ServerClaims(
            databases.account, databases.store, lambda *run: self.intake.known(*run)[1], now_ns
        )
        self.positions = Positions(databases.store, self.accounts.is_purged)
        self.writer = ServerWriter(
            self.instance, self.kept, self.intake.take, databases.store, now_ns
        )

    def store(self) -> Store:
        """Return the folded store that is live."""
        return self.databases.store()

    def take_up(self) -> None:
        """Name what was kept last by a process that died; before anything is taken."""
        take_up(self.databases.kept, self.objects, gone=self.accounts.is_purged, now_ns=self.now_ns)

    def close(self) -> None:
        """Finish what was accepted and let go of everything; harmless when called twice."""
        self.intake.close()
        self.objects.close()
        self.databases.close()


def open_server(settings: Settings) -> Server:
    """Open everything that a process needs to answer.

    Raises:
        SeamarkError: If something cannot be opened; the message says what to do.
    """
    databases = open_databases(settings.store, statement_s=settings.limits.statement_s)
    try:
        make_tables(databases)
        made = Server(settings, databases)
        made.take_up()
        return made  # noqa: TRY300 - whatever went wrong before, the databases are closed
    except BaseException:
        databases.close()
        raise


def make_tables(databases: Databases) -> None:
    """Make every table that is missing, and bring those of accounts to this version.

    Raises:
        SchemaNewer: If a later version of Seamark has changed them.
    """
    migrate(databases.account)
    databases.kept.create_tables(kept_tables.metadata)
