"""What changed since somebody looked; see `seamark.server.routes`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from seamark.paths import is_inside
from seamark.server.changes import Cursor, changes_since
from seamark.server.models import answers
from seamark.server.routes.tables import All  # noqa: TC001 - FastAPI asks for them

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
    none. ``more`` says that there is more already, to be asked for with the new cursor.
    """
    since, tag = Cursor.of(cursor), every.tag()
    if since is None or since.store != every.server.databases.store_in_use:
        return every.answer(
            lambda: {"cursor": str(every.cursor()), "reset": True, "more": False, "runs": []}
        )

    def make() -> dict[str, Any]:
        database = every.server.store().database
        with database.reading() as connection:
            upto, found, more = changes_since(database, connection, since, every.now_ns)
        return {
            "cursor": str(upto),
            "reset": False,
            "more": more,
            "runs": [
                {"project": one.project, "run": one.run, "state": one.state, "gone": one.gone}
                for one in found
                if is_inside(one.project, project) and every.may_read(one.project)
            ],
        }

    return every.answer(make, tag)
