"""Recording of standard output and standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from seamark.capture.output.recording import GATHERING, Recording
from seamark.capture.output.source import Tee
from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from seamark.capture.output.source import Source
    from seamark.capture.part import Recorder
    from seamark.capture.secrets import Secrets
    from seamark.capture.switches import Limit

__all__ = ["Output"]

log = logging.getLogger("seamark")

_DESCRIPTORS: Final = {"stdout": 1, "stderr": 2}


class Output:
    """Records standard output and standard error as long as a run is recorded; see `Part`.

    ``switches`` says by name whether each is recorded; ``"fd"``: at the descriptor.
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
        self._streams = {
            name: Recording(run, f"{namespace}/{name}", Tee(name), limit=limit, secrets=secrets)
            for name, how in switches.items()
            if how
        }
        for name, stream in self._streams.items():
            if switches[name] == "fd" and (source := _at_descriptor(name, run)) is not None:
                stream.source = source
        self._running: list[Recording] = []

    def start(self) -> None:
        """Record output from now on."""
        if self._running:
            return
        streams = dict(self._streams)
        if sys.stderr is sys.stdout and len(streams) > 1 and not streams["stderr"].source.polled:
            del streams["stderr"]  # one object: everything would be there twice
        if not (running := list(streams.values())):
            return
        for name, stream in streams.items():
            _begin(name, stream)
        try:
            GATHERING.add(running)
        except BaseException:
            for stream in running:
                stream.source.stop()
            raise
        self._running = running
        _at_cells("register", self._renew)

    def stop(self, timeout_s: float) -> None:
        """Record the rest, and no more."""
        running, self._running = self._running, []
        if running:
            _at_cells("unregister", self._renew)
            GATHERING.remove(running, timeout_s)

    def hurry(self) -> None:
        """Request that printed text is recorded at once; for signal handlers, never waits."""
        if self._running:
            GATHERING.hurry()

    @property
    def drained(self) -> bool:
        """Whether output from before the last `hurry` is recorded."""
        return not self._running or GATHERING.drained

    @quietly()
    def _renew(self) -> None:
        for stream in self._running:
            if isinstance(stream.source, Tee):
                stream.source.renew()


def _at_descriptor(name: str, run: Recorder) -> Source | None:
    """Return the source for a descriptor; None if the system or the stream has none.

    A kernel of Jupyter reads the descriptor itself and writes what it reads to the object: all of
    it is seen there. On a way around by another process it would come after the end of its cell.
    """
    if getattr(getattr(sys, name), "watch_fd_thread", None) is not None:
        return None
    try:
        from seamark.capture.output.descriptor import DescriptorSource
    except ImportError as error:
        log.warning("seamark: %s; only what Python prints to %s is recorded", error, name)
        return None
    return None if run.place is None else DescriptorSource(_DESCRIPTORS[name], run.place)


def _begin(name: str, stream: Recording) -> None:
    """Start the source of a stream; use a `Tee` where the descriptor cannot be captured."""
    try:
        stream.source.start()
    except OSError as error:
        log.warning("seamark: %s; only what Python prints to %s is recorded", error, name)
        stream.source = Tee(name)
        stream.source.start()


@quietly()
def _at_cells(verb: str, call: Callable[[], None]) -> None:
    """Register or unregister what IPython, where it runs, calls before each cell.

    It puts a ``write`` of its own on the streams for each cell. It takes it off again at the end of
    the cell, and with it what was put over it in the meantime, as by a run that begins in a cell.
    """
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if (shell := get() if callable(get) else None) is not None:
        getattr(shell.events, verb)("pre_execute", call)
