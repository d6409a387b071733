"""Names of files: references to files elsewhere, members of file sets."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

from seamark.errors import FileMissingError
from seamark.values import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FileFilter", "extension_of", "local_path", "members_of", "reference", "walk_files"]

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://|:)")
_USER: Final = re.compile(r"//[^/#]*@")


class FileFilter(Protocol):
    """Tells whether files and folders are meant that were not named themselves."""

    def __call__(self, path: str, *, is_folder: bool) -> bool:
        """Return whether what is at a path is meant."""


def extension_of(name: str) -> str:
    """Return the extension of a file name, without the dot."""
    return os.path.splitext(name)[1].removeprefix(".")


def local_path(target: str | os.PathLike[str]) -> str | None:
    """Return the absolute path that a target names on this machine, or None if it is a URL."""
    text = str(target)  # not fspath, with which paths into a cloud download what they name
    if text.startswith("file://"):
        try:
            text = unquote(urlsplit(text).path)
        except ValueError:  # "file://["
            return None
    elif _URL.match(text):
        return None
    elif not isinstance(target, str):
        text = os.fspath(target)
    return os.path.abspath(text)


def reference(url: str) -> str:
    """Return a URL as it is recorded, without user and password.

    What else is secret in it, is for whoever records it to hide.
    """
    head, mark, query = url.partition("?")
    return escape(_USER.sub("//", head) + mark + query)


def walk_files(folder: str, takes: FileFilter | None = None) -> dict[str, str]:
    """Return the regular files below a folder, by their names relative to it with ``/``; sorted.

    Links to files count as the file; links to folders are not followed, so that this ends.

    Args:
        folder: Where to look.
        takes: Which are meant; None for all.
    """
    found: dict[str, str] = {}
    for here, folders, names in os.walk(folder):
        if takes is not None:
            folders[:] = [
                each for each in folders if takes(os.path.join(here, each), is_folder=True)
            ]
        for name in names:
            path = os.path.join(here, name)
            if os.path.isfile(path) and (takes is None or takes(path, is_folder=False)):
                found[os.path.relpath(path, folder).replace(os.sep, "/")] = path
    return dict(sorted(found.items()))


def members_of(
    value: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    takes: FileFilter | None = None,
) -> dict[str, Path]:
    """Return the files that paths, folders and patterns stand for, with their names in a file set.

    Args:
        value: One or several. ``**`` in a pattern goes into folders. Names are relative to the
            working directory for what lies in it, else to the folder that the pattern starts at.
        takes: Which of the files and folders below folders and patterns are meant; None for all.

    Raises:
        FileMissingError: If one of them matches nothing.
    """
    targets = [value] if isinstance(value, (str, os.PathLike)) else list(value)
    found: dict[str, Path] = {}
    for target in targets:
        for name, path in matches(os.fspath(target), takes).items():
            inside = os.path.relpath(path).replace(os.sep, "/")
            found[name if inside.startswith("../") or inside == ".." else inside] = Path(path)
    return found


def matches(target: str, takes: FileFilter | None = None) -> dict[str, str]:
    """Return the files that one path, folder or pattern stands for, by name.

    Names are relative to the folder given, or to the part of a pattern before its first wildcard; a
    single file goes by its own name.

    Args:
        target: A path, folder or pattern.
        takes: See `members_of`; a file that is named itself is meant.

    Raises:
        FileMissingError: If there is no file.
    """
    path = os.path.abspath(os.path.expanduser(target))
    if os.path.isfile(path):
        return {os.path.basename(path): path}
    if os.path.isdir(path):
        return walk_files(path, takes)
    base = path
    while glob.has_magic(base):
        base = os.path.dirname(base)
    found: dict[str, str] = {}
    for match in sorted(glob.iglob(path, recursive=True)):
        is_file = os.path.isfile(match)
        if takes is not None and not takes(match, is_folder=not is_file):
            continue
        inner = {"": match} if is_file else walk_files(match, takes)
        for name, file in inner.items():
            start = os.path.relpath(match, base).replace(os.sep, "/")
            found[f"{start}/{name}" if name else start] = file
    if not found:
        msg = f"expected an existing file or folder, or a pattern that matches one, got {target!r}"
        raise FileMissingError(msg)
    return found
