"""Whether a working tree and a git folder belong together, and not merely say so.

Either may be a stranger's. A git folder may name any folder as its working tree, the home folder,
say; a ``.git`` file or a link may name anybody's git folder, whose files would seem deleted. Both
would put files into the record that the training has nothing to do with. So one that lies outside
of the working tree has to point back at it, as git writes it for worktrees and submodules.
"""

# ruff: noqa: PTH112, PTH118, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from seamark.capture.code.small_file import beginning_of

__all__ = ["Tree"]

_LONGEST: Final = 1 << 14
_WITHIN: Final = ("HEAD", "packed-refs", "refs", "objects/info", "objects/pack")


class Tree:
    """A working tree with its git folder.

    Args:
        top: The top of the working tree, as git tells it.
        own: Its git folder.
        common: The git folder that it shares with others; the same if there are no others.
        work_tree: What the configuration says about the working tree; may be empty.
    """

    def __init__(self, top: str, own: str, common: str, work_tree: str) -> None:
        self._top, self._own, self._common = map(os.path.realpath, (top, own, common))
        self._work_tree = work_tree

    def holds(self, folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder lies in the working tree, and both parts belong together."""
        if not _is_within(os.path.realpath(folder), self._top):
            return False
        link = os.path.join(self._top, ".git")
        if self._common != self._own:  # of several working trees
            shared = os.path.join(self._common, "worktrees")
            return os.path.dirname(self._own) == shared and self._is_named_by_worktree(link)
        if not self._is_led_to_by(link):
            return False
        return _is_within(self._own, self._top) or self._is_named_by_configuration()

    def keeps(self, files: Iterable[str], reference: str) -> bool:
        """Return whether what git reads lies in its folder: a link may lead to anybody's.

        Args:
            files: What is read: objects and index.
            reference: The name of a branch; may be empty.
        """
        named = [os.path.join(self._common, name) for name in (*_WITHIN, reference)]
        read = (*files, os.path.join(self._own, "HEAD"), *named)
        return all(
            _is_within(real, self._own) or _is_within(real, self._common)
            for real in map(os.path.realpath, read)
        )

    def _is_led_to_by(self, link: str) -> bool:
        """Return whether ``.git`` is, or leads to, the git folder."""
        if os.path.isdir(link):
            return os.path.realpath(link) == self._own
        named = _named_in(link, b"gitdir: ")
        return bool(named) and os.path.realpath(os.path.join(self._top, named or "")) == self._own

    def _is_named_by_worktree(self, link: str) -> bool:
        # The folder of the named file, not the file: that may be what a stranger's link leads to.
        named = _named_in(os.path.join(self._own, "gitdir"), b"") or ""
        folder = os.path.dirname(os.path.join(self._own, named))
        return self._is_led_to_by(link) and bool(named) and os.path.realpath(folder) == self._top

    def _is_named_by_configuration(self) -> bool:
        named = os.path.join(self._own, os.path.expanduser(self._work_tree))  # noqa: PTH111
        return bool(self._work_tree) and os.path.realpath(named) == self._top


def _named_in(file: str, before: bytes) -> str | None:
    """Return the path that a file of git holds; None if it holds none."""
    content = beginning_of(file, _LONGEST, follow=True) or b""
    if not content.startswith(before) or b"\0" in content:
        return None
    return os.fsdecode(content.removeprefix(before).rstrip(b"\r\n")) or None


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
