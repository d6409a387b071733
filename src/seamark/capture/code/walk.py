"""Search for the files that named folders and patterns stand for; no others are looked at."""

# ruff: noqa: PTH100, PTH111, PTH112, PTH113, PTH114, PTH118, PTH119, PTH120 - names of files are texts here

from __future__ import annotations

import fnmatch
import glob
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from seamark.capture.code import beginning_of, repository_top
from seamark.capture.code.git import Git, StoppedError, has_git, listing
from seamark.process.interrupts import let_pass, quietly

__all__ = ["Search", "StoppedError", "Walk"]

TIMEOUT_S = 30.0
"""Time limit for git to list the files below one folder, in seconds."""

_MAX_LOOKED: Final = 100_000
_MAX_NAMES: Final = 8 << 20
_NO_SOURCES: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})
_MAX_RULES: Final = 1 << 18
_ANY_FOLDERS: Final = "**"
_WORK_S: Final = 0.001
_REST_S: Final = 0.002


class Search:
    """Asks git which files below a folder are not ignored, by rules in files of one name.

    Inside a repository, its rules apply from the top. Elsewhere, and where they would leave
    nothing, only the rules in the folder and below it apply. A repository within is searched by its
    own rules.

    Attributes:
        is_cut: Whether there were more files than it was to list.
    """

    def __init__(
        self, rules: str = ".gitignore", aside: str | None = None, timeout_s: float | None = None
    ) -> None:
        self._rules, self._aside = rules, aside
        self._timeout_s = TIMEOUT_S if timeout_s is None else timeout_s
        self._git: Git | None = None
        self._cancelled = False
        self.is_cut = False

    def cancel(self) -> None:
        """Stop git; from any thread."""
        self._cancelled = True
        if self._git is not None:
            self._git.cancel()

    def names(self, folder: str, at_most: int) -> list[str]:
        """Return files and links below a folder by name, relative to it, with ``/``.

        There are at most ``at_most`` bytes of them; raises `StoppedError` if git cannot tell.
        """
        ends = time.monotonic() + self._timeout_s
        found: list[str] = []
        waiting = [""]
        while waiting and not self.is_cut:
            inside = waiting.pop()
            place = os.path.realpath(os.path.join(folder, inside))
            top = repository_top(place) or place
            names = self._listed(place, top, at_most, ends)
            if not names and top != place and self._is_ignored(place, top, at_most, ends):
                # It was named nevertheless.
                names = self._listed(place, place, at_most, ends)
            at_most -= sum(map(len, names))
            waiting += [inside + name for name in names if name.endswith("/")]
            found += [inside + name for name in names if not name.endswith("/")]
        return found

    def _is_ignored(self, place: str, top: str, at_most: int, ends: float) -> bool:
        """Return whether a folder is ignored itself, and not only all that is in it."""
        inside = os.path.relpath(place, top).replace(os.sep, "/")
        named = ("--directory", "--", f":(top,literal){inside}")
        return not self._listed(top, top, at_most, ends, *named)

    def _listed(self, place: str, top: str, at_most: int, ends: float, *named: str) -> list[str]:
        more = [os.path.join(top, ".git", "info", "exclude")] if self._rules == ".gitignore" else []
        words = listing(top, self._aside, *more, rules=self._rules)
        excluded = [f"--exclude={name}/" for name in sorted(_NO_SOURCES)]
        self._git = git = Git(place, max(0.0, ends - time.monotonic()))
        if self._cancelled:  # before it could be seen from there
            git.cancel()
        try:
            with tempfile.TemporaryDirectory(prefix="seamark-") as own, git:
                git.isolate(Path(own), top)
                answer = git.ask(*words, *excluded, "-z", *named, at_most=max(0, at_most))
        except OSError as error:
            let_pass(error)
            msg = f"git cannot be asked: {error}"
            raise StoppedError(msg) from error
        self.is_cut = answer.code is None
        if answer.code:
            msg = "git cannot tell which files are ignored"
            raise StoppedError(msg)
        return [os.fsdecode(name) for name in answer.output.split(b"\0")[:-1]]


