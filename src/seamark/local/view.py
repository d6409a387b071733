"""One run of the local index, and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from seamark.local.copies import open_journal
from seamark.store.read.run import RunReader, Snapshot

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.local.index import Index

__all__ = ["RunView"]

T = TypeVar("T")


class RunView(RunReader):
    """One run as it was when it was last folded; obtained from `Index.view`.

    Attributes:
        folder: Where it lies.
    """

    def __init__(self, index: Index, folder: RunFolder) -> None:
        self.folder = folder
        self._index = index
        super().__init__(
            lambda: index.store_of((folder.project, folder.run)),
            folder.project,
            folder.run,
            lambda name: open_journal(folder, name),
            now_ns=index.now_ns,
        )

    def _ask(self, question: Callable[[Snapshot], T]) -> T:
        """See `RunReader._ask`; an index that is damaged is made again."""
        ask = super()._ask
        with self._index.lock:
            return self._index.healing(lambda: ask(question))
