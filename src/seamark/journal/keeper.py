"""The thread beside a journal.

Forces data to disk, writes heartbeats, rotates, notices a removed file.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seamark.journal.writer import JournalWriter

__all__ = ["Keeper"]


class Keeper(threading.Thread):
    """Daemon thread of one `JournalWriter`.

    Args:
        writer: Whose journal is kept.
        sync_s: Interval of ``fdatasync``, in seconds.
        heartbeat_s: Interval of heartbeat frames, in seconds.
    """

    def __init__(self, writer: JournalWriter, sync_s: float, heartbeat_s: float) -> None:
        super().__init__(name="seamark-sync", daemon=True)
        self._writer = writer
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
        """Keep the journal until `finish` is called, then sync a last time."""
        beat_at = time.monotonic() + self._heartbeat_s
        self._writer.keep()
        while not self._done.wait(self._sync_s):
            beat = time.monotonic() >= beat_at
            if beat:
                beat_at = time.monotonic() + self._heartbeat_s
            self._writer.keep(heartbeat=beat)
        self._writer.keep()

    def end(self) -> None:
        """Have the last round done now, without waiting for it."""
        self._done.set()

    def finish(self, timeout_s: float) -> bool:
        """Have the last sync done.

        Wait at most ``timeout_s`` seconds. Returns whether it is done.
        """
        self._done.set()
        if self.ident is not None and self is not threading.current_thread():
            self.join(timeout_s)
        return not self.is_alive()
