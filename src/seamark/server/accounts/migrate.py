"""Bring the tables of ``account`` to this version, whoever else starts at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from seamark.server.databases import SchemaNewer

if TYPE_CHECKING:
    from seamark.store.database import Database

__all__ = ["is_current", "migrate"]

_PLACE: Final = "seamark.server.accounts:migrations"
_LOCK: Final = 0x5EA3A12C
"""Of PostgreSQL's advisory locks, held until the transaction ends."""


def migrate(database: Database) -> None:
    """Take every step that is missing, in one transaction: all of them or none.

    Several processes may do so at once: on SQLite a transaction that writes keeps others out, on
    PostgreSQL a lock does.

    Raises:
        SchemaNewer: If a later version of Seamark has changed the tables.
    """
    config = _config()
    if is_current(database):
        return
    with database.writing() as connection:
        if connection.dialect.name != "sqlite":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
        _refuse_newer(connection, config)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def is_current(database: Database) -> bool:
    """Return whether no step is missing.

    Raises:
        SchemaNewer: If a later version of Seamark has changed the tables.
    """
    config = _config()
    with database.reading() as connection:
        current = _refuse_newer(connection, config)
    return current == ScriptDirectory.from_config(config).get_current_head()


def _refuse_newer(connection: sa.Connection, config: Config) -> str | None:
    current = MigrationContext.configure(connection).get_current_revision()
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        msg = (
            f"the database was changed by a newer Seamark (step {current!r} of its accounts, which"
            " this one does not know): update this Seamark"
        )
        raise SchemaNewer(msg)
    return current


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", _PLACE)
    config.set_main_option("path_separator", "os")
    return config
