"""Checkpoint marks: how much of each journal of a run belongs to a checkpoint.

A framework may save in the middle of a step, and ranks do not save at the same moment. So each
process that takes part writes a *mark* behind the last record that belongs to the checkpoint. Marks
are numbered from 1 on; every rank of a training counts alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.journal.format import Kind
from seamark.journal.headers import header_of
from seamark.journal.reader import JournalReader, decode_json

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["mark_op", "marked_positions"]

_BEGIN: Final = b'{"op":"checkpoint","mark":'


class _Link(NamedTuple):
    """Journal of a run: writer id, attempt, writer id of the journal that it continues, file."""

    writer: str
    attempt: Any
    continues: Any
    path: Path


def mark_op(number: int) -> dict[str, Any]:
    """Return the op that marks the end of what belongs to checkpoints."""
    return {"op": "checkpoint", "mark": number}


def marked_positions(
    folder: RunFolder, noted: Mapping[str, int], saver: str, mark: int
) -> dict[str, int]:
    """Return the positions up to which journals belong to what a checkpoint holds.

    A process of the same attempt that marks, and did not come to this one, had recorded nothing
    yet that came after the checkpoint. One that never marks took no part in it: its journals keep
    the positions that were noted.

    Args:
        folder: The run.
        noted: {writer id: bytes} when it was saved.
        saver: Writer id of the journal of the process that saved it.
        mark: Its number.
    """
    found, sizes = dict(noted), folder.sizes()
    for chain in _chains(_links(folder), saver):
        for writer, end in _ends_in(chain, saver, mark).items():
            if end is None:  # more was noted if a power cut cost this disk its last writes
                found[writer] = max(noted.get(writer, 0), sizes.get(writer, 0))
            elif end:
                found[writer] = end
            else:
                found.pop(writer, None)
    return found


def _links(folder: RunFolder) -> Iterator[_Link]:
    for journal in folder.journals():
        with contextlib.suppress(OSError):
            told = header_of(journal.path)
            yield _Link(journal.writer, told.get("attempt"), told.get("continues"), journal.path)


def _ends_in(chain: Iterable[_Link], saver: str, mark: int) -> dict[str, int | None]:
    """Return the ends of what belongs to a checkpoint in the journals of a process that marks.

    Returns:
        Bytes by writer id: None where all of a journal belongs to it, 0 where nothing does; empty
        if the process never marks.
    """
    ends: dict[str, int | None] = {}
    marks = behind = False
    for each in chain:
        marks = marks or each.writer == saver
        if behind:
            ends[each.writer] = 0
            continue
        with contextlib.suppress(OSError), JournalReader(each.path) as reader:
            ends[each.writer], seen = _look_for(reader, mark)
            marks = marks or seen
            behind = ends[each.writer] is not None
    return ends if marks else {}


def _chains(links: Iterable[_Link], saver: str) -> Iterator[list[_Link]]:
    """Yield the journals of each process of the attempt that a writer belongs to, oldest first."""
    known = {link.writer: link for link in links}
    if saver not in known:
        return
    here = {name: link for name, link in known.items() if link.attempt == known[saver].attempt}
    next_of = {link.continues: link for link in here.values() if isinstance(link.continues, str)}
    for link in here.values():
        if not isinstance(link.continues, str) or link.continues not in here:
            chain = [link]
            while (following := next_of.get(chain[-1].writer)) is not None:
                chain.append(following)
            yield chain


def _look_for(reader: JournalReader, mark: int) -> tuple[int | None, bool]:
    """Return where a mark ends, or None, and whether there is any mark up to it."""
    for frame in reader.frames_that_begin(_BEGIN):
        if frame.kind != Kind.OP:
            continue
        with contextlib.suppress(ValueError):
            number = decode_json(frame.payload).get("mark")
            if isinstance(number, int) and number <= mark:
                return (frame.end if number == mark else None), True
    return None, False
