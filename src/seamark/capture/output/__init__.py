"""Recording of standard output and standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Final

from seamark.capture.output.recording import RECORDING_THREAD, Recording
from seamark.capture.output.source import Source, Tee
from seamark.capture.part import Recorder
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Limit
from seamark.process.interrupts import quietly

log = logging.getLogger("seamark")

_DESCRIPTORS: Final = {"stdout": 1, "stderr": 2}


class Output:
    """Capture of standard output and standard error; see `Part`.

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
        sources = {name: _create_source(name, how, run) for name, how in switches.items() if how}
        self._streams = {
            name: Recording(run, f"{namespace}/{name}", source, limit=limit, secrets=secrets)
            for name, source in sources.items()
        }
        self._running: list[Recording] = []

    def start(self) -> None:
        """Record output from now on."""
        if self._running:
            return
        streams = dict(self._streams)
        stderr = streams.get("stderr") if "stdout" in streams else None
        if sys.stderr is sys.stdout and stderr is not None and isinstance(stderr.source, Tee):
            del streams["stderr"]  # the same object: all output would be recorded twice
        running = list(streams.values())
        RECORDING_THREAD.add(running)
        self._running = running
        for name, stream in streams.items():
            _start_source(name, stream)
        _change_cell_hook("register", self._renew_tees)

    def stop(self, timeout_s: float) -> None:
        """Record the remaining output and stop."""
        running, self._running = self._running, []
        if running:
            _change_cell_hook("unregister", self._renew_tees)
            RECORDING_THREAD.remove(running, timeout_s)

    def request_drain(self) -> None:
        """Request that output is recorded at once. For signal handlers: never waits."""
        if self._running:
            RECORDING_THREAD.request_drain()

    @property
    def drained(self) -> bool:
        """Whether output from before the last `request_drain` is recorded."""
        return not self._running or RECORDING_THREAD.drained

    @quietly()
    def _renew_tees(self) -> None:
        for stream in self._running:
            if isinstance(stream.source, Tee):
                stream.source.renew()


def _create_source(name: str, how: object, run: Recorder) -> Source:
    """Return the source of a stream, for its descriptor if that is wanted and supported.

    A Jupyter kernel reads the descriptor itself and writes the output to the stream object, where
    it is captured. A detour through another process would delay it beyond the end of its cell.
    """
    if how != "fd" or run.place is None:
        return Tee(name)
    if getattr(getattr(sys, name), "watch_fd_thread", None) is None:
        try:
            from seamark.capture.output.descriptor import DescriptorSource

            return DescriptorSource(_DESCRIPTORS[name], run.place)
        except ImportError as error:
            log.warning("seamark: %s; only Python's own output to %s is recorded", error, name)
    return Tee(name)


def _start_source(name: str, stream: Recording) -> None:
    """Start the source of a stream; use a `Tee` if the descriptor cannot be captured."""
    try:
        stream.source.start()
    except OSError as error:
        log.warning("seamark: %s; only Python's own output to %s is recorded", error, name)
        stream.source = Tee(name)
        stream.source.start()


@quietly()
def _change_cell_hook(verb: str, call: Callable[[], None]) -> None:
    """Register or unregister a function that IPython, if it runs, calls before each cell.

    IPython replaces ``write`` of the streams during each cell and restores it at the end of the
    cell. That removes any later wrapper, such as that of a run that starts in the cell.
    """
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if (shell := get() if callable(get) else None) is not None:
        getattr(shell.events, verb)("pre_execute", call)
