"""Changes of runs since a cursor; see `seamark.server.routes`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

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
    none. Their paths say where to look first. ``more`` says that there is more already, to be
    asked for with the new cursor. ``looked_ns`` is when it was last looked for what is new, and
    ``left`` how many runs are still to be read for the first time.
    """
    tag, changing = every.tag(), every.server.changing

    def make() -> dict[str, Any]:
        found = changing.since(cursor, project, every.may_read, every.now_ns)
        looked = changing.looked(every.now_ns)
        return {**found._asdict(), "looked_ns": looked.looked_ns, "left": looked.left}

    # Without a cursor the answer is one for whoever begins now, and as new as the question.
    return every.answer(make, tag if cursor else None)
