"""A run from a document: `from_dict`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from seamark.journal.folder import root_dir

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["from_dict"]


def from_dict(
    document: Mapping[str, Any],
    *,
    project: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Run:
    """Make a run again from what `Run.to_dict` returned, and return it for reading.

    It keeps its id, times, owner and state. Bytes of files are not in a document: what is known of
    files comes, and they do not. All of the document is checked before anything is written.

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
    from seamark.run.run import init_run

    place = DocumentRun(root_dir(root), document, project).make()
    return init_run(project=place.project, with_id=place.run, root=place.root, mode="read-only")
