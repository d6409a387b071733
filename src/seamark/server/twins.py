"""Saying which run of those that are the same goes on; see `seamark.reading.twins`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seamark.reading.twins import Same, entry, settle
from seamark.server.held import held_now, settled
from seamark.server.kept.refusals import PurgedError
from seamark.store.query.choosing import choose
from seamark.store.query.selection import Selection
from seamark.store.query.twins import same_as, with_hash
from seamark.store.read.tables import query_runs

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.errors import QueryError
    from seamark.server.state import Server
    from seamark.store.runs import Store

__all__ = ["twin"]


def twin(server: Server, project: str, run: str, text: str, *, take: bool) -> Same:
    """Return the run of a hash: another one, or the one that asks, which then takes a number.

    Args:
        server: The server.
        project: Project path.
        run: Id of the run that is to begin.
        text: The hash of what it is given.
        take: Whether it begins now; else it is only looked whether there is another one.
    """
    store, key = server.store(), f"twins:{project}"
    # Whoever threw it away was told so: that is to be read, though not by who holds the lock.
    before = entry(held_now(server.databases.account, key), text)[0]
    if before:
        server.behind({(project, before): _kept(server, project, before) or 0})

    def settled_with(held: dict[str, Any]) -> Same:
        # After the lock: whoever had it before has said by then what comes.
        other = entry(held, text)[0]
        with store.database.reading() as reading:
            is_there = _is_there(server, store, reading, project, other) if other else None
            known = _known(server, store, reading, project, run, text)
        found = settle(held, text, run, known, server.now_ns(), is_there=is_there)
        if not take and found.run == run:
            held.pop(text, None)
            return Same(None)
        return found

    return settled(server.databases.account, key, settled_with)


def _is_there(
    server: Server, store: Store, reading: sa.Connection, project: str, run: str
) -> bool | None:
    """Return whether anything of a run was sent; None if it was thrown away or purged."""
    thrown = Selection(project=project, id=run, trashed=True)
    if (project, run) in choose(store, reading, thrown, server.now_ns(), _unknown).refs:
        return None
    kept = _kept(server, project, run)
    return None if kept is None else bool(kept)


def _kept(server: Server, project: str, run: str) -> int | None:
    """Return how many bytes are kept of a run; None if it was purged."""
    try:
        return server.intake.known(project, run)[1]
    except PurgedError:
        return None


def _known(
    server: Server, store: Store, reading: sa.Connection, project: str, run: str, text: str
) -> tuple[str, int] | None:
    """Return the newest run that recorded a hash, and the largest number that any did."""
    now_ns = server.now_ns()
    every = Selection(
        project=project, query=with_hash(text), trashed=None, sort_by="sys/revision", limit=1
    )
    rows = query_runs(store, reading, every, ["sys/revision"], now_ns, _unknown).rows
    numbers = [row.get("sys/revision") for row in rows]
    number = max((one for one in numbers if isinstance(one, int)), default=0)
    some = choose(store, reading, Selection(project=project, query=same_as(text)), now_ns, _unknown)
    other = next((one for at, one in some.refs if at == project and one != run), "")
    return (other, number) if other or number else None


def _unknown(error: QueryError) -> None:
    """Pass over a path that no run has yet."""
    del error
