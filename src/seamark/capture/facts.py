"""Capture that determines the environment and the code once, on a thread."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seamark.capture.code import Script
from seamark.process import fork

if TYPE_CHECKING:
    from seamark.capture.code.code import Code
    from seamark.capture.part import Recorder
    from seamark.capture.switches import Switches
    from seamark.process.interrupts import quietly

__all__ = ["Facts"]

# How long the end waits for what is still being found out before git is ended, in seconds.
_GRACE_S: Final = 1.0


class Facts:
    """Records where a process runs and, of an owner, the run's code; see `Part`.

    ``owner`` returns whether the process owns the run, whose code is what it executes then;
    ``guard`` counts what failed.
    """

    def __init__(
        self,
        run: Recorder,
        namespace: str,
        switches: Switches,
        owner: Callable[[], bool],
        guard: quietly,
    ) -> None:
        self._run, self._namespace, self._switches = run, namespace, switches
        self._owner, self._guard = owner, guard
        self._told = False
        self._script: Script | None = None
        self._code: Code | None = None
        self._given_up = False
        self._finding: threading.Thread | None = None
        self._looking: threading.Thread | None = None
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def start(self) -> None:
        """Record the known facts, and start to determine the others; each only once."""
        tasks: list[Callable[[], None]] = []
        if not self._told and self._switches.host:
            tasks.append(self._record_environment)
        self._told = True
        if self._script is None and self._switches.finds_code and self._owner():
            known = self._switches.version_at_start()
            self._script = script = known.script if known else Script.running()
            tasks.append(lambda: self._find_code(script))
        if tasks:
            self._given_up = False
            self._finding = threading.Thread(
                target=self._find_out,
                args=(tasks, self._finding),
                name="seamark-capture",
                daemon=True,
            )
            self._finding.start()
        looks = self._looking is not None and self._looking.is_alive()
        if self._script is not None and self._switches.script and not looks:
            # Begun now, for at the exit of an interpreter there are no new threads.
            ended: queue.SimpleQueue[None] = queue.SimpleQueue()
            self._ended = ended
            self._looking = threading.Thread(
                target=self._look_again, args=(ended,), name="seamark-code", daemon=True
            )
            self._looking.start()

    def stop(self, timeout_s: float) -> None:
        """Record what was executed meanwhile; a git that hangs gets one second at most."""
        self._ended.put(None)
        until = time.monotonic() + timeout_s
        for grace_s in (min(_GRACE_S, timeout_s), timeout_s):
            for thread in (self._finding, self._looking):
                if thread is not None and thread is not threading.current_thread():
                    thread.join(max(0.0, until - timeout_s + grace_s - time.monotonic()))
            self._given_up = True
            if self._code is not None:
                self._code.give_up()

    def _look_again(self, ended: queue.SimpleQueue[None]) -> None:
        # A disk that hangs holds up this thread, and nobody waits for it longer than he said.
        ended.get()
        if self._finding is not None:
            self._finding.join()
        if self._code is not None:
            with self._guard:
                self._code.look_again()

    def _find_out(self, tasks: list[Callable[[], None]], before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # one after the other: a training needs its cores
        for task in tasks:
            with self._guard:
                task()

    def _record_environment(self) -> None:
        with fork.held_off():
            from seamark.capture.environment import environment_facts
        facts = environment_facts(self._namespace)
        hide = self._switches.secrets.text
        kept = {path: hide(one) if isinstance(one, str) else one for path, one in facts.items()}
        here = {"hostname": socket.gethostname(), "pid": os.getpid()}
        self._run.assign_quietly({f"{self._namespace}/{key}": here[key] for key in here} | kept)
        if hidden := [path for path, one in facts.items() if kept[path] != one]:
            self._run.note_masked(hidden)

    def _find_code(self, script: Script) -> None:
        with fork.held_off():
            from seamark.capture.code.code import Code
        self._code = code = Code(self._run, self._switches, script)
        if self._given_up:  # before it could be seen from there
            code.give_up()
        for task in code.tasks:
            with self._guard:
                task()
