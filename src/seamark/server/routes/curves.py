"""What is drawn: many series of many runs in one answer; see `seamark.server.routes`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from seamark.errors import RunNotFoundError
from seamark.server.answering import attempt_of, heavy
from seamark.server.failures import Refusal
from seamark.server.models import answers
from seamark.server.routes.reads import MOST_PARTS, check_look
from seamark.server.routes.tables import All, Ref, Text  # noqa: TC001 - FastAPI asks for them

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])
_MOST_PX: Final = 8192
_MOST_SERIES: Final = 400


class _CurvesBody(BaseModel):
    refs: Annotated[list[Ref], Field(max_length=_MOST_SERIES)]
    paths: Annotated[list[Text], Field(min_length=1, max_length=_MOST_SERIES)]
    px: Annotated[int, Field(ge=2, le=_MOST_PX)] = 1000
    attempt: Annotated[int, Field(ge=0)] | Text = "latest"
    x: Text = "step"
    window: float | None = None
    log_x: bool = False
    log_y: bool = False


@router.post("/curves", operation_id="readCurves", responses=answers("curves"))
def curves(every: All, body: _CurvesBody) -> Response:
    """Return series of several runs in parts, as they are drawn; those without points are left out.

    What is read grows with ``px``, the representative points of each, and not with the points.
    """
    chosen: Any = attempt_of(str(body.attempt))
    check_look(body.window)
    asked = len(body.refs) * len(body.paths)
    most = min(_MOST_SERIES, max(1, MOST_PARTS * 4 // body.px))
    if asked > most:
        hint = f"{asked:,} series are too many at a time: ask for at most {most} of so many px"
        raise Refusal(413, "too-many-series", hint, limit=most)

    def make() -> dict[str, Any]:
        cursor, found = every.cursor(), []
        with heavy():
            for project, run in every.only_readable(body.refs):
                read = every.reader(project, run)
                for path in body.paths:
                    try:
                        drawing = read.drawing(
                            path,
                            body.px,
                            chosen,
                            x=body.x,
                            window=body.window,
                            log_x=body.log_x,
                            log_y=body.log_y,
                        )
                    except RunNotFoundError:  # gone since it was listed
                        break
                    if len(drawing.curve) or drawing.left_out:
                        one = {"project": project, "run": run, "path": path, "drawing": drawing}
                        found.append(one)
        return {"curves": found, "cursor": str(cursor)}

    return every.answer(make)
