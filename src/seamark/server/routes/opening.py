"""Data for a process that continues a run of which it has no local journals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Response

from seamark.journal.marks import Link, ends_of
from seamark.journal.reader import JournalReader
from seamark.server.answering import OneRun, heavy, one_run
from seamark.server.models import answers

if TYPE_CHECKING:
    from seamark.reading.attributes import JournalInfo
    from seamark.store.read.series import Sources

__all__ = ["router"]

router: Final = APIRouter(prefix="/runs/{project:path}/{run}", tags=["run"])

_TOLD: Final = ("attempt", "owner", "lineage", "rank", "restarts", "job", "continues", "ranks")
"""What of a HEADER matters to who goes on; the rest says where somebody else works."""
_MOST_NAME: Final = 100
_MOST_MARK: Final = (1 << 53) - 1


@router.get("/opening", operation_id="getOpening", responses=answers("opening"))
def opening(
    one: Annotated[OneRun, Depends(one_run)],
    saver: Annotated[str | None, Query(max_length=_MOST_NAME)] = None,
    mark: Annotated[int, Query(ge=0, le=_MOST_MARK)] = 0,
) -> Response:
    """Return what has to be known before a run is gone on with.

    The largest time of a record (nanoseconds since the Unix epoch), the headers of its journals
    and how many bytes of each are kept, the family of every path, the last step of every series,
    and which series of numbers are of its training, not only of an evaluation. For a checkpoint,
    which the id of its ``saver`` and the number of its ``mark`` name, also how far the journals
    belong to it: bytes by writer, null for all of a journal.
    """

    def make() -> dict[str, Any]:
        with heavy():
            journals, found = one.read.journals(), one.read.attributes()
            ends = {} if saver is None else ends_of(_links(one, journals), saver, mark)
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
            "ends": ends,
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


def _links(one: OneRun, journals: list[JournalInfo]) -> Iterator[Link]:
    open_ = one.sources(one.project, one.run)
    for each in journals:
        yield Link(
            each.writer,
            each.header.get("attempt"),
            each.header.get("continues"),
            partial(_reader, open_, each.file),
        )


def _reader(open_: Sources, file: str) -> JournalReader:
    return JournalReader(open_(file))


def _last_step(value: Any) -> float | None:
    step = getattr(value, "last_step", None)
    return float(step) if isinstance(step, (int, float)) and math.isfinite(step) else None
