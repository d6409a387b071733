"""Positions up to which runs are folded, and waiting until acknowledged data can be read.

The position of a run is the number of bytes stored of all its journals, gaps included: it only
grows. Every answer to a batch contains it; a read that names it sees at least that much.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import sqlalchemy as sa

from seamark.server.folding import tables

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["BEHIND", "POSITION", "WAIT_S", "Positions", "from_header"]

POSITION: Final = "Seamark-Position"
"""Header of a request: ``<project>/<run>=<bytes>``, several separated by commas, %-encoded."""
BEHIND: Final = "Seamark-Behind"
"""Header of an answer: how many bytes that were asked for are not folded yet."""
WAIT_S: Final = 2.0
"""How long a read waits at most, seconds."""
_FIRST_S: Final = 0.004
_LAST_S: Final = 0.05
_MOST: Final = 1000
"""Runs that one header may name."""

Ref = tuple[str, str]
"""Project path and run id."""

_ALL: Final = sa.select(tables.folded.c.project, tables.folded.c.run, tables.folded.c.position)
_FOLDED: Final = sa.select(tables.folded.c.position).where(
    tables.folded.c.project == sa.bindparam("project"), tables.folded.c.run == sa.bindparam("run")
)


class Positions:
    """Positions up to which the runs of a store are folded.

    Args:
        store: Returns the store that is live.
        gone: Returns whether a run was purged, so that no read waits for it.
    """

    def __init__(
        self, store: Callable[[], Store], gone: Callable[[str, str], bool] | None = None
    ) -> None:
        self._store = store
        self._gone = gone

    def folded(self, project: str, run: str) -> int:
        """Return up to which position a run is folded, bytes; 0 for one that is not there."""
        database = self._store().database
        with database.reading() as connection:
            rows = database.rows(connection, _FOLDED, project=project, run=run)
        return int(rows[0][0]) if rows else 0

    def all(self) -> dict[Ref, int]:
        """Return how far every run is folded, bytes."""
        database = self._store().database
        with database.reading() as connection:
            return {(row[0], row[1]): int(row[2]) for row in database.rows(connection, _ALL)}

    def wait_for(self, run: Ref, position: int, seconds: float = WAIT_S) -> int:
        """Wait until a run is folded up to a position.

        Args:
            run: Project path and run id.
            position: Bytes, as an answer to a batch told it.
            seconds: How long at most.

        Returns:
            How many bytes are missing; 0 if none.
        """
        return self.wait_for_all({run: position}, seconds)

    def wait_for_all(self, wanted: Mapping[Ref, int], seconds: float = WAIT_S) -> int:
        """Wait for several runs, all in all as long as `wait_for` does for one.

        Returns:
            How many bytes are missing of all of them.
        """
        end, pause = time.monotonic() + seconds, _FIRST_S
        missing = self._missing(wanted)
        if missing and self._gone is not None:
            gone = self._gone
            missing = self._missing({run: wanted[run] for run in missing if not gone(*run)})
        while missing:
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LAST_S)
            missing = self._missing({run: wanted[run] for run in missing})
        return sum(missing.values())

    def _missing(self, wanted: Mapping[Ref, int]) -> dict[Ref, int]:
        """Return how many bytes are missing of each run of which any are."""
        found = {run: position - self.folded(*run) for run, position in wanted.items()}
        return {run: left for run, left in found.items() if left > 0}


def from_header(text: str) -> dict[Ref, int]:
    """Return the positions that a header names; what cannot be read is passed over."""
    found: dict[Ref, int] = {}
    for part in text.split(",")[:_MOST]:
        name, _, number = part.strip().rpartition("=")
        project, _, run = unquote(name).rpartition("/")
        if project and run and number.isascii() and number.isdigit() and len(number) < 19:  # noqa: PLR2004
            found[project, run] = int(number)
    return found
