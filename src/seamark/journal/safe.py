"""Safe access to run folders, whose names, links and device files may be malicious.

Run folders may be copied from other people, and must not affect the rest of the user's disk. All
code that opens, lists, writes or removes files by a name from a run folder uses this module.

* **Links are not followed.** Folders are opened one by one, each relative to its parent, so that a
  link cannot be put in place between a check and its use.
* **Only regular files are opened.** Opening a pipe may block forever, and opening a device may have
  side effects.
* **A name stays below its folder.** See `parts_of`.
* **Nothing is removed by its path**, only by its name in an open folder.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from seamark.errors import ArgumentError, FileMissingError, JournalError
from seamark.process.interrupts import let_pass, quietly

MAX_TEXT_BYTES: Final = 1 << 30
"""Maximum size of a text read into memory, in bytes; writers have no such limit."""
_MAX_PART_BYTES: Final = 255
_MAX_NAME_BYTES: Final = 4096
_MAX_CHARACTER_BYTES: Final = 4
_MAX_DEPTH: Final = 200
"""Maximum nesting depth of removed folders; each level needs a descriptor."""
_BASE_FLAGS: Final = os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_ENTER_FLAGS: Final = _BASE_FLAGS | os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
_LIST_FLAGS: Final = _BASE_FLAGS | os.O_DIRECTORY | os.O_RDONLY
_READ_FLAGS: Final = _BASE_FLAGS | os.O_RDONLY | os.O_NONBLOCK
"""Flags to open a file; without O_NONBLOCK, opening a pipe would wait for a writer."""
_NAME_OF: Final = operator.attrgetter("name")
fits: Final = re.compile("[^\ud800-\udfff]*").fullmatch
"""Match names on disk that are valid text; others cannot be printed or stored in a database."""
_LINK_ERRORS: Final = frozenset({errno.ELOOP, errno.EMLINK, errno.ENOTDIR})
"""Error numbers when a link is found instead of a file or folder."""


def open_folder(path: str | os.PathLike[str], above: int = 1) -> int:
    """Return a descriptor of a folder, for looking up and listing names.

    ``above`` is the number of parent folders that must not be links either; links further up are
    followed. Raises FileMissingError for a link or anything else that is not a folder.
    """
    return _open(path, above, _LIST_FLAGS)


def open_file(path: str | os.PathLike[str], above: int = 2) -> int:
    """Return a descriptor of a regular file, open for reading; ``above`` as in `open_folder`.

    The default 2 covers the way from a run folder to its journals and blobs. Raises
    FileMissingError for a link, a pipe, a device or a folder.
    """
    return _check_regular(_open(path, above, _READ_FLAGS), os.fspath(path))


def open_in(folder: int, name: str) -> int:
    """Return a descriptor of a regular file (not a link, pipe or device) in an open folder."""
    return _check_regular(os.open(name, _READ_FLAGS, dir_fd=folder), name)


def _check_regular(fd: int, name: str) -> int:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileMissingError(
            f"{name}: expected a regular file, found a folder, a pipe or a device"
        )
    return fd


def _open(path: str | os.PathLike[str], above: int, flags: int) -> int:
    head, names = os.path.abspath(path), []  # noqa: PTH100 - resolve() would follow links
    for _ in range(above):
        head, name = os.path.split(head)
        names.append(name)
    try:
        fd = os.open(head, _ENTER_FLAGS if names else flags)
        while names:
            outer, name = fd, names.pop()
            try:
                fd = os.open(name, _ENTER_FLAGS if names else flags, dir_fd=outer)
            finally:
                os.close(outer)
    except OSError as error:
        let_pass(error)
        raise _explain_link(error, os.fspath(path)) from error
    return fd


def _explain_link(error: OSError, path: str) -> OSError:
    if error.errno not in _LINK_ERRORS:
        return error
    msg = f"{path}: found a link or another kind of file; links are not followed"
    return FileMissingError(msg)


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Provide an open descriptor to a block, and close it at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder, and not a link to a folder."""
    with quietly(only=(OSError, ValueError)):
        return stat.S_ISDIR(os.lstat(path).st_mode)
    return False