class Walk:
    """Looks for files, in pieces: a thread that computes without a pause slows the training.

    Links to folders are not followed, unless they were named themselves; a link to a file counts as
    that file if it lies below the folder that was named. What is ignored is not entered, nor are
    the folder of all runs (``aside``), repositories' own folders and ``__pycache__``.

    Attributes:
        linked: The first links that lead out of what was named, by name.
        ruled: The first folders with rules that there is no git to apply, by name.
    """

    def __init__(
        self, here: str, aside: str, hurry: threading.Event, may_go_on: Callable[[], bool]
    ) -> None:
        self._here, self._aside = here, os.path.realpath(aside)
        self._hurry, self._may_go_on = hurry, may_go_on
        self._search = Search(aside=self._aside)
        self._looked = 0
        self._rested = time.monotonic()
        self.linked: list[str] = []
        self.ruled: list[str] = []

    def cancel(self) -> None:
        """End what takes long; from any thread."""
        self._search.cancel()

    def files(self, target: str) -> Iterator[tuple[str, str]]:
        """Yield name and path of the files that a path, folder or pattern (with ``**``) stands for.

        Names are relative to the working directory for what lies in it, else to the folder that was
        named or that the pattern begins at; a single file goes by its own name.

        Raises:
            StoppedError: If looking has ended early.
        """
        place = os.path.abspath(os.path.join(self._here, os.path.expanduser(target)))
        base = place
        wanted: list[str] = []
        if os.path.isfile(place):
            yield self._name(place, os.path.dirname(place)), place
            return
        if not os.path.isdir(place):
            while glob.has_magic(base):
                part, base = os.path.basename(base), os.path.dirname(base)
                if not (part == _ANY_FOLDERS and wanted[:1] == [part]):  # twice means it once
                    wanted.insert(0, part)
            if not wanted or not os.path.isdir(base):
                return
        # Here, on a thread: a folder of PATH may hang.
        is_told = has_git()
        names = self._search.names(base, _MAX_NAMES) if is_told else sorted(self._below(base))
        known = frozenset(names)
        for name in names:
            self._go_on()
            path = os.path.join(base, name)
            if _is_meant(wanted, name.split("/")) and self._is_inside(path, base, known):
                yield self._name(path, base), path
        if self._search.is_cut:
            msg = f"at most {_MAX_NAMES >> 10:,} KiB of names are searched"
            raise StoppedError(msg)

    def _name(self, path: str, base: str) -> str:
        try:
            inside = os.path.relpath(path, self._here).replace(os.sep, "/")
        except ValueError:  # on another drive
            inside = ".."
        outside = inside.startswith("../") or inside == ".."
        return os.path.relpath(path, base).replace(os.sep, "/") if outside else inside

    def _below(self, base: str) -> Iterator[str]:
        """Yield the names of all files and links below a folder, relative to it."""
        top = repository_top(os.path.realpath(base))
        above = [os.path.realpath(base)]
        while top and above[-1] != top:
            above.append(os.path.dirname(above[-1]))
        folders = [] if any(map(_has_rules, above)) else [base]
        if not folders:
            self.ruled.append(self._name(base, base))
        while folders:
            folder = folders.pop()
            if _has_rules(folder):
                self.ruled.append(self._name(folder, base))
                continue
            with quietly(only=OSError), os.scandir(folder) as entries:
                for entry in entries:
                    self._go_on()
                    if not entry.is_dir(follow_symlinks=False):
                        yield os.path.relpath(entry.path, base).replace(os.sep, "/")
                    elif entry.name not in _NO_SOURCES and entry.path != self._aside:
                        folders.append(entry.path)

    def _is_inside(self, path: str, base: str, known: frozenset[str]) -> bool:
        """Return whether a path is a file, or leads to one below the named folder that is known."""
        if not os.path.islink(path):
            return True
        real, top = os.path.realpath(path), os.path.realpath(base)
        if not os.path.isfile(real):
            return False
        if not real.startswith(os.path.join(top, "")):
            self.linked.append(self._name(path, base))
            return False
        return os.path.relpath(real, top).replace(os.sep, "/") in known

    def _go_on(self) -> None:
        """Pause now and then; raise `StoppedError` if it is enough."""
        self._looked += 1
        if self._looked > _MAX_LOOKED:
            msg = f"at most {_MAX_LOOKED:,} files and folders are searched"
            raise StoppedError(msg)
        if not self._may_go_on():
            msg = "the run has ended"
            raise StoppedError(msg)
        if time.monotonic() - self._rested > _WORK_S:
            self._hurry.wait(_REST_S)
            self._rested = time.monotonic()


def _has_rules(folder: str) -> bool:
    """Return whether a folder has rules of what is ignored; those of its repository, too."""
    if os.path.lexists(os.path.join(folder, ".gitignore")):
        return True
    rules = beginning_of(os.path.join(folder, ".git", "info", "exclude"), _MAX_RULES, follow=True)
    return any(line.strip() and line[:1] != b"#" for line in (rules or b"").splitlines())


def _is_meant(wanted: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern, by its parts, stands for a file or for a folder above it.

    A name that begins with a dot is meant only by a part that does.
    """
    if not wanted:
        return True
    part, rest = wanted[0], wanted[1:]
    if part == _ANY_FOLDERS and _is_meant(rest, names):  # which may be none
        return True
    if not names or (names[0].startswith(".") and not part.startswith(".")):
        return False
    if part == _ANY_FOLDERS:
        return _is_meant(wanted, names[1:])
    return fnmatch.fnmatchcase(names[0], part) and _is_meant(rest, names[1:])
