"""Search for the files that named folders and patterns stand for; no others are looked at."""

# ruff: noqa: PTH100, PTH111, PTH112, PTH113, PTH118, PTH119, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import fnmatch
import glob
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from seamark.capture.code.ignored import Ignored, RulesTooSlowError, RuleTime
from seamark.process.interrupts import let_pass

__all__ = ["StoppedError", "Walk"]

_MAX_LOOKED: Final = 100_000
_MAX_TIME_S: Final = 60.0
_MAX_RULE_TIME_S: Final = 1.0
_MAX_DEPTH: Final = 200
_NO_SOURCES: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})
_ANY_FOLDERS: Final = "**"
_WORK_S: Final = 0.001
_REST_S: Final = 0.002


class StoppedError(Exception):
    """Looking for files has ended early; why, in words."""


class Walk:
    """Looks for files, in pieces: a thread that computes without a pause slows the training.

    Links to folders are not followed, unless they were named themselves; a link to a file counts as
    that file if it lies below the folder that was named. What is ignored is not entered, nor are
    the folder of all runs, repositories' own folders and ``__pycache__``.

    Args:
        here: What names are relative to.
        aside: The folder of all runs.
        hurry: Set when nothing is to be gained by pauses any more.
        may_go_on: Asked again and again; looking ends when it says no.

    Attributes:
        linked: The first links that lead out of what was named, by name.
    """

    def __init__(
        self, here: str, aside: str, hurry: threading.Event, may_go_on: Callable[[], bool]
    ) -> None:
        self._here, self._aside = here, os.path.realpath(aside)
        self._hurry, self._may_go_on = hurry, may_go_on
        self._rule_time = RuleTime(_MAX_RULE_TIME_S)
        self._looked = 0
        self._begun = self._rested = time.monotonic()
        self.linked: list[str] = []

    def files(self, target: str) -> Iterator[tuple[str, str]]:
        """Yield the files that a path, folder or pattern stands for: name and path.

        Names are relative to the working directory for what lies in it, else to the folder that was
        named or that the pattern begins at; a single file goes by its own name.

        Args:
            target: A path, a folder, or a pattern in which ``**`` goes into folders.

        Raises:
            StoppedError: If looking has ended early.
        """
        place = os.path.abspath(os.path.join(self._here, os.path.expanduser(target)))
        base, wanted = place, []
        if os.path.isfile(place):
            yield self._name(place, os.path.dirname(place)), place
            return
        if not os.path.isdir(place):
            while glob.has_magic(base):
                wanted.append(os.path.basename(base))
                base = os.path.dirname(base)
            if not wanted:
                return
        try:
            ignored = Ignored(place, self._rule_time)
            start = frozenset({0}) if wanted else None
            for path in self._below(base, base, wanted[::-1], start, ignored, 0):
                yield self._name(path, base), path
        except RulesTooSlowError:
            msg = "rules of .gitignore files take too long"
            raise StoppedError(msg) from None

    def _name(self, path: str, base: str) -> str:
        try:
            inside = os.path.relpath(path, self._here).replace(os.sep, "/")
        except ValueError:  # on another drive
            inside = ".."
        outside = inside.startswith("../") or inside == ".."
        return os.path.relpath(path, base).replace(os.sep, "/") if outside else inside

    def _below(
        self,
        base: str,
        folder: str,
        wanted: list[str],
        reached: frozenset[int] | None,
        ignored: Ignored,
        depth: int,
    ) -> Iterator[str]:
        """Yield files below a folder.

        Args:
            base: What was named.
            folder: Where to look.
            wanted: The parts of a pattern.
            reached: Which of them the next name may be; None: everything is wanted.
            ignored: What is not.
            depth: How far below.
        """
        if reached is not None:
            reached = _with_folders_passed(wanted, reached)
            if len(wanted) in reached:  # the folder itself is meant
                reached = None
        for entry in self._entries(folder):
            inner = None if reached is None else _reached(wanted, reached, entry.name)
            if inner is not None and not inner:
                continue
            kind = _kind(entry)
            if kind == "folder":
                if self._enters(entry, ignored):
                    if depth == _MAX_DEPTH:
                        msg = f"folders are looked at {_MAX_DEPTH} deep"
                        raise StoppedError(msg)
                    yield from self._below(base, entry.path, wanted, inner, ignored, depth + 1)
            elif (
                kind
                and (inner is None or len(wanted) in inner)
                and ignored.includes(entry.path, is_folder=False)
                and (kind == "file" or self._is_inside(entry.path, base, ignored))
            ):
                yield entry.path

    def _enters(self, entry: os.DirEntry[str], ignored: Ignored) -> bool:
        if entry.name in _NO_SOURCES or os.path.realpath(entry.path) == self._aside:
            return False
        return ignored.includes(entry.path, is_folder=True)

    def _is_inside(self, link: str, base: str, ignored: Ignored) -> bool:
        """Return whether a link leads to a file below what was named that is kept itself."""
        real, top = os.path.realpath(link), os.path.realpath(base)
        if not os.path.isfile(real):
            return False
        if not _is_below(real, top):
            self.linked.append(self._name(link, base))
            return False
        inside = os.path.relpath(real, top)
        if _is_below(real, self._aside) or not _NO_SOURCES.isdisjoint(Path(inside).parts):
            return False
        return ignored.includes(os.path.join(base, inside), is_folder=False)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return what is in a folder, by name; of one that cannot be read nothing."""
        found: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder) as listed:
                for entry in itertools.islice(listed, _MAX_LOOKED + 1):
                    self._go_on()
                    found.append(entry)
        except OSError as error:
            let_pass(error)
        return sorted(found, key=lambda entry: entry.name)

    def _go_on(self) -> None:
        """Pause now and then.

        Raises:
            StoppedError: If it is enough.
        """
        self._looked += 1
        if self._looked > _MAX_LOOKED:
            msg = f"at most {_MAX_LOOKED:,} files and folders are looked at"
            raise StoppedError(msg)
        now = time.monotonic()
        if now - self._begun > _MAX_TIME_S:
            msg = f"looking for files ends after {_MAX_TIME_S:.0f} seconds"
            raise StoppedError(msg)
        if not self._may_go_on():
            msg = "the run has ended"
            raise StoppedError(msg)
        if now - self._rested > _WORK_S:
            self._hurry.wait(_REST_S)
            self._rested = time.monotonic()


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def _kind(entry: os.DirEntry[str]) -> str:
    """Return "folder", "file" or "link" (to whatever); empty for anything else."""
    try:
        if entry.is_symlink():
            return "link"
        if entry.is_dir(follow_symlinks=False):
            return "folder"
        return "file" if entry.is_file(follow_symlinks=False) else ""
    except OSError as error:
        let_pass(error)
        return ""


def _reached(wanted: list[str], before: frozenset[int], name: str) -> frozenset[int]:
    """Return which parts of a pattern may come after a name; their number if it is complete.

    A name that begins with a dot is meant only by a part that does.

    Args:
        wanted: The parts.
        before: Which of them the name may be; `_with_folders_passed`.
        name: Of a file or folder.
    """
    hidden = name.startswith(".")
    found: set[int] = set()
    for at in before:
        if at < len(wanted) and (not hidden or wanted[at].startswith(".")):
            if wanted[at] == _ANY_FOLDERS:
                found.add(at)
            elif fnmatch.fnmatchcase(name, wanted[at]):
                found.add(at + 1)
    return frozenset(found)


def _with_folders_passed(wanted: list[str], reached: frozenset[int]) -> frozenset[int]:
    """Add the places behind each ``**``, which may stand for no folder at all."""
    found = set(reached)
    for at in reached:
        behind = at
        while behind < len(wanted) and wanted[behind] == _ANY_FOLDERS:
            behind += 1
            found.add(behind)
    return frozenset(found)
