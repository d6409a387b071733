"""Facts of a server about itself: random texts that are made once, and a lock."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.server.accounts import tables
from seamark.store.database import Upsert

if TYPE_CHECKING:
    from seamark.store.database import Database

__all__ = ["instance_of", "link_key_of", "lock_account"]

_fact: Final = tables.fact.c
_VALUE: Final = sa.select(_fact.value).where(_fact.key == sa.bindparam("at"))
_DRAW: Final = Upsert(tables.fact, ("key", "value"), ("key",))


def instance_of(account: Database) -> str:
    """Return the random name of this server, which is made the first time."""
    return _random_fact(account, "instance", 8)


def link_key_of(account: Database) -> bytes:
    """Return what addresses of contents are signed with, the same in all processes."""
    return bytes.fromhex(_random_fact(account, "link_key", 32))


def _random_fact(account: Database, key: str, size: int) -> str:
    """Return a random text of hex digits that is kept, and made the first time."""
    with account.reading() as connection:
        rows = account.rows(connection, _VALUE, at=key)
    if not rows:
        with account.writing() as connection:  # of several that draw at once the first one counts
            account.run(connection, _DRAW, key=key, value=secrets.token_hex(size))
            rows = account.rows(connection, _VALUE, at=key)
    return str(rows[0][0])


def lock_account(connection: sa.Connection) -> None:
    """Let nobody else look before they write in ``account`` until a transaction has ended."""
    if connection.dialect.name != "sqlite":  # whose transactions keep others out
        connection.execute(sa.text("LOCK TABLE fact IN EXCLUSIVE MODE"))
