"""One run of the local index, and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.blobs.contents import FolderContents
from seamark.local.copies import open_journal
from seamark.store.read.run import RunReader, Snapshot

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.store.runs import Store

__all__ = ["RunView"]

T = TypeVar("T")


class RunView(RunReader):
    """One run as it was when it was last folded; obtained from `Index.view`.

    Args:
        folder: Where it lies.
        store: Returns where it is folded.
        guarded: Does some work alone with the index, which is made again if it is damaged.
        now_ns: Clock, nanoseconds since the Unix epoch.

    Attributes:
        folder: Where it lies.
        contents: Its files.
    """

    def __init__(
        self,
        folder: RunFolder,
        store: Callable[[], Store],
        guarded: Callable[[Callable[[], Any]], Any],
        now_ns: Callable[[], int],
    ) -> None:
        self.folder = folder
        self.contents = FolderContents(folder)
        self._guarded = guarded
        super().__init__(
            store,
            folder.project,
            folder.run,
            lambda name: open_journal(folder, name),
            now_ns=now_ns,
        )

    def _ask(self, question: Callable[[Snapshot], T]) -> T:
        """See `RunReader._ask`; an index that is damaged is made again."""
        ask = super()._ask
        answer: T = self._guarded(lambda: ask(question))
        return answer
