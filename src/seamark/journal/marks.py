"""Checkpoint marks: how much of each journal of a run belongs to a checkpoint.

A framework may save in the middle of a step, and ranks do not save at the same moment. So each
process that takes part writes a *mark* behind the last record that belongs to what the checkpoint
holds. Marks are numbered from 1 on; every rank of a training counts alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader, decode_json

__all__ = ["Link", "ends_of"]

_BEGIN: Final = b'{"op":"checkpoint","mark":'


class Link(NamedTuple):
    """Journal of a run, with the journal that it continues.

    Attributes:
        writer: Writer id.
        attempt: Attempt that its header names.
        continues: Writer id of the journal that it continues.
        open: Function that opens it.
    """

    writer: str
    attempt: Any
    continues: Any
    open: Callable[[], JournalReader]


def ends_of(links: Iterable[Link], saver: str, mark: int) -> dict[str, int | None]:
    """Return how far the journals belong to a checkpoint of those processes that mark.

    A process of the same attempt that marks, and did not come to this one, had recorded nothing
    yet that came after the checkpoint. One that never marks took no part in it: its journals are
    not in what is returned.

    Args:
        links: The journals of the run.
        saver: Writer id of the journal of the process that saved it.
        mark: Number of the mark.

    Returns:
        Bytes by writer id: None where all of a journal belongs to it, 0 where nothing does.
    """
    found: dict[str, int | None] = {}
    for chain in _chains(links, saver):
        ends: dict[str, int | None] = {}
        marks = any(each.writer == saver for each in chain)
        behind = False
        for each in chain:
            if behind:
                ends[each.writer] = 0
                continue
            with contextlib.suppress(OSError), each.open() as reader:
                ends[each.writer], seen = _look_for(reader, mark)
                marks = marks or seen
                behind = ends[each.writer] is not None
        if marks:
            found |= ends
    return found


def _chains(links: Iterable[Link], saver: str) -> Iterator[list[Link]]:
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
