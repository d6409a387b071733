"""Reader of one run of the local index, with access to its folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from seamark.blobs.contents import FolderContents
from seamark.index.copies import open_journal
from seamark.journal.folder import RunFolder
from seamark.store.read.run import RunReader, Snapshot

if TYPE_CHECKING:
    from seamark.store.read.series import Sources
    from seamark.store.runs import Store

__all__ = ["RunView"]

T = TypeVar("T")


class RunView(RunReader):
    """Reader of one run in its last folded state; obtained from `Index.view`.

    Args:
        folder: Folder of the run.
        store: Returns the store of the index.
        guarded: Calls a function with exclusive use of the index, which is rebuilt if damaged.
        now_ns: Clock, nanoseconds since the Unix epoch.
        freshen: Folds new records of the parent of a fork, given its id or custom id; it is called
            before the first answer that may contain data of it. None if nothing is to be folded.

    Attributes:
        folder: Folder of the run.
        contents: File contents of the run.
    """

    def __init__(
        self,
        folder: RunFolder,
        store: Callable[[], Store],
        guarded: Callable[[Callable[[], Any]], Any],
        now_ns: Callable[[], int],
        freshen: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = folder
        self.contents = FolderContents(folder)
        self._guarded, self._freshen = guarded, freshen

        def others(project: str, run: str) -> Sources:
            other = RunFolder(folder.root, project, run)
            return lambda name: open_journal(other, name)

        super().__init__(
            store,
            folder.project,
            folder.run,
            others(folder.project, folder.run),
            now_ns=now_ns,
            others=others,
        )

    def _ask(self, question: Callable[[Snapshot], T]) -> T:
        """See `RunReader._ask`; an index that is damaged is made again."""
        ask, freshen = super()._ask, self._freshen

        def look(seen: Snapshot) -> T:
            if freshen is not None and seen.state.fork is not None:
                raise _IsForkError(seen.state.fork.parent)
            return question(seen)

        try:
            answer: T = self._guarded(lambda: ask(look))
        except _IsForkError as fork:  # outside of the transaction, in which nothing can be folded
            assert freshen is not None  # noqa: S101 - see above
            self._freshen = None
            freshen(fork.parent)
            return self._ask(question)
        return answer


class _IsForkError(Exception):
    """A run that was forked from another was to be read; never seen outside of `RunView`."""

    def __init__(self, parent: str) -> None:
        super().__init__(parent)
        self.parent = parent
