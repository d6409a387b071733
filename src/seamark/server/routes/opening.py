"""Data for a process that continues a run of which it has no local journals."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response

from seamark.server.answering import OneRun, heavy, one_run
from seamark.server.models import answers

__all__ = ["router"]

router: Final = APIRouter(prefix="/runs/{project:path}/{run}", tags=["run"])

_TOLD: Final = ("attempt", "owner", "lineage", "rank", "restarts", "job", "continues", "ranks")
"""What of a HEADER matters to who goes on; the rest says where somebody else works."""


@router.get("/opening", operation_id="getOpening", responses=answers("opening"))
def opening(one: Annotated[OneRun, Depends(one_run)]) -> Response:
    """Return what has to be known before a run is gone on with.

    The largest time of a record (nanoseconds since the Unix epoch), the headers of its journals
    and how many bytes of each are kept, the family of every path, the last step of every series,
    and which series of numbers are of its training, not only of an evaluation.
    """

    def make() -> dict[str, Any]:
        with heavy():
            journals, found = one.read.journals(), one.read.attributes()
            training, writers = one.read.training(), one.read.series_writers()
        return {
            "largest_t": max((journal.last_t for journal in journals), default=0),
            "journals": {
                journal.writer: {
                    **{key: journal.header.get(key) for key in _TOLD},
                    "bytes": journal.offset,
                }
                for journal in journals
            },
            "families": {each.path: each.family for each in found},
            "last_steps": {
                each.path: step for each in found if (step := _last_step(each.value)) is not None
            },
            "trained": sorted(
                path for path, own in writers.items() if not training.isdisjoint(own)
            ),
            "failed": one.read.has_failed(),
            "resumable": one.read.is_resumable(),
        }

    return one.answer(make)


def _last_step(value: Any) -> float | None:
    step = getattr(value, "last_step", None)
    return float(step) if isinstance(step, (int, float)) and math.isfinite(step) else None
