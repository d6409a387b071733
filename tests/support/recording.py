"""What many tests begin a run with."""

from __future__ import annotations

NOTHING = dict.fromkeys(("git", "script", "packages", "host", "signals"), False)
"""The option ``capture`` with which it captures nothing."""
QUIET = {
    "capture": NOTHING,
    **{f"capture_{what}": False for what in ("traceback", "hardware_metrics", "stderr", "stdout")},
}
"""Arguments of `init_run` with which nothing is recorded unasked."""
