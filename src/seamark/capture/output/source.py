"""Sources of printed text, and the streams of Python."""

from __future__ import annotations

import _thread
import functools
import io
import logging
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from seamark.process import fork
from seamark.process.interrupts import let_pass

__all__ = ["FRAME_BYTES", "WRITTEN", "Source", "Tee", "size_of"]

log = logging.getLogger("seamark")

FRAME_BYTES: Final = 1 << 16
"""Maximum size of a point, in bytes of UTF-8."""


def size_of(text: str) -> int:
    """Return how many bytes a text has in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Source:
    """Source of the text written to standard output or standard error, from `start` to `stop`.

    `start` is called by the thread that starts the run, everything else by the thread that records.

    Attributes:
        polled: Whether it has to be asked for text with `take`.
        lost: Number of bytes that it could not hold so far.
        broken: Reason, in words, why nothing more can be taken; None as long as something may be.
        full: Whether so much waits that it should be taken before its time.
    """

    polled = True
    full = False
    lost = 0
    broken: str | None = None

    def start(self) -> None:
        """Start; called again after `stop` if the run continues."""
        raise NotImplementedError

    def take(self) -> str:
        """Return new output."""
        return ""

    def settle(self, deadline: float) -> None:
        """Wait until what was written can be taken, at most until ``deadline`` (monotonic)."""

    def leave(self) -> None:
        """Receive no more of what is queued for all sources; see `Tee`."""

    def stop(self) -> str:
        """End, and return the rest."""
        raise NotImplementedError


class Bell:
    """Wakes one thread.

    May be rung anywhere, in the handler of a signal and in the middle of another ring too, which
    rules out conditions and events: they hold a lock while they ring.

    Attributes:
        asleep: Whether the thread has lain down until somebody rings.
    """

    __slots__ = ("_rung", "asleep")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget all waiters; a forked child has none."""
        self.asleep = False
        self._rung = _thread.allocate_lock()
        self._rung.acquire()

    def ring(self) -> None:
        """Wake the thread, or keep it from lying down the next time. Never waits."""
        self.asleep = False
        try:  # noqa: SIM105 - a third of the time
            self._rung.release()
        except RuntimeError:  # it was rung and has not been heard yet
            pass

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until it is rung, or was since the last time; None for no limit."""
        self._rung.acquire(timeout=-1 if timeout_s is None else timeout_s)


# How much of one stream waits at most, in characters.
_MOST: Final = 2 << 20
# What a text counts beside its characters: memory that an object takes.
_EACH: Final = 64
# What a write keeps of the one that it stands for.
_NAMED: Final = ("__name__", "__qualname__", "__doc__")
# Into how many pieces what is new is cut at most, of all streams.
_MOST_PIECES: Final = 32


class _Written:
    """Text written to the streams of this process, in the order of writing, until it is recorded.

    Attributes:
        queue: Text with those who receive it.
    """

    def __init__(self) -> None:
        self.bell = Bell()
        self.queue: deque[tuple[tuple[Tee, ...], str]] = deque()
        self.taps: weakref.WeakSet[_Tap] = weakref.WeakSet()
        self.begin()
        fork.register(self.begin)

    def begin(self) -> None:
        """In a forked child: see nothing, and have the streams as they were."""
        self.bell.begin()
        self.lock = threading.RLock()
        self.queue.clear()
        for tap in list(self.taps):
            tap.takers = ()
            tap.close()

    def take(self) -> list[tuple[tuple[Tee, ...], list[str]]]:
        """Return new output of all streams, each piece with those who receive it."""
        found: list[tuple[tuple[Tee, ...], list[str]]] = []
        with self.lock:
            taps = list(self.taps)
            for tap in taps:  # before the text: what is lost comes after all that is queued
                for taker in tap.takers:
                    taker.lost = taker.missing
            for _ in range(len(self.queue)):  # not for ever, however fast somebody prints
                takers, text = self.queue.popleft()
                near = found if len(found) >= _MOST_PIECES else found[-1:]
                texts = next((texts for known, texts in reversed(near) if known is takers), None)
                if texts is None:
                    found.append((takers, texts := []))
                texts.append(text)
            for tap in taps:
                tap.reopen()
        return found


WRITTEN: Final = _Written()


class _Tap:
    """Interception of the writes to one stream object, by one function for any number of takers.

    Attributes:
        room: Number of characters that may still be queued before `press` is called.
        takers: Sources that get the text; without any, nothing is queued.
        pressed: Whether so much waits that it should be handed out before its time.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._before: Any = vars(stream).get("write")
        self.takers: tuple[Tee, ...] = ()
        self.reopen()
        wrap = _wrap_text_write if isinstance(stream, io.TextIOWrapper) else _wrap_any_write
        self.write = wrap(stream.write, self)
        self.write.seamark_tap = self  # type: ignore[attr-defined]
        WRITTEN.taps.add(self)

    def install(self) -> None:
        """Be the stream's ``write``; TypeError if the object does not have it."""
        # Not by setattr: a wrapper may pass that on to what it wraps, whose write it calls.
        vars(self.stream)["write"] = self.write
        if self.stream.write is not self.write:
            self.close()
            msg = f"{type(self.stream).__name__} does not allow its write method to be replaced"
            raise TypeError(msg)

    @property
    def is_on_top(self) -> bool:
        """Whether nothing lies over it, and nobody took it off."""
        return vars(self.stream).get("write") is self.write

    def reopen(self) -> None:
        """Take text again, if somebody receives it."""
        self.pressed = False
        self.room = FRAME_BYTES if self.takers else 0

    def close(self) -> None:
        """Put back what was there, unless somebody else's is over ours: then ours passes all."""
        self.reopen()
        if self.is_on_top:
            own = vars(self.stream)
            del own["write"]
            if self._before is not None:
                own["write"] = self._before

    def press(self, text: str) -> None:
        """Take a text for which there is no room: ask for it to be handed out, or leave it out."""
        takers = self.takers
        if not takers:
            return
        if self.pressed:
            # Before: another thread may run while it is counted.
            size = size_of(text[:_MOST]) * len(text) // min(len(text), _MOST) if text else 0
        else:
            self.pressed = True
            self.room = _MOST - FRAME_BYTES
            WRITTEN.queue.append((takers, text[:_MOST]))
            # Counted by what it begins with: it may be of any size.
            size = size_of(text[:_MOST]) * max(0, len(text) - _MOST) // _MOST
            WRITTEN.bell.ring()
        for taker in takers:
            taker.missing += size