def names_in(path: str | os.PathLike[str], above: int = 1) -> list[str]:
    """Return the sorted names of regular files in a folder, except hidden and undecodable ones."""
    try:
        fd = _open(path, above, _LIST_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        return sorted(map(_NAME_OF, regular_files(fd)))
    finally:
        os.close(fd)


def regular_files(fd: int) -> list[os.DirEntry[str]]:
    """Return the regular files in an open folder, except hidden and undecodable names."""
    found = []
    with os.scandir(fd) as entries:
        for one in entries:
            name = one.name
            if name[0] != "." and fits(name) and one.is_file(follow_symlinks=False):
                found.append(one)
    return found


def make_folder(path: Path) -> None:
    """Create a folder of a run, with its parents; OSError if it is a link."""
    path.mkdir(parents=True, exist_ok=True)
    if not is_folder(path):
        raise OSError(errno.ELOOP, "expected a folder, found a link", str(path))


def touch(path: Path) -> None:
    """Create an empty file and its folder if missing; OSError if one of them is a link."""
    make_folder(path.parent)
    with closing_fd(open_folder(path.parent)) as fd:
        flags = _BASE_FLAGS | os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK
        os.close(os.open(path.name, flags, 0o666, dir_fd=fd))


def parts_of(name: str, where: str) -> tuple[str, ...]:
    """Return the folder and file names in a record's name, which is relative and uses ``/``.

    Raises ArgumentError if it leads out of the reader's folder, or is not a valid file name.
    """
    parts = tuple(name.split("/"))
    if not fits(name) or "\0" in name or not {"", ".", ".."}.isdisjoint(parts):
        raise ArgumentError(
            f"{where}: expected a name that stays inside the folder, got {name!r:.80}"
        )
    if len(name) * _MAX_CHARACTER_BYTES > _MAX_PART_BYTES and (
        max(len(part.encode()) for part in parts) > _MAX_PART_BYTES
        or len(name.encode()) > _MAX_NAME_BYTES
    ):
        raise ArgumentError(
            f"{where}: expected a name of at most {_MAX_PART_BYTES} bytes per part and "
            f"{_MAX_NAME_BYTES} in total, got {len(name):,} characters: {name!r:.80}"
        )
    return parts


@contextlib.contextmanager
def folder_below(base: Path, parts: Sequence[str]) -> Iterator[int]:
    """Provide a descriptor of a folder below one of the reader's; it is created if missing.

    Links in ``base``, which the reader chose, are followed. ``parts``, as returned by `parts_of`,
    must not be links: FileMissingError if one is a link or another kind of file.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0)
    try:
        fd = os.open(base, flags)
    except FileNotFoundError:
        base.mkdir(parents=True, exist_ok=True)
        fd = os.open(base, flags)
    try:
        for part in parts:
            above = fd
            try:
                fd = _enter_folder(part, above)
            except OSError as error:
                let_pass(error)
                raise _explain_link(error, str(base.joinpath(*parts))) from error
            os.close(above)
        yield fd
    finally:
        os.close(fd)


def _enter_folder(name: str, above: int) -> int:
    try:
        return os.open(name, _LIST_FLAGS, dir_fd=above)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
        return os.open(name, _LIST_FLAGS, dir_fd=above)


def remove_entry(folder: int, name: str, depth: int = 0) -> None:
    """Remove a file, a link, or a folder with its contents, by its name in an open folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM) or depth > _MAX_DEPTH:
            raise
        with closing_fd(os.open(name, _LIST_FLAGS, dir_fd=folder)) as inner:
            for each in os.listdir(inner):  # noqa: PTH208 - of a descriptor
                remove_entry(inner, each, depth + 1)
        os.rmdir(name, dir_fd=folder)


@contextlib.contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold the lock of an open file during a block; wait until it is free."""
    import fcntl  # not on Windows

    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:  # closing is not sufficient: a process forked meanwhile holds the same lock
        fcntl.flock(fd, fcntl.LOCK_UN)


def sync_folder(path: Path) -> None:
    """Force the names in a folder to disk, if the system supports it."""
    with quietly(only=OSError), closing_fd(os.open(path, os.O_RDONLY)) as fd:
        os.fsync(fd)


def replace_file(place: Path, text: str, mode: int | None = None) -> None:
    """Replace a file atomically.

    Without ``mode``, the umask determines the mode.
    """
    draft = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        with os.fdopen(fd, "w", encoding="utf-8") as out:
            if mode is not None:
                os.fchmod(fd, mode)  # regardless of the umask
            out.write(text)
            out.flush()
            os.fsync(fd)
        draft.replace(place)
    except BaseException:
        with quietly(only=OSError):
            draft.unlink()
        raise


class Source(Protocol):
    """Bytes of a journal (``<writer id>.<uid>``), which only grows; methods may raise OSError."""

    name: str

    def size(self) -> int:
        """Return the current number of bytes."""

    def pread(self, size: int, offset: int) -> bytes:
        """Return ``size`` bytes from ``offset``; fewer only at the end."""

    def quiet_since_ns(self) -> int | None:
        """Return the time of the last change, ns since the Unix epoch; None if it is complete."""

    def gap_end(self, offset: int) -> int | None:
        """Return the end of a declared gap that starts at ``offset``; None if there is none."""
        return None

    def close(self) -> None:
        """Release the resources; safe to call twice."""


class FileSource(Source):
    """Journal in a file; an open ``fd`` of it is closed with the source."""

    def __init__(self, path: str | os.PathLike[str], fd: int | None = None) -> None:
        self.path = os.fspath(path)
        self.name = os.path.basename(self.path)  # noqa: PTH119 - 10,000 of them are opened
        try:
            self._fd = open_file(path) if fd is None else fd
        except OSError as error:
            let_pass(error)
            raise JournalError(
                error.errno, f"journal {self.path!r} cannot be opened: {error.strerror or error}"
            ) from error

    def size(self) -> int:
        """See `Source.size`."""
        return os.fstat(self._fd).st_size

    def pread(self, size: int, offset: int) -> bytes:
        """See `Source.pread`. A mapped file that shrinks would kill the reader with SIGBUS."""
        return os.pread(self._fd, size, offset)

    def quiet_since_ns(self) -> int | None:
        """See `Source.quiet_since_ns`."""
        return os.fstat(self._fd).st_mtime_ns

    def owner(self) -> int:
        """Return the user id of the file's owner."""
        return os.fstat(self._fd).st_uid

    def close(self) -> None:
        """See `Source.close`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
