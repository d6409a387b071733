"""The ops of a journal that are about files, read without decoding everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seamark.journal._format import Kind
from seamark.journal.reader import payload_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seamark.journal.reader import JournalReader

__all__ = ["op_payloads"]


def op_payloads(reader: JournalReader, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (time in nanoseconds since epoch, payload) of the ops from an offset on, in bytes."""
    for block in reader.blocks(offset):
        for frame in block.frames:
            if frame[1] == Kind.OP:
                try:
                    yield frame[4], payload_of(block.data, frame)
                except ValueError:  # does not decompress; whoever folds it will say so
                    continue
