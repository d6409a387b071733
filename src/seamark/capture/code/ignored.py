"""Matching of paths against the ``.gitignore`` files of a repository, without running git."""

# ruff: noqa: PTH100, PTH110, PTH118, PTH119, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import glob
import itertools
import os
import time
from typing import Final

from seamark.capture.code.rules import Rule, rules_of
from seamark.capture.code.small_file import beginning_of

__all__ = ["Ignored", "RuleTime", "RulesTooSlowError"]

_NAME: Final = ".gitignore"
_OF_REPOSITORY: Final = os.path.join(".git", "info", "exclude")
_MOST: Final = 1 << 18
_LONGEST: Final = 1024
_MAX_RULES: Final = 2_000
_AT_ONCE: Final = 8


class RulesTooSlowError(Exception):
    """Reading and matching rules took all the time that there is for it."""


class RuleTime:
    """The time that rules may cost in all; whoever wrote them may be a stranger.

    Args:
        seconds: Of the calling thread on a processor.
    """

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._begun = 0.0

    def begin(self) -> None:
        """Let the time count."""
        self._begun = time.thread_time()

    def check(self) -> None:
        """Take off what has passed.

        Raises:
            RulesTooSlowError: If nothing is left.
        """
        now = time.thread_time()
        self._left -= now - self._begun
        self._begun = now
        if self._left <= 0:
            raise RulesTooSlowError


class Ignored:
    """Ignore rules that apply below a path that the user named.

    Inside a repository, its rules apply from the top. Elsewhere, and where the path itself is
    ignored, only the rules at the path and below it apply.

    Args:
        target: Absolute path of a file or folder, or a pattern.
        allowed: Time that all queries may take in total.
        name: Name of the files with rules.

    Raises:
        RulesTooSlowError: If the time is used up.
    """

    def __init__(self, target: str, allowed: RuleTime, name: str = _NAME) -> None:
        self._name = name
        base = os.path.abspath(target)
        while glob.has_magic(base):
            base = os.path.dirname(base)
        self._base = self._top = base
        self._allowed = allowed
        self._rules: dict[str, list[Rule]] = {}
        self._folders: dict[str, bool] = {}
        top = _repository(base)
        if top is not None:
            self._top = top
            if not self.includes(base, is_folder=True):  # named nevertheless
                self._top = base
                self._rules.clear()
            self._folders.clear()

    def includes(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a file or folder below the place is not ignored.

        Args:
            path: Absolute path.
            is_folder: Whether it is a folder, and no link to one.

        Raises:
            RulesTooSlowError: If time is up.
        """
        self._allowed.begin()
        found = self._is_ignored(path, is_folder)
        self._allowed.check()
        return not found

    def _is_ignored(self, path: str, is_folder: bool) -> bool:  # noqa: FBT001
        """Return whether a path is, itself or with a folder above it."""
        below: list[str] = []
        while len(path) > len(self._top) and path not in self._folders:
            below.append(path)
            path = os.path.dirname(path)
        found = self._folders.get(path, False)
        for each in reversed(below):  # no recursion: folders may lie very deep
            may_be_file = each == below[0] and not is_folder
            found = found or self._is_named(each, is_folder=not may_be_file)
            if not may_be_file:
                self._folders[each] = found
        return found

    def _is_named(self, path: str, *, is_folder: bool) -> bool:
        """Return what the rules of the nearest folder that has one for a path say."""
        folder = os.path.dirname(path)
        name = os.fsencode(os.path.basename(path))
        while len(folder) >= len(self._top):
            inside = os.fsencode(path[len(folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/"))
            for number, rule in enumerate(self._rules_of(folder), 1):
                if rule.matches(inside, name, is_folder=is_folder):
                    return rule.excludes
                if not number % _AT_ONCE:
                    self._allowed.check()
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
        return False

    def _rules_of(self, folder: str) -> list[Rule]:
        """Return the rules that lie in a folder, that which counts most first."""
        if folder not in self._rules:
            found = self._read(os.path.join(folder, self._name))
            if folder == self._top and self._name == _NAME:
                found += self._read(os.path.join(folder, _OF_REPOSITORY))
            self._rules[folder] = found
        return self._rules[folder]

    def _read(self, file: str) -> list[Rule]:
        """Return the rules of a file, last one first; a stranger may have put anything there."""
        found: list[Rule] = []
        content = beginning_of(file, _MOST) or b""
        for rule in itertools.islice(rules_of(content, _LONGEST), _MAX_RULES):
            found.append(rule)
            if not len(found) % _AT_ONCE:
                self._allowed.check()
        return found[::-1]


def _repository(folder: str) -> str | None:
    """Return the top of the repository in which a folder lies."""
    while True:
        if os.path.exists(os.path.join(folder, ".git")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
