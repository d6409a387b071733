"""Recording of one output stream: its text is collapsed, limited, masked and written in points."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seamark.capture.output.framing import FRAME_BYTES, cut, size_of, unfinished_from
from seamark.capture.output.hiding import Hiding
from seamark.capture.output.limit import Allowance, Limit
from seamark.pictures.terminal import collapse

if TYPE_CHECKING:
    from seamark.capture.output.source import Source
    from seamark.capture.part import Recorder
    from seamark.capture.secrets import Secrets

__all__ = ["Recording"]

_TELL_S: Final = 60.0
"""How long to wait before the number of bytes that are left out is told again, in seconds."""


class Recording:
    """Records what one source gives. Everything but `path` belongs to one thread at a time.

    Args:
        run: Where it is recorded.
        path: Of the series.
        source: What gives the text.
        limit: How much is recorded.
        secrets: What is hidden.
        clock: Seconds, never stepping back.

    Attributes:
        path: Of the series.
        source: What gives the text.
        left_out: Bytes that were not recorded so far.
        holds: Whether the beginning of a known value waits for the rest of it: for one period.
    """

    def __init__(
        self,
        run: Recorder,
        path: str,
        source: Source,
        *,
        limit: Limit,
        secrets: Secrets,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.source = source
        self.left_out = 0
        self.holds = False
        self._run = run
        self._clock = clock
        self._allowance = Allowance(limit)
        self._hiding = Hiding(secrets)
        self._held = ""
        self._lost = 0
        self._gap: int | None = None
        self._told = (0, float("-inf"))
        self._broken: str | None = None
        self._in_line = False

    @property
    def hungry(self) -> bool:
        """Whether more could be recorded now."""
        return self._gap is None

    def record(self, new: str) -> None:
        """Record what the source gave; nothing, where what is held back has waited long enough."""
        text = self._held + new
        whole = unfinished_from(text)
        if new and whole == len(text):
            # What nothing was added to is no value that is being printed.
            whole = self._hiding.open_value_start(text)
        self.holds = whole < len(text) and bool(new)
        self._held = text[whole:]
        self._keep(text[:whole])

    def settle(self) -> None:
        """Say what is missing after what was recorded."""
        self._miss()
        broken, self._broken = self._broken, self.source.broken
        if self._broken is not None and broken is None:
            self._end_gap()
            self._append(f"{self._new_line}[seamark: not recorded from here: {self._broken}]\n")

    def finish(self) -> None:
        """Stop the source and record the rest; the recording may be continued later."""
        text, self._held, self.holds = self._held + self.source.stop(), "", False
        self._keep(text)
        self._miss()
        self._end_gap()
        self._record_omitted(at_once=True)

    def _keep(self, text: str) -> None:
        text = collapse(text)
        while text:
            left = self._allowance.left(self._clock())
            taken = cut(text, FRAME_BYTES if left is None else min(left, FRAME_BYTES))
            is_last = left is not None and left < FRAME_BYTES and taken < len(text)
            if not taken or (is_last and text[taken - 1] != "\n"):  # whole lines are easier to read
                self._allowance.end()
                self._count_omitted(size_of(text), f"more than {self._allowance.why}")
                break
            if taken < len(text):  # a value is not cut in two
                taken = self._hiding.open_value_start(text[:taken]) or taken
            self._end_gap()
            self._allowance.spend(size_of(text[:taken]))
            self._append(text[:taken])
            text = text[taken:]

    def _miss(self) -> None:
        """Count what the source had to leave out."""
        lost, self._lost = self.source.lost - self._lost, self.source.lost
        if lost:
            self._count_omitted(lost, "printed faster than it could be recorded")
        self._record_omitted()

    def _append(self, text: str) -> None:
        self._in_line = not text.endswith("\n")
        kept = self._hiding.hide(text)
        if kept:
            self._run.append_text(self.path, kept)
        if kept != text:
            self._run.note_masked([self.path])

    # ---------------------------------------------------------------- what is left out

    def _count_omitted(self, count: int, why: str) -> None:
        """Count bytes; say so where the first of them would stand."""
        if self._gap is None:
            self._gap = 0
            self._append(f"{self._new_line}[seamark: {why}; left out here: ")
        self._gap += count
        self.left_out += count

    @property
    def _new_line(self) -> str:
        return "\n" if self._in_line else ""

    def _end_gap(self) -> None:
        """Say how much is left out, as soon as something is recorded again."""
        if self._gap is not None:
            gap, self._gap = self._gap, None
            self._append(f"{gap:,} bytes]\n")

    def _record_omitted(self, *, at_once: bool = False) -> None:
        """Record how much is left out: when it begins, and from time to time."""
        (told, at), now = self._told, self._clock()
        if told != self.left_out and (at_once or now >= at + _TELL_S):
            self._told = (self.left_out, now)
            self._run.assign_quietly({f"{self.path}_left_out": self.left_out})
