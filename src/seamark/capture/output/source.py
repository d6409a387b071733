"""Base class of the sources from which the text of a stream is taken."""

from __future__ import annotations

import itertools
from typing import Final

__all__ = ["ORDER", "Source"]

ORDER: Final = itertools.count(1)
"""Numbers that rise from write to write of all streams of the process."""


class Source:
    """Source of the text written to standard output or standard error, from `start` to `stop`.

    `start` is called by the thread that starts the run, everything else by the thread that records.

    Attributes:
        polled: Whether it has to be polled, because it cannot ring the bell.
        lost: Number of bytes so far that could not be held until they were taken.
    """

    polled = True
    lost = 0

    def start(self) -> None:
        """Begin; called again after `stop` where the run goes on."""
        raise NotImplementedError

    def take(self) -> str:
        """Return what is new."""
        raise NotImplementedError

    def pieces(self, before: int) -> list[tuple[int, str]]:
        """Return what is new in pieces, in the order in which they were written.

        Args:
            before: A number of `ORDER`; what was written after it may be left for the next time.

        Returns:
            Each with a number of `ORDER`, which tells what was written to another stream before. A
            source that cannot know it says that it came last.
        """
        text = self.take()
        return [(before, text)] if text else []

    def settle(self, deadline: float) -> None:
        """Wait until what was written can be taken.

        Args:
            deadline: Until when to wait at most, as `time.monotonic` gives it.
        """

    def stop(self) -> str:
        """End, and return the rest."""
        raise NotImplementedError

    @property
    def waiting(self) -> bool:
        """Whether there is something to take; answered at once."""
        return False

    @property
    def full(self) -> bool:
        """Whether so much waits that it should be taken before its time."""
        return False

    @property
    def broken(self) -> str | None:
        """Reason, in words, why nothing more can be taken; None as long as something may be."""
        return None
