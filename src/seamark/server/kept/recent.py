"""What a process kept last: who goes on exactly there need not be looked up first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from seamark.server.kept.plan import Rows

if TYPE_CHECKING:
    from seamark.server.kept.plan import Arrived, JournalRow, Key, RunRow

__all__ = ["Recent"]

_MOST: Final = 10_000
"""Journals of which it is remembered."""


class Recent:
    """Rows of the journals that were kept last, for one thread.

    Another process may have changed them since: whoever relies on them has the transaction find
    out (`seamark.server.kept.commit`).
    """

    def __init__(self) -> None:
        self._known: OrderedDict[Key, tuple[RunRow, JournalRow]] = OrderedDict()

    def of(self, group: Iterable[Arrived]) -> Rows | None:
        """Return the rows of a group; None unless each batch goes on where its journal ends."""
        ends: dict[Key, int] = {}
        rows = Rows({}, {})
        for batch in group:
            key = batch.key
            if (found := self._known.get(key)) is None:
                return None
            run, journal = found
            if batch.offset != ends.get(key, journal.size) or not batch.length:
                return None
            ends[key] = batch.end
            rows.runs[run.key], rows.journals[key] = run, journal
        return rows

    def note(self, runs: Mapping[str, RunRow], journals: Mapping[Key, JournalRow]) -> None:
        """Remember rows as they are now."""
        for key, journal in journals.items():
            self._known[key] = runs[key[0]], journal
            self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)

    def forget(self, group: Iterable[Arrived]) -> None:
        """Believe nothing about the journals of a group any more."""
        for batch in group:
            self._known.pop(batch.key, None)
