"""Changes of a run, a model or a version on this disk from outside."""

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

__all__ = ["append_ops", "set_trashed"]


def set_trashed(catalog: Catalog, root: Path | None, refs: Iterable[Ref], *, trashed: bool) -> None:
    """Put runs into the trash, or take them out."""
    op = {"op": "assign", "atoms": {"sys/trashed": encode_atom(trashed)}}
    for project, run in refs:
        if root is None:
            from seamark.remote.http.catalog import RemoteCatalog

            assert isinstance(catalog, RemoteCatalog)  # noqa: S101 - there are no other places
            catalog.edit((project, run), {"trashed": trashed})
        elif not append_ops(RunFolder(root, project, run), [op]):
            msg = f"{root / project / run}: the change could not be written"
            raise JournalError(None, msg)


def append_ops(
    folder: RunFolder,
    ops: Iterable[Mapping[str, Any]],
    remotes: tuple[str, ...] = (),
    token: str | None = None,
) -> bool:
    """Append ops through a new journal, which owns nothing; return whether all are kept."""
    expect_run(folder)
    expect_writable(folder)
    session = LogSession(folder, "offline", remotes=remotes, token=token)
    with Logbook(session) as opened:
        kept = [opened.session.recorder.values.record_op(op) for op in ops]
    return all(kept)
