"""The states of a run in one process, and who is called when they change.

===========  =======================================================================================
new          nothing was recorded by this object yet; it holds nothing of the system
waiting      it was recorded with ``start=False`` and has not begun: no heartbeat and no captures
recording    it records; a journal is open, and a thread forces it to disk
resting      training has ended; no journal is open and no thread runs; recording more is possible
stopped      it records nothing any more
===========  =======================================================================================

``docs/explanation/lifecycle.md`` shows every way from one to another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from seamark.process.interrupts import quietly

__all__ = ["NEW", "RECORDING", "RESTING", "STOPPED", "WAITING", "Lifecycle"]

NEW: Final = "new"
WAITING: Final = "waiting"
RECORDING: Final = "recording"
RESTING: Final = "resting"
STOPPED: Final = "stopped"

log = logging.getLogger("seamark")

Hook = Callable[[], object]


class Lifecycle:
    """Phase of a run in one process, and the hooks that follow it.

    A part registers with `on`. What a hook raises is logged and goes no further, unless a signal
    handler raised it.

    Attributes:
        phase: `NEW`, `WAITING`, `RECORDING`, `RESTING` or `STOPPED`.
    """

    def __init__(self) -> None:
        self.phase = NEW
        self._hooks: dict[str, list[Hook]] = {}
        self._once: list[Hook] = []

    def enter(self, phase: str) -> None:
        """Go over to another phase; calls no hooks."""
        self.phase = phase

    def on(
        self,
        *,
        start: Hook | None = None,
        heartbeat: Hook | None = None,
        rest: Hook | None = None,
        stop: Hook | None = None,
    ) -> None:
        """Register hooks of a part of the run.

        Args:
            start: When training is being recorded: at its first record, and again after a rest.
            heartbeat: Every 30 s while a journal is open, on the thread that syncs it.
            rest: When the run comes to rest, before its last record.
            stop: When it stops, before its last record; it may be at rest then.
        """
        for name, hook in (
            ("start", start),
            ("heartbeat", heartbeat),
            ("rest", rest),
            ("stop", stop),
        ):
            if hook is not None:
                self._hooks.setdefault(name, []).append(hook)

    def before_end(self, hook: Hook) -> None:
        """Register a hook that is called once, before the run rests or stops next."""
        self._once.append(hook)

    def call(self, name: str) -> None:
        """Call the hooks of ``start``, ``heartbeat``, ``rest`` or ``stop``; never raises.

        At the end of a run, what was registered last is called first.
        """
        hooks = list(self._hooks.get(name, ()))
        if name in ("rest", "stop"):
            once, self._once = self._once, []
            hooks = [*once, *reversed(hooks)]

        def failed(error: Exception) -> None:
            log.debug("seamark: a part of a run failed at its %s: %r", name, error)

        for hook in hooks:
            with quietly(failed):
                hook()
