"""Tables of projects and groups, whose rows are made and filtered in memory."""

from __future__ import annotations

import difflib
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seamark.errors import QueryError
from seamark.journal.folder import PROJECT_LOG, root_dir
from seamark.opening.catalogs import open_catalog, place_to_read
from seamark.paths import home_of, projects_above
from seamark.reading.tables import RunsTable, StringList
from seamark.store.query.expression import (
    SIGNS,
    Among,
    And,
    Expression,
    Not,
    Or,
    Value,
    comparisons_of,
)
from seamark.store.query.language import parse
from seamark.store.query.moments import moment
from seamark.store.query.selection import Selection
from seamark.store.read.inherited import TAGS

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog

__all__ = ["fetch_projects_table", "project_rows", "table_of"]

log = logging.getLogger("seamark")

Row = Mapping[str, Any]


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
    Selection(query=query).expression()  # a mistake in it is told before anything is read
    place = place_to_read(root, remote) or root_dir(root)
    with closing(open_catalog(place, api_token)) as index:
        index.refresh()
        rows = project_rows(index)
    return table_of(rows, query, lambda said: log.warning("seamark: %s", said))


def project_rows(index: Catalog) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the row of each project, by path and `PROJECT_LOG`.

    Args:
        index: Catalog of the runs, up to date.
    """
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


def table_of(
    rows: Mapping[tuple[str, str], Row], query: str | None, tell: Callable[[str], None]
) -> RunsTable:
    """Return a table of the rows that match, in their order.

    Args:
        rows: Values by path, of each project or group.
        query: In the query language; None for all.
        tell: Called with a warning for each path that no row has.

    Raises:
        QueryError: If the query breaks the grammar.
    """
    if query is not None:
        expression = parse(query)
        known = {path for row in rows.values() for path in row}
        for leaf in comparisons_of(expression) if rows else ():
            if leaf.field.path not in known:
                near = difflib.get_close_matches(leaf.field.path, known, 1)
                hint = f"; there is {near[0]!r}" if near else ""
                tell(f"query: nothing here has {leaf.field.path!r:.200}{hint}")
        rows = {ref: row for ref, row in rows.items() if _matches(expression, row)}
    columns = dict.fromkeys(path for row in rows.values() for path in row)
    first = ("sys/id", "runs")
    ordered = [*first, *sorted(path for path in columns if path not in first)]
    cells = {path: [row.get(path) for row in rows.values()] for path in ordered}
    return RunsTable(cells, list(rows), len(rows))


def _matches(expression: Expression, row: Row) -> bool:
    if isinstance(expression, And):
        return all(_matches(term, row) for term in expression.terms)
    if isinstance(expression, Or):
        return any(_matches(term, row) for term in expression.terms)
    if isinstance(expression, Not):
        return not _matches(expression.term, row)
    found = row.get(expression.field.path)
    if isinstance(expression, Among):
        sign = "contains" if isinstance(found, StringList) else "="
        return any(_compares(found, sign, value) for value in expression.values)
    if expression.value is None:
        return found is None
    return _compares(found, expression.operator, expression.value)


def _compares(found: Any, sign: str, value: Value) -> bool:
    if sign in ("matches", "not matches"):
        return _is_like(found, value.text, wanted=sign == "matches")
    if sign == "contains":
        return isinstance(found, (StringList, str)) and value.text in found
    compare, wanted = SIGNS[sign], value.value
    if isinstance(found, str):
        return compare(found, value.text)
    if isinstance(found, datetime):
        at = moment(value.text, time.time_ns())
        return at is not None and compare(found.timestamp() * 1e6, at)
    if isinstance(found, bool) != isinstance(wanted, bool):
        return False
    both = isinstance(found, (int, float)) and isinstance(wanted, (int, float))
    return both and compare(found, wanted)


def _is_like(found: Any, pattern: str, *, wanted: bool) -> bool:
    try:
        search = re.compile(pattern).search
    except re.error as error:
        msg = f"query: expected a regular expression, got {pattern!r:.80}: {error}"
        raise QueryError(msg) from None
    if not isinstance(found, (str, StringList)):
        return False
    texts = [found] if isinstance(found, str) else found
    return any(search(text) is not None for text in texts) is wanted
