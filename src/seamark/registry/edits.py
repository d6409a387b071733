"""Changing something of a run, a model or a version of this disk, without taking part in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import JournalError
from seamark.journal.folder import RunFolder
from seamark.opening.place import expect_run, expect_writable
from seamark.run.logbook import Logbook, LogSession
from seamark.values import encode_atom

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref

__all__ = ["record_beside", "set_trashed"]


def set_trashed(catalog: Catalog, root: Path | None, refs: Iterable[Ref], *, trashed: bool) -> None:
    """Put runs into the trash, or take them out.

    Args:
        catalog: Of the place where they are.
        root: The root that this is; None for a server.
        refs: Project and id of each.
        trashed: Whether they go in.

    Raises:
        JournalError: If a folder cannot be written.
        RemoteError: If a server refuses it.
    """
    op = {"op": "assign", "atoms": {"sys/trashed": encode_atom(trashed)}}
    for project, run in refs:
        if root is None:
            from seamark.remote.http.catalog import RemoteCatalog

            assert isinstance(catalog, RemoteCatalog)  # noqa: S101 - there are no other places
            catalog.edit((project, run), {"trashed": trashed})
        elif not record_beside(RunFolder(root, project, run), [op]):
            msg = f"{root / project / run}: the change could not be written"
            raise JournalError(None, msg)


def record_beside(folder: RunFolder, ops: Iterable[Mapping[str, Any]]) -> bool:
    """Append records through a journal of our own, which owns nothing; return whether all are kept.

    Args:
        folder: Of the run, model or version.
        ops: As in the journal: ``{"op": "assign", ...}`` and the like.

    Raises:
        JournalError: If the folder cannot be written.
    """
    expect_run(folder)
    expect_writable(folder)
    with Logbook(LogSession(folder, "offline")) as opened:
        kept = [opened.session.recorder.values.record_op(op) for op in ops]
    return all(kept)
