"""Curves to draw: many series of many runs in one answer; see `seamark.server.routes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Final

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from seamark.reading.curves import Look, RunCurve
from seamark.reading.drawn import curves_of_runs, group_curves
from seamark.server.answering import attempt_of, heavy
from seamark.server.failures import Refusal
from seamark.server.models import answers
from seamark.server.routes.reads import MOST_PARTS
from seamark.server.routes.tables import All, Ref, Text  # noqa: TC001 - FastAPI asks for them

__all__ = ["router"]

router: Final = APIRouter(tags=["runs"])
_MOST_PX: Final = 8192
_MOST_SERIES: Final = 400


class _LookBody(BaseModel):
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

    def look(self, runs: int) -> Look:
        """Return how the series of so many runs are drawn.

        Raises:
            ArgumentError: If they cannot be drawn so.
            Refusal: 413 if they are too many at a time.
        """
        given = self.model_dump(include=_OF_LOOK)
        look = Look(points=self.px, **given)
        look.check()
        asked = runs * len(self.paths)
        most = min(_MOST_SERIES, max(1, MOST_PARTS * 4 // self.px))
        if asked > most:
            hint = f"{asked:,} series are too many at a time: ask for at most {most} of so many px"
            raise Refusal(413, "too-many-series", hint, limit=most)
        return look


class _CurvesBody(_LookBody):
    refs: Annotated[list[Ref], Field(max_length=_MOST_SERIES)]
    since: Annotated[list[tuple[Text, Text, Text, Text]], Field(max_length=_MOST_SERIES)] = []


class _Group(BaseModel):
    refs: Annotated[list[Ref], Field(max_length=_MOST_SERIES)]
    by: Annotated[dict[Text, Any], Field(max_length=8)] = {}


class _GroupsBody(_LookBody):
    groups: Annotated[list[_Group], Field(min_length=1, max_length=_MOST_SERIES)]


_OF_LOOK: Final = {one.name for one in fields(Look)} & set(_LookBody.model_fields)


@router.post("/curves", operation_id="readCurves", responses=answers("curves"))
def curves(every: All, body: _CurvesBody) -> Response:
    """Return series of several runs in parts, as they are drawn; those without points are left out.

    What is read grows with ``px``, the representative points of each, and not with the points.
    ``since`` names earlier drawings ([project, run, path, cursor]): of these only what has changed
    comes.
    """
    chosen: Any = attempt_of(str(body.attempt))
    look = body.look(len(body.refs))
    known = {(project, run, path): cursor for project, run, path, cursor in body.since}

    def make() -> dict[str, Any]:
        cursor, refs = every.cursor(), every.only_readable(body.refs)
        every.server.drawn(refs)
        with heavy():
            found = curves_of_runs(refs, every.reader, body.paths, look, chosen)
        told = [
            replace(
                one, drawing=one.drawing.since(known.get(one.key, "")), cursor=one.drawing.cursor
            )
            for one in found
        ]
        return {"curves": told, "cursor": cursor}

    return every.answer(make)


@router.post("/curves/groups", operation_id="readGroupCurves", responses=answers("group-curves"))
def groups(every: All, body: _GroupsBody) -> Response:
    """Return what series of groups of runs come to: mean, deviation and range, part by part.

    ``by`` of a group is what its runs have in common, as ``runs/groups`` told it, and comes back.
    """
    chosen: Any = attempt_of(str(body.attempt))
    refs = {tuple(ref) for group in body.groups for ref in group.refs}
    look = body.look(len(refs))

    def draw(
        refs: Sequence[tuple[str, str]], paths: Sequence[str], look: Look
    ) -> Sequence[RunCurve]:
        return curves_of_runs(refs, every.reader, paths, look, chosen)

    def make() -> dict[str, Any]:
        meant = [(group.by, every.only_readable(group.refs)) for group in body.groups]
        every.server.drawn(ref for _, some in meant for ref in some)
        with heavy():
            return {"groups": group_curves(draw, meant, body.paths, look)}

    return every.answer(make)
