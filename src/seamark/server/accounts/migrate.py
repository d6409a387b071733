"""Bring the tables of ``account`` to this version, whoever else starts at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.server.databases import SchemaNewer

if TYPE_CHECKING:
    from alembic.config import Config

    from seamark.store.database import Database

__all__ = ["HEAD", "is_current", "migrate"]

HEAD: Final = "0005"
"""The last step. Whoever is there needs no Alembic, which is long to import for every process."""

_PLACE: Final = "seamark.server.accounts:migrations"
_STEPS: Final = sa.table("alembic_version", sa.column("version_num"))
_LOCK: Final = 0x5EA3A12C
"""Of PostgreSQL's advisory locks, held until the transaction ends."""


def migrate(database: Database) -> None:
    """Take every step that is missing, in one transaction: all of them or none.

    Several processes may do so at once: on SQLite a transaction that writes keeps others out, on
    PostgreSQL a lock does.

    Raises:
        SchemaNewer: If a later version of Seamark has changed the tables.
    """
    if is_current(database):
        return
    from alembic import command

    config = _config()
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
    with database.reading() as connection:
        if not sa.inspect(connection).has_table(_STEPS.name):
            return False
        if list(connection.scalars(sa.select(_STEPS.c.version_num))) == [HEAD]:
            return True
        _refuse_newer(connection, _config())
    return False


def _refuse_newer(connection: sa.Connection, config: Config) -> None:
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    current = MigrationContext.configure(connection).get_current_revision()
    known = {step.revision for step in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        msg = (
            f"the database was changed by a newer Seamark (step {current!r} of its accounts, which"
            " this one does not know): update this Seamark"
        )
        raise SchemaNewer(msg)


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", _PLACE)
    config.set_main_option("path_separator", "os")
    return config
