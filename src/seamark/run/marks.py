"""Marks: the ends of what belongs to checkpoints; see `seamark.journal.marks`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.journal.headers import header_of
from seamark.journal.marks import Link, ends_of
from seamark.journal.reader import JournalReader

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["mark_op", "marked_positions", "with_ends"]


def mark_op(number: int) -> dict[str, Any]:
    """Return the op that marks the end of what belongs to checkpoints."""
    return {"op": "checkpoint", "mark": number}


def marked_positions(
    folder: RunFolder, noted: Mapping[str, int], saver: str, mark: int
) -> dict[str, int]:
    """Return the positions up to which journals belong to what a checkpoint holds.

    Args:
        folder: The run.
        noted: {writer id: bytes} when it was saved.
        saver: Writer id of the journal of the process that saved it.
        mark: Its number.
    """
    links, sizes = [], {}
    for journal in folder.journals():
        with contextlib.suppress(OSError):
            told = header_of(journal.path)
            sizes[journal.writer] = journal.path.stat().st_size
            attempt, continues = told.get("attempt"), told.get("continues")
            open_ = partial(JournalReader, journal.path)
            links.append(Link(journal.writer, attempt, continues, open_))
    return with_ends(noted, ends_of(links, saver, mark), sizes)


def with_ends(
    noted: Mapping[str, int], ends: Mapping[str, int | None], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Return positions that were noted when a checkpoint was saved, as far as marks say it better.

    Args:
        noted: {writer id: bytes} when it was saved.
        ends: What `seamark.journal.marks.ends_of` returned.
        sizes: {writer id: bytes} now. What was noted may be more: a disk that lost its last writes
            to a power cut is shorter than it was, and who got them earlier has them still.
    """
    found = dict(noted)
    for writer, end in ends.items():
        if end is None:
            found[writer] = max(noted.get(writer, 0), sizes.get(writer, 0))
        elif end:
            found[writer] = end
        else:
            found.pop(writer, None)
    return found
