"""Tables of runs, models and versions, and their available columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import re2
import sqlalchemy as sa
from fastapi import Query, Request, Response

from seamark.errors import ArgumentError, QueryError, RunNotFoundError
from seamark.neptune.server.answers import Given, Routes, answer, field, objects
from seamark.neptune.server.containers import ProjectId, Text, project_of
from seamark.neptune.server.projects import (
    API_KINDS,
    Container,
    container_id,
    place_of_models,
    replace_ids,
    split_project,
    wait_in,
)
from seamark.neptune.server.reading import SYSTEM, TYPES, ContainerReader, system_attributes
from seamark.reading.catalog import Selection
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import server_of
from seamark.store import schema
from seamark.store.query.statements import choose
from seamark.store.query.validation import in_projects

if TYPE_CHECKING:
    from seamark.server.state import Server
    from seamark.store.query.statements import Chosen


router: Final = Routes()
Kinds = Annotated[list[str] | None, Query(alias="type", max_length=10)]
_MAX_PAGE_ROWS: Final = 1000
_NUMBER: Final = "sys/version"
_MAX_COLUMNS: Final = 10_000
_STATE: Final = re.compile(
    r"(`sys/state`|sys/state)(\s*:\s*\w+)?\s*(!=|=)\s*(?:\"(\w+)\"|'(\w+)'|(\w+))", re.IGNORECASE
)
_SET: Final = re.compile(r"(:\s*stringSet)\s*(!=|=)(?!~)", re.IGNORECASE)
_VERSION_COLUMNS: Final = {"sys/model_id": "string", "sys/stage": "string", _NUMBER: "int"}
_attribute, _run, _path = schema.attribute.c, schema.run.c, schema.path.c
_COLUMNS: Final = (
    sa.select(_path.path, _attribute.type)
    .join_from(schema.attribute, schema.run, _run.id == _attribute.run)
    .join(schema.path, _path.id == _attribute.path)
    .where(_attribute.visible == 1)
    .distinct()
)


def translate_query(query: str) -> str:
    """Translate a query of the client to Seamark's similar query language.

    The client's states are ``running`` and ``idle``, and its ``=`` tests the members of sets.
    """

    def state(found: re.Match[str]) -> str:
        word = next(one for one in found.groups()[3:] if one is not None).lower()
        if word not in ("idle", "running", "active", "inactive"):
            return found[0]
        same = (word in ("running", "active")) == (found[3] == "=")
        return f"`sys/state` {'=' if same else '!='} running"

    def member(found: re.Match[str]) -> str:
        return f"{found[1]} {'NOT ' if found[2] == '!=' else ''}CONTAINS"

    return _SET.sub(member, _STATE.sub(state, query))


@router.answers("searchLeaderboardEntries")
def entries(
    request: Request,
    project_id: ProjectId,
    given: Given,
    kinds: Kinds = None,
) -> Response:
    """Return a page of runs, models or versions with the requested columns."""
    project = project_of(request, project_id, Role.VIEWER)
    server, kind = server_of(request), _kind(kinds)
    if kind is None:
        return answer({"matchingItemCount": 0, "totalItemCount": 0, "entries": []})
    wait_in(server, project)
    limit = field(given, "pagination.limit", int)
    limit = _MAX_PAGE_ROWS if limit is None else max(0, min(limit, _MAX_PAGE_ROWS))
    offset = max(0, field(given, "pagination.offset", int) or 0)
    chosen = _select_rows(server, project, kind, given, offset, max(1, limit))
    wanted = None
    if given.get("attributeFilters") is not None:
        wanted = [field(each, "path") for each in objects(given, "attributeFilters")]
        if None in wanted:
            raise ArgumentError("attributeFilters: expected a path in each")
    found = [_entry(server, Container(*ref), wanted) for ref in chosen.refs[:limit]]
    rows = [each for each in found if each is not None]
    return answer(
        {"matchingItemCount": chosen.total, "totalItemCount": chosen.total, "entries": rows}
    )


@router.answers("getLeaderboard")
def legacy(
    request: Request,
    project_id: ProjectId,
    ids: Annotated[list[str], Query(alias="shortId", default_factory=list, max_length=1000)],
    states: Annotated[list[str], Query(alias="state", default_factory=list, max_length=10)],
    owners: Annotated[list[str], Query(alias="owner", default_factory=list, max_length=1000)],
    tags: Annotated[list[str], Query(default_factory=list, max_length=1000)],
    shortest: Annotated[float, Query(alias="minRunningTimeSeconds")] = 0.0,
    limit: Annotated[int, Query(ge=1)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """Return a page of runs for clients before 0.9, oldest first."""
    project = project_of(request, project_id, Role.VIEWER)
    server = server_of(request)
    wait_in(server, project)
    words = {"running": "active", "idle": "inactive"}
    selection = Selection(
        project=project,
        query=f"`sys/running_time` >= {shortest}" if shortest else None,
        id=ids,
        state=[words.get(one, one) for one in states],
        owner=owners,
        tag=tags,
        limit=min(limit, _MAX_PAGE_ROWS),
        offset=offset,
        ascending=True,
        readable=lambda one: one == project,
    )
    chosen = _choose(server, selection)
    workspace, name = split_project(project)
    rows = [
        {
            "id": found["experimentId"],
            "organizationName": workspace,
            "projectName": name,
            "attributes": found["attributes"],
            "systemAttributes": system_attributes(found["attributes"]),
        }
        for ref in chosen.refs[: min(limit, _MAX_PAGE_ROWS)]
        if (found := _entry(server, Container(*ref), None)) is not None
    ]
    total = {"matchingItemCount": chosen.total, "totalItemCount": chosen.total}
    return answer({**total, "entries": rows})


def _kind(kinds: list[str] | None) -> str | None:
    if not kinds or "run" in kinds:
        return "run"
    return next((ours for ours in ("model", "model_version") if API_KINDS[ours] in kinds), None)


def _place(project: str, kind: str) -> tuple[str, Callable[[str], bool]]:
    place = project if kind == "run" else place_of_models(project)
    if kind == "model_version":
        return place, lambda one: one.startswith(f"{place}/")
    return place, lambda one: one == place


def _select_rows(
    server: Server, project: str, kind: str, given: Given, offset: int, limit: int
) -> Chosen:
    by = field(given, "sorting.sortBy.name") or "sys/creation_time"
    if (by, kind) == ("sys/id", "model_version"):
        by = _NUMBER
    query = translate_query(field(given, "query.query", longest=None) or "")
    place, is_selected = _place(project, kind)
    try:
        selection = Selection(
            project=place,
            kind=kind,
            query=replace_ids(server, project, kind, query),
            trashed=None,
            limit=limit,
            offset=offset,
            sort_by=by,
            ascending=field(given, "sorting.dir") == "ascending",
            readable=is_selected,
        )
        return _choose(server, selection)
    except QueryError as error:
        raise Refusal(400, "query", "Syntax error", detail=str(error)) from error


def _choose(server: Server, selection: Selection) -> Chosen:
    store = server.store()
    with store.database.reading() as connection:
        return choose(store, connection, selection, server.now_ns(), unknown=lambda _: None)


def _entry(server: Server, container: Container, wanted: list[str] | None) -> dict[str, Any] | None:
    try:
        found = ContainerReader(server, container, wait=False).attributes(wanted)
    except RunNotFoundError:
        return None
    return {"experimentId": container_id(container), "attributes": found}


@router.answers("searchLeaderboardAttributes")
def columns(
    request: Request,
    project_id: ProjectId,
    search: Text = "",
    kinds: Kinds = None,
) -> Response:
    """Return the available columns of a table, filtered by a substring or regular expression."""
    project = project_of(request, project_id, Role.VIEWER)
    server, kind = server_of(request), _kind(kinds) or "run"
    wait_in(server, project)
    store = server.store()
    with store.database.reading() as connection:
        within = in_projects(store, connection, _place(project, kind)[1])
        assert within is not None  # noqa: S101 - a condition was given
        statement = _COLUMNS.where(_run.kind == kind, within)
        rows = store.database.query(connection, statement)
    system = SYSTEM if kind == "run" else SYSTEM | _VERSION_COLUMNS
    found = set(system.items())
    for path, type_ in rows:
        if type_ in TYPES and path not in system:
            found.add((path, TYPES[type_]))
    is_selected = _path_filter(search)
    selected = sorted(pair for pair in found if is_selected(pair[0]))
    shown = [{"name": name, "type": kind} for name, kind in selected[:_MAX_COLUMNS]]
    return answer({"entries": shown})


def _path_filter(search: str) -> Callable[[str], bool]:
    if not search:
        return lambda _: True
    try:
        pattern = re2.compile(search)
    except re2.error:
        return lambda name: search in name
    return lambda name: search in name or pattern.search(name) is not None
