"""Changing something of a run, a model or a version of this disk, without taking part in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import JournalError
from seamark.journal.folder import RunFolder
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
    if folder.kind != "run":
        from seamark.registry.model import opened_at

        with opened_at(folder) as opened:
            kept = [opened.session.recorder.record_op(op) for op in ops]
        return all(kept)
    from seamark.run.run import init_run

    run = init_run(
        folder.project,
        with_id=folder.run,
        root=str(folder.root),
        mode="offline",
        owner=False,
        capture_stdout=False,
        capture_stderr=False,
        capture_hardware_metrics=False,
        capture_traceback=False,
        capture=dict.fromkeys(("script", "packages", "host", "signals"), False),
        git_ref=False,
    )
    try:
        kept = [run.session.record_op(op) for op in ops]
    finally:
        run.stop()
    return all(kept)
