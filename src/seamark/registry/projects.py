"""Listing of projects and their facts."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from seamark.journal.folder import PROJECT_LOG, root_dir
from seamark.opening.catalogs import open_catalog, place_to_read
from seamark.paths import home_of, projects_above

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog
    from seamark.reading.tables import RunsTable

__all__ = ["fetch_projects_table", "project_rows"]

log = logging.getLogger("seamark")


def fetch_projects_table(
    query: str | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
) -> RunsTable:
    """Return the projects that have runs, models or a log of their own, one row each, by path.

    ``sys/id`` is the path, ``runs`` the number of runs in the project itself (not below it) that
    are not in the trash; all else is what the project's log holds.

    Args:
        query: Only projects that match, such as ``'runs > 10 AND tags/team = "vision"'``.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.
        remote: Server whose projects are read; SEAMARK_REMOTE unless ``root`` is given.
        api_token: For the server; SEAMARK_API_TOKEN, or what ``seamark login`` has kept.

    Raises:
        QueryError: If the query breaks the grammar.
        ArgumentError: If the remote cannot be read.
    """
    from seamark.registry.matching import table_of
    from seamark.store.query.selection import Selection

    Selection(query=query).expression()  # a mistake in it is told before anything is read
    place = place_to_read(root, remote) or root_dir(root)
    with closing(open_catalog(place, api_token)) as index:
        index.refresh()
        rows = project_rows(index)
    return table_of(rows, query, lambda said: log.warning("seamark: %s", said))


def project_rows(index: Catalog) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what is known of each project, by path and `PROJECT_LOG`.

    Args:
        index: What has the runs, up to date.
    """
    from seamark.store.query.selection import Selection
    from seamark.store.read.inherited import TAGS

    rows: dict[str, dict[str, Any]] = {}

    def row(project: str) -> dict[str, Any]:
        path = home_of(project)
        return rows.setdefault(path, {"sys/id": path, "runs": 0})

    for project, _ in index.runs(None, "model"):
        row(project)
    for project, _ in index.table(Selection(), ["sys/id"], lambda _: None).refs:
        row(project)["runs"] += 1
    told = index.table(Selection(kind="project"), None, lambda _: None)
    for (project, _), said in zip(told.refs, told, strict=True):
        row(project).update({path: value for path, value in said.items() if path != "sys/id"})
    for path in sorted(rows):  # those above come first; what has no log inherits, too
        for above in projects_above(path, PROJECT_LOG):
            over = rows.get(above, {})
            rows[path].update({key: over[key] for key in over if key.startswith(TAGS)})
    return {(path, PROJECT_LOG): rows[path] for path in sorted(rows)}
