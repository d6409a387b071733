"""What many tests begin a run with."""

from __future__ import annotations

from typing import Any

QUIET: Any = dict.fromkeys(
    [
        f"capture_{what}"
        for what in (
            *("git", "script", "packages", "host", "traceback", "signals"),
            *("hardware_metrics", "stderr", "stdout"),
        )
    ],
    False,
)
"""Arguments of `init_run` with which nothing is recorded unasked."""
