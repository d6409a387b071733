"""Folding a run from journals wherever they are, in one go, as a process that folds does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.journal.folder import split_journal_name
from seamark.store.database import retry
from seamark.store.ingest import Folding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from seamark.journal.source import Source
    from seamark.store.runs import Store

__all__ = ["fold_run"]


def fold_run(
    store: Store,
    project: str,
    run: str,
    sources: Mapping[str, Callable[[], Source]],
    now_ns: Callable[[], int],
) -> None:
    """Fold what is new of a run, of all of its journals, and save it.

    Args:
        store: Where it goes.
        project: Project path.
        run: Run id.
        sources: By file name: what opens the journal. Those that were folded before must still
            begin with the same bytes.
        now_ns: Clock, nanoseconds since the Unix epoch.

    Raises:
        Conflict: If others folded the same run all the time.
    """
    journals = {uid: name for name in sources if (uid := split_journal_name(name)[1])}

    def fold() -> None:
        folding = Folding(store, project, run, lambda name: sources[name](), now_ns)
        folding.take_up(journals)
        folding.fold()
        if folding.changed:
            folding.save()

    retry(fold)
