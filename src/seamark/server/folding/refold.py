"""Folding of all journals into a new store, while readers use the old one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

import sqlalchemy as sa

from seamark.server.changes import Positions
from seamark.server.databases import Databases, store_name
from seamark.server.folding.turns import fold_turn
from seamark.server.kept.journals import IntakeJournals
from seamark.server.objects import ObjectStore
from seamark.server.settings import Settings
from seamark.store import schema
from seamark.store.database import Upsert, retry
from seamark.store.runs import Store

_SWITCH_S: Final = 3.0
"""Time after which all processes use the live store, in seconds; see `Databases.store`."""
_WHOLE_KEY: Final = "whole"
_IS_WHOLE: Final = sa.select(schema.meta.c.value).where(schema.meta.c.key == _WHOLE_KEY)
_MARK_WHOLE: Final = Upsert(schema.meta, ("key", "value"), ("key",))

Progress = Callable[[int, int], object]


def is_whole(store: Store) -> bool:
    """Return whether all stored journals have been folded into a store once."""
    return bool(store.database.fetch(_IS_WHOLE))


def mark_whole(store: Store) -> None:
    """Mark that all stored journals have been folded into a store."""
    with store.database.writing() as connection:
        store.database.run(connection, _MARK_WHOLE, key=_WHOLE_KEY, value="1")


def refold_server(
    settings: Settings, *, objects: bool = False, progress: Progress | None = None
) -> str:
    """Fold all journals of a server again; return the name of the new store.

    The server may run meanwhile, unless the tables of journals are also rebuilt from the `objects`,
    which is automatic if they are empty. `progress` is called with the numbers of folded and of all
    bytes.
    """
    from seamark.server.checks import lock_server, open_matching_objects
    from seamark.server.databases import open_databases
    from seamark.server.kept.journals import IntakeJournals
    from seamark.server.kept.rebuild import needs_rebuild
    from seamark.server.state import make_tables

    databases = open_databases(settings.store, statement_s=0)
    try:
        make_tables(databases)
        place = open_matching_objects(databases, settings.blobs, adopt=objects)
        if objects or needs_rebuild(databases.kept, place):
            with lock_server(settings, "the tables are rebuilt from the objects"):
                take_up(databases, place)
        return refold(databases, IntakeJournals(databases.kept, place), progress=progress)
    finally:
        databases.close()


def take_up(databases: Databases, objects: ObjectStore) -> None:
    """Rebuild the tables of stored journals from the objects, while no data is received.

    Purged runs are left out, if the tables of accounts still list them.
    """
    from seamark.server.blobs.tables import rebuild_blobs
    from seamark.server.kept.rebuild import rebuild
    from seamark.server.purging import is_purged

    found = rebuild(databases.kept, objects, gone=partial(is_purged, databases.account))
    whole = not found.damaged and not found.missing
    rebuild_blobs(databases.kept, objects, time.time_ns(), whole=whole)


def refold(
    databases: Databases,
    kept: IntakeJournals,
    *,
    progress: Progress | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> str:
    """Fold all runs into a new store, make it the live one, remove the others; return its name.

    `progress` is called with the numbers of folded and of all bytes.
    """
    there, copy = databases.stores(), 0
    while (name := store_name(copy=copy)) in there:
        copy += 1
    store = databases.store_at(name)
    try:
        _fold_all(store, kept, now_ns, progress)
        mark_whole(store)
        databases.switch(name)
        # For data folded into the old store before all processes used the new one.
        time.sleep(_SWITCH_S)
        _fold_all(store, kept, now_ns, None)
    except BaseException:
        store.database.engine.dispose()
        live = databases.live()
        if live is None or live.name != name:
            databases.drop_store(name)
        raise
    store.database.engine.dispose()
    for other in there:
        databases.drop_store(other)
    return name


def _fold_all(
    store: Store, kept: IntakeJournals, now_ns: Callable[[], int], progress: Progress | None
) -> None:
    positions, runs = Positions(lambda: store), list(kept.runs())
    total, done = sum(run.position for run in runs), 0
    if progress is not None:
        progress(0, total)
    for run in runs:
        if positions.folded(run.project, run.run) < run.position:
            # Fold workers already use this store, which may cause conflicts.
            turn = partial(fold_turn, store, kept, run.project, run.run, now_ns)
            while retry(turn).more:
                pass
        done += run.position
        if progress is not None:
            progress(done, total)
