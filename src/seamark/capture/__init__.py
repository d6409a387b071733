"""What is recorded without being asked: source code, packages, host, and how the process ends.

A `Capture` belongs to one run of one process. Nothing in it raises into training, and nothing slow
happens on the calling thread: what is not known at once is found out on one daemon thread.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from seamark.capture import git, process_end
from seamark.capture.host import host_facts
from seamark.capture.masking import MASK, mask_arguments, mask_secrets, mask_traceback
from seamark.capture.outcome import cause_of, state_after
from seamark.capture.packages import installed_packages, python_version
from seamark.capture.script import Script
from seamark.capture.secrets import Secrets
from seamark.capture.traceback import error_message, error_traceback
from seamark.process.interrupts import quietly

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
    "mask_traceback",
]

log = logging.getLogger("seamark")

_GIT_GRACE_S = 0.5

_quiet = quietly(lambda error: log.debug("seamark: a capture failed", exc_info=error))


class Recorder(Protocol):
    """The part of a run that captures write to. Nothing here may raise."""

    @property
    def writer(self) -> str | None:
        """Writer id of this process, or None before its first record."""

    @property
    def settled(self) -> bool:
        """Whether every record is written; False while one waits for a call it interrupted."""

    def assign_quietly(self, atoms: Mapping[str, Any]) -> None:
        """Assign values by path; count what cannot be kept."""

    def note_masked(self, paths: Iterable[str]) -> None:
        """Note that something was hidden in what is recorded at these paths."""

    def note_state(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the run's state."""


@dataclass(frozen=True, slots=True)
class Switches:
    """What is captured.

    Attributes:
        git: Commit, branch, dirty state and remote of the repository.
        script: The script and its arguments.
        packages: Versions of Python and of what is installed.
        host: Host name and pid.
        traceback: The traceback of the exception that ends the process.
        signals: Whether SIGTERM marks the run.
        git_ref: Which repository: a path, an object with one (Neptune's ``GitRef``), or None for
            that of the script; False for none.
        monitoring_namespace: Path that stands in for ``monitoring/<writer>``.
        fail_on_exception: Whether an uncaught exception fails the run.
        secrets: What is hidden in arguments, messages and tracebacks.
    """

    git: bool = True
    script: bool = True
    packages: bool = True
    host: bool = True
    traceback: bool = True
    signals: bool = True
    git_ref: Any = None
    monitoring_namespace: str | None = None
    fail_on_exception: bool = True
    secrets: Secrets = field(default_factory=Secrets)


class Capture:
    """Captures for one run of one process.

    Args:
        run: Where it is recorded.
        switches: What is recorded.
    """

    def __init__(self, run: Recorder, switches: Switches) -> None:
        self._run = run
        self._switches = switches
        self._namespace = (switches.monitoring_namespace or "").strip("/") or "monitoring"
        self._thread: threading.Thread | None = None
        self._git: git.GitProbe | None = None
        self._pid = os.getpid()
        self._recorded = False
        self._signalled = False

    # ---------------------------------------------------------------- the run's life

    @_quiet
    def start(self) -> None:
        """Watch for the end; the first time, record what is known and find out the rest.

        Called with the first record, and again when a run at rest continues: what was captured is
        not recorded twice. Does nothing if it is started already, and in a forked child. Never
        waits, and raises only what the handler of a signal raised.
        """
        if self._pid != os.getpid():
            return
        switches = self._switches
        self._signalled = False
        process_end.watch(
            self,
            exceptions=switches.traceback or switches.fail_on_exception,
            signals=switches.signals,
        )
        if not self._recorded:
            self._recorded = True
            self._record()

    def _record(self) -> None:
        switches = self._switches
        if not switches.monitoring_namespace:
            self._namespace = f"monitoring/{self._run.writer}"
        if switches.host:
            self._run.assign_quietly(host_facts(self._namespace))
        if tasks := self._tasks():
            self._thread = threading.Thread(
                target=self._find_out, args=(tasks,), name="seamark-capture", daemon=True
            )
            self._thread.start()

    def _tasks(self) -> list[Callable[[], None]]:
        """Return what is left to the thread; what may change, such as ``sys.argv``, is read now."""
        switches = self._switches
        script = Script.running()
        tasks: list[Callable[[], None]] = []
        if switches.script:
            tasks.append(lambda: self._tell_script(script))
        if switches.packages:
            tasks.append(self._find_packages)
        if switches.git and (where := git.repository_of(switches.git_ref, script)) is not None:
            self._git = probe = git.GitProbe(where, git.TIMEOUT_S)
            tasks.append(lambda: probe.find(self._run.assign_quietly))
        return tasks

    def _tell_script(self, script: Script) -> None:
        facts = script.facts(self._switches.secrets)
        self._run.assign_quietly(facts)
        if facts["source_code/arguments"] != list(script.arguments):
            self._run.note_masked(["source_code/arguments"])

    def _find_packages(self) -> None:
        found = {
            "source_code/python": python_version(),
            "source_code/packages": installed_packages(),
        }
        self._run.assign_quietly(found)

    @staticmethod
    def _find_out(tasks: list[Callable[[], None]]) -> None:
        for task in tasks:
            try:
                task()
            except Exception:
                log.debug("seamark: a capture failed", exc_info=True)

    @_quiet
    def stop(self, timeout_s: float = 2.0) -> None:
        """Stop observing the end of the process, and wait for what is still being captured.

        May be called twice, and before a further `start`. Raises only what the handler of a signal
        raised.

        Args:
            timeout_s: The longest time to wait, in seconds; a git that hangs gets half a second of
                it at most.
        """
        process_end.unwatch(self)
        thread, self._thread = self._thread, None
        if thread is None or self._pid != os.getpid() or thread is threading.current_thread():
            return
        thread.join(min(_GIT_GRACE_S, timeout_s))
        if self._git is not None:
            self._git.cancel()
        thread.join(max(0.0, timeout_s - _GIT_GRACE_S))

    # ---------------------------------------------------------------- how the process ends

    @property
    def settled(self) -> bool:
        """Whether all that was recorded is written; see `Recorder.settled`."""
        return self._run.settled

    @_quiet
    def note_exception(self, error: BaseException) -> None:
        """Record the traceback of an exception, secrets masked.

        Raises only what the handler of a signal raised.
        """
        if self._switches.traceback and self._pid == os.getpid():
            text = error_traceback(error, self._switches.secrets)
            self._run.assign_quietly({f"{self._namespace}/traceback": text})

    def saw_exception(self, error: BaseException | None) -> None:
        """Take note of what ended the run: a ``with`` block, a worker, the script.

        Ctrl-C interrupts the run. Other exceptions fail it, and an exit whose code is neither None
        nor 0: see `cause_of`. The exit that follows on SIGTERM says nothing new.

        Args:
            error: None if it ended normally.
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
