"""Whether another process records into the same run by mistake."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.format import Kind
from seamark.journal.headers import header_of, writer_lives
from seamark.journal.reader import JournalReader
from seamark.process.job import job_key
from seamark.process.liveness import process_facts
from seamark.process.rank import current_rank

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["Rivals"]

log = logging.getLogger("seamark")

_GENERATIONS: Final = 64


class Rivals:
    """Looks for other owners of a run that record at the same time, and warns once of the first.

    Not counted are the ranks of one job, copies of the same run in other processes, and processes
    that started this one or were started by it.

    Args:
        folder: The run.
        lineage: What this process's journals name as ``lineage``.
    """

    def __init__(self, folder: RunFolder, lineage: str) -> None:
        self._folder = folder
        self._lineage = lineage
        self._seen: set[str] = set()
        self._told = False

    def look(self) -> None:
        """Look at the journals that were not there before. Never raises."""
        if self._told:
            return
        with contextlib.suppress(Exception):
            for journal in self._folder.journals():
                if journal.path.name not in self._seen and self._is_rival(journal.path):
                    self._told = True
                    return

    def _is_rival(self, path: Path) -> bool:
        try:
            header = self._rival(path)
        except OSError:  # begun just now, and without a header yet: the next look will tell
            return False
        self._seen.add(path.name)
        if header is not None:
            log.warning(
                "seamark: two processes record run %s at the same time: this one and "
                "pid %s on %s. What they record is mixed: stop one of them, or give "
                "each its own run",
                self._folder.run,
                header.get("pid"),
                header.get("host"),
            )
        return header is not None

    def _rival(self, path: Path) -> Mapping[str, Any] | None:
        """Return the header of a journal if its owner is another process that lives."""
        header = header_of(path)
        if not header.get("owner") or header.get("lineage") == self._lineage:
            return None
        with JournalReader(path) as reader:
            last = reader.last_frame()
        if last is None or last.kind == Kind.CLOSE:
            return None
        return None if not writer_lives(path) or _belongs_here(header) else header


def _belongs_here(header: Mapping[str, Any]) -> bool:
    job = header.get("job")
    if job is not None and job == job_key() and header.get("rank") != current_rank().rank:
        return True
    me = process_facts()
    if any(header.get(fact) != me[fact] for fact in ("host", "boot")):
        return False
    pid = header.get("pid")
    return isinstance(pid, int) and (_descends(me["pid"], pid) or _descends(pid, me["pid"]))


def _descends(pid: int, ancestor: int) -> bool:
    """Return whether a process is another one, or was started by it, directly or not."""
    for _ in range(_GENERATIONS):
        if pid == ancestor:
            return True
        if pid <= 1:
            return False
        pid = _parent(pid)
    return False


def _parent(pid: int) -> int:
    """Return the parent of a process, 0 if it is not known.

    Source: proc(5), field 4 of ``/proc/<pid>/stat``.
    """
    if pid == os.getpid():
        return os.getppid()
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])
