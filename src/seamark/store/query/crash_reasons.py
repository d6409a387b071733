"""Reasons why runs of a store crashed, looked up on demand and only for the crashed runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.process.liveness import Evidence
from seamark.store import schema
from seamark.store.database import written_out
from seamark.store.journals import load_owners

if TYPE_CHECKING:
    from seamark.store.runs import Store

__all__ = ["CRASH_REASON", "reason_column", "reasons_of"]

CRASH_REASON: Final = "sys/crash_reason"
_NO_TEXT: Final = sa.cast(sa.null(), sa.Text)


def reasons_of(
    store: Store, connection: sa.Connection, crashed: Collection[int], now_ns: int
) -> dict[int, str]:
    """Return crash reasons by run; see `seamark.process.liveness.CRASH_REASONS`."""
    newest: dict[int, tuple[bool, int, str]] = {}
    for run, seen, header, closed in load_owners(store, connection, list(crashed)):
        if run not in newest or (not closed, seen) > newest[run][:2]:
            newest[run] = not closed, seen, header
    evidence = Evidence(now_ns=now_ns, here=store.here)
    return {
        run: evidence.crash(json.loads(header or "{}"), seen).reason
        for run, (_, seen, header) in newest.items()
    }


def reason_column(
    store: Store, connection: sa.Connection, state: sa.ColumnElement[str], crashed: str, now_ns: int
) -> sa.ColumnElement[Any]:
    """Return why a run crashed as SQL, NULL for runs whose state is not ``crashed``."""
    asked = sa.select(schema.run.c.id).where(state == crashed)
    runs = [number for (number,) in store.database.query(connection, asked)]
    by_reason: dict[str, list[int]] = {}
    for run, reason in reasons_of(store, connection, runs, now_ns).items():
        by_reason.setdefault(reason, []).append(run)
    if not by_reason:
        return _NO_TEXT
    # Written out: no engine takes as many parameters as there may be runs.
    cases = [(schema.run.c.id.in_(written_out(runs)), why) for why, runs in by_reason.items()]
    return sa.case(*cases, else_=_NO_TEXT)
