"""Where in each journal that ends what belongs to a checkpoint.

A framework may save in the middle of a step, and ranks do not save at the same moment. So each
process that takes part says with a *mark* when the last record was made that belongs to what the
checkpoint holds. Marks are numbered from 1 on; every rank of a training counts alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.journal.format import Kind
from seamark.journal.headers import header_of
from seamark.journal.reader import JournalReader, decode_json

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["mark_op", "marked_positions"]

_BEGIN = b'{"op":"checkpoint","mark":'


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
        mark: Its number. A process of the same attempt that marks, and did not come to this one,
            had recorded nothing yet that came after the checkpoint. One that never marks took no
            part in it: its journals end where they were noted.
    """
    found = dict(noted)
    for chain in _chains(folder, saver):
        ends: dict[str, int] = {}
        marks = any(each.writer == saver for each in chain)
        for each in chain:
            with contextlib.suppress(OSError), JournalReader(each.path) as reader:
                end, seen = _look_for(reader, mark)
                ends[each.writer] = reader.size if end is None else end
                marks = marks or seen
                if end is not None:
                    break
        if marks:
            for each in chain:
                found.pop(each.writer, None)
            found |= ends
    return found


class _Link(NamedTuple):
    writer: str
    path: Any
    attempt: Any
    continues: str | None


def _chains(folder: RunFolder, saver: str) -> Iterator[list[_Link]]:
    """Yield the journals of each process of the attempt that a writer belongs to, oldest first."""
    links: dict[str, _Link] = {}
    for journal in folder.journals():
        with contextlib.suppress(OSError):
            told = header_of(journal.path)
            links[journal.writer] = _Link(
                journal.writer, journal.path, told.get("attempt"), told.get("continues")
            )
    if saver not in links:
        return
    here = {name: link for name, link in links.items() if link.attempt == links[saver].attempt}
    next_of = {link.continues: link for link in here.values()}
    for link in here.values():
        if link.continues not in here:
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
