"""Names of files: references, members of file sets, and files inside the run folder.

A recorded absolute path becomes wrong when the run folder is moved or copied. Therefore the record
also has the path relative to the run folder (``inside``), which readers try first. Records of
tracked files lack it; for them, the part after ``<project>/<run id>`` is used instead.

Names may come from an untrusted source: links are not followed, and only regular files and folders
are opened.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from seamark.errors import ArgumentError, FileMissingError
from seamark.journal.folder import RunFolder
from seamark.journal.safe import closing_fd, fits, open_folder, parts_of
from seamark.process.interrupts import quietly
from seamark.values import escape

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://|:)")
_URL_USER: Final = re.compile(r"//[^/#]*@")


FileRecord = Mapping[str, Any]
"""FILE record of a journal."""


class FileFilter(Protocol):
    """Function that decides whether files and folders below a given folder belong to a file set."""

    def __call__(self, path: str, *, is_folder: bool) -> bool:
        """Return whether the file or folder at a path is included."""


def extension_of(name: str) -> str:
    """Return the extension of a file name, without the dot."""
    return os.path.splitext(name)[1].removeprefix(".")


def local_path(target: str | os.PathLike[str]) -> str | None:
    """Return the absolute local path of a target, or None if it is a URL."""
    text = str(target)  # not fspath: path objects of cloud storage would download the file
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
    """Return the URL to record, without user and password; callers hide other secrets."""
    head, mark, query = url.partition("?")
    return escape(_URL_USER.sub("//", head) + mark + query)


def walk_files(folder: str, takes: FileFilter | None = None) -> dict[str, str]:
    """Return the regular files below a folder by relative name (with ``/``), sorted.

    Links to files count as files. Links to folders are not followed, so that the walk ends.
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
    """Return the files matched by paths, folders and patterns, by their names in a file set.

    ``**`` in a pattern matches nested folders. Names of files in the working directory are relative
    to it; others are relative to the folder at the start of the pattern. Raises FileMissingError if
    a target matches nothing.
    """
    targets = [value] if isinstance(value, (str, os.PathLike)) else list(value)
    found: dict[str, Path] = {}
    for target in targets:
        for name, path in matches(os.fspath(target), takes).items():
            inside = os.path.relpath(path).replace(os.sep, "/")
            found[name if inside.startswith("../") or inside == ".." else inside] = Path(path)
    return found


def matches(target: str, takes: FileFilter | None = None) -> dict[str, str]:
    """Return the files matched by one path, folder or pattern, by name.

    Names are relative to the folder, or to the part of a pattern before its first wildcard. A
    single file has its own name, and is not filtered. Raises FileMissingError if nothing matches.
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
        raise FileMissingError(
            f"expected an existing file or folder, or a pattern that matches one, got {target!r}"
        )
    return found


class InRun(NamedTuple):
    """Location of a recorded file, relative and absolute, and its `os.stat`."""

    parts: tuple[str, ...]
    path: Path
    status: os.stat_result


def inside_of(folder: RunFolder, path: str) -> str | None:
    """Return a resolved path relative to the run folder, with ``/``; None if it is outside."""
    home = os.path.realpath(folder.path)
    place = os.path.realpath(path)
    if not place.startswith(home + os.sep) or not fits(place):
        return None
    return place[len(home) + 1 :].replace(os.sep, "/")


def is_below(folder: RunFolder, path: str) -> bool:
    """Return whether an absolute path is below the current run folder, without resolving links."""
    return any(path.startswith(home + os.sep) for home in _run_paths(folder))


def find_inside(folder: RunFolder, file: FileRecord) -> InRun | None:
    """Return the location of a FILE record's ``ref`` in the run folder; None if not found there."""
    for name, guessed in _candidates(folder, file):
        found = _locate(folder, name)
        if found is None or stat.S_ISDIR(found.status.st_mode) != bool(file.get("dir")):
            continue
        if guessed and not file.get("dir") and found.status.st_size != file.get("size"):
            continue
        return found
    return None


def moved_path(folder: RunFolder, path: str) -> str:
    """Return the new location of a path after the run folder moved; else the path itself."""
    if is_below(folder, path):
        return path
    for name in _paths_below_run(folder, os.path.abspath(path)):
        if (found := _locate(folder, name)) is not None:
            return str(found.path)
    return path


def _candidates(folder: RunFolder, file: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    if "inside" in file:
        yield file["inside"], False
        return
    here = local_path(file["ref"])
    if here is None:
        return
    for home in _run_paths(folder):
        if here.startswith(home + os.sep):
            yield here[len(home) + 1 :].replace(os.sep, "/"), False
    for name in _paths_below_run(folder, here):
        yield name, True


def _run_paths(folder: RunFolder) -> tuple[str, str]:
    return str(folder.path), os.path.realpath(folder.path)


def _paths_below_run(folder: RunFolder, path: str) -> Iterator[str]:
    """Yield the rest of a path after each ``<project>/<run id>/`` in it."""
    path = path.replace(os.sep, "/")
    mark = f"/{folder.project}/{folder.run}/"
    at = path.find(mark)
    while at >= 0:
        yield path[at + len(mark) :]
        at = path.find(mark, at + 1)


def _locate(folder: RunFolder, name: str) -> InRun | None:
    with quietly(only=(ArgumentError, OSError)):
        parts = parts_of(name, "inside")
        above = folder.path.joinpath(*parts[:-1])
        with closing_fd(open_folder(above, above=len(parts) - 1)) as fd:
            status = os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return InRun(parts, above / parts[-1], status)
    return None
