"""Errors recorded by the processes of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import FileMissingError, SeamarkError
from seamark.reading.points import time_of
from seamark.reading.ranks import process_of

if TYPE_CHECKING:
    from seamark.reading.attributes import JournalInfo
    from seamark.reading.reader import Reader


ERRORS: Final = "errors"
"""Last segment of the paths at which processes record their errors."""
_SPACE: Final = "monitoring/"


@dataclass(frozen=True, slots=True)
class RecordedError:
    """Error recorded by a process of a run.

    Attributes:
        type: Class name, such as ``"ValueError"``.
        message: Message, with secrets masked.
        traceback: Traceback as printed by Python, with causes, secrets masked; None if not
            recorded.
        time: Time of recording, UTC.
        rank: 0-based rank of the process; None if unknown.
    """

    type: str
    message: str
    traceback: str | None
    time: datetime
    rank: int | None


def recorded_errors(view: Reader) -> list[RecordedError]:
    """Return the errors of a run, over all ranks and attempts, the oldest first.

    Errors of processes that only contributed to the run are left out.
    """
    journals = {one.writer: one for one in view.journals()}
    owners = {_run_object_key(one) for one in journals.values() if one.header.get("owner") is True}
    found: list[RecordedError] = []
    for path, family in view.families().items():
        if family != "string_series" or path.rpartition("/")[2] != ERRORS:
            continue
        journal = journals.get(path.removeprefix(_SPACE).rpartition("/")[0])
        if journal is None:  # a namespace chosen by the user, or a series of the user's own
            found += _read_errors(view, path, None, whole=True)
        elif _is_participant(journal, owners):
            rank = journal.header.get("rank")
            found += _read_errors(view, path, rank if type(rank) is int else None)
    return sorted(found, key=lambda one: one.time) or list(_error_of_state(view))


def _is_participant(journal: JournalInfo, owners: set[tuple[str, ...]]) -> bool:
    of_rank = bool(journal.header.get("rank")) and journal.header.get("attempt") is not None
    return of_rank or _run_object_key(journal) in owners


def _run_object_key(journal: JournalInfo) -> tuple[str, ...]:
    """Return the identity of a run object, shared by its copies and the run it resumes."""
    lineage = journal.header.get("lineage")
    return (repr(lineage),) if lineage else process_of(journal.header)


def _read_errors(
    view: Reader, path: str, rank: int | None, *, whole: bool = False
) -> Iterator[RecordedError]:
    for point in view.texts(path, attempt="all"):
        record = _load_record(view, point.text)
        if whole and not record.keys() >= {"type", "message"}:
            continue
        kind, message, trace = (record.get(key) for key in ("type", "message", "traceback"))
        yield RecordedError(
            type=str(kind or ""),
            message=str(message or ""),
            traceback=trace if isinstance(trace, str) else None,
            time=time_of(point.time_ns),
            rank=rank,
        )


def _load_record(view: Reader, text: str | Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        text = text if isinstance(text, str) else view.contents.text(text)
        found = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, SeamarkError) and not isinstance(error, FileMissingError):
            raise  # an unreachable server does not mean that the text is missing
        found = None
    return found if isinstance(found, dict) else {"message": text}


def _error_of_state(view: Reader) -> Iterator[RecordedError]:
    if view.state != "failed" or view.signal or not (reason := view.reason):
        return
    kind, _, message = reason.partition(": ")
    end = view.attribute("sys/end_time")
    trace = view.attribute(path) if (path := view.traceback) else None
    text = trace.value if trace is not None and isinstance(trace.value, str) else None
    if end is not None:
        yield RecordedError(kind, message, text, end.value, None)
