"""Tables that stay as they are while somebody turns their pages.

A snapshot is the ids of the runs that matched, in order, and its name is what they come to: the
same ids have the same name everywhere. So whoever does not remember one, as another process or one
that was started since, finds it again as long as nothing was added or moved.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from seamark.store.query.choosing import Chosen, choose, look_up, state_column
from seamark.store.runs import numbers_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.store.query.known import Unknown
    from seamark.store.query.selection import Selection
    from seamark.store.runs import Store

__all__ = ["Snapshots", "choose_page"]

Ref = tuple[str, str]
"""Project and id of a run."""

_MOST: Final = 32
_MOST_REFS: Final = 100_000


class Snapshots:
    """The snapshots that were named last; for use by several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[Ref]] = OrderedDict()
        self._refs = 0
        self._lock = threading.Lock()

    def keep(self, refs: list[Ref]) -> str:
        """Remember ids, and return their name."""
        said = "".join([f"{project}\n{run}\n" for project, run in refs])
        name = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        with self._lock:
            if name not in self._kept and len(refs) <= _MOST_REFS:
                self._kept[name] = refs
                self._refs += len(refs)
            if name in self._kept:
                self._kept.move_to_end(name)
            while len(self._kept) > _MOST or self._refs > _MOST_REFS:
                self._refs -= len(self._kept.popitem(last=False)[1])
        return name

    def get(self, name: str) -> list[Ref] | None:
        """Return the ids of a name; None if they are not remembered."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)


def choose_page(
    snapshots: Snapshots,
    cursor: str,
    store: Store,
    connection: sa.Connection,
    selection: Selection,
    now_ns: int,
    unknown: Unknown,
) -> tuple[Chosen, str]:
    """Return a page of a snapshot, and the snapshot's name.

    Runs that are gone since leave their places empty: the page is shorter, and the others stay.

    Args:
        snapshots: Those that are remembered.
        cursor: Name of one. If it is not remembered, runs are chosen anew: another name tells that
            they, or their order, are others now.
        store: Which has the runs.
        connection: Of a transaction of the store.
        selection: Which runs; ``limit`` and ``offset`` say which page.
        now_ns: Nanoseconds since the Unix epoch.
        unknown: As for `choose`.

    Raises:
        ArgumentError: See `choose`.
        QueryError: See `choose`.
    """
    selection.check()
    refs = snapshots.get(cursor)
    end = None if selection.limit is None else selection.offset + selection.limit
    page = slice(selection.offset, end)
    if refs is None:
        whole = replace(selection, limit=None, offset=0)
        chosen = choose(store, connection, whole, now_ns, unknown, counted=False)
        cursor, total, numbers = snapshots.keep(chosen.refs), chosen.total, chosen.numbers[page]
    else:
        if selection.readable is not None:  # it may be somebody else's
            refs = [ref for ref in refs if selection.readable(ref[0])]
        total, found = len(refs), numbers_of(store, connection, refs[page])
        known = {ref: number for number, ref in found.items()}
        numbers = [known[ref] for ref in refs[page] if ref in known]
    state = state_column(store, connection, now_ns)
    return look_up(store, connection, numbers, state, total), cursor
