"""Opening what a record refers to, which may be any file of its reader.

A run from somebody else can name ``~/.ssh/id_ed25519`` as its checkpoint, and a download would put
it where it is published. So a reference is opened if what it names lies in the run's own folder, or
if it is known to be of this user's making: every journal of the run was recorded here, and the
file is still the one that was recorded. The second is not for tidiness: an archive can claim the
name of a host, but not know size, time and inode of a file that its maker never saw.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

from seamark.blobs.inside import find_inside, is_below
from seamark.blobs.names import local_path
from seamark.errors import FileMissingError
from seamark.journal.headers import is_local_journal
from seamark.journal.safe import open_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seamark.journal.folder import RunFolder

__all__ = ["are_recorded_by_user", "open_reference"]

_OPEN = os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


def are_recorded_by_user(folder: RunFolder) -> bool:
    """Return whether the references of a run were recorded by this user on this host, all of them.

    One journal of somebody else is enough to doubt it: it may complete what another one began.
    """
    journals = folder.journals()
    return bool(journals) and all(is_local_journal(journal.path) for journal in journals)


def open_reference(
    folder: RunFolder,
    file: Mapping[str, Any],
    path: str,
    inner: Sequence[str] = (),
    *,
    wanted: bool = False,
) -> BinaryIO:
    """Open the file that a record refers to, or one in the folder that it refers to.

    Args:
        folder: The run.
        file: FILE record with ``ref``.
        path: Attribute path, for messages.
        inner: Where the file lies in the folder.
        wanted: Whether the reader said to open it wherever it is.

    Raises:
        FileMissingError: If it is not here, or not opened; the message says what to do.
    """
    here = local_path(file["ref"])
    if here is None or "\0" in here:
        raise _missing_file_error(path, file)
    place = os.path.join(here, *inner)
    try:
        fd = _open_inside(folder, file, inner)
        if fd is None and _leads_nowhere(folder, here):
            raise _missing_file_error(path, file)
        if fd is None:
            fd = _open_outside(folder, file, path, place, inner=inner, wanted=wanted)
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
        if isinstance(error, FileMissingError):
            raise
        raise _missing_file_error(path, file) from error
    return os.fdopen(fd, "rb")


def _missing_file_error(path: str, file: Mapping[str, Any]) -> FileMissingError:
    return FileMissingError(f"{path}: the file that it refers to does not exist: {file['ref']}")


def _open_inside(folder: RunFolder, file: Mapping[str, Any], inner: Sequence[str]) -> int | None:
    """Return a descriptor of a file in the run's own folder; None if it is outside, or a link is.

    Raises:
        FileNotFoundError: If the folder that a member was in is there, and the member is not.
    """
    found = find_inside(folder, file)
    if found is None:
        return None
    try:
        return open_file(found.path.joinpath(*inner), above=len(found.parts) + len(inner))
    except FileMissingError:
        return None


def _leads_nowhere(folder: RunFolder, here: str) -> bool:
    """Return whether a path into the run folder, as it is now, names nothing at all."""
    return is_below(folder, here) and not os.path.lexists(here)


def _open_outside(
    folder: RunFolder,
    file: Mapping[str, Any],
    path: str,
    place: str,
    *,
    inner: Sequence[str],
    wanted: bool,
) -> int:
    if not (wanted or are_recorded_by_user(folder)):
        msg = (
            f"{path}: it refers to {file['ref']}, which is not opened, because not all of this run "
            "was recorded by you on this host; if that is the file you want, copy it from there, "
            "or call download(references=True)"
        )
        raise FileMissingError(msg)
    fd = os.open(place, _OPEN)
    now = os.fstat(fd)
    if stat.S_ISREG(now.st_mode) and (wanted or _is_same(file, now, inner)):
        return fd
    os.close(fd)
    msg = (
        f"{path}: what it refers to is no longer the file that was recorded: {place} (to get "
        "what is there now, call download(references=True))"
    )
    raise FileMissingError(msg)


def _is_same(file: Mapping[str, Any], now: os.stat_result, inner: Sequence[str]) -> bool:
    """Return whether a file is still the one that was recorded."""
    if not inner:
        seen = (now.st_size, now.st_mtime_ns, now.st_ino)
        return seen == (file.get("size"), file.get("mtime_ns"), file.get("inode"))
    size = file.get("members", {}).get("/".join(inner), [None])[0]
    folder = os.stat(local_path(file["ref"]) or "")
    newest = file.get("mtime_ns")
    same = folder.st_ino == file.get("inode") and now.st_size == size
    return same and newest is not None and now.st_mtime_ns <= newest
