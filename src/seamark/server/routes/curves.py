"""Curves of series of many runs in one answer; see `seamark.server.reads`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from seamark.reading.codec import Curves
from seamark.reading.curves import MOST_PARTS, Look, RunCurve
from seamark.reading.groups import GroupCurve, curves_of_runs
from seamark.reading.groups import group_curves as curves_of_groups
from seamark.reading.points import Attempt
from seamark.reading.reader import Question
from seamark.server.answering import Several
from seamark.server.failures import Refusal
from seamark.server.reads import of_all
from seamark.server.routes.tables import Ref, Text

_MAX_PX: Final = 8192
_MAX_SERIES: Final = 400

Refs = Annotated[list[Ref], Meta(max_length=_MAX_SERIES)]


class LookQuestion(Question, kw_only=True):
    """Series and the appearance of their curves; see `seamark.reading.curves.Look`."""

    paths: Annotated[list[Text], Meta(min_length=1, max_length=_MAX_SERIES)]
    px: Annotated[int, Meta(ge=2, le=_MAX_PX)] = 1000
    attempt: Attempt = "latest"
    x: Text = "step"
    low: float | None = None
    high: float | None = None
    window: float | None = None
    half_life: float | None = None
    log_x: bool = False
    log_y: bool = False

    def look(self, runs: int) -> Look:
        """Return the appearance of curves for a number of runs; refuse too many series (413)."""
        look = Look(points=self.px, **{name: getattr(self, name) for name in _LOOK_FIELDS})
        look.check()
        asked = runs * len(self.paths)
        most = min(_MAX_SERIES, max(1, MOST_PARTS * 4 // self.px))
        if asked > most:
            raise Refusal(
                413,
                "too-many-series",
                f"{asked:,} series are too many: request at most {most} with this px",
                limit=most,
            )
        return look


Since = Annotated[Sequence[tuple[Text, Text, Text, Text]], Meta(max_length=_MAX_SERIES)]


class Group(Struct, forbid_unknown_fields=True):
    """Group of runs with their common values."""

    refs: Refs
    by: Annotated[dict[Text, Any], Meta(max_length=8)] = {}


Groups = Annotated[list[Group], Meta(min_length=1, max_length=_MAX_SERIES)]
_LOOK_FIELDS: Final = {one.name for one in fields(Look)} & set(LookQuestion.__struct_fields__)


@of_all(LookQuestion, heavy=True)
def curves(every: Several, refs: Refs, since: Since = ()) -> Curves:
    """Return the curves of series of several runs in parts, without empty series.

    The cost grows with ``px``, the number of representative points of each curve, and not with the
    points. For curves in ``since`` (project, run, path and cursor), only changes are returned.
    """
    question, look = every.question, every.question.look(len(refs))
    known = {(project, run, path): cursor for project, run, path, cursor in since}
    cursor, readable = every.cursor(), every.only_readable(refs)
    every.server.prioritize(readable)
    found = curves_of_runs(readable, every.server.reader, question.paths, look, question.attempt)
    told = [
        replace(one, drawing=one.drawing.since(known.get(one.key, "")), cursor=one.drawing.cursor)
        for one in found
    ]
    return Curves(told, cursor)


@of_all(LookQuestion, heavy=True)
def group_curves(every: Several, groups: Groups) -> list[GroupCurve]:
    """Return mean, deviation and range of series over groups of runs, in parts.

    ``by`` of a group has the common values of its runs from ``groups``, and is returned unchanged.
    """
    question, runs = every.question, {tuple(ref) for group in groups for ref in group.refs}
    look = question.look(len(runs))

    def draw(
        refs: Sequence[tuple[str, str]], paths: Sequence[str], look: Look
    ) -> Sequence[RunCurve]:
        return curves_of_runs(refs, every.server.reader, paths, look, question.attempt)

    meant = [(group.by, every.only_readable(group.refs)) for group in groups]
    every.server.prioritize(ref for _, some in meant for ref in some)
    return curves_of_groups(draw, meant, question.paths, look)
