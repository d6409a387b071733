"""Files that a record refers to and that lie in the run folder, also after it was moved.

A checkpoint is usually written into the run folder, and recorded by its absolute path. Once the
folder has been moved or copied, that path leads nowhere, or to what the copy was made from. So the
record also says where the file lies below the run folder (``inside``); readers look there first.
Records without it, of earlier versions, are read alike where the path goes through a folder
``<project>/<run id>``.

The name and what lies under it may be a stranger's: no link is followed, and nothing but regular
files and folders is taken for what was recorded.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from seamark.blobs.names import local_path
from seamark.errors import ArgumentError
from seamark.journal.safe import fits, open_folder, parts_of
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from seamark.journal.folder import RunFolder

__all__ = ["InRun", "find_inside", "inside_of", "is_below", "moved_path"]


class InRun(NamedTuple):
    """Location in the run folder of the file or folder that a record refers to.

    Attributes:
        parts: Names of the folders below the run folder, and of the file or folder itself.
        path: Path made of the run folder and ``parts``.
        status: Result of ``os.stat`` for the regular file or the folder.
    """

    parts: tuple[str, ...]
    path: Path
    status: os.stat_result


def inside_of(folder: RunFolder, path: str) -> str | None:
    """Return where a file or folder lies below the run folder, with ``/``; None if it does not.

    Args:
        folder: The run.
        path: Of something that exists; links and ``..`` on the way to it are resolved.
    """
    home = os.path.realpath(folder.path)
    place = os.path.realpath(path)
    if not place.startswith(home + os.sep) or not fits(place):
        return None
    return place[len(home) + 1 :].replace(os.sep, "/")


def is_below(folder: RunFolder, path: str) -> bool:
    """Return whether an absolute path leads into the run folder as it is now, links aside."""
    return any(path.startswith(home + os.sep) for home in _homes(folder))


def find_inside(folder: RunFolder, file: Mapping[str, Any]) -> InRun | None:
    """Return where what a FILE record with ``ref`` refers to lies in the run's own folder.

    Args:
        folder: The run.
        file: The record.

    Returns:
        None if it was not recorded there, or nothing of its kind is there now.
    """
    for name, guessed in _names(folder, file):
        found = _look(folder, name)
        if found is None or stat.S_ISDIR(found.status.st_mode) != bool(file.get("dir")):
            continue
        if guessed and not file.get("dir") and found.status.st_size != file.get("size"):
            continue
        return found
    return None


def moved_path(folder: RunFolder, path: str) -> str:
    """Return where something lies now that was at a path when the run folder was elsewhere.

    Args:
        folder: The run, where it is now.
        path: As it was then.

    Returns:
        The path itself if nothing is known to lie elsewhere.
    """
    if is_below(folder, path):
        return path
    for name in _below_the_run(folder, os.path.abspath(path)):
        if (found := _look(folder, name)) is not None:
            return str(found.path)
    return path


def _names(folder: RunFolder, file: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield names below the run folder that a record may mean, and whether they are guessed."""
    if "inside" in file:
        yield file["inside"], False
        return
    here = local_path(file["ref"])
    if here is None:
        return
    for home in _homes(folder):
        if here.startswith(home + os.sep):
            yield here[len(home) + 1 :].replace(os.sep, "/"), False
    for name in _below_the_run(folder, here):
        yield name, True


def _homes(folder: RunFolder) -> tuple[str, str]:
    return str(folder.path), os.path.realpath(folder.path)


def _below_the_run(folder: RunFolder, path: str) -> Iterator[str]:
    """Yield what follows ``<project>/<run id>/`` in a path, which may go through it twice."""
    path = path.replace(os.sep, "/")
    mark = f"/{folder.project}/{folder.run}/"
    at = path.find(mark)
    while at >= 0:
        yield path[at + len(mark) :]
        at = path.find(mark, at + 1)


def _look(folder: RunFolder, name: str) -> InRun | None:
    """Return what has a name below the run folder; None if it is neither a file nor a folder."""
    try:
        parts = parts_of(name, "inside")
        above = folder.path.joinpath(*parts[:-1])
        fd = open_folder(above, above=len(parts) - 1)
        try:
            status = os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        finally:
            os.close(fd)
    except (ArgumentError, OSError) as error:
        let_pass(error)
        return None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return None
    return InRun(parts, above / parts[-1], status)
