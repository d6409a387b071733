"""Groups of runs, and lists of projects."""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import MissingFieldError, QueryError, ReadOnlyError
from seamark.journal.folder import root_dir
from seamark.journal.writer import HEARTBEAT_S
from seamark.opening.place import open_catalog, place_to_read
from seamark.paths import PROJECT_LOG, check_name, given_path, home_of, is_inside, projects_above
from seamark.reading.catalog import Selection
from seamark.reading.tables import RunsTable, StringList
from seamark.run.claims import check_set, first_free, place_of
from seamark.store.query.expression import (
    SIGNS,
    And,
    Expression,
    Not,
    Or,
    Value,
    comparisons_of,
)
from seamark.store.query.kinds import moment
from seamark.store.query.language import parse
from seamark.store.query.selection import expression_of
from seamark.store.read.inherited import TAGS

if TYPE_CHECKING:
    from seamark.reading.catalog import Catalog, Ref
    from seamark.run.claims import Hold
    from seamark.run.handler import Handler
    from seamark.run.logbook import LogSession
    from seamark.run.run import Run


log = logging.getLogger("seamark")
Row = Mapping[str, Any]


def fetch_projects_table(
    query: str | None = None,
    *,
    root: str | os.PathLike[str] | None = None,
    remote: str | Sequence[str] | None = None,
    api_token: str | None = None,
) -> RunsTable:
    """Return the projects with runs, models or a log of their own, one row each, sorted by path.

    ``sys/id`` is the path, and ``runs`` the number of runs in the project itself (not below it)
    that are not in the trash. All other columns come from the project's log.

    Args:
        query: Filter such as ``'runs > 10 AND tags/team = "vision"'``.
        root: Folder of all runs; SEAMARK_DIR or the nearest ``.seamark``.
        remote: Server whose projects are read; SEAMARK_REMOTE unless ``root`` is given.
        api_token: For the server; SEAMARK_API_TOKEN, or the token stored by ``seamark login``.

    Raises:
        QueryError: If the query is invalid or contains a regular expression.
        ArgumentError: If the remote cannot be read.
    """
    expression_of(Selection(query=query))  # a mistake in it is told before anything is read
    place = place_to_read(root, remote) or root_dir(root)
    with closing(open_catalog(place, api_token)) as index:
        index.refresh()
        rows = project_rows(index)
    return table_of(rows, query, lambda said: log.warning("seamark: %s", said))


