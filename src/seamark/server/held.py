"""What a server holds for runs that are to come, changed by one process after the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import sqlalchemy as sa

from seamark.server.accounts import tables
from seamark.store.database import Conflict

if TYPE_CHECKING:
    from seamark.store.database import Database

__all__ = ["settled"]

T = TypeVar("T")

_TRIES: Final = 20
_fact: Final = tables.fact


def settled(account: Database, key: str, settle: Callable[[dict[str, Any]], T]) -> T:
    """Return what is settled with what is held, which is kept as it is then.

    Args:
        account: The set of tables that hold it.
        key: What is held.
        settle: Called alone, on whichever worker of the server; may change what it is given.

    Raises:
        Conflict: If others write the same all the time.
    """
    for last in range(_TRIES, 0, -1):
        try:
            with account.writing() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(sa.text("LOCK TABLE fact IN EXCLUSIVE MODE"))
                row = connection.execute(sa.select(_fact.c.value).where(_fact.c.key == key)).first()
                was = row[0] if row else "{}"
                held = json.loads(was)
                found = settle(held)
                if (now := json.dumps(held)) != was:
                    _keep(connection, key, now, is_new=row is None)
        except Conflict:
            if last == 1:
                raise
        else:
            return found
    raise AssertionError  # the last try returns or raises


def _keep(connection: sa.Connection, key: str, value: str, *, is_new: bool) -> None:
    if is_new:
        connection.execute(sa.insert(_fact).values(key=key, value=value))
    else:
        connection.execute(sa.update(_fact).where(_fact.c.key == key).values(value=value))
