"""Search for the files below given folders and matching given patterns."""

# ruff: noqa: PTH100, PTH111, PTH112, PTH113, PTH114, PTH118, PTH120 - paths are strings

from __future__ import annotations

import fnmatch
import glob
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from seamark.capture.code import read_beginning, repository_top
from seamark.capture.code.git import Git, StoppedError, has_git
from seamark.process.interrupts import let_pass, quietly

__all__ = ["Search", "StoppedError", "Walk"]

TIMEOUT_S = 30.0
"""Time limit for git to list the files below one folder, in seconds."""

_MAX_ENTRIES: Final = 100_000
_MAX_NAME_BYTES: Final = 8 << 20
_EXCLUDED_FOLDERS: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})
_MAX_RULES_BYTES: Final = 1 << 18
_ANY_DEPTH: Final = "**"
_WILD: Final = re.compile(r"[*?\[\]\\!#]")
_MAX_WORK_S: Final = 0.001
_PAUSE_S: Final = 0.002


class Search:
    """Search by git for files that are not ignored, with the rules of files of one name.

    Inside a repository, its rules apply from the top. Outside, or if they would exclude everything,
    only the rules in the folder and below it apply. A nested repository is searched with its own
    rules.

    Attributes:
        is_cut: Whether there were more files than the limit.
    """

    def __init__(
        self, rules: str = ".gitignore", aside: str | None = None, timeout_s: float | None = None
    ) -> None:
        self._rules, self._aside = rules, aside
        self._git = Git(os.curdir, TIMEOUT_S if timeout_s is None else timeout_s)
        self.is_cut = False

    def cancel(self) -> None:
        """Stop git; may be called from any thread."""
        self._git.cancel()

    def names(self, folder: str, at_most: int) -> list[str]:
        """Return the files and links below a folder, relative to it, with ``/``.

        The names have at most ``at_most`` bytes in total. Raises `StoppedError` if git fails.
        """
        found: list[str] = []
        waiting = [""]
        with self._git:
            while waiting and not self.is_cut:
                inside = waiting.pop()
                place = os.path.realpath(os.path.join(folder, inside))
                top = repository_top(place) or place
                names = self._list_files(place, top, at_most)
                if not names and top != place and self._is_ignored(place, top, at_most):
                    names = self._list_files(place, place, at_most)  # the user named it
                at_most -= sum(map(len, names))
                waiting += [inside + name for name in names if name.endswith("/")]
                found += [inside + name for name in names if not name.endswith("/")]
        return found

    def _is_ignored(self, place: str, top: str, at_most: int) -> bool:
        """Return whether a folder itself is ignored, not just all of its files."""
        inside = os.path.relpath(place, top).replace(os.sep, "/")
        return not self._list_files(top, top, at_most, "--directory", f":(top,literal){inside}")

    def _list_files(self, place: str, top: str, at_most: int, *named: str) -> list[str]:
        """Return the files below ``place`` that are not ignored in the working tree ``top``."""
        command = ["ls-files", "-z", "--others", f"--exclude-per-directory={self._rules}"]
        command += [f"--exclude={name}/" for name in sorted(_EXCLUDED_FOLDERS)]
        more = os.path.join(top, ".git", "info", "exclude")
        if self._rules == ".gitignore" and os.path.isfile(more):
            command.append(f"--exclude-from={more}")
        if self._aside and self._aside.startswith(os.path.join(os.path.realpath(top), "")):
            inside = os.path.relpath(self._aside, os.path.realpath(top)).replace(os.sep, "/")
            escaped = _WILD.sub(r"\\\g<0>", inside)
            command.append(f"--exclude=/{escaped}/")
        self._git.folder = place
        try:
            with tempfile.TemporaryDirectory(prefix="seamark-") as own:
                self._git.isolate(Path(own), top)
                answer = self._git.ask(*command, *named, at_most=max(0, at_most))
        except OSError as error:
            let_pass(error)
            raise StoppedError(f"cannot run git: {error}") from error
        self.is_cut = answer.code is None
        if answer.code:
            raise StoppedError("git cannot determine the ignored files")
        return [os.fsdecode(name) for name in answer.output.split(b"\0")[:-1]]


