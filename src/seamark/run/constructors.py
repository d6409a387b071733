"""Functions of older releases, and runs from documents."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from seamark.journal.folder import root_dir
from seamark.run.run import Run, init_run


def from_dict(
    document: Mapping[str, Any],
    *,
    project: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Run:
    """Rebuild a run from the result of `Run.to_dict`, and return it for reading.

    The run keeps its id, times, owner and state, and the facts about its files but not their bytes.
    The whole document is checked before anything is written.

    Args:
        document: Result of `Run.to_dict`, or of ``seamark export --format json`` for one run.
        project: Target project; None for its former project.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.

    Returns:
        The run, opened with ``mode="read-only"``.

    Raises:
        ArgumentError: If the document is invalid; the error names the position, such as
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
    """Start a run or open an existing one: ``neptune.init`` of the clients 0.9 to 0.16.

    Arguments are those of `seamark.init_run`, except that ``run`` stands for ``with_id``.

    .. deprecated:: 0.1
       Write ``init_run(project=..., with_id=...)``.
    """
    msg = "neptune.init() belongs to old clients: use init_run(project=..., with_id=...)"
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