def project_rows(index: Catalog) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the row of each project, by path and `PROJECT_LOG`."""
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
    for path in sorted(rows):  # parents come first; projects without a log inherit, too
        for above in projects_above(path, PROJECT_LOG):
            over = rows.get(above, {})
            rows[path].update({key: over[key] for key in over if key.startswith(TAGS)})
    return {(path, PROJECT_LOG): rows[path] for path in sorted(rows)}


def table_of(
    rows: Mapping[tuple[str, str], Row], query: str | None, tell: Callable[[str], None]
) -> RunsTable:
    """Return a table of the matching rows in order; ``tell`` is called with warnings."""
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
    if expression.operator == "in":
        sign = "contains" if isinstance(found, StringList) else "="
        return any(_compares(found, sign, value) for value in expression.values)
    if expression.value is None:
        return found is None
    return _compares(found, expression.operator, expression.value)


def _compares(found: Any, sign: str, value: Value) -> bool:
    if sign in ("matches", "not matches"):
        raise QueryError(
            "query: regular expressions only work for runs; use CONTAINS for groups and projects"
        )
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


_GROUPS: Final = "groups"
_OF_RUNS: Final = "sys/group_tags"
CLAIMED: Final = "claimed_by"
"""Path of the claimant of a group, below that of the group."""
_FIRST_TRIED: Final = 200
"""Number of runs tried before all matching runs are listed."""


class Home(Protocol):
    """The project of a group."""

    @property
    def path(self) -> str:
        """Project path."""

    @property
    def session(self) -> LogSession:
        """Session of this process in the project's log."""

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path of its log."""

    def exists(self, path: str) -> bool:
        """Return whether its log has anything at a path."""

    @property
    def fetch_runs_table(self) -> Callable[..., RunsTable]:
        """Return its runs."""


class Group:
    """Runs of a project and its sub-projects that share a name in ``sys/group_tags``.

    Created by `seamark.Project.group`. Metadata of a group is recorded in the log of the project:
    ``group["key"] = value`` is stored under ``groups/<name>/metadata/``.
    """

    def __init__(self, project: Home, name: str, hold: Hold | None = None) -> None:
        self._project = project
        self._name = check_name(name, "group")
        self._hold = hold
        session = project.session
        if hold is None:
            return
        if (writer := session.recorder.to_write()) is not None:
            writer.beat_every(HEARTBEAT_S)
            writer.rest(0)  # the thread of the open journal sends heartbeats as before
        hold.begin(session.recorder, self._path(CLAIMED))
        session.lifecycle.on(heartbeat=hold.look, stop=self.release)

    def release(self) -> bool:
        """Release a claim of `seamark.Project.claim_group`; stopping its project does so as well.

        Return whether this process still held it; it may have counted as crashed since.
        """
        return self._hold is not None and self._hold.release()

    def __repr__(self) -> str:
        return f"<Group {self._name} of {self._project!r}>"

    @property
    def name(self) -> str:
        """Name of the group, as in ``sys/group_tags`` of its runs."""
        return self._name

    @property
    def project(self) -> Home:
        """Project of the group."""
        return self._project

    @property
    def description(self) -> str | None:
        """Description, free text, stored in the log of the project; assignable."""
        try:
            return str(self._project[self._path("description")].fetch())
        except MissingFieldError:
            return None

    @description.setter
    def description(self, text: str) -> None:
        self._project[self._path("description")].assign(text)

    def _path(self, *parts: str) -> str:
        return "/".join((_GROUPS, self._name, *parts))

    def __getitem__(self, path: str) -> Handler:
        """Return the handler of a path of the group's metadata."""
        return self._project[self._path("metadata", given_path(path))]

    def __setitem__(self, path: str, value: Any) -> None:
        self[path].assign(value)

    def __delitem__(self, path: str) -> None:
        self[path].pop()

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._project.exists(self._path("metadata", path))

    def exists(self) -> bool:
        """Return whether the group has a run or metadata."""
        return self._project.exists(self._path()) or bool(
            len(self.fetch_runs_table(columns=["sys/id"], trashed=None, limit=1))
        )

    def fetch_runs_table(self, *, query: str | None = None, **others: Any) -> RunsTable:
        """Return its runs; arguments and errors are as in `seamark.Project.fetch_runs_table`."""
        expression_of(Selection(query=query))  # an error in it is shown as it was written
        wanted = f'{_OF_RUNS} CONTAINS "{self._name}"'
        query = wanted if query is None else f"{wanted} AND ({query})"
        return self._project.fetch_runs_table(query=query, **others)


def group_rows(index: Catalog, home: str | None = None) -> dict[Ref, dict[str, Any]]:
    """Return the rows of the groups of a project or of all projects, by project and name.

    For all projects, a group is listed with each project that has a run in it or metadata for it.
    Runs of sub-projects count.
    """
    rows: dict[Ref, dict[str, Any]] = {}

    def row_of(project: str, name: str) -> dict[str, Any]:
        return rows.setdefault((project, name), {"sys/id": name, "runs": 0})

    told = index.table(Selection(project=home, kind="project"), [f"{_GROUPS}/*"], lambda _: None)
    for (project, _), said in zip(told.refs, told, strict=True):
        for path, value in said.items():
            space, name, *below = path.split("/")
            if space == _GROUPS and below and home in (None, project):
                row_of(project, name)["/".join(below)] = value
    table = index.table(Selection(project=home), [_OF_RUNS], lambda _: None)
    named = [
        (project, name)
        for (project, _), row in zip(table.refs, table, strict=True)
        for name in row.get(_OF_RUNS, ())
    ]
    for project, name in named:
        row_of(home or project, name)
    for (project, name), row in rows.items():
        row["runs"] = sum(one == name and is_inside(at, project) for at, one in named)
    return {ref: rows[ref] for ref in sorted(rows)}


