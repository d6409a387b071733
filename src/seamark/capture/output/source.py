"""Sources of printed text, and the streams of Python."""

from __future__ import annotations

import functools
import io
import logging
import queue
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from seamark.process import fork
from seamark.process.interrupts import let_pass
from seamark.process.queues import wait_for_entry

log = logging.getLogger("seamark")

FRAME_BYTES: Final = 1 << 16
"""Maximum size of a point, in bytes of UTF-8."""


def size_of(text: str) -> int:
    """Return the size of a text in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Source:
    """Source of the text written to standard output or standard error, from `start` to `stop`.

    `start` is called by the thread that starts the run, all other methods by the recording thread.

    Attributes:
        lost: Number of bytes lost so far.
        broken: Reason why no more text can be taken, or None.
        full: Whether so much text is queued that it should be taken early.
    """

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
        """Wait until the written text can be taken, at most until ``deadline`` (monotonic)."""

    def leave(self) -> None:
        """Receive no more text from the common queue; see `Tee`."""

    def stop(self) -> str:
        """Stop, and return the remaining text."""
        self.leave()
        return ""


# Maximum length of the queued text of one stream, in characters.
_MAX_QUEUED_CHARS: Final = 2 << 20
# Memory of a string object, counted in addition to its characters.
_TEXT_OVERHEAD: Final = 64
# Attributes that a replaced write copies from the original.
_COPIED_ATTRIBUTES: Final = ("__name__", "__qualname__", "__doc__")
# Maximum number of pieces into which new output of all streams is divided.
_MAX_PIECES: Final = 32


class _OutputQueue:
    """Text written to the streams of this process, in the order of writing, until it is recorded.

    Attributes:
        texts: Texts with their receivers.
    """

    def __init__(self) -> None:
        self.texts: deque[tuple[tuple[Tee, ...], str]] = deque()
        self.wrappers: weakref.WeakSet[_WriteWrapper] = weakref.WeakSet()
        self.reset()
        fork.register(self.reset)

    def reset(self) -> None:
        """Reset, in a forked child: remove all receivers and restore the streams."""
        self.lock = threading.RLock()
        # Conditions and events of `threading` hold a lock while they are set; a signal handler may
        # interrupt that, and needs it.
        self._requests: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.texts.clear()
        for wrapper in list(self.wrappers):
            wrapper.receivers = ()
            wrapper.close()

    def wake(self) -> None:
        """Wake the thread that waits, or make its next `wait` return at once. Never waits."""
        self._requests.put(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for `wake`."""
        wait_for_entry(self._requests, timeout_s)

    def take(self) -> list[tuple[tuple[Tee, ...], list[str]]]:
        """Return new output of all streams, each piece with its receivers."""
        found: list[tuple[tuple[Tee, ...], list[str]]] = []
        with self.lock:
            wrappers = list(self.wrappers)
            for wrapper in wrappers:  # before the text: lost text follows all queued text
                for receiver in wrapper.receivers:
                    receiver.lost = receiver.missing
            for _ in range(len(self.texts)):  # ends even if the program prints all the time
                receivers, text = self.texts.popleft()
                recent = found if len(found) >= _MAX_PIECES else found[-1:]
                texts = next(
                    (texts for known, texts in reversed(recent) if known is receivers), None
                )
                if texts is None:
                    found.append((receivers, texts := []))
                texts.append(text)
            for wrapper in wrappers:
                wrapper.reopen()
        return found


OUTPUT_QUEUE: Final = _OutputQueue()


