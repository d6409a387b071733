"""Functions of older releases, and runs from documents."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from seamark.journal.folder import root_dir
from seamark.run.run import init_run

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["from_dict", "init"]


def from_dict(
    document: Mapping[str, Any],
    *,
    project: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Run:
    """Rebuild a run from the result of `Run.to_dict`, and return it for reading.

    It keeps its id, times, owner and state; of files, what is known and not their bytes. All of
    the document is checked before anything is written.

    Args:
        document: What `Run.to_dict` returned, or what ``seamark export --format json`` wrote of one
            run.
        project: Project that it goes to; None for the one that it was in.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.

    Returns:
        The run, opened with ``mode="read-only"``.

    Raises:
        ArgumentError: If something in it is not what a document holds; its place is named, such as
            ``series['loss'].value[3]``.
        RunExistsError: If the project has a run with this id.
        OSError: If it cannot be written.
    """
    from seamark.interchange.document import DocumentRun

    place = DocumentRun(root_dir(root), document, project).make()
    return init_run(project=place.project, with_id=place.run, root=place.root, mode="read-only")


def init(
    project: str | None = None,
    api_token: str | None = None,
    run: str | None = None,
    custom_run_id: str | None = None,
    mode: str | None = None,
    name: str | None = None,
    description: str | None = None,
    tags: str | Iterable[str] | None = None,
    source_files: str | Iterable[str] | None = None,
    **others: Any,
) -> Run:
    """Start a run, or open one that exists: ``neptune.init`` of the clients 0.9 to 0.16.

    Its arguments are those of `seamark.init_run`, but ``run`` is ``with_id`` there.

    .. deprecated:: 0.1
       Write ``init_run(project=..., with_id=...)``.
    """
    msg = "neptune.init() is that of old clients: write init_run(project=..., with_id=...)"
    warnings.warn(msg, DeprecationWarning, stacklevel=2)
    return init_run(
        project=project,
        api_token=api_token,
        with_id=run,
        custom_run_id=custom_run_id,
        mode=mode,  # type: ignore[arg-type]  # a word that `init_run` checks
        name=name,
        description=description,
        tags=tags,
        source_files=source_files,
        **others,
    )
