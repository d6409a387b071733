"""What one process of the server has open."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.logins import Logins, deciding_by
from seamark.server.accounts.migrate import migrate
from seamark.server.databases import Databases, open_databases

if TYPE_CHECKING:
    from seamark.server.settings import Settings
    from seamark.store.runs import Store

__all__ = ["Server", "open_server"]


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
        instance: Random name of this server, the same for all of its life.
        objects: What it keeps as objects.
        intake: Takes journals.
        kept: Gives them; see `seamark.server.folding.kept.Kept`.
        writer: Adds records of its own; see `seamark.server.writer.ServerWriter`.
        blobs: Takes and gives files.
        now_ns: Nanoseconds since the Unix epoch.
    """

    objects: Any
    intake: Any
    kept: Any
    writer: Any
    blobs: Any

    def __init__(
        self,
        settings: Settings,
        databases: Databases,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings, self.databases, self.now_ns = settings, databases, now_ns
        self.accounts = Accounts(databases.account, now_ns)
        self.logins = Logins(self.accounts, deciding_by(settings.auth), now_ns)
        self.instance = self.accounts.instance()

    def store(self) -> Store:
        """Return the folded store that is live."""
        return self.databases.store()

    def close(self) -> None:
        """Finish what was accepted and let go of everything; harmless when called twice."""
        self.databases.close()


def open_server(settings: Settings) -> Server:
    """Open everything that a process needs to answer.

    Raises:
        SeamarkError: If something cannot be opened; the message says what to do.
    """
    databases = open_databases(settings.store, statement_s=settings.limits.statement_s)
    try:
        migrate(databases.account)
        return Server(settings, databases)
    except BaseException:
        databases.close()
        raise
