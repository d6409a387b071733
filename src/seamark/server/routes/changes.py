"""What changed since somebody looked; see `seamark.server.routes`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from seamark.paths import is_inside
from seamark.reading.changes import ChangedRun
from seamark.server.changes import Cursor, changes_since
from seamark.server.models import answers
from seamark.server.routes.tables import All  # noqa: TC001 - FastAPI asks for them
from seamark.store.read.recent import recent_paths

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])


@router.get("/changes", operation_id="getChanges", responses=answers("changes", tagged=True))
def changes(
    every: All,
    cursor: Annotated[str, Query(max_length=200)] = "",
    project: Annotated[str, Query(max_length=4096)] = "",
) -> Response:
    """Return the runs that changed since a cursor; without one, the cursor to begin with.

    ``reset`` says that everything may have changed: the runs were folded anew, or the cursor is
    none. Their paths say where to look first. ``more`` says that there is more already, to be
    asked for with the new cursor.
    """
    since, tag = Cursor.of(cursor), every.tag()
    if since is None or since.store != every.server.databases.store_in_use:
        return every.answer(
            lambda: {
                "cursor": str(every.cursor()),
                "reset": True,
                "more": False,
                "looked_ns": every.now_ns,
                "runs": [],
            }
        )

    def make() -> dict[str, Any]:
        store = every.server.store()
        with store.database.reading() as connection:
            upto, found, more = changes_since(store.database, connection, since, every.now_ns)
            found = [
                one
                for one in found
                if is_inside(one.project, project) and every.may_read(one.project)
            ]
            there = [(one.project, one.run) for one in found if not one.gone]
            paths = recent_paths(store, connection, there, min(since.at_ns, every.now_ns))
        return {
            "cursor": str(upto),
            "reset": False,
            "more": more,
            "looked_ns": every.now_ns,
            "runs": [ChangedRun(*one, paths.get((one.project, one.run), [])) for one in found],
        }

    return every.answer(make, tag)