class Walk:
    """Search for files with regular pauses, so that its thread does not slow down the training.

    Links to folders are not followed, unless the user named them. A link to a file counts as the
    file if that is below the named folder. Ignored folders, the folder of all runs (``aside``),
    folders such as ``.git``, and ``__pycache__`` are not searched.

    Attributes:
        linked: Names of links that lead out of the named folder.
        ruled: Names of folders with rules that cannot be applied without git.
    """

    def __init__(
        self, here: str, aside: str, hurry: threading.Event, may_continue: Callable[[], bool]
    ) -> None:
        self._here, self._aside = here, os.path.realpath(aside)
        self._hurry, self._may_continue = hurry, may_continue
        self._search = Search(aside=self._aside)
        self._entry_count = 0
        self._last_pause = time.monotonic()
        self.linked: list[str] = []
        self.ruled: list[str] = []

    def cancel(self) -> None:
        """Stop the search; may be called from any thread."""
        self._search.cancel()

    def files(self, target: str) -> Iterator[tuple[str, str]]:
        """Yield name and path of the files that match a path, folder or pattern (with ``**``).

        Names are relative to the working directory for files in it, otherwise to the named folder
        or the folder where the pattern begins. A single file has its own name.

        Raises:
            StoppedError: If the search ended early.
        """
        place = os.path.abspath(os.path.join(self._here, os.path.expanduser(target)))
        if os.path.isfile(place):
            yield self._name(place, os.path.dirname(place)), place
            return
        base = place
        while not os.path.isdir(base) and glob.has_magic(base):
            base = os.path.dirname(base)
        if not os.path.isdir(base):
            return
        parts = [] if base == place else list(Path(place).relative_to(base).parts)
        # "**/**" equals "**", but matching it takes longer.
        pairs = zip(parts, [*parts, ""][1:], strict=True)
        pattern = [part for part, after in pairs if part != _ANY_DEPTH or part != after]
        # Searched on this thread, because a folder of PATH may hang.
        if has_git():
            names = self._search.names(base, _MAX_NAME_BYTES)
        else:
            names = sorted(self._walk_below(base))
        known = frozenset(names)
        for name in names:
            self._check_limits()
            path = os.path.join(base, name)
            if _matches(pattern, name.split("/")) and self._is_inside(path, base, known):
                yield self._name(path, base), path
        if self._search.is_cut:
            raise StoppedError(f"at most {_MAX_NAME_BYTES >> 10:,} KiB of names are searched")

    def _name(self, path: str, base: str) -> str:
        try:
            inside = os.path.relpath(path, self._here).replace(os.sep, "/")
        except ValueError:  # on another drive
            inside = ".."
        outside = inside.startswith("../") or inside == ".."
        return os.path.relpath(path, base).replace(os.sep, "/") if outside else inside

    def _walk_below(self, base: str) -> Iterator[str]:
        """Yield the files and links below a folder, relative to it."""
        above = os.path.realpath(base)
        top = repository_top(above) or above
        while above != top and not _has_rules(above):
            above = os.path.dirname(above)
        if _has_rules(above):
            self.ruled.append(self._name(base, base))
            return
        folders = [base]
        # Not os.walk: it lists a folder without pauses, and is recursive before Python 3.12.
        while folders:
            folder = folders.pop()
            if _has_rules(folder):
                self.ruled.append(self._name(folder, base))
                continue
            with quietly(only=OSError), os.scandir(folder) as entries:
                for entry in entries:
                    self._check_limits()
                    if not entry.is_dir(follow_symlinks=False):
                        yield os.path.relpath(entry.path, base).replace(os.sep, "/")
                    elif entry.name not in _EXCLUDED_FOLDERS and entry.path != self._aside:
                        folders.append(entry.path)

    def _is_inside(self, path: str, base: str, known: frozenset[str]) -> bool:
        """Return whether a path is a file, or a link to a known file below the named folder."""
        if not os.path.islink(path):
            return True
        real, top = os.path.realpath(path), os.path.realpath(base)
        if not os.path.isfile(real):
            return False
        if not real.startswith(os.path.join(top, "")):
            self.linked.append(self._name(path, base))
            return False
        return os.path.relpath(real, top).replace(os.sep, "/") in known

    def _check_limits(self) -> None:
        """Pause regularly; raise `StoppedError` at the limit or if the run has ended."""
        self._entry_count += 1
        if self._entry_count > _MAX_ENTRIES:
            raise StoppedError(f"at most {_MAX_ENTRIES:,} files and folders are searched")
        if not self._may_continue():
            raise StoppedError("the run has ended")
        if time.monotonic() - self._last_pause > _MAX_WORK_S:
            self._hurry.wait(_PAUSE_S)
            self._last_pause = time.monotonic()


def _has_rules(folder: str) -> bool:
    """Return whether a folder has ignore rules, including those in ``.git/info/exclude``."""
    if os.path.lexists(os.path.join(folder, ".gitignore")):
        return True
    rules = read_beginning(
        os.path.join(folder, ".git", "info", "exclude"), _MAX_RULES_BYTES, follow=True
    )
    return any(line.strip() and line[:1] != b"#" for line in (rules or b"").splitlines())


def _matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether a pattern, given by its parts, matches a file or a folder above it.

    A name that begins with a dot is matched only by a part that begins with a dot.
    """
    if not pattern:
        return True
    part, rest = pattern[0], pattern[1:]
    if part == _ANY_DEPTH and _matches(rest, names):  # may match no folder
        return True
    if not names or (names[0].startswith(".") and not part.startswith(".")):
        return False
    if part == _ANY_DEPTH:
        return _matches(pattern, names[1:])
    return fnmatch.fnmatchcase(names[0], part) and _matches(rest, names[1:])
