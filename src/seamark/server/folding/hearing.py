"""Noting when runs were heard of whose turn to be folded has not come yet.

A run counts as crashed when nothing was heard of it for a while. When its bytes came is written
with what was folded of them; where there is more to fold than is folded, that may take minutes, and
a run that sends all the time would read as dead. So it is written ahead of the folding, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.server.changes import note_changes
from seamark.store import schema
from seamark.store.runs import RUNS_AT_ONCE, places_of

if TYPE_CHECKING:
    from seamark.server.kept.journals import IntakeJournals
    from seamark.store.runs import Store

__all__ = ["note_activity"]

Ref = tuple[str, str]

_run, _journal = schema.run.c, schema.journal.c
_LOCK: Final = (
    sa.select(_run.id)
    .where(_run.id.in_(sa.bindparam("numbers", expanding=True)))
    .order_by(_run.id)
    .with_for_update()
)
_HEAR: Final = (
    sa.update(schema.journal)
    .values(heard=sa.bindparam("at"))
    .where(
        _journal.run == sa.bindparam("of_run"),
        _journal.file == sa.bindparam("of_file"),
        _journal.heard < sa.bindparam("at"),
    )
)
_newest: Final = (
    sa.select(sa.func.max(sa.func.coalesce(_journal.heard, _journal.last_t)))
    .where(_journal.run == _run.id, _journal.owner == 1)
    .scalar_subquery()
)
_BEAT: Final = (
    sa.update(schema.run)
    .values(beat=sa.func.coalesce(_newest, _run.beat))
    .where(_run.id == sa.bindparam("of_run"))
)


def note_activity(store: Store, kept: IntakeJournals, refs: Collection[Ref]) -> int:
    """Write into a store when the journals of runs were heard of last; return how many changed.

    Runs that the store does not have yet are passed over. A fold that began before and is saved
    afterwards writes what it knew; the next call mends that.

    Args:
        store: In which they are shown.
        kept: Where their bytes came.
        refs: (project path, run id) of the runs.

    Raises:
        Conflict: If another transaction is in the way; what was done so far stays.
    """
    changed, wanted = 0, list(refs)
    for start in range(0, len(wanted), RUNS_AT_ONCE):
        part = wanted[start : start + RUNS_AT_ONCE]
        heard = {ref: kept.journals(*ref) for ref in part}
        with store.database.writing() as connection:
            changed += _note_activity(store, connection, heard)
    return changed


def _note_activity(store: Store, connection: sa.Connection, heard: dict[Ref, Any]) -> int:
    numbers = {one.number: ref for ref, one in places_of(store, connection, list(heard)).items()}
    if not numbers:
        return 0
    # In the order in which a run is saved: its own row, then those of its journals.
    connection.execute(_LOCK, {"numbers": sorted(numbers)}).all()
    changed = []
    for number, ref in sorted(numbers.items()):
        found = 0
        for name, one in heard[ref].items():
            values = {"of_run": number, "of_file": name, "at": one.heard_ns}
            found += connection.execute(_HEAR, values).rowcount
        if found:
            connection.execute(_BEAT, {"of_run": number})
            changed.append(ref)
    if changed:
        note_changes(store.database, connection, changed)
    return len(changed)
