"""Edits of the runs of a folder, recorded in journals without ownership of the run.

An edit does not change the state, the times or the owner of a run. A journal is closed a minute
after its last edit, so that edits of a run in quick succession share a journal.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from seamark.journal.folder import RunFolder, name_of
from seamark.journal.writer import JournalWriter
from seamark.process.interrupts import quietly
from seamark.process.liveness import process_facts
from seamark.reading.catalog import Ref
from seamark.server.failures import Refusal, later

IDLE_S: Final = 60.0
"""Time after the last edit until a journal is closed, in seconds."""
WRITABLE: Final = os.W_OK | os.X_OK
"""Access to a folder in which files can be created."""
_MAX_OPEN: Final = 256
_CLOSE_S: Final = 5.0


class NotWritable(Refusal):
    """Error for a run folder that this user may not write to."""

    def __init__(self, hint: str) -> None:
        super().__init__(403, "read-only", hint)


@dataclass
class _OpenJournal:
    writer: JournalWriter
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class Edits:
    """Recorder of edits to runs below one root; thread-safe."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._lock = threading.Lock()
        self._open: OrderedDict[Ref, _OpenJournal] = OrderedDict()
        self._ends: dict[Ref, dict[str, int]] = {}
        self._timer: threading.Timer | None = None
        self._closed = False

    def record(self, project: str, run: str, ops: Iterable[Mapping[str, Any]]) -> int:
        """Append journal operations to a run; return the number of bytes written to the run so far.

        Raises:
            NotWritable: If this user may not write to the run.
            Refusal: If the write fails, for example because the disk is full.
        """
        ref = (project, run)
        one = self._journal_of(ref)
        with one.lock:
            kept = one.writer.append_ops(list(ops))
            ends = one.writer.positions()
        if not kept:
            with self._lock:
                if self._open.get(ref) is one:
                    del self._open[ref]
            _close([one])
            raise later(
                "disk-full",
                f"{one.writer.folder.path}: the change could not be written; try again later",
                seconds=30,
            )
        with self._lock:
            known = self._ends.setdefault(ref, {})
            known.update(ends)
            return sum(known.values())

    def ends(self, ref: Ref) -> dict[str, int]:
        """Return the sizes of the journals written to a run here, in bytes, by writer."""
        with self._lock:
            return dict(self._ends.get(ref, {}))

    def close_idle(self) -> None:
        """Close the journals of runs without recent edits."""
        limit = self._clock() - IDLE_S
        with self._lock:
            old = [ref for ref, one in self._open.items() if one.used <= limit]
            gone = [self._open.pop(ref) for ref in old]
        _close(gone)
        with self._lock:
            self._timer = None
            self._set_timer()

    def close(self) -> None:
        """Close all journals; harmless when called twice."""
        with self._lock:
            self._closed = True
            gone = list(self._open.values())
            self._open.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        _close(gone)

    def _journal_of(self, ref: Ref) -> _OpenJournal:
        folder = RunFolder(self._root, *ref)
        if (link := folder.link()) is not None:
            raise NotWritable(
                f"{link} is a link, but edits are only written to a run's own folder: "
                "replace the link with the folder that it points to"
            )
        if not folder.exists():
            raise NotWritable(f"{folder.journal_dir} no longer exists: this run cannot be edited")
        if not os.access(folder.journal_dir, WRITABLE):
            owner = "another user"
            with quietly(only=OSError):  # the folder was removed meanwhile
                owner = name_of(folder.journal_dir.stat().st_uid)
            raise NotWritable(
                f"{folder.journal_dir} is not writable for you: it belongs to {owner}"
            )
        gone = []
        with self._lock:
            found = self._open.get(ref)
            if found is None:
                found = self._open[ref] = _OpenJournal(_writer(folder), self._clock())
                while len(self._open) > _MAX_OPEN:
                    gone.append(self._open.popitem(last=False)[1])
            found.used = self._clock()
            self._open.move_to_end(ref)
            self._set_timer()
        _close(gone)
        return found

    def _set_timer(self) -> None:
        if self._timer is None and self._open and not self._closed:
            self._timer = threading.Timer(IDLE_S, self.close_idle)
            self._timer.daemon = True
            self._timer.start()


def _writer(folder: RunFolder) -> JournalWriter:
    def header() -> dict[str, Any]:
        from seamark import __version__

        facts = {"seamark": __version__, "attempt": None, "owner": False, **process_facts()}
        return facts if folder.kind in ("run", "project") else {"kind": folder.kind, **facts}

    # No heartbeats: the liveness of this process does not matter.
    return JournalWriter(folder, header, heartbeat_s=math.inf)


def _close(some: Iterable[_OpenJournal]) -> None:
    for one in some:
        with one.lock:
            one.writer.close(timeout_s=_CLOSE_S)