def claim_run(
    project: Home,
    query: str | None,
    values: Mapping[str, Any] | None,
    sort_by: str,
    *,
    ascending: bool,
    given: Mapping[str, Any],
) -> Run | None:
    """Claim a run; see `seamark.Project.claim`."""
    kept, session = check_set(values), project.session
    index, selection = session.select(query=query, sort_by=sort_by, ascending=ascending)
    if not _may_claim(project, "claim"):
        return None

    def matches(ref: Ref) -> bool:
        index.refresh(*ref)
        return ref in index.select(replace(selection, project=ref[0], id=ref[1]), lambda _: None)

    place = place_of(index, session.recorded.place)
    first = index.select(replace(selection, limit=_FIRST_TRIED), session.warn)
    hold = first_free(place, first, matches)
    if (
        hold is None and len(first) == _FIRST_TRIED
    ):  # for example if many workers hold the first ones
        hold = first_free(place, index.select(selection, session.warn)[_FIRST_TRIED:], matches)
    return None if hold is None else _begin(project, hold, kept, given)


def _may_claim(project: Home, verb: str) -> bool:
    if project.session.recorder.mode == "read-only":
        raise ReadOnlyError(
            f"{verb}: the project was opened with mode='read-only' and cannot record a claim"
        )
    return project.session.recorder.mode != "disabled"


def _begin(project: Home, hold: Hold, kept: Mapping[str, Any], given: Mapping[str, Any]) -> Run:
    from seamark.run.run import init_run

    (path, run_id), session = hold.ref, project.session
    place, root = session.recorded.place, session.recorder.folder.root
    where: dict[str, Any] = {"root": root, "mode": session.recorder.mode}
    if isinstance(place, str):
        where |= {"remote": session.remotes, "api_token": session.token}
    elif place != root:  # another root on this machine
        where |= {"root": place, "mode": "offline"}
    with contextlib.ExitStack() as on_error:
        on_error.callback(hold.release)
        run = init_run(**{"owner": True, **given, **where}, project=path, with_id=run_id)
        on_error.callback(run.stop)
        on_error.callback(run.release)
        run.session.claimed(hold)
        for at, value in kept.items():
            run[at] = value
        on_error.pop_all()
    return run


def claim_group(
    project: Home,
    query: str | None,
    values: Mapping[str, Any] | None,
    sort_by: str,
    *,
    ascending: bool,
) -> Group | None:
    """Claim a group; see `seamark.Project.claim_group`."""
    kept, session = check_set(values), project.session
    expression_of(Selection(query=query))
    if not _may_claim(project, "claim_group"):
        return None
    index = session.up_to_date()

    def matching() -> dict[Ref, Any]:
        table = table_of(group_rows(index, project.path), query, session.warn_once)
        return {ref: row.get(sort_by) for row, ref in zip(table, table.refs, strict=True)}

    def matches(ref: Ref) -> bool:
        index.refresh(project.path)
        return ref in matching()

    ordered = sorted(matching().items(), key=_order, reverse=not ascending)
    place = place_of(index, session.recorded.place, groups=True)
    hold = first_free(place, [ref for ref, _ in ordered], matches)
    if hold is None:
        return None
    group = Group(project, hold.ref[1], hold)
    with contextlib.ExitStack() as on_error:
        on_error.callback(group.release)
        for at, value in kept.items():
            group[at] = value
        on_error.pop_all()
    return group


def _order(one: tuple[Ref, Any]) -> tuple[Any, ...]:
    (_, name), value = one
    if isinstance(value, (int, float)):
        return (0, value, name)
    return (1, value, name) if isinstance(value, str) else (2, name)
