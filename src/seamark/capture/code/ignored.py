"""Matching of paths against the ``.gitignore`` files of a repository, without running git.

Whoever wrote a rule may be a stranger. A rule is cut at slashes, and what stands between two of
them is matched by `fnmatch`, whose patterns do not backtrack. For ``**``, the places in the rule
that a path may have reached are a set.
"""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from seamark.capture.code.small_file import beginning_of

__all__ = ["ANY_FOLDERS", "Ignored", "with_folders_passed"]

ANY_FOLDERS: Final = "**"
"""The part of a pattern that stands for any number of folders."""

_NAME: Final = ".gitignore"
_OF_REPOSITORY: Final = os.path.join(".git", "info", "exclude")
_MOST: Final = 1 << 18
_LONGEST: Final = 1024
_MAX_RULES: Final = 2_000
_TRAILING_BLANKS: Final = re.compile(r"(?<!\\) +\Z")
_BRACKET_OR_ESCAPED: Final = re.compile(r"\[(?P<not>[!^]?)(?P<set>\]?[^\]]*)\]|\\(?P<char>.)")


def with_folders_passed(parts: Sequence[object], reached: Iterable[int]) -> frozenset[int]:
    """Add the places behind each ``**``, which may stand for no folder at all."""
    found = set(reached)
    for at in tuple(found):
        behind = at
        while behind < len(parts) and parts[behind] == ANY_FOLDERS:
            behind += 1
            found.add(behind)
    return frozenset(found)


class _Rule(NamedTuple):
    """Rule read from a line of a ``.gitignore`` file.

    Attributes:
        excludes: False for a rule that begins with ``!`` and cancels an earlier one.
        folders_only: Whether the rule ends with a slash.
        anywhere: Whether the rule has no slash and applies to names in any folder below.
        parts: What stands between the slashes; `ANY_FOLDERS` for any number of folders.
    """

    excludes: bool
    folders_only: bool
    anywhere: bool
    parts: tuple[re.Pattern[str] | str, ...]

    def matches(self, names: Sequence[str]) -> bool:
        """Return whether the rule is about a path, given as the names of its folders and itself."""
        reached = with_folders_passed(self.parts, {0})
        for name in names[-1:] if self.anywhere else names:
            after = set()
            for at in reached:
                part = self.parts[at] if at < len(self.parts) else None
                if part == ANY_FOLDERS:
                    after.add(at)
                elif isinstance(part, re.Pattern) and part.match(name):
                    after.add(at + 1)
            if not after:
                return False
            reached = with_folders_passed(self.parts, after)
        return len(self.parts) in reached


def _rule_of(line: str) -> _Rule | None:
    """Return the rule that stands in a line; None if there is none."""
    line = _TRAILING_BLANKS.sub("", line.removesuffix("\r"))
    pattern = line.removeprefix("!").removesuffix("/")
    if not pattern or line.startswith("#"):
        return None
    names = pattern.removeprefix("/").split("/")
    if names[-1] == ANY_FOLDERS:
        names.append("*")  # what is in there, and not the folder itself
    parts: list[re.Pattern[str] | str] = []
    for name in names:
        if name != ANY_FOLDERS:
            parts.append(_compiled(name))
        elif parts[-1:] != [ANY_FOLDERS]:  # two are as one
            parts.append(name)
    return _Rule(not line.startswith("!"), line.endswith("/"), "/" not in pattern, tuple(parts))


def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(_BRACKET_OR_ESCAPED.sub(_as_fnmatch, name)))


def _as_fnmatch(found: re.Match[str]) -> str:
    """Return a bracket or an escaped character in the way that `fnmatch` writes it."""
    if found["char"] is not None:
        return f"[{found['char']}]"
    return f"[{'!' if found['not'] else ''}{found['set']}]"


class Ignored:
    """Ignore rules that apply below a path that the user named.

    Inside a repository, its rules apply from the top. Elsewhere, and where the path itself is
    ignored, only the rules at the path and below it apply.

    Args:
        target: Absolute path of a file or folder, or a pattern.
        name: Name of the files with rules.
    """

    def __init__(self, target: str, name: str = _NAME) -> None:
        self._name = name
        base = os.path.abspath(target)
        while glob.has_magic(base):
            base = os.path.dirname(base)
        self._top = base
        self._rules: dict[str, list[_Rule]] = {}
        self._folders: dict[str, bool] = {}
        top = _repository(base)
        if top is not None:
            self._top = top
            if not self.includes(base, is_folder=True):  # named nevertheless
                self._top = base
                self._rules.clear()
            self._folders.clear()

    def includes(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a file or folder below the place is not ignored, nor one above it.

        Args:
            path: Absolute path.
            is_folder: Whether it is a folder, and no link to one.
        """
        below: list[str] = []
        while len(path) > len(self._top) and path not in self._folders:
            below.append(path)
            path = os.path.dirname(path)
        ignored = self._folders.get(path, False)
        for each in reversed(below):  # no recursion: folders may lie very deep
            may_be_file = each == below[0] and not is_folder
            ignored = ignored or self._is_named(each, is_folder=not may_be_file)
            if not may_be_file:
                self._folders[each] = ignored
        return not ignored

    def _is_named(self, path: str, *, is_folder: bool) -> bool:
        """Return what the rules of the nearest folder that has one for a path say."""
        folder, name = os.path.split(path)
        names = [name]
        while len(folder) >= len(self._top):
            for rule in self._rules_of(folder):
                if (is_folder or not rule.folders_only) and rule.matches(names):
                    return rule.excludes
            above, name = os.path.split(folder)
            if above == folder:
                break
            folder = above
            names.insert(0, name)
        return False

    def _rules_of(self, folder: str) -> list[_Rule]:
        """Return the rules that lie in a folder, that which counts most first."""
        if folder not in self._rules:
            found = _read(os.path.join(folder, self._name))
            if folder == self._top and self._name == _NAME:
                found += _read(os.path.join(folder, _OF_REPOSITORY))
            self._rules[folder] = found
        return self._rules[folder]


def _read(file: str) -> list[_Rule]:
    """Return the rules of a file, last one first; a stranger may have put anything there."""
    text = os.fsdecode(beginning_of(file, _MOST) or b"").removeprefix("\ufeff")
    lines = [line for line in text.split("\n") if len(line) <= _LONGEST][:_MAX_RULES]
    return [rule for rule in map(_rule_of, lines) if rule is not None][::-1]


def _repository(folder: str) -> str | None:
    """Return the top of the repository in which a folder lies."""
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
