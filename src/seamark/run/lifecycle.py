"""Phases of a run in one process, their hooks, and the objects to finish at process exit.

===========  =======================================================================================
new          nothing was recorded by this object yet; it holds nothing of the system
waiting      it was recorded with ``start=False`` and has not begun: no heartbeat and no captures
recording    it records; a journal is open, and a thread forces it to disk
resting      training has ended; no journal is open and no thread runs; recording more is possible
stopped      it records nothing any more
===========  =======================================================================================

``docs/reference/lifecycle.md`` shows all transitions.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from seamark.capture.ending.process_end import at_worker_end
from seamark.process import fork
from seamark.process.interrupts import logged

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder


NEW: Final = "new"
WAITING: Final = "waiting"
RECORDING: Final = "recording"
RESTING: Final = "resting"
STOPPED: Final = "stopped"

log = logging.getLogger("seamark")

Hook = Callable[[], object]


class Lifecycle:
    """Phase of a run in one process, and the hooks that follow it, whose errors are logged."""

    def __init__(self) -> None:
        self.phase = NEW
        self._hooks: dict[str, list[Hook]] = {}
        self._once: dict[Hook, None] = {}

    def enter(self, phase: str) -> None:
        """Enter another phase without calling hooks."""
        self.phase = phase

    def on(self, **hooks: Hook) -> None:
        """Register hooks.

        Args:
            **hooks: By name. ``start``: when training is being recorded, at its first record and
                again after a rest; ``heartbeat``: every 30 s while a journal is open, on the thread
                that syncs it; ``rest``: when the run comes to rest, before its last record;
                ``stop``: when it stops, before its last record, at which it may be at rest;
                ``closed``: when its journal is closed for good.
        """
        for name, hook in hooks.items():
            self._hooks.setdefault(name, []).append(hook)

    def before_end(self, hook: Hook) -> None:
        """Register a hook that is called once, before the run next rests or stops.

        Registering it again before then has no effect.
        """
        self._once[hook] = None

    def call(self, name: str) -> None:
        """Call the hooks of a name; at the end in reverse order of registration. Never raises."""
        hooks = list(self._hooks.get(name, ()))
        if name in ("rest", "stop"):
            once, self._once = self._once, {}
            hooks = [*once, *reversed(hooks)]

        for hook in hooks:
            with logged(f"a component of a run failed in {name}", logging.DEBUG):
                hook()


LastCall = Callable[[BaseException | None], object]
"""Call at the end of the process, with the error that ends it or None."""
_running: dict[object, LastCall] = {}
"""Calls of open runs, by identity: a process may have several objects for one run, each with its
own records."""
_last_lines: dict[object, LastCall] = {}
_last: dict[object, LastCall] = {}


def finish_at_exit(run: object, call: LastCall, folder: RunFolder) -> None:
    """Call a function when the process ends, unless `note_finished` is called for the run."""
    _register()
    _running[id(run)] = call
    _last_lines.pop(folder, None)


def call_after_runs(call: LastCall) -> None:
    """Call a function, which must not raise, at the end of the process, after all runs."""
    if call not in _last:  # not for each journal: handlers of the training are called in between
        _last[call] = call
        _register()


def _register() -> None:
    # Always registered last, hence called first: before a debug root is removed.
    atexit.unregister(_finish_all)
    atexit.register(_finish_all)
    at_worker_end(_finish_all)


def _begin_child() -> None:
    _last.clear()  # a worker of multiprocessing has to register them again


fork.register(_begin_child)


def note_finished(run: object, folder: RunFolder, show: LastCall | None = None) -> None:
    """Forget a run that has nothing left to finish at exit; ``show`` prints how it ended."""
    _running.pop(id(run), None)
    _last_lines.pop(folder, None)
    if show is not None:
        _last_lines[folder] = show


def _finish_all(error: BaseException | None = None) -> None:
    for calls in (_running, _last_lines, _last):
        for key, call in list(calls.items()):
            call(error)
            calls.pop(key, None)
