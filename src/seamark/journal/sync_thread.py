"""The thread beside a journal: it syncs the journal at intervals, and once more at the end."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["SyncThread"]


class _Keep(Protocol):
    """Function that is called at each interval; never raises."""

    def __call__(self, *, heartbeat: bool = False) -> None:
        """Force data to disk, write what waits and, if asked, a heartbeat."""


class SyncThread(threading.Thread):
    """Daemon thread of one writer.

    Args:
        keep: Called at each interval.
        sync_s: Interval of ``fdatasync``, in seconds.
        heartbeat_s: Interval of heartbeat frames, in seconds.
    """

    def __init__(self, keep: _Keep, sync_s: float, heartbeat_s: float) -> None:
        super().__init__(name="seamark-sync", daemon=True)
        self._keep = keep
        self._sync_s = sync_s
        self._heartbeat_s = heartbeat_s
        self._done = threading.Event()

    def start_if_possible(self) -> None:
        """Start, unless the interpreter is already shutting down.

        The writer then syncs for itself at its end.
        """
        try:
            self.start()
        except RuntimeError:
            self._done.set()

    def run(self) -> None:
        """Keep the journal until `end` is called, then once more."""
        beat_at = time.monotonic() + self._heartbeat_s
        self._keep()
        while not self._done.wait(self._sync_s):
            beat = time.monotonic() >= beat_at
            if beat:
                beat_at = time.monotonic() + self._heartbeat_s
            self._keep(heartbeat=beat)
        self._keep()

    def end(self) -> None:
        """Signal the thread to do its last round now, without waiting for it."""
        self._done.set()

    def finish(self, timeout_s: float) -> bool:
        """Do the last round; return whether it is done within ``timeout_s`` seconds.

        The calling thread does it if this one could not be started.
        """
        self._done.set()
        if self.ident is None:
            self._keep()
        elif self is not threading.current_thread():
            self.join(timeout_s)
        return not self.is_alive()
