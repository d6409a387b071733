"""Automatic recording of a run: code, output, machine, and the end of the process.

A `Capture` belongs to one run of one process and consists of parts. Nothing in them raises into
training, and nothing slow happens on the training's thread.

============  ======================================================================================
`facts`       determined once: `environment` and `code`
`output`      standard output and standard error
`hardware`    metrics of the machine
`ending`      end of the process; `Capture` itself observes it
`secrets`     values that must be hidden in all this and in what the user records
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
from seamark.capture.secrets.masking import MASK, mask_arguments, mask_secrets
from seamark.capture.switches import Switches
from seamark.process.interrupts import quietly
from seamark.reading.recorded_errors import ERRORS

if TYPE_CHECKING:
    from seamark.capture.output import Output

__all__ = [
    "MASK",
    "Capture",
    "Recorder",
    "Secrets",
    "Switches",
    "error_message",
    "error_traceback",
    "mask_arguments",
    "mask_secrets",
]

log = logging.getLogger("seamark")


def _failed(error: Exception) -> None:
    log.debug("seamark: a capture failed", exc_info=error)


def _lost(run: Recorder, error: Exception) -> None:
    """Count a failed capture, so that readers can tell that facts are missing."""
    _failed(error)
    run.drop("capture")


_quiet = quietly(_failed)
# How long the end of a run waits for what is still being captured.
_END_S: Final = 2.0


class Capture:
    """Captures for one run of one process.

    What belongs to the process (below its namespace) is captured in any case; what belongs to the
    run (its code, signals that mark it) only where the process owns the run.

    Attributes:
        owner: Whether it does. Once it turns out to, set this and call `start`.
    """

    def __init__(self, run: Recorder, switches: Switches, *, owner: bool = True) -> None:
        self._run = run
        self._switches = switches
        self.owner = owner
        self._namespace = switches.monitoring_namespace or "monitoring"
        self._parts: list[Part] = []
        self._output: Output | None = None
        self._pid = os.getpid()
        self._recorded = False
        self._signalled = False
        self._last_error: tuple[object, ...] | None = None
        self._guard = quietly(functools.partial(_lost, run))

    # ---------------------------------------------------------------- the run's life

    @_quiet
    def start(self) -> None:
        """Watch for the end; on the first call record the known facts and determine the others.

        Called again when a run at rest continues or the process turns out to own it. Does nothing
        in a forked child. Never waits, and raises only what the handler of a signal raised.
        """
        if self._pid != os.getpid():
            return
        switches = self._switches
        self._signalled = False
        process_end.watch(
            self,
            exceptions=switches.traceback or (self.owner and switches.fail_on_exception),
            signals=self.owner and switches.signals,
        )
        if not self._recorded:
            self._recorded = True
            self._parts = self._parts_of_run()
        for part in self._parts:
            with self._guard:
                part.start()

    def _parts_of_run(self) -> list[Part]:
        # They stop in the opposite order.
        run, switches = self._run, self._switches
        below, secrets = self._settle_namespace(), switches.secrets
        streams = {"stdout": switches.stdout, "stderr": switches.stderr}
        # Only what is wanted is loaded, and what is slow to load by the thread that needs it.
        parts: list[Part] = []
        if switches.host or switches.finds_code:
            from seamark.capture.facts import Facts

            parts.append(Facts(run, below, switches, lambda: self.owner, self._guard))
        if any(streams.values()):
            from seamark.capture.output import Output

            limit = switches.limit
            self._output = Output(run, below, streams, limit=limit, secrets=secrets)
            parts.append(self._output)
        if switches.host or switches.hardware_metrics:
            from seamark.capture.hardware import Hardware

            facts, metrics = switches.host, switches.hardware_metrics
            parts.append(Hardware(run, below, facts=facts, metrics=metrics))
        return parts

    def _settle_namespace(self) -> str:
        if not self._switches.monitoring_namespace:
            self._namespace = f"monitoring/{self._run.writer}"
        return self._namespace

    @_quiet
    def stop(self, timeout_s: float | None = None) -> None:
        """Stop observing the end of the process, and wait for captures that still run.

        All parts together get the time, by default two seconds. May be called twice, and before a
        further `start`. Raises only what the handler of a signal raised.
        """
        until = time.monotonic() + (_END_S if timeout_s is None else timeout_s)
        process_end.unwatch(self)
        if self._pid != os.getpid():
            return
        for part in reversed(self._parts):
            with self._guard:
                part.stop(max(0.0, until - time.monotonic()))

    # ---------------------------------------------------------------- how the process ends

    @property
    def is_idle(self) -> bool:
        """Whether all that was recorded is written, and all that was printed recorded."""
        return self._run.is_idle and (self._output is None or self._output.drained)

    @_quiet
    def note_exception(self, error: BaseException, *, asked: bool = False) -> None:
        """Record an exception, secrets masked; ``asked`` says that a person told of it.

        An error is told of on its way, too, as it leaves a ``with`` block or the script, and is
        listed once. Raises only what the handler of a signal raised.
        """
        if self._pid != os.getpid():
            return
        below, secrets = self._settle_namespace(), self._switches.secrets
        told = {"type": type(error).__name__, "message": error_message(error, secrets)}
        # No weak reference can be held to it, and its traceback grows on its way.
        known = (id(error), *told.values())
        if self._switches.traceback:
            told["traceback"] = error_traceback(error, secrets)
            self._run.assign_quietly({f"{below}/traceback": told["traceback"]})
        if asked or known != self._last_error:
            self._run.append_text(f"{below}/{ERRORS}", json.dumps(told))
        self._last_error = known

    def saw_exception(self, error: BaseException | None) -> None:
        """Take note of what ended the run, or None if it ended normally.

        Ctrl-C interrupts the run, other exceptions fail it (`cause_of`). The exit that follows on
        SIGTERM says nothing new.
        """
        cause = cause_of(error)
        if cause is None or (self._signalled and isinstance(error, SystemExit)):
            return
        self.note_exception(cause)
        state = state_after(cause)
        if state == "interrupted" or self._switches.fail_on_exception:
            self._run.note_state(state, error=cause)

    def saw_signal(self, name: str) -> None:
        """Take note of a signal that ends the process."""
        self._signalled = True
        self._run.note_state("interrupted", signal=name)
        if self._output is not None:
            self._output.hurry()
