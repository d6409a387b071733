"""Recording of the output of one stream, within its limit."""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable
from typing import Final

from seamark.capture.output.hiding import hide, unfinished_secret_from
from seamark.capture.output.source import FRAME_BYTES, Source, size_of
from seamark.capture.part import Recorder
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Limit
from seamark.pictures.terminal import collapse

_MAX_ESCAPE_CHARS: Final = 1 << 9
# Characters before a piece of a line, and at its start, that are searched together for secrets.
_MAX_LINE_CHARS: Final = 1 << 8
_MAX_FIRST_CHARS: Final = 1 << 12
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z", re.DOTALL
)


def unfinished_from(text: str) -> int:
    """Return the start of an incomplete escape sequence at the end of a text, or the length.

    A sequence of more than 512 characters is treated as text.
    """
    found = _UNFINISHED.search(text, max(0, len(text) - _MAX_ESCAPE_CHARS))
    return len(text) if found is None else found.start()


def cut(text: str, most: int) -> int:
    """Return the number of characters of a text to take for at most ``most`` bytes.

    These are all characters, or those up to the end of the last line that fits, or else a part of a
    long line. Characters and escape sequences of terminals are not split. May be 0.
    """
    if len(text) <= most and size_of(text) <= most:
        return len(text)
    start = text[:most].encode("utf-8", "surrogatepass")[:most]
    # Leaves out an incomplete character at the end.
    fits = len(codecs.getincrementaldecoder("utf-8")("surrogatepass").decode(start))
    if (end := text.rfind("\n", 0, fits) + 1) > 0:
        return end
    return unfinished_from(text[:fits]) or fits


# Interval between two records of the number of omitted bytes, in seconds.
_COUNT_INTERVAL_S: Final = 60.0


_TOO_FAST: Final = "printed faster than it could be recorded"
_MINUTE_S: Final = 60.0
_PER_MINUTE: Final = "in one minute"
_TOTAL: Final = "in total"


class Allowance:
    """Remaining number of bytes that may be recorded from one stream."""

    def __init__(self, limit: Limit) -> None:
        limits = {_TOTAL: limit.total, _PER_MINUTE: limit.per_minute}
        self._limits = {kind: most for kind, most in limits.items() if most is not None}
        self._remaining = dict(self._limits)
        self._until = float("-inf")

    def remaining(self, now: float) -> int | None:
        """Return the bytes that may be recorded at ``now`` (seconds); None is no limit."""
        if now >= self._until:
            self._until = now + _MINUTE_S
            if _PER_MINUTE in self._remaining:
                self._remaining[_PER_MINUTE] = self._limits[_PER_MINUTE]
        return min(self._remaining.values(), default=None)

    def spend(self, count: int) -> None:
        """Subtract recorded bytes."""
        for kind in self._remaining:
            self._remaining[kind] -= count

    def end(self) -> str:
        """Use up the tighter limit, because the next text did not fit.

        Return its description, such as ``"1 MiB in one minute"``.
        """
        kind = min(self._remaining, key=self._remaining.__getitem__)
        self._remaining[kind] = 0
        return f"{_format_size(self._limits[kind])} {kind}"


def _format_size(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count:,} bytes"


class Recording:
    """Recorder of the output of one source, for use by one thread.

    Attributes:
        until: Time on the clock after which text is only counted.
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
        self.until = float("inf")
        self._run = run
        self._clock = clock
        self._allowance = Allowance(limit)
        self._secrets = secrets
        self._held = ""
        self._lost = 0
        self._gap: int | None = None
        self._recorded_count = (0, float("-inf"))
        self._broken: str | None = None
        self._line = ""
        self._in_line = False

    @property
    def may_record(self) -> bool:
        """Whether more text may be recorded now."""
        return self._gap is None

    def record(self, new: str) -> None:
        """Record output of the source; an empty text records the text that was held back."""
        text = self._held + new
        if not text:
            return
        whole = unfinished_secret_from(text, self._secrets, is_quiet=not new)
        whole = min(whole, unfinished_from(text))
        self._held = text[whole:]
        self._record_text(text[:whole])

    def settle(self) -> None:
        """Record the number of missing bytes after the recorded output."""
        self._count_lost()
        broken, self._broken = self._broken, self.source.broken
        if self._broken is not None and broken is None:
            self._end_gap()
            self._append(f"{self._new_line}[seamark: not recorded from here: {self._broken}]\n")

    def finish(self) -> None:
        """Stop the source and record the rest; the recording may be continued later."""
        text, self._held = self._held + self.source.stop(), ""
        self._record_text(text)
        self._count_lost()
        self._end_gap()
        self._record_omitted(at_once=True)
        self.until = float("inf")

    def _record_text(self, text: str) -> None:
        text = collapse(text)
        while text:
            if (now := self._clock()) >= self.until:
                self._count_omitted(size_of(text), _TOO_FAST)
                break
            remaining = self._allowance.remaining(now)
            taken = cut(text, FRAME_BYTES if remaining is None else min(remaining, FRAME_BYTES))
            is_last = remaining is not None and remaining < FRAME_BYTES and taken < len(text)
            if not taken or (is_last and text[taken - 1] != "\n"):  # prefer whole lines
                self._count_omitted(size_of(text), f"more than {self._allowance.end()}")
                break
            if taken < len(text):  # do not split a value
                taken = unfinished_secret_from(text[:taken], self._secrets) or taken
            self._end_gap()
            self._allowance.spend(size_of(text[:taken]))
            self._append(text[:taken])
            text = text[taken:]

    def _count_lost(self) -> None:
        lost, self._lost = self.source.lost - self._lost, self.source.lost
        if lost:
            self._count_omitted(lost, _TOO_FAST)
        self._record_omitted()

    def _append(self, text: str) -> None:
        masked = hide(text, self._secrets)
        if self._line:  # a name and its value may arrive in two pieces
            first = masked.partition("\n")[0][:_MAX_FIRST_CHARS]
            before = hide(self._line, self._secrets)
            hidden = hide(self._line + first, self._secrets)
            if hidden.startswith(before):
                masked = hidden[len(before) :] + masked[len(first) :]
        self._in_line = not text.endswith("\n")
        self._line = re.split(r"[\r\n]", self._line + text)[-1][-_MAX_LINE_CHARS:]
        if masked:
            self._run.append_text(self.path, masked)
        if masked != text:
            self._run.note_masked([self.path])

    # ---------------------------------------------------------------- omitted text

    def _count_omitted(self, count: int, why: str) -> None:
        # Record a note in place of the first omitted byte.
        if self._gap is None:
            self._gap = 0
            self._append(f"{self._new_line}[seamark: {why}; left out here: ")
        self._gap += count
        self.left_out += count

    @property
    def _new_line(self) -> str:
        return "\n" if self._in_line else ""

    def _end_gap(self) -> None:
        # Called when text is recorded again.
        if self._gap is not None:
            gap, self._gap = self._gap, None
            self._append(f"{gap:,} bytes]\n")

    def _record_omitted(self, *, at_once: bool = False) -> None:
        # At the first omission, and then at intervals.
        (recorded, at), now = self._recorded_count, self._clock()
        if recorded != self.left_out and (at_once or now >= at + _COUNT_INTERVAL_S):
            self._recorded_count = (self.left_out, now)
            self._run.assign_quietly({f"{self.path}_left_out": self.left_out})
