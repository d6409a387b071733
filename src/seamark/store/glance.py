"""What need not be looked at again: tables are often asked for several times in a row.

Whether 10,000 runs have something new takes 20,000 questions to the file system. Right after all of
them were asked in vain, only what may well have changed is asked about: folders in which new runs
appear, and runs that somebody wrote to a moment ago.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from seamark.journal.segment import journals_opened

if TYPE_CHECKING:
    from seamark.store.index import Known

__all__ = ["GLANCE_S", "Glance"]

GLANCE_S: Final = 0.5
"""How late a change to a run that had been at rest may be seen, seconds."""
_REST_NS: Final = 10 * 10**9
"""A run at rest has not changed for so long; one that is alive writes heartbeats."""
_RACY_NS: Final = 2 * 10**9
"""A folder that changed so recently may change again without its time changing, nanoseconds."""


class Glance:
    """A look at all runs of a project that found nothing to fold.

    Args:
        project: Which project; None for all.
        known: What the index has.
        folders: Every folder in which a new run can appear.
        version: Of the index file; changes when another process writes to it.
        begun_ns: When the look began by the clock of the file system, nanoseconds since the epoch.

    Attributes:
        known: As given.
        due: The part of it that has to be looked at each time.
    """

    def __init__(
        self,
        project: str | None,
        known: Mapping[tuple[str, str], Known],
        folders: Iterable[str],
        version: int,
        begun_ns: int,
    ) -> None:
        self.known = known
        self.due = {ref: facts for ref, facts in known.items() if not _rests(facts, begun_ns)}
        self._project = project
        self._version = version
        self._folders = {folder: _mtime_ns(folder) for folder in folders}
        self._racy = any(mtime > begun_ns - _RACY_NS for mtime in self._folders.values())
        self._opened = journals_opened()
        self._until = time.monotonic() + GLANCE_S

    def holds(self, project: str | None, version: int) -> bool:
        """Tell whether that look was just now, and this process has written nothing since."""
        return (
            time.monotonic() < self._until
            and (project, version) == (self._project, self._version)
            and self._opened == journals_opened()
            and not self._opened.now
        )

    def may_have_new_runs(self) -> bool:
        """Tell whether a folder has changed in which a run can appear."""
        return self._racy or any(
            _mtime_ns(folder) != mtime for folder, mtime in self._folders.items()
        )


def _rests(facts: Known, begun_ns: int) -> bool:
    changed = max([facts.listed, *(mtime for _, _, mtime, _, _ in facts.journals)])
    return (
        facts.listed > 0
        and changed < begun_ns - _REST_NS
        and not any(retry for *_, retry in facts.journals)
    )


def _mtime_ns(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - the walk gives strings
    except OSError:
        return -1
