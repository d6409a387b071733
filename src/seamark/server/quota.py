"""Quota of a workspace: a limit on the journals and files of all its projects together.

The quota applies to a workspace and not to a project. A user who may record in a workspace may
record in any project in it, and could evade a quota by using another project name.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

import sqlalchemy as sa

from seamark.server.accounts.accounts import within
from seamark.server.blobs.tables import USED, blob, upload
from seamark.server.database import BoundedDict
from seamark.server.failures import Refusal
from seamark.server.kept.layout import runs
from seamark.store.database import Database

_CACHE_S: Final = 10.0
"""Lifetime of the cached usage, in seconds; this process adds its own uploads."""
_MAX_WORKSPACES: Final = 1000


class Quota:
    """Check of the quota of workspaces; thread-safe.

    The usage is cached for `keep_s` seconds, so several processes together may exceed the quota by
    the data of some seconds.
    """

    def __init__(
        self,
        database: Database,
        most_bytes: int | None = None,
        keep_s: float = _CACHE_S,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._most = database, most_bytes
        self._keep_s, self._steady = keep_s, steady
        self._lock = Lock()
        self._counted = BoundedDict[str, tuple[float, int]](_MAX_WORKSPACES)

    def expect(self, project: str, more: int) -> None:
        """Raise `Refusal` if a number of bytes would exceed the quota of a workspace."""
        if self._most is None:
            return
        workspace = project.partition("/")[0]
        used = self._used(workspace)
        if used + more > self._most:
            msg = (
                f"quota: workspace {workspace!r} may store {self._most:,} bytes on this server and"
                f" has {used:,}: purge unused runs, or ask an admin for more"
            )
            # Not 413, as smaller parts do not help. Senders warn once and retry now and then.
            raise Refusal(403, "quota", msg, limit="quota", allowed=self._most)

    def usage(self, workspace: str) -> tuple[int, int | None]:
        """Return the usage and the limit of a workspace, in bytes; None for no limit."""
        return self._used(workspace), self._most

    def added(self, project: str, more: int) -> None:
        """Add accepted bytes to the cached usage."""
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
        # Purged data is not counted, although its bytes stay on the disk for some days.
        counted = (
            (runs.c.position, runs.c.purged_ns.is_(None)),
            (blob.c.size, USED),
            (upload.c.size, sa.true()),
        )
        used = 0
        with self._database.reading() as connection:
            for size, counts in counted:
                asked = sa.select(sa.func.sum(size)).where(
                    within(size.table.c.project, workspace), counts
                )
                used += int(connection.scalar(asked) or 0)
        with self._lock:
            self._counted[workspace] = now + self._keep_s, used
        return used
