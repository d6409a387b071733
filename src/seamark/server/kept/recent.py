"""Cache of the rows last written by a process, which saves a look-up when a batch follows on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from seamark.server.kept.plan import Rows

if TYPE_CHECKING:
    from seamark.server.kept.plan import Arrived, JournalRow, Key, RunRow

__all__ = ["Recent"]

_K = TypeVar("_K")
_V = TypeVar("_V")
_MOST: Final = 10_000
"""Journals, and runs, of which it is remembered."""


class Recent:
    """Rows of the journals that were kept last, for one thread.

    Another process may have changed them since: whoever relies on them has the transaction find
    out (`seamark.server.kept.commit`).
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, RunRow] = OrderedDict()
        self._journals: OrderedDict[Key, JournalRow] = OrderedDict()

    def of(self, group: Iterable[Arrived]) -> Rows | None:
        """Return the rows of a group; None unless each batch goes on where its journal ends."""
        ends: dict[Key, int] = {}
        rows = Rows({}, {})
        for batch in group:
            key = batch.key
            run, journal = self._runs.get(key[0]), self._journals.get(key)
            if run is None or journal is None:
                return None
            if batch.offset != ends.get(key, journal.size) or not batch.length:
                return None
            ends[key] = batch.end
            rows.runs[run.key], rows.journals[key] = run, journal
        return rows

    def note(self, runs: Mapping[str, RunRow], journals: Mapping[Key, JournalRow]) -> None:
        """Remember rows as they are now."""
        _remember(self._runs, runs)
        _remember(self._journals, journals)

    def forget(self, group: Iterable[Arrived]) -> None:
        """Believe nothing about the journals of a group any more."""
        for batch in group:
            self._journals.pop(batch.key, None)


def _remember(known: OrderedDict[_K, _V], more: Mapping[_K, _V]) -> None:
    for key, row in more.items():
        known[key] = row
        known.move_to_end(key)
    while len(known) > _MOST:
        known.popitem(last=False)
