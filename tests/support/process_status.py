"""Whether a process has ended, also where nobody waits for it."""

from __future__ import annotations

import psutil


def has_ended(pid):
    """Return whether a process is gone, or is a zombie: orphans stay ones in some containers."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True
