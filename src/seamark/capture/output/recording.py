"""Recording of printed text: one thread for all streams and runs of a process."""

from __future__ import annotations

import codecs
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from seamark.capture.output.hiding import hide, unfinished_secret_from
from seamark.capture.output.source import FRAME_BYTES, WRITTEN, size_of
from seamark.pictures.terminal import collapse
from seamark.process import fork

if TYPE_CHECKING:
    from seamark.capture.output.source import Source
    from seamark.capture.part import Recorder
    from seamark.capture.secrets import Secrets
    from seamark.capture.switches import Limit

__all__ = [
    "GATHERING",
    "Recording",
    "cut",
    "unfinished_from",
]

_T = TypeVar("_T")

log = logging.getLogger("seamark")

_MAX_WORD: Final = 1 << 12
_MAX_ESCAPE: Final = 1 << 9
# Of a line that comes in pieces: how much before a piece, and at its start, is searched as one.
_MAX_LINE: Final = 1 << 8
_MAX_FIRST: Final = 1 << 12
_UNFINISHED: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z", re.DOTALL
)


def unfinished_from(text: str) -> int:
    """Return where the escape sequence begins that a text ends in the middle of; else its length.

    One that has not ended after 512 characters is taken for none.
    """
    found = _UNFINISHED.search(text, max(0, len(text) - _MAX_ESCAPE))
    return len(text) if found is None else found.start()


def cut(text: str, most: int) -> int:
    """Return how many characters of a text to take so that they have no more than ``most`` bytes.

    All of them, or those up to the end of the last line that fits, else of the last word of a long
    line; never a part of a character, or of an escape sequence of a terminal. May be 0.
    """
    if len(text) <= most and size_of(text) <= most:
        return len(text)
    fits = _fitting(text, most)
    if (end := text.rfind("\n", 0, fits) + 1) > 0:
        return end
    if (end := max(text.rfind(space, max(0, fits - _MAX_WORD), fits) for space in " \t\r") + 1) > 0:
        fits = end
    return unfinished_from(text[:fits]) or fits


def _fitting(text: str, most: int) -> int:
    start = text[:most].encode("utf-8", "surrogatepass")[:most]
    # Holds back a part of a character at the end.
    return len(codecs.getincrementaldecoder("utf-8")("surrogatepass").decode(start))


# How long to wait before the number of bytes that are left out is told again, in seconds.
_TELL_S: Final = 60.0


_TOO_FAST: Final = "printed faster than it could be recorded"
_MINUTE_S: Final = 60.0
_A_MINUTE: Final = "in one minute"
_IN_ALL: Final = "in all"


class Allowance:
    """Amount of output that may still be recorded of one stream."""

    def __init__(self, limit: Limit) -> None:
        limits = {_IN_ALL: limit.total, _A_MINUTE: limit.per_minute}
        self._limits = {kind: most for kind, most in limits.items() if most is not None}
        self._left = dict(self._limits)
        self._until = float("-inf")

    def left(self, now: float) -> int | None:
        """Return how many bytes may be recorded now, in seconds; None for any number."""
        if now >= self._until:
            self._until = now + _MINUTE_S
            if _A_MINUTE in self._left:
                self._left[_A_MINUTE] = self._limits[_A_MINUTE]
        return min(self._left.values(), default=None)

    def spend(self, count: int) -> None:
        """Take note of bytes that are recorded."""
        for kind in self._left:
            self._left[kind] -= count

    def end(self) -> str:
        """Use up the limit that has less left, because the next text did not fit.

        Return which one, such as ``"1 MiB in one minute"``.
        """
        kind = min(self._left, key=self._left.__getitem__)
        self._left[kind] = 0
        return f"{_shown(self._limits[kind])} {kind}"


def _shown(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count:,} bytes"