def _wrap_text_write(original: Callable[[Any], Any], tap: _Tap) -> Callable[[Any], Any]:
    """Return a ``write`` that tells ``tap``, and takes one argument by place.

    So do all streams of `io`. It costs half as much as one for any arguments, and is called twice
    for each ``print``.
    """
    bell, queue = WRITTEN.bell, WRITTEN.queue

    @functools.wraps(original, assigned=_NAMED, updated=())
    def write(text: Any, /) -> Any:
        written = original(text)
        try:
            cost = len(text) + _EACH
            tap.room -= cost  # no call in it: no other thread runs in between
            if tap.room > 0:
                queue.append((tap.takers, text))
                if bell.asleep:
                    bell.ring()
            else:
                tap.press(text)
        except Exception as error:  # noqa: BLE001 - see `let_pass`; the text is written
            let_pass(error)
        return written

    return write


def _wrap_any_write(original: Callable[..., Any], tap: _Tap) -> Callable[..., Any]:
    tell = _wrap_text_write(_written_already, tap)

    @functools.wraps(original, assigned=_NAMED, updated=())
    def write(*given: Any, **named: Any) -> Any:
        written = original(*given, **named)
        tell(given[0] if given else next(iter(named.values()), ""))
        return written

    return write


def _written_already(text: Any) -> None:
    pass  # it is written


class Tee(Source):
    """Source of the text written to the object that is ``sys.stdout`` or ``sys.stderr`` at `start`.

    ``sys.stdout`` is not replaced. Its ``write`` is: an attribute of the object hides the method of
    its class. So whoever holds the object (a handler of `logging`, Rich, tqdm, the kernel of a
    notebook) is seen, and nobody finds another object: ``isatty()``, ``fileno()``, ``buffer`` and
    the type are as ever. What is written to ``sys.stdout.buffer`` or to the descriptor does not
    pass here.

    The write itself comes first, and what it returns or raises is returned or raised. Then the text
    is put in the queue of all streams, by one `deque.append`: no lock, nothing to wait for, in
    threads and in the handlers of signals alike.

    Attributes:
        missing: Number of bytes that were left out so far.
    """

    polled = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._tap: _Tap | None = None
        self.missing = 0

    def start(self) -> None:
        """Start to receive output; nothing happens if that is impossible."""
        stream = self._stream()
        if stream is None:
            return
        with WRITTEN.lock:
            try:
                self._tap = self._tap_on(stream)
            except (AttributeError, TypeError, ValueError) as error:
                log.debug("seamark: sys.%s cannot be recorded: %r", self._name, error)
            else:
                self._tap.takers += (self,)
                self._tap.reopen()

    def renew(self) -> None:
        """Follow the present stream object; wrap it again if other code removed the wrapper."""
        tap, stream = self._tap, self._stream()
        if tap is not None and not (tap.stream is stream and tap.is_on_top):
            self.leave()
            self.start()

    def _stream(self) -> Any:
        # Not what keeps it in memory for somebody, and for a while.
        stream = getattr(sys, self._name, None)
        if isinstance(stream, io.StringIO):
            return getattr(sys, f"__{self._name}__", None) or stream
        return stream

    def _tap_on(self, stream: Any) -> _Tap:
        """Return the tap that is on top of a stream; put one there if there is none.

        One that lies below what somebody else has installed is not used again: it may have been
        taken out with it.
        """
        top = vars(stream).get("write")
        if top is not None and (tap := _own_tap(top)) is not None:
            return tap
        tap = _Tap(stream)
        tap.install()
        return tap

    def leave(self) -> None:
        """Receive no more; what was written before is in the queue."""
        with WRITTEN.lock:
            tap, self._tap = self._tap, None
            if tap is not None:
                tap.takers = tuple(each for each in tap.takers if each is not self)
                if not tap.takers:
                    tap.close()

    def stop(self) -> str:
        """See no more."""
        self.leave()
        self.lost = self.missing
        return ""

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether so much waits that it should be taken before its time."""
        return self._tap is not None and self._tap.pressed


def _own_tap(write: Any) -> _Tap | None:
    """Return the tap that a ``write`` tells, or None if it is none of ours."""
    tap = getattr(write, "seamark_tap", None)
    # `functools.wraps` copies attributes to what somebody has put around ours.
    return tap if isinstance(tap, _Tap) and tap.write is write else None
