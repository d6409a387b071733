"""What is drawn: many series of many runs in one answer; see `seamark.server.routes`."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from seamark.reading.curves import Look
from seamark.reading.drawn import curves_of_runs
from seamark.server.answering import attempt_of, heavy
from seamark.server.failures import Refusal
from seamark.server.models import answers
from seamark.server.routes.reads import MOST_PARTS
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
    low: float | None = None
    high: float | None = None
    window: float | None = None
    half_life: float | None = None
    log_x: bool = False
    log_y: bool = False
    width: float = 0.0
    since: Annotated[list[tuple[Text, Text, Text, Text]], Field(max_length=_MOST_SERIES)] = []

    def look(self) -> Look:
        """Return how the series are drawn."""
        given = self.model_dump(include=_OF_LOOK)
        look = Look(points=self.px, **given)
        look.check()
        return look


_OF_LOOK: Final = {one.name for one in fields(Look)} & set(_CurvesBody.model_fields)


@router.post("/curves", operation_id="readCurves", responses=answers("curves"))
def curves(every: All, body: _CurvesBody) -> Response:
    """Return series of several runs in parts, as they are drawn; those without points are left out.

    What is read grows with ``px``, the representative points of each, and not with the points.
    ``since`` names earlier drawings ([project, run, path, cursor]): of these only what has changed
    comes.
    """
    chosen: Any = attempt_of(str(body.attempt))
    look = body.look()
    cursors = {(project, run, path): cursor for project, run, path, cursor in body.since}
    asked = len(body.refs) * len(body.paths)
    most = min(_MOST_SERIES, max(1, MOST_PARTS * 4 // body.px))
    if asked > most:
        hint = f"{asked:,} series are too many at a time: ask for at most {most} of so many px"
        raise Refusal(413, "too-many-series", hint, limit=most)

    def make() -> dict[str, Any]:
        cursor, refs = every.cursor(), every.only_readable(body.refs)
        with heavy():
            found = curves_of_runs(refs, every.reader, body.paths, look, chosen, cursors)
        return {"curves": found, "cursor": cursor}

    return every.answer(make)
