"""Tables of runs, and which columns they may have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

import re2
import sqlalchemy as sa
from fastapi import Body, Query, Request, Response

from seamark.errors import QueryError, RunNotFoundError
from seamark.journal.folder import PROJECT_LOG
from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import Text, project_of
from seamark.neptune.server.names import Container, container_id
from seamark.neptune.server.reading import Read
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import server_of
from seamark.server.positions import Positions
from seamark.store import schema
from seamark.store.query.choosing import choose
from seamark.store.query.selection import Selection

if TYPE_CHECKING:
    from seamark.server.state import Server
    from seamark.store.query.choosing import Chosen

__all__ = ["router", "translated"]

router: Final = Routes()
_PATIENCE_S: Final = 5.0
_MOST_WAITING: Final = 1000
_MOST_PAGE: Final = 1000
_MOST_COLUMNS: Final = 10_000
_STATE: Final = re.compile(
    r"(`sys/state`|sys/state)(\s*:\s*\w+)?\s*(!=|=)\s*(?:\"(\w+)\"|'(\w+)'|(\w+))", re.IGNORECASE
)
_SET: Final = re.compile(r"(:\s*stringSet)\s*(!=|=)(?!~)", re.IGNORECASE)
_SYSTEM: Final = {
    "sys/creation_time": "datetime",
    "sys/description": "string",
    "sys/failed": "bool",
    "sys/group_tags": "stringSet",
    "sys/hostname": "string",
    "sys/id": "string",
    "sys/modification_time": "datetime",
    "sys/monitoring_time": "int",
    "sys/name": "string",
    "sys/owner": "string",
    "sys/ping_time": "datetime",
    "sys/running_time": "float",
    "sys/size": "float",
    "sys/state": "experimentState",
    "sys/tags": "stringSet",
    "sys/trashed": "bool",
}
"""Columns that every table has, also of a project in which nothing is."""
_TYPES: Final = {
    **{kind: kind for kind in ("int", "float", "bool", "string", "datetime")},
    **dict.fromkeys(("null", "json", "text"), "string"),
    "float_series": "floatSeries",
    "string_series": "stringSeries",
    "file_series": "imageSeries",
    "string_set": "stringSet",
    "file": "file",
    "file_set": "fileSet",
    "artifact": "artifact",
}
"""Of what the store has, the types that the client knows."""
_attribute, _run, _path = schema.attribute.c, schema.run.c, schema.path.c
_COLUMNS: Final = (
    sa.select(_path.path, _attribute.type)
    .join_from(schema.attribute, schema.run, _run.id == _attribute.run)
    .join(schema.path, _path.id == _attribute.path)
    .where(
        _run.project == sa.bindparam("project"),
        _run.name != PROJECT_LOG,
        _attribute.visible == 1,
    )
    .distinct()
)


def translated(query: str) -> str:
    """Return a query of the client in our language, which has nearly all of theirs.

    States are ``running`` and ``idle`` there, and ``=`` asks whether a set has a member.
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
    project_id: Annotated[str, Query(alias="projectIdentifier", max_length=8192)],
    given: Annotated[dict[str, Any], Body()],
    kinds: Annotated[list[str] | None, Query(alias="type", max_length=10)] = None,
) -> Response:
    """Return a page of runs with the columns that are asked for."""
    project = project_of(request, project_id, Role.VIEWER)
    server = server_of(request)
    if kinds and "run" not in kinds:
        return answer({"matchingItemCount": 0, "totalItemCount": 0, "entries": []})
    _wait(server, project)
    page = given.get("pagination") or {}
    limit = min(int(page.get("limit", _MOST_PAGE)), _MOST_PAGE)
    chosen = _chosen(server, project, given, max(0, int(page.get("offset", 0))), max(1, limit))
    filters = given.get("attributeFilters")
    wanted = None if filters is None else [str(each["path"]) for each in filters]
    found = [_entry(server, Container(*ref), wanted) for ref in chosen.refs[:limit]]
    rows = [each for each in found if each is not None]
    return answer(
        {"matchingItemCount": chosen.total, "totalItemCount": chosen.total, "entries": rows}
    )


def _chosen(server: Server, project: str, given: dict[str, Any], offset: int, limit: int) -> Chosen:
    sorting = given.get("sorting") or {}
    by = sorting.get("sortBy") or {}
    try:
        selection = Selection(
            project=project,
            query=translated(str((given.get("query") or {}).get("query") or "")),
            trashed=None,
            limit=limit,
            offset=offset,
            sort_by=str(by.get("name") or "sys/creation_time"),
            ascending=sorting.get("dir") == "ascending",
            readable=lambda one: one == project,
        )
        store = server.store()
        with store.database.reading() as connection:
            return choose(store, connection, selection, server.now_ns(), unknown=lambda _: None)
    except QueryError as error:
        hint = str(error)
        raise Refusal(400, "query", "Syntax error", detail=hint) from error


def _wait(server: Server, project: str) -> None:
    """Wait until what was acknowledged before can be found."""
    waiting = server.kept.unfolded(_MOST_WAITING)
    wanted = {(one.project, one.run): one.position for one in waiting if one.project == project}
    if wanted:
        Positions(server.store).wait_for_all(wanted, _PATIENCE_S)


def _entry(server: Server, container: Container, wanted: list[str] | None) -> dict[str, Any] | None:
    try:
        found = Read(server, container, wait=False).attributes(wanted)
    except RunNotFoundError:
        return None
    return {"experimentId": container_id(container), "attributes": found}


@router.answers("searchLeaderboardAttributes")
def columns(
    request: Request,
    project_id: Annotated[str, Query(alias="projectIdentifier", max_length=8192)],
    search: Text = "",
) -> Response:
    """Return which columns a table may have, by a part of their name or an expression for it."""
    project = project_of(request, project_id, Role.VIEWER)
    server = server_of(request)
    _wait(server, project)
    database = server.store().database
    with database.reading() as connection:
        rows = database.rows(connection, _COLUMNS, project=project)
    found = set(_SYSTEM.items())
    for path, kind in rows:
        shown = _TYPES.get(kind)
        if shown is not None and path not in _SYSTEM:
            found.add((path, shown))
    is_meant = _meant(search)
    meant = sorted(pair for pair in found if is_meant(pair[0]))
    return answer({"entries": _shown(meant[:_MOST_COLUMNS])})


def _shown(pairs: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in pairs]


def _meant(search: str) -> Callable[[str], bool]:
    if not search:
        return lambda _: True
    try:
        pattern = re2.compile(search)
    except re2.error:
        return lambda name: search in name
    return lambda name: search in name or pattern.search(name) is not None
