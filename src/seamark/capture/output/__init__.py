"""Recording of standard output and standard error."""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from seamark.capture.output.recording import Recording
from seamark.capture.output.source import Source, Tee
from seamark.capture.part import Recorder
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Limit
from seamark.process.interrupts import quietly

log = logging.getLogger("seamark")

_T = TypeVar("_T")

_DESCRIPTORS: Final = {"stdout": 1, "stderr": 2}
# Fraction of the time of `stop` in which text is still recorded.
_RECORDING_SHARE: Final = 0.75
# Minimum of that time, in seconds, if other parts have used up the time.
_MIN_RECORDING_S: Final = 0.25
# Time that text waits, in seconds; with the time to record it, less than half a second.
_MAX_DELAY_S: Final = 0.45
# Maximum time that a drain waits for text in pipes, in seconds.
_SETTLE_S: Final = 0.3
# Maximum number of pieces into which new output of both streams is divided.
_MAX_PIECES: Final = 32


class Output:
    """Capture of standard output and standard error; see `Part`.

    A thread takes new output of both streams twice a second, or when there is much.

    ``switches`` contains, by name, whether a stream is recorded; ``"fd"`` captures the descriptor.
    """

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        switches: Mapping[str, bool | str],
        *,
        limit: Limit,
        secrets: Secrets,
    ) -> None:
        self._queue: deque[tuple[Tee, str]] = deque()
        # Whether the thread ends. Conditions and events of `threading` hold a lock while they are
        # set; a signal handler may interrupt that, and needs it.
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._requested = self._completed = 0
        self._streams: dict[str, Recording] = {}
        for name, how in switches.items():
            if how:
                source = (_descriptor_source(name, run) if how == "fd" else None) or self._tee(name)
                path = f"{namespace}/{name}"
                self._streams[name] = Recording(run, path, source, limit=limit, secrets=secrets)
        self._running: dict[str, Recording] = {}
        self._thread: threading.Thread | None = None
        self._one_thread = threading.Lock()

    def _tee(self, name: str) -> Tee:
        return Tee(name, self._queue, self._wake)

    def _wake(self, name: str) -> None:
        if self._streams[name].may_record:
            self._requests.put(item=False)

    def start(self) -> None:
        """Record output from now on."""
        if self._running:
            return
        running = dict(self._streams)
        stderr = running.get("stderr") if "stdout" in running else None
        if sys.stderr is sys.stdout and stderr is not None and isinstance(stderr.source, Tee):
            del running["stderr"]  # the same object: all output would be recorded twice
        for name, stream in running.items():
            self._start_source(name, stream)
        thread = threading.Thread(
            target=self._run_thread, args=(running,), name="seamark-output", daemon=True
        )
        try:
            thread.start()
        except BaseException:
            for stream in running.values():
                stream.source.stop()
            raise
        self._running, self._thread = running, thread
        _change_cell_hook("register", self._renew_tees)

    def _start_source(self, name: str, stream: Recording) -> None:
        """Start the source of a stream; use a `Tee` if the descriptor cannot be captured."""
        try:
            stream.source.start()
        except OSError as error:
            log.warning("seamark: %s; only Python's own output to %s is recorded", error, name)
            stream.source = self._tee(name)
            stream.source.start()

    def stop(self, timeout_s: float) -> None:
        """Record the remaining output and stop; the thread may exceed the timeout."""
        running, self._running = self._running, {}
        if not running or self._thread is None:
            return
        _change_cell_hook("unregister", self._renew_tees)
        # Later text is only counted, which also takes a moment.
        until = time.monotonic() + max(_RECORDING_SHARE * timeout_s, _MIN_RECORDING_S)
        for stream in running.values():
            stream.until = until
        self._requests.put(item=True)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def request_drain(self) -> None:
        """Request that output is recorded at once, without locks or waiting; see `drained`.

        For signal handlers, after which the process may end.
        """
        self._requested += 1
        self._requests.put(item=False)

    @property
    def drained(self) -> bool:
        """Whether output from before the last `request_drain` is recorded."""
        return not self._running or self._completed == self._requested

    @quietly()
    def _renew_tees(self) -> None:
        for stream in self._running.values():
            if isinstance(stream.source, Tee):
                stream.source.renew()

    # ---------------------------------------------------------------- the thread

    def _run_thread(self, running: Mapping[str, Recording]) -> None:
        # A run that continues may start another thread while the disk still holds up this one.
        with self._one_thread:
            while not self._wait():
                requested = self._requested
                if requested != self._completed:
                    for stream in running.values():
                        _attempt(stream, stream.source.settle, time.monotonic() + _SETTLE_S)
                self._record(running)
                self._completed = requested
            for stream in running.values():
                _attempt(stream, stream.source.leave)
            self._record(running)
            for stream in running.values():
                _attempt(stream, stream.finish)

    def _wait(self) -> bool:
        """Wait until text is to be recorded; return whether that is the last time."""
        try:
            return self._requests.get(timeout=_MAX_DELAY_S)
        except queue.Empty:
            return False

    def _record(self, running: Mapping[str, Recording]) -> None:
        """Record new output in the order of writing."""
        pieces = self._take_pieces(running)
        for name, texts in pieces:
            stream = self._streams[name]
            _attempt(stream, stream.record, "".join(texts))
        added = {name for name, _ in pieces}
        for name, stream in running.items():
            text = _attempt(stream, stream.source.take) or ""
            if text or name not in added:
                _attempt(stream, stream.record, text)  # "" records the text that was held back
            _attempt(stream, stream.settle)

    def _take_pieces(self, running: Mapping[str, Recording]) -> list[tuple[str, list[str]]]:
        """Return the queued texts, those of one stream in a row together, with its name."""
        count = len(self._queue)  # ends even if the program prints all the time
        for stream in running.values():
            stream.source.reopen()
        found: list[tuple[str, list[str]]] = []
        for tee, text in (self._queue.popleft() for _ in range(count)):
            recent = found if len(found) >= _MAX_PIECES else found[-1:]
            texts = next((texts for known, texts in reversed(recent) if known == tee.name), None)
            if texts is None:
                found.append((tee.name, texts := []))
            texts.append(text)
        return found


def _attempt(stream: Recording, call: Callable[..., _T], *args: Any) -> _T | None:
    try:
        return call(*args)
    except Exception:
        log.debug("seamark: %s could not be recorded", stream.path, exc_info=True)
        return None


def _descriptor_source(name: str, run: Recorder) -> Source | None:
    """Return the source for a descriptor; None if the system or the stream does not support it.

    A Jupyter kernel reads the descriptor itself and writes the output to the stream object, where
    it is captured. A detour through another process would delay it beyond the end of its cell.
    """
    if getattr(getattr(sys, name), "watch_fd_thread", None) is not None:
        return None
    try:
        from seamark.capture.output.descriptor import DescriptorSource
    except ImportError as error:
        log.warning("seamark: %s; only Python's own output to %s is recorded", error, name)
        return None
    return None if run.place is None else DescriptorSource(_DESCRIPTORS[name], run.place)


@quietly()
def _change_cell_hook(verb: str, call: Callable[[], None]) -> None:
    """Register or unregister a function that IPython, if it runs, calls before each cell.

    IPython replaces ``write`` of the streams during each cell and restores it at the end of the
    cell. That removes any later wrapper, such as that of a run that starts in the cell.
    """
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if (shell := get() if callable(get) else None) is not None:
        getattr(shell.events, verb)("pre_execute", call)