class Recording:
    """Records the output of one source. Everything but `path` belongs to one thread at a time.

    Attributes:
        holds: Whether something that may be part of a secret waits for the rest, for one period.
        until: Time, on the clock, after which text is only counted.
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
        self.until = float("inf")
        self._run = run
        self._clock = clock
        self._allowance = Allowance(limit)
        self._secrets = secrets
        self._held = ""
        self._lost = 0
        self._gap: int | None = None
        self._told = (0, float("-inf"))
        self._broken: str | None = None
        self._line = ""
        self._in_line = False

    @property
    def hungry(self) -> bool:
        """Whether more could be recorded now."""
        return self._gap is None

    def record(self, new: str) -> None:
        """Record output of the source; without output, text that was held back long enough."""
        text = self._held + new
        whole = unfinished_secret_from(text, self._secrets, is_quiet=not new)
        whole = min(whole, unfinished_from(text))
        self.holds = whole < len(text) and bool(new)
        self._held = text[whole:]
        self._keep(text[:whole])

    def settle(self) -> None:
        """Record the number of missing bytes after the recorded output."""
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
        self.until = float("inf")

    def _keep(self, text: str) -> None:
        text = collapse(text)
        while text:
            if (now := self._clock()) >= self.until:
                self._count_omitted(size_of(text), _TOO_FAST)
                break
            left = self._allowance.left(now)
            taken = cut(text, FRAME_BYTES if left is None else min(left, FRAME_BYTES))
            is_last = left is not None and left < FRAME_BYTES and taken < len(text)
            if not taken or (is_last and text[taken - 1] != "\n"):  # whole lines are easier to read
                self._count_omitted(size_of(text), f"more than {self._allowance.end()}")
                break
            if taken < len(text):  # a value is not cut in two
                taken = unfinished_secret_from(text[:taken], self._secrets) or taken
            self._end_gap()
            self._allowance.spend(size_of(text[:taken]))
            self._append(text[:taken])
            text = text[taken:]

    def _miss(self) -> None:
        lost, self._lost = self.source.lost - self._lost, self.source.lost
        if lost:
            self._count_omitted(lost, _TOO_FAST)
        self._record_omitted()

    def _append(self, text: str) -> None:
        kept = hide(text, self._secrets)
        if self._line:  # a name and its value may come with a pause between them, or within one
            first = kept.partition("\n")[0][:_MAX_FIRST]
            before = hide(self._line, self._secrets)
            hidden = hide(self._line + first, self._secrets)
            if hidden.startswith(before):
                kept = hidden[len(before) :] + kept[len(first) :]
        self._in_line = not text.endswith("\n")
        self._line = re.split(r"[\r\n]", self._line + text)[-1][-_MAX_LINE:]
        if kept:
            self._run.append_text(self.path, kept)
        if kept != text:
            self._run.note_masked([self.path])

    # ---------------------------------------------------------------- what is left out

    def _count_omitted(self, count: int, why: str) -> None:
        # Say so where the first of them would stand.
        if self._gap is None:
            self._gap = 0
            self._append(f"{self._new_line}[seamark: {why}; left out here: ")
        self._gap += count
        self.left_out += count

    @property
    def _new_line(self) -> str:
        return "\n" if self._in_line else ""

    def _end_gap(self) -> None:
        # As soon as something is recorded again.
        if self._gap is not None:
            gap, self._gap = self._gap, None
            self._append(f"{gap:,} bytes]\n")

    def _record_omitted(self, *, at_once: bool = False) -> None:
        # When it begins, and from time to time.
        (told, at), now = self._told, self._clock()
        if told != self.left_out and (at_once or now >= at + _TELL_S):
            self._told = (self.left_out, now)
            self._run.assign_quietly({f"{self.path}_left_out": self.left_out})


# Share of the time of an end in which text is still recorded.
_MOSTLY: Final = 0.75
# How long that is where other parts have taken all the time, in seconds.
_AT_LEAST_S: Final = 0.25
# How long text waits; with the time that it takes to record it, less than half a second.
_EVERY_S: Final = 0.45
# How long to wait for text on its way when there is a hurry, in seconds.
_SETTLE_S: Final = 0.3


class Gathering:
    """Records from streams as long as there are some, on one thread for all runs of a process.

    As long as nothing is printed the thread sleeps, and nothing wakes it but a source that has
    something to give. (Sources that cannot ring are asked.) With the last stream it ends.
    """

    def __init__(self) -> None:
        self._begin()
        fork.register(self._begin)

    def _begin(self) -> None:
        # In a forked child there is no thread, and nothing is recorded.
        self._lock = threading.RLock()
        self._streams: tuple[Recording, ...] = ()
        self._leaving: deque[tuple[Recording, threading.Event]] = deque()
        self._thread: threading.Thread | None = None
        self._asked = self._answered = 0

    def add(self, streams: Iterable[Recording]) -> None:
        """Record from streams, whose sources have begun; RuntimeError if there is no thread."""
        with self._lock:
            self._streams += tuple(streams)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="seamark-output", daemon=True
                )
                try:
                    self._thread.start()
                except BaseException:
                    self._thread, self._streams = None, ()
                    raise
        WRITTEN.bell.ring()

    def remove(self, streams: Iterable[Recording], timeout_s: float) -> None:
        """Record the rest of streams, and no more; the thread goes on after the time is over."""
        now = time.monotonic()
        deadline = now + timeout_s
        ended = [(stream, threading.Event()) for stream in streams]
        for stream, _ in ended:  # what is left then is counted, which takes a moment too
            stream.until = now + max(_MOSTLY * timeout_s, _AT_LEAST_S)
        with self._lock:
            thread = self._thread
            self._leaving.extend(ended)
        WRITTEN.bell.ring()
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            self._let_go()
            return
        for _, event in ended:
            event.wait(max(0.0, deadline - time.monotonic()))
        if not self._streams:
            thread.join(max(0.0, deadline - time.monotonic()))

    def hurry(self) -> None:
        """Request that printed text is recorded at once, without a lock or a wait; see `drained`.

        For signal handlers, after which the process may end.
        """
        lies = WRITTEN.bell.asleep and not any(each.source.polled for each in self._streams)
        if self._thread is not None and not lies:
            self._asked += 1
            WRITTEN.bell.ring()

    @property
    def drained(self) -> bool:
        """Whether output from before the last `hurry` is recorded."""
        return self._thread is None or self._answered == self._asked

    # ---------------------------------------------------------------- the thread

    def _work(self) -> None:
        while True:
            self._wait()
            asked = self._asked
            if asked != self._answered:
                for stream in self._streams:
                    _attempt(stream, stream.source.settle, time.monotonic() + _SETTLE_S)
            self._record()
            self._answered = asked
            self._let_go()
            with self._lock:
                if not self._streams and not self._leaving:
                    self._thread = None
                    return

    def _record(self) -> None:
        """Record new output of all streams in the order of writing."""
        streams, added = self._streams, set()
        for takers, texts in WRITTEN.take():
            for stream in streams:
                if stream.source in takers:
                    added.add(stream)
                    _attempt(stream, stream.record, "".join(texts))
        for stream in streams:
            text = _attempt(stream, stream.source.take) or ""
            if text or (stream.holds and stream not in added):
                _attempt(stream, stream.record, text)  # "": nothing was added to what it holds
            _attempt(stream, stream.settle)

    def _let_go(self) -> None:
        while self._leaving:
            leaving = [self._leaving.popleft() for _ in range(len(self._leaving))]
            for stream, _ in leaving:
                _attempt(stream, stream.source.leave)
            self._record()
            for stream, ended in leaving:
                with self._lock:
                    self._streams = tuple(each for each in self._streams if each is not stream)
                _attempt(stream, stream.finish)
                ended.set()

    def _wait(self) -> None:
        bell = WRITTEN.bell
        bell.asleep = True
        # Looked at after that: what is printed from here on rings.
        if not WRITTEN.queue and not any(
            each.holds or each.source.polled for each in self._streams
        ):
            while not self._leaving and bell.asleep:
                bell.wait()
        bell.asleep = False
        until = time.monotonic() + _EVERY_S
        while not self._leaving and self.drained and (left := until - time.monotonic()) > 0:
            if any(each.source.full and each.hungry for each in self._streams):
                return
            bell.wait(left)


def _attempt(stream: Recording, call: Callable[..., _T], *given: Any) -> _T | None:
    try:
        return call(*given)
    except Exception:
        log.debug("seamark: %s could not be recorded", stream.path, exc_info=True)
        return None


GATHERING: Final = Gathering()
