"""Removing runs for good: what stays is a tombstone, which says that nothing of them comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from seamark.server.accounts import tables
from seamark.server.claims import forget_claims
from seamark.server.folding.turns import forget
from seamark.store.database import Upsert, retry

if TYPE_CHECKING:
    from seamark.server.kept.journals import IntakeJournals
    from seamark.store.database import Database
    from seamark.store.runs import Store

__all__ = ["is_purged", "purge", "purged"]

_tombstone: Final = tables.tombstone.c
_BURY: Final = Upsert(tables.tombstone, ("project", "run", "t_ns", "who"), ("project", "run"))
_ALL: Final = sa.select(_tombstone.project, _tombstone.run)
_ONE: Final = sa.select(_tombstone.t_ns).where(
    _tombstone.project == sa.bindparam("project"), _tombstone.run == sa.bindparam("run")
)


def purge(
    account: Database,
    kept: IntakeJournals,
    store: Store,
    project: str,
    run: str,
    *,
    who: str,
    now_ns: int,
    blobs: Callable[[str, str], object] | None = None,
) -> None:
    """Remove a run for good; may be called again where it was cut short.

    The tombstone is written first: from then on nothing of the run is taken, so that what is
    removed after it stays removed.

    Args:
        account: The set of tables with the tombstones.
        kept: What is kept; its objects lose the bytes of the run within days.
        store: Which has the folded run.
        project: Project path.
        run: Run id.
        who: Name of the user.
        now_ns: Nanoseconds since the Unix epoch.
        blobs: Lets go of the files that only this run refers to.

    Raises:
        Conflict: If others write the same all the time.
    """
    with account.writing() as connection:
        account.run(connection, _BURY, project=project, run=run, t_ns=now_ns, who=who)
        forget_claims(account, connection, project, run)
    if blobs is not None:
        blobs(project, run)
    retry(lambda: kept.forget(project, run))
    retry(lambda: forget(store, project, run))


def purged(account: Database) -> list[tuple[str, str]]:
    """Return project and run id of all runs that were purged."""
    with account.reading() as connection:
        return [(row[0], row[1]) for row in account.rows(connection, _ALL)]


def is_purged(account: Database, project: str, run: str) -> bool:
    """Return whether a run was purged."""
    with account.reading() as connection:
        return bool(account.rows(connection, _ONE, project=project, run=run))
