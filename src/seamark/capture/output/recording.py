"""Recording of output by one thread for all streams and runs of a process."""

from __future__ import annotations

import codecs
import logging
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from seamark.capture.output.masking import hide, unfinished_secret_from
from seamark.capture.output.source import FRAME_BYTES, OUTPUT_QUEUE, Source, size_of
from seamark.capture.part import Recorder
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Limit
from seamark.pictures.terminal import collapse
from seamark.process import fork

_T = TypeVar("_T")

log = logging.getLogger("seamark")

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
        self._limits = {
            _TOTAL: limit.total or sys.maxsize,
            _PER_MINUTE: limit.per_minute or sys.maxsize,
        }
        self._remaining = dict(self._limits)
        self._until = float("-inf")

    def remaining(self, now: float) -> int:
        """Return the bytes that may be recorded at ``now`` (seconds)."""
        if now >= self._until:
            self._until = now + _MINUTE_S
            self._remaining[_PER_MINUTE] = self._limits[_PER_MINUTE]
        return min(self._remaining.values())

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
    """Recorder of the output of one source. Only `path` may be used by several threads at a time.

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
            taken = cut(text, min(remaining, FRAME_BYTES))
            is_last = remaining < FRAME_BYTES and taken < len(text)
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


# Fraction of the time of `remove` in which text is still recorded.
_RECORDING_SHARE: Final = 0.75
# Minimum of that time, in seconds, if other parts have used up the time.
_MIN_RECORDING_S: Final = 0.25
# Time that text waits, in seconds; with the time to record it, less than half a second.
_MAX_DELAY_S: Final = 0.45
# Maximum time that `request_drain` waits for text in pipes, in seconds.
_SETTLE_S: Final = 0.3


class RecordingThread:
    """Thread that records the streams of all runs of a process.

    The thread takes new output twice a second, or when there is much. It ends with the last stream.
    """

    def __init__(self) -> None:
        self._reset()
        fork.register(self._reset)

    def _reset(self) -> None:
        # A forked child has no thread, and records nothing.
        self._lock = threading.RLock()
        self._streams: tuple[Recording, ...] = ()
        self._ending: deque[tuple[Recording, threading.Event]] = deque()
        self._thread: threading.Thread | None = None
        self._requested = self._completed = 0

    def add(self, streams: Iterable[Recording]) -> None:
        """Record streams; raise RuntimeError if the thread cannot start."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(
                    target=self._run_thread, name="seamark-output", daemon=True
                )
                thread.start()
                self._thread = thread
            self._streams += tuple(streams)

    def remove(self, streams: Iterable[Recording], timeout_s: float) -> None:
        """Record the remaining output of streams and stop; the thread may exceed the timeout."""
        now = time.monotonic()
        deadline = now + timeout_s
        ended = [(stream, threading.Event()) for stream in streams]
        for stream, _ in ended:  # later text is only counted, which also takes a moment
            stream.until = now + max(_RECORDING_SHARE * timeout_s, _MIN_RECORDING_S)
        with self._lock:
            thread = self._thread
            self._ending.extend(ended)
        OUTPUT_QUEUE.wake()
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            self._finish_streams()
            return
        for _, event in ended:
            event.wait(max(0.0, deadline - time.monotonic()))
        if not self._streams:
            thread.join(max(0.0, deadline - time.monotonic()))

    def request_drain(self) -> None:
        """Request that output is recorded at once, without locks or waiting; see `drained`.

        For signal handlers, after which the process may end.
        """
        if self._thread is not None:
            self._requested += 1
            OUTPUT_QUEUE.wake()

    @property
    def drained(self) -> bool:
        """Whether output from before the last `request_drain` is recorded."""
        return self._thread is None or self._completed == self._requested

    # ---------------------------------------------------------------- the thread

    def _run_thread(self) -> None:
        while True:
            self._wait()
            requested = self._requested
            if requested != self._completed:
                for stream in self._streams:
                    _attempt(stream, stream.source.settle, time.monotonic() + _SETTLE_S)
            self._record()
            self._completed = requested
            self._finish_streams()
            with self._lock:
                if not self._streams and not self._ending:
                    self._thread = None
                    return

    def _record(self) -> None:
        """Record new output of all streams in the order of writing."""
        streams, added = self._streams, set()
        for receivers, texts in OUTPUT_QUEUE.take():
            for stream in streams:
                if stream.source in receivers:
                    added.add(stream)
                    _attempt(stream, stream.record, "".join(texts))
        for stream in streams:
            text = _attempt(stream, stream.source.take) or ""
            if text or stream not in added:
                _attempt(stream, stream.record, text)  # "" records the text that was held back
            _attempt(stream, stream.settle)

    def _finish_streams(self) -> None:
        while self._ending:
            ending = [self._ending.popleft() for _ in range(len(self._ending))]
            for stream, _ in ending:
                _attempt(stream, stream.source.leave)
            self._record()
            for stream, ended in ending:
                with self._lock:
                    self._streams = tuple(each for each in self._streams if each is not stream)
                _attempt(stream, stream.finish)
                ended.set()

    def _wait(self) -> None:
        until = time.monotonic() + _MAX_DELAY_S
        while not self._ending and self.drained and (remaining := until - time.monotonic()) > 0:
            if any(each.source.full and each.may_record for each in self._streams):
                return
            OUTPUT_QUEUE.wait(remaining)


def _attempt(stream: Recording, call: Callable[..., _T], *args: Any) -> _T | None:
    try:
        return call(*args)
    except Exception:
        log.debug("seamark: %s could not be recorded", stream.path, exc_info=True)
        return None


RECORDING_THREAD: Final = RecordingThread()
