"""Automatic recording of a run: code, output, machine, and the end of the process.

A `Capture` belongs to one run of one process and consists of parts. No part raises into the
training or does slow work on the training's thread.

============  ======================================================================================
`facts`       facts that are determined once: `environment` and `code`
`output`      standard output and standard error
`hardware`    metrics of the machine
`ending`      end of the process, which `Capture` itself observes
`secrets`     values that must be masked in captured data and in the user's records
============  ======================================================================================
"""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from typing import TYPE_CHECKING, Final

from seamark.capture.ending import (
    cause_of,
    error_message,
    error_traceback,
    process_end,
    state_after,
)
from seamark.capture.part import Part, Recorder
from seamark.capture.secrets import Secrets
from seamark.capture.switches import Switches
from seamark.process.interrupts import quietly
from seamark.reading.recorded_errors import ERRORS

if TYPE_CHECKING:
    from seamark.capture.output import Output

__all__ = [
    "Capture",
    "Recorder",
    "Secrets",
    "Switches",
    "error_message",
]

log = logging.getLogger("seamark")


def _log_failure(error: Exception) -> None:
    log.debug("seamark: a capture failed", exc_info=error)


def _count_failure(run: Recorder, error: Exception) -> None:
    """Count a failed capture, so that readers can tell that facts are missing."""
    _log_failure(error)
    run.drop("capture")


_quiet = quietly(_log_failure)
# Maximum time that the end of a run waits for its captures, in seconds.
_STOP_TIMEOUT_S: Final = 2.0


class Capture:
    """Captures for one run of one process.

    Data of the process (below its namespace) is captured in any case. Data of the run (its code,
    signals that change its state) is captured only if the process owns the run.

    Attributes:
        owner: Whether the process owns the run; set it and call `start` if this changes.
    """

    def __init__(self, run: Recorder, switches: Switches, *, owner: bool = True) -> None:
        self._run = run
        self._switches = switches
        self.owner = owner
        self._parts: list[Part] = []
        self._output: Output | None = None
        self._pid = os.getpid()
        self._got_sigterm = False
        self._last_error: tuple[object, ...] | None = None
        self._guard = quietly(functools.partial(_count_failure, run))

    # ---------------------------------------------------------------- start and stop

    @_quiet
    def start(self) -> None:
        """Observe the end of the process; on the first call, also record facts.

        Called again when a paused run continues or the process becomes its owner. Does nothing in a
        forked child. Never waits, and raises only exceptions of signal handlers.
        """
        if self._pid != os.getpid():
            return
        switches = self._switches
        self._got_sigterm = False
        process_end.watch(
            self,
            exceptions=switches.traceback or (self.owner and switches.fail_on_exception),
            signals=self.owner and switches.signals,
        )
        if not self._parts:
            self._parts = self._create_parts()
        for part in self._parts:
            with self._guard:
                part.start()

    def _create_parts(self) -> list[Part]:
        # Parts are stopped in reverse order.
        run, switches = self._run, self._switches
        namespace, secrets = self._namespace, switches.secrets
        streams = {"stdout": switches.stdout, "stderr": switches.stderr}
        # Only modules that are needed are imported, slow ones on the thread that uses them.
        parts: list[Part] = []
        if switches.host or switches.finds_code:
            from seamark.capture.facts import Facts

            parts.append(Facts(run, namespace, switches, lambda: self.owner, self._guard))
        if any(streams.values()):
            from seamark.capture.output import Output

            limit = switches.limit
            self._output = Output(run, namespace, streams, limit=limit, secrets=secrets)
            parts.append(self._output)
        if switches.host or switches.hardware_metrics:
            from seamark.capture.hardware import Hardware

            facts, metrics = switches.host, switches.hardware_metrics
            parts.append(Hardware(run, namespace, facts=facts, metrics=metrics))
        return parts

    @property
    def _namespace(self) -> str:
        return self._switches.monitoring_namespace or f"monitoring/{self._run.writer}"

    @_quiet
    def stop(self, timeout_s: float | None = None) -> None:
        """Stop observing the end of the process, and wait for captures to finish.

        The parts share ``timeout_s``, two seconds by default. May be called twice, and before
        another `start`. Raises only exceptions of signal handlers.
        """
        until = time.monotonic() + (_STOP_TIMEOUT_S if timeout_s is None else timeout_s)
        process_end.unwatch(self)
        if self._pid != os.getpid():
            return
        for part in reversed(self._parts):
            with self._guard:
                part.stop(max(0.0, until - time.monotonic()))

    # ---------------------------------------------------------------- end of the process

    @property
    def is_idle(self) -> bool:
        """Whether all records are written and all output is recorded."""
        return self._run.is_idle and (self._output is None or self._output.drained)

    @_quiet
    def note_exception(self, error: BaseException, *, reported: bool = False) -> None:
        """Record an exception with secrets masked; ``reported`` means that the user reported it.

        An exception is also reported automatically when it leaves a ``with`` block or the script;
        it is listed once. Raises only exceptions of signal handlers.
        """
        if self._pid != os.getpid():
            return
        namespace, secrets = self._namespace, self._switches.secrets
        details = {"type": type(error).__name__, "message": error_message(error, secrets)}
        # Exceptions allow no weak reference, and their tracebacks grow as they propagate.
        known = (id(error), *details.values())
        if self._switches.traceback:
            details["traceback"] = error_traceback(error, secrets)
            self._run.assign_quietly({f"{namespace}/traceback": details["traceback"]})
        if reported or known != self._last_error:
            self._run.append_text(f"{namespace}/{ERRORS}", json.dumps(details))
        self._last_error = known

    def on_exception(self, error: BaseException | None) -> None:
        """Record the exception that ended the run; None means that it ended normally.

        Ctrl-C interrupts the run, other exceptions fail it (`cause_of`). The `SystemExit` that
        follows SIGTERM is ignored.
        """
        cause = cause_of(error)
        if cause is None or (self._got_sigterm and isinstance(error, SystemExit)):
            return
        self.note_exception(cause)
        state = state_after(cause)
        if state == "interrupted" or self._switches.fail_on_exception:
            self._run.note_state(state, error=cause)

    def on_signal(self, name: str) -> None:
        """Record a signal that ends the process."""
        self._got_sigterm = True
        self._run.note_state("interrupted", signal=name)
        if self._output is not None:
            self._output.request_drain()
