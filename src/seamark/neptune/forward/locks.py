"""Locks that let only one process of this machine send a journal: two would repeat its points."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from typing import Final

from seamark.journal.root import cache_folder
from seamark.process.interrupts import let_pass, quietly
from seamark.remote.protocol import Refused

__all__ = ["Locks"]

_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1


class Locks:
    """Locks of journals on their way to one place, held until the process ends.

    They are ranges of one file in the user's cache; the kernel lets go of those of a dead process.
    Where no such file can be, nothing is locked.

    Args:
        place: URI of the place.
    """

    def __init__(self, place: str) -> None:
        self._fd = -1
        self._taken: set[str] = set()
        name = f"forward-{hashlib.sha256(place.encode()).hexdigest()[:32]}.lock"
        with quietly(only=(OSError, RuntimeError)):
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(folder / name, flags, 0o600)

    def take(self, journal: str) -> None:
        """Lock a journal.

        Args:
            journal: Its file name.

        Raises:
            Refused: If another process sends it.
        """
        if self._fd < 0 or journal in self._taken:
            return
        start = int(hashlib.sha256(journal.encode()).hexdigest()[:14], 16)
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, start)
            except (BlockingIOError, PermissionError) as error:
                let_pass(error)
                if time.monotonic() > until:
                    msg = "another process of this machine is sending it"
                    raise Refused(msg) from error
                time.sleep(_PAUSE_S)
            except OSError as error:  # a file system without locks
                let_pass(error)
                return
            else:
                self._taken.add(journal)
                return
