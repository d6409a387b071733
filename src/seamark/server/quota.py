"""Quota of a workspace: a limit on the journals and files of all its projects together.

The quota applies to a workspace and not to a project: a user who may record in a workspace may
record in any project in it, and could evade a quota by using another project name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.server.blobs.tables import blob, upload, use
from seamark.server.database import Latest
from seamark.server.failures import Rejected
from seamark.server.kept.layout import runs

if TYPE_CHECKING:
    from seamark.store.database import Database

__all__ = ["Quota"]


_KEEP_S: Final = 10.0
"""Time for which the usage is cached, in seconds; this process adds its own uploads."""
_KEPT: Final = 1000


def _inside(project: sa.Column[str]) -> sa.ColumnElement[bool]:
    # A range, so that an index serves.
    return sa.or_(
        project == sa.bindparam("workspace"),
        sa.and_(project > sa.bindparam("low"), project < sa.bindparam("high")),
    )


_used: Final = (
    sa.select(use.c.run)
    .where(use.c.project == blob.c.project, use.c.digest == blob.c.digest)
    .exists()
)
# What was purged is not counted, although its bytes are on the disk for some days.
_COUNTED: Final[tuple[Any, ...]] = (
    sa.select(sa.func.sum(runs.c.position)).where(
        _inside(runs.c.project), runs.c.purged_ns.is_(None)
    ),
    sa.select(sa.func.sum(blob.c.size)).where(_inside(blob.c.project), _used),
    sa.select(sa.func.sum(upload.c.size)).where(_inside(upload.c.project)),
)


class Quota:
    """Tells whether there is room for more; safe to use from many threads.

    What was counted is believed for `keep_s` seconds: several processes may together take some
    seconds' worth more than there is room for.
    """

    def __init__(
        self,
        database: Database,
        most_bytes: int | None = None,
        keep_s: float = _KEEP_S,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._most = database, most_bytes
        self._keep_s, self._steady = keep_s, steady
        self._lock = Lock()
        self._counted = Latest[str, tuple[float, int]](_KEPT)

    def expect(self, project: str, more: int) -> None:
        """Raise `QuotaExceeded` if a workspace has no room for a number of bytes."""
        if self._most is None:
            return
        workspace = project.partition("/")[0]
        used = self._used(workspace)
        if used + more > self._most:
            msg = (
                f"quota: all of {workspace!r} may keep {self._most:,} bytes on this server and has"
                f" {used:,}: purge runs that nobody needs, or ask its admin for more"
            )
            # No 413: smaller parts are of no use. Shippers say it once, and try again now and then.
            raise Rejected(msg, "quota", 403, limit="quota", allowed=self._most)

    def usage(self, workspace: str) -> tuple[int, int | None]:
        """Return how much a workspace keeps and may keep, bytes; None for no limit."""
        return self._used(workspace), self._most

    def added(self, project: str, more: int) -> None:
        """Count accepted bytes until everything is counted anew."""
        workspace = project.partition("/")[0]
        with self._lock:
            if (known := self._counted.get(workspace)) is not None:
                self._counted[workspace] = known[0], known[1] + more

    def _used(self, workspace: str) -> int:
        now = self._steady()
        with self._lock:
            known = self._counted.get(workspace)
        if known is not None and now < known[0]:
            return known[1]
        given = {"workspace": workspace, "low": f"{workspace}/", "high": f"{workspace}0"}
        with self._database.reading() as connection:
            rows = [self._database.rows(connection, each, **given) for each in _COUNTED]
        used = sum(int(row[0][0] or 0) for row in rows)
        with self._lock:
            self._counted[workspace] = now + self._keep_s, used
        return used
