"""States of runs, and the groups in which they are treated alike."""

from __future__ import annotations

from typing import Final

CRASHED: Final = "crashed"
"""State that readers derive for a run whose process is gone; no record contains it."""
RECORDED_STATES: Final = ("created", "running", "completed", "failed", "interrupted", "suspended")
STATES: Final = (*RECORDED_STATES, CRASHED)
ACTIVE_STATES: Final = ("created", "running")
"""States of runs that have not ended."""
GOOD_STATES: Final = (*ACTIVE_STATES, "completed", "suspended")
"""States that need no explanation."""
RESUMABLE_STATES: Final = (CRASHED, "interrupted", "suspended")
"""States of a started run that a process may resume."""
SETTABLE_STATES: Final = ("running", "interrupted", "failed", "suspended", "completed")
"""States that `seamark.Run.set_state` accepts."""
GROUPS: Final = {
    "active": ACTIVE_STATES,
    "inactive": tuple(state for state in STATES if state not in ACTIVE_STATES),
    "error": ("interrupted", "failed", CRASHED),
    "finished": ("suspended", "completed"),
}
"""States by the names of groups, which the argument ``state`` allows, too.

``"created"`` and ``"running"`` are states and need no group.
"""
ALIASES: Final = {
    "done": "completed",
    "success": "completed",
    "succeeded": "completed",
    "broken": "failed",
    "aborted": "interrupted",
    "cancelled": "interrupted",
    "killed": CRASHED,
    "paused": "suspended",
}
"""States by their names in other programs."""
