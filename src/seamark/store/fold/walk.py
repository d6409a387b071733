"""Frames of a journal by the thousand: found, checked and laid out as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from seamark.journal.reader import FrameList, RawFrame, scan

__all__ = ["BLOCK_BYTES", "Frames", "walk"]

Ints = np.ndarray[Any, np.dtype[np.int64]]

BLOCK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Whole valid frames of a stretch of a journal, in order, a column each.

    Attributes:
        place: Where the frame starts in the data, bytes, int64 (N,), as all of these.
        kind: See `seamark.journal._format.Kind`.
        flags: Flag bits.
        aux: Schema number of a row, else 0.
        t: Nanoseconds since the Unix epoch.
        length: Of the payload, bytes.
    """

    place: Ints
    kind: Ints
    flags: Ints
    aux: Ints
    t: Ints
    length: Ints

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.place)

    def kinds(self) -> set[int]:
        """Return the kinds that there are."""
        return set(np.unique(self.kind).tolist())

    def raw(self, index: int) -> RawFrame:
        """Return one frame."""
        return (
            int(self.place[index]),
            int(self.kind[index]),
            int(self.flags[index]),
            int(self.aux[index]),
            int(self.t[index]),
            int(self.length[index]),
        )

    def part(self, start: int, end: int) -> Frames:
        """Return some frames that stand side by side."""
        here = slice(start, end)
        return Frames(
            self.place[here],
            self.kind[here],
            self.flags[here],
            self.aux[here],
            self.t[here],
            self.length[here],
        )

    def upto(self, count: int) -> Frames:
        """Return the first frames."""
        return self.part(0, count)

    def between(self, start: int, end: int) -> Frames:
        """Return the frames that start at or after one place and before another, bytes."""
        first, last = np.searchsorted(self.place, [start, end]).tolist()
        return self if (first, last) == (0, len(self)) else self.part(first, last)

    def shapes(self, which: Ints) -> Ints:
        """Return one number for each of these frames, equal for rows that can be read alike."""
        return self.aux[which] | self.flags[which] << 32 | self.length[which] << 40

    @classmethod
    def of(cls, frames: list[RawFrame]) -> Frames:
        """Return frames as columns."""
        table = np.array(frames, np.int64).reshape(-1, 6)
        return cls(*(table[:, column] for column in range(6)))


def walk(data: bytes, salt: int) -> tuple[Frames, int, bool]:
    """Return the valid frames of bytes that start at a frame; see `seamark.journal.reader.scan`."""
    frames = FrameList()
    stop, bad = scan(data, salt, frames)
    return Frames.of(frames), stop, bad
