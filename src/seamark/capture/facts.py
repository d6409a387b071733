"""Capture of the environment and the code, which are determined once on a thread."""

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


# Time that the end of a run waits for facts before git is terminated, in seconds.
_GRACE_S: Final = 1.0


class Facts:
    """Records the environment of a process and, for the run's owner, the code; see `Part`.

    ``owner`` returns whether the process owns the run; the code of the run is the owner's code.
    ``guard`` counts failures.
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
        self._environment_started = False
        self._script: Script | None = None
        self._code: Code | None = None
        self._cancelled = False
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._one_thread = threading.Lock()

    def start(self) -> None:
        """Start to determine and record the facts, each only once."""
        if self._thread is None:
            self._tasks = queue.SimpleQueue()
            self._cancelled = False
            thread = threading.Thread(
                target=self._run_tasks, args=(self._tasks,), name="seamark-capture", daemon=True
            )
            thread.start()
            self._thread = thread
        if not self._environment_started and self._switches.host:
            self._tasks.put(self._record_environment)
        self._environment_started = True
        if self._script is None and self._switches.finds_code and self._owner():
            known = self._switches.version_at_start()
            self._script = script = known.script if known else Script.running()
            self._tasks.put(lambda: self._find_code(script))

    def stop(self, timeout_s: float) -> None:
        """Record code imported since the start; wait at most one second for a hanging git."""
        until = time.monotonic() + timeout_s
        thread, self._thread = self._thread, None
        self._tasks.put(None)
        if thread is None or thread is threading.current_thread():
            return
        thread.join(min(_GRACE_S, timeout_s))
        self._cancelled = True
        if self._code is not None:
            self._code.cancel()
        thread.join(max(0.0, until - time.monotonic()))

    def _run_tasks(self, tasks: queue.SimpleQueue[Callable[[], None] | None]) -> None:
        # The thread also waits for the end, when the interpreter may not start another one. Several
        # work one after the other, because the training needs the cores.
        with self._one_thread:
            for task in iter(tasks.get, None):
                with self._guard:
                    task()
            if self._code is not None:
                with self._guard:
                    self._code.record_executed(is_end=True)

    def _record_environment(self) -> None:
        with fork.delay_forks():
            from seamark.capture.environment import environment_facts
        facts = environment_facts(self._namespace)
        mask = self._switches.secrets.text
        masked = {path: mask(one) if isinstance(one, str) else one for path, one in facts.items()}
        here = {"hostname": socket.gethostname(), "pid": os.getpid()}
        self._run.assign_quietly({f"{self._namespace}/{key}": here[key] for key in here} | masked)
        if changed := [path for path, one in facts.items() if masked[path] != one]:
            self._run.note_masked(changed)

    def _find_code(self, script: Script) -> None:
        with fork.delay_forks():
            from seamark.capture.code.code import Code
        self._code = code = Code(self._run, self._switches, script)
        if self._cancelled:  # `stop` was called before `_code` was set
            code.cancel()
        for task in code.tasks:
            with self._guard:
                task()