class _WriteWrapper:
    """Replacement of the ``write`` of one stream object, for any number of receivers.

    Raises TypeError if the object does not allow it.

    Attributes:
        room: Number of characters that may be queued before `handle_overflow` is called.
        receivers: Sources that receive the text; without any, nothing is queued.
        is_overfull: Whether so much text is queued that it should be taken early.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._before: Any = vars(stream).get("write")
        self.receivers: tuple[Tee, ...] = ()
        self.reopen()
        wrap = _wrap_text_write if isinstance(stream, io.TextIOWrapper) else _wrap_any_write
        self.write = wrap(stream.write, self)
        self.write.seamark_wrapper = self  # type: ignore[attr-defined]
        # Not by setattr, which a wrapper may forward to the wrapped stream whose write it calls.
        vars(stream)["write"] = self.write
        if stream.write is not self.write:
            self.close()
            raise TypeError(
                f"{type(stream).__name__} does not allow its write method to be replaced"
            )
        OUTPUT_QUEUE.wrappers.add(self)

    @property
    def is_on_top(self) -> bool:
        """Whether this is the current ``write`` of the stream."""
        return vars(self.stream).get("write") is self.write

    def reopen(self) -> None:
        """Accept text again, if there are receivers."""
        self.is_overfull = False
        self.room = FRAME_BYTES if self.receivers else 0

    def close(self) -> None:
        """Restore the previous ``write``; if other code has replaced ours, it only forwards."""
        self.reopen()
        if self.is_on_top:
            own = vars(self.stream)
            del own["write"]
            if self._before is not None:
                own["write"] = self._before

    def handle_overflow(self, text: str) -> None:
        """Handle a text beyond `room`: request that the queue is taken, or leave the text out."""
        receivers = self.receivers
        if not receivers:
            return
        kept = ""
        if not self.is_overfull:
            self.is_overfull = True
            self.room = _MAX_QUEUED_CHARS - FRAME_BYTES
            kept = text[:_MAX_QUEUED_CHARS]
            OUTPUT_QUEUE.texts.append((receivers, kept))
            OUTPUT_QUEUE.wake()
        if len(kept) < len(text):
            # Estimated from the beginning, because the text may have any size.
            begin = text[:_MAX_QUEUED_CHARS]
            size = size_of(begin) * (len(text) - len(kept)) // len(begin)
            for receiver in receivers:
                receiver.missing += size


def _wrap_text_write(
    original: Callable[[Any], Any], wrapper: _WriteWrapper
) -> Callable[[Any], Any]:
    """Return a ``write`` with one positional argument that also passes the text to ``wrapper``.

    All streams of `io` have this signature. It takes half the time of a function for any arguments,
    and is called twice for each ``print``.
    """
    texts = OUTPUT_QUEUE.texts

    @functools.wraps(original, assigned=_COPIED_ATTRIBUTES, updated=())
    def write(text: Any, /) -> Any:
        written = original(text)
        try:
            cost = len(text) + _TEXT_OVERHEAD
            wrapper.room -= cost  # without a call, so that no other thread runs in between
            if wrapper.room > 0:
                texts.append((wrapper.receivers, text))
            else:
                wrapper.handle_overflow(text)
        except Exception as error:  # noqa: BLE001 - see `let_pass`; the text is already written
            let_pass(error)
        return written

    return write


def _wrap_any_write(original: Callable[..., Any], wrapper: _WriteWrapper) -> Callable[..., Any]:
    queue_text = _wrap_text_write(_do_nothing, wrapper)

    @functools.wraps(original, assigned=_COPIED_ATTRIBUTES, updated=())
    def write(*args: Any, **kwargs: Any) -> Any:
        written = original(*args, **kwargs)
        queue_text(args[0] if args else next(iter(kwargs.values()), ""))
        return written

    return write


def _do_nothing(text: Any) -> None:
    pass  # the original write did it


class Tee(Source):
    """Source of the text written to the object that is ``sys.stdout`` or ``sys.stderr`` at `start`.

    ``sys.stdout`` is not replaced, but its ``write`` is: an attribute of the object hides the
    method of its class. So output of all code that holds the object is captured (a handler of
    `logging`, Rich, tqdm, the kernel of a notebook), and ``isatty()``, ``fileno()``, ``buffer`` and
    the type stay the same. Output that is written to ``sys.stdout.buffer`` or to the descriptor is
    not captured.

    The original write is called first, and its result is returned or its exception raised. Then the
    text is added to the common queue by one `deque.append`, without locks or waiting, also in
    threads and signal handlers.

    Attributes:
        missing: Number of bytes left out so far.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._wrapper: _WriteWrapper | None = None
        self.missing = 0

    def start(self) -> None:
        """Start to receive output; do nothing if that is impossible."""
        stream = self._stream()
        if stream is None:
            return
        with OUTPUT_QUEUE.lock:
            try:
                # One below a wrapper of other code is not used, because it may have been removed.
                self._wrapper = _wrapper_of(vars(stream).get("write")) or _WriteWrapper(stream)
            except (AttributeError, TypeError, ValueError) as error:
                log.debug("seamark: sys.%s cannot be recorded: %r", self._name, error)
            else:
                self._wrapper.receivers += (self,)
                self._wrapper.reopen()

    def renew(self) -> None:
        """Change to the current stream object; wrap it again if other code removed the wrapper."""
        wrapper, stream = self._wrapper, self._stream()
        if wrapper is not None and not (wrapper.stream is stream and wrapper.is_on_top):
            self.leave()
            self.start()

    def _stream(self) -> Any:
        # A StringIO is a temporary redirection, as by `contextlib.redirect_stdout`.
        stream = getattr(sys, self._name, None)
        if isinstance(stream, io.StringIO):
            return getattr(sys, f"__{self._name}__", None) or stream
        return stream

    def leave(self) -> None:
        """Receive no more text; earlier text is in the queue."""
        with OUTPUT_QUEUE.lock:
            wrapper, self._wrapper = self._wrapper, None
            self.lost = self.missing
            if wrapper is not None:
                wrapper.receivers = tuple(each for each in wrapper.receivers if each is not self)
                if not wrapper.receivers:
                    wrapper.close()

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether so much text is queued that it should be taken early."""
        return self._wrapper is not None and self._wrapper.is_overfull


def _wrapper_of(write: Any) -> _WriteWrapper | None:
    """Return the wrapper of a ``write``, or None if it was not installed by Seamark."""
    wrapper = getattr(write, "seamark_wrapper", None)
    # `functools.wraps` copies the attribute to wrappers of other code.
    return wrapper if isinstance(wrapper, _WriteWrapper) and wrapper.write is write else None
