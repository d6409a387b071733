"""Reader of one run of the local index, with access to its folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.blobs.contents import FolderContents
from seamark.index.copies import open_journal
from seamark.journal.folder import RunFolder
from seamark.store.read.run import RunReader

if TYPE_CHECKING:
    from seamark.store.read.series import Sources
    from seamark.store.runs import Store

__all__ = ["RunView"]


class RunView(RunReader):
    """Reader of one run in its last folded state; obtained from `Index.view`.

    Args:
        folder: Folder of the run.
        store: Returns the store of the index.
        guarded: Calls a function with exclusive use of the index, which is rebuilt if damaged.
        now_ns: Clock, nanoseconds since the Unix epoch.

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
    ) -> None:
        self.folder = folder
        self.contents = FolderContents(folder)

        def sources_of(project: str, run: str) -> Sources:
            return partial(open_journal, RunFolder(folder.root, project, run))

        super().__init__(
            store,
            folder.project,
            folder.run,
            sources_of(folder.project, folder.run),
            now_ns=now_ns,
            others=sources_of,
            guarded=guarded,
        )
