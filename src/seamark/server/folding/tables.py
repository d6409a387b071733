"""Tables that a server adds to a store, and leases on runs.

The tables are in the database of the folded runs, so that the position of a run is committed
together with the folded data. A lease only avoids duplicate work; saving a run
(`seamark.store.runs.Saving`) ensures that nothing is folded twice.
"""

from __future__ import annotations

import time
from typing import Final

import sqlalchemy as sa

from seamark.server.database import Text
from seamark.store.database import Conflict, Database, Upsert

metadata = sa.MetaData()
folded = sa.Table(
    "folded",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("run", Text, primary_key=True),
    # Stored bytes of all journals at the time of folding; see seamark.server.changes.
    sa.Column("position", sa.BigInteger, nullable=False),
)
lease = sa.Table(
    "lease",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("run", Text, primary_key=True),
    sa.Column("owner", Text, nullable=False),  # random name of a process
    sa.Column("until", sa.BigInteger, nullable=False),  # ns since the Unix epoch, by the database
)
changed = sa.Table(
    "changed",
    metadata,
    sa.Column("project", Text, primary_key=True),
    sa.Column("run", Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False, index=True),  # number of the last change
    sa.Column("gone", sa.SmallInteger, nullable=False),  # whether the run was removed
)
"""Number of each run's last change; see `seamark.server.changes`."""
change = sa.Table(
    "change",
    metadata,
    sa.Column("key", Text, primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
)
"""Single row with the number of the last change."""
LEASE_S: Final = 15.0
"""Duration of a lease, in seconds; then another process may fold the run of a dead one."""
_NS_PER_S: Final = 10**9
_lease: Final = lease.c
_of_run: Final = sa.and_(
    _lease.project == sa.bindparam("at_project"), _lease.run == sa.bindparam("at_run")
)
_INSERT_LEASE: Final = Upsert(
    lease, ("project", "run", "owner", "until"), ("project", "run"), returned=_lease.owner
)
_UPDATE_LEASE: Final = (
    sa.update(lease)
    .values(owner=sa.bindparam("new_owner"), until=sa.bindparam("new_until"))
    .where(_of_run)
    .where(sa.or_(_lease.until < sa.bindparam("now"), _lease.owner == sa.bindparam("me")))
)
_DELETE_LEASE: Final = sa.delete(lease).where(_of_run, _lease.owner == sa.bindparam("me"))
_POSTGRESQL_NOW: Final = sa.select(
    sa.cast(sa.extract("epoch", sa.func.clock_timestamp()) * _NS_PER_S, sa.BigInteger)
)


class Leases:
    """Leases of the process `owner`, by the clock of the database; thread-safe.

    A lease lasts for `seconds`. After that another process may do the same work.
    """

    def __init__(self, database: Database, owner: str, seconds: float = LEASE_S) -> None:
        self._database, self._owner, self._ns = database, owner, int(seconds * _NS_PER_S)

    def claim(self, project: str, run: str) -> bool:
        """Acquire or renew the lease of a run; return whether this process has it."""
        database, owner = self._database, self._owner
        try:
            with database.writing() as connection:
                now = self._now(connection)
                until = now + self._ns
                row = {"project": project, "run": run, "owner": owner, "until": until}
                if database.rows(connection, _INSERT_LEASE, **row):
                    return True
                where = {"at_project": project, "at_run": run, "now": now, "me": owner}
                new = {"new_owner": owner, "new_until": until}
                return bool(database.run(connection, _UPDATE_LEASE, **where, **new))
        except Conflict:
            return False

    def release(self, connection: sa.Connection, project: str, run: str) -> None:
        """Release the lease of a run in a transaction that writes."""
        self._database.run(
            connection, _DELETE_LEASE, at_project=project, at_run=run, me=self._owner
        )

    def drop(self, project: str, run: str) -> None:
        """Release the lease of a run."""
        with self._database.writing() as connection:
            self.release(connection, project, run)

    def _now(self, connection: sa.Connection) -> int:
        if self._database.dialect == "sqlite":
            return time.time_ns()  # all processes are on one machine
        return int(self._database.rows(connection, _POSTGRESQL_NOW)[0][0])
