"""From when on a run of which nothing is heard counts as one that runs no more."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from seamark.journal.reader import SETTLE_NS
from seamark.store import schema
from seamark.store.cells import CRASHED, OPEN

__all__ = ["LEFT_NS", "SILENT_FROM", "silent_from", "state_of_row"]

LEFT_NS: Final = 50 * 10**9
"""How long nothing is heard of a run before it has ended, where silence means that; nanoseconds.

Its writers ask for a sign of life every 10 s, and one is written at least every 35 s.
"""

_run = schema.run.c
SILENT_FROM: Final[sa.ColumnElement[Any]] = _run.beat + sa.case(
    (_run.state == OPEN, LEFT_NS), else_=SETTLE_NS
)
"""Of a row of the table of runs that run: nanoseconds since the Unix epoch."""


def silent_from(state: str, beat: int) -> int:
    """Return the same of a state and a last sign of life that were read."""
    return beat + (LEFT_NS if state == OPEN else SETTLE_NS)


def state_of_row(state: str, beat: int, now_ns: int) -> str:
    """Return the state of a run as the row of it has it, at a moment.

    Args:
        state: As the row has it.
        beat: When it was last heard of, nanoseconds since the Unix epoch.
        now_ns: The moment.
    """
    silent = silent_from(state, beat) < now_ns
    if state == OPEN:
        return "completed" if silent else "running"
    return CRASHED if silent and state == "running" else state
