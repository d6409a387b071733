"""Folders below a root that could not be read."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from seamark.process.interrupts import let_pass

log = logging.getLogger("seamark")

__all__ = ["Unread", "UnreadFolders"]

_TOLD: Final = 3
"""So many folders are named in a warning."""


_LONG: Final = 300


class Unread(NamedTuple):
    """A folder of a project, a run, or the root that cannot be read, and the system's reason."""

    path: str
    why: str


class UnreadFolders:
    """Folders below one absolute root that could not be read at the last look."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._why: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._why)

    def note(self, path: str | Path, error: OSError) -> None:
        """Note that a folder cannot be read."""
        let_pass(error)
        self._why[str(path)] = error.strerror or str(error)

    def forget(self, project: str | None, run: str | None) -> set[str]:
        """Return all noted folders, and forget those that are looked at again."""
        before = set(self._why)
        place = "/".join(filter(None, (self._root, project, run)))
        for path in before:
            if path == place or path.startswith(f"{place}/"):
                del self._why[path]
        return before

    def now(self) -> list[Unread]:
        """Return the folders, sorted, without those that lie in another one."""
        return [
            Unread(path, why)
            for path, why in sorted(self._why.items())
            if not any(above in self._why for above in self._folders_above(path))
        ]

    def first_above(self, path: str) -> Unread | None:
        """Return the first unreadable folder among a folder and its parents."""
        found = (one for one in (path, *self._folders_above(path)) if one in self._why)
        return next((Unread(one, self._why[one]) for one in found), None)

    def warn(self, before: Container[str]) -> None:
        """Warn about unreadable folders, unless they are the same as before."""
        if not self._why:
            return
        found = self.now()
        if all(one.path in before for one in found):
            return
        told = ", ".join(f"{_shortened(one.path)} ({one.why})" for one in found[:_TOLD])
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        denied = os.strerror(errno.EACCES) in {one.why for one in found}
        log.warning(
            "seamark: %s cannot be read, so that new runs in there are missing and others are as "
            "they were: %s%s (%ssee: seamark fsck)",
            "one folder" if len(found) == 1 else f"{len(found)} folders",
            told,
            more,
            "give yourself the right to: chmod -R u+rX; " if denied else "",
        )

    def _folders_above(self, path: str) -> Iterator[str]:
        while path != self._root and (above := os.path.dirname(path)) != path:  # noqa: PTH120 - of strings
            yield above
            path = above


def _shortened(path: str) -> str:
    # Names of folders are untrusted.
    said = "".join(one if one.isprintable() else repr(one)[1:-1] for one in path)
    return said if len(said) <= _LONG else f"{said[: _LONG // 2]}…{said[-_LONG // 2 :]}"
