"""Contents of an unsealed artifact, written directly under their digests.

Only the process that creates a draft accesses it. All contents are forced to disk before the draft
becomes a version. For many contents, that is one call for the whole file system, because each
single sync takes milliseconds. A content that another version of the artifact already has is linked
after its bytes were verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from seamark.blobs.store import (
    Stamp,
    blob_path,
    copy_blob,
    digest_of,
    has_blob,
    narrow,
    narrow_blob,
    open_source,
    read_all,
    sync_blob,
    write_all,
)
from seamark.errors import ArgumentError, FileMissingError
from seamark.journal.folder import RunFolder
from seamark.journal.safe import closing_fd, fits, make_folder, open_folder, open_in, sync_folder
from seamark.process.interrupts import quietly

_READ_BYTES: Final = 1 << 20
"""Size of one read, in bytes."""
_MAX_CONCURRENT_FILES: Final = 4
"""Maximum number of files read and written at the same time."""
_FILES_PER_CALL: Final = 16
"""Maximum number of files per call of the pool; a call costs as much as storing a small file."""
_MAX_SINGLE_SYNCS: Final = 64
"""Maximum number of contents synced one by one; syncing the file system writes other data too."""
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class DraftBlobs:
    """Store of the contents of a draft."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._known_in: dict[str, RunFolder] | None = None
        self._blob_prefix = f"{folder.blobs_dir}/"
        self._written: list[str] = []
        self._failed = False
        self._blobs_fd = -1  # descriptor of the blob folder while files are stored

    def store(
        self, paths: Iterable[str], progress: Callable[[int], object]
    ) -> list[tuple[str, int]]:
        """Store copies of regular files; return SHA-256 and size in bytes of each.

        `sync` forces them to disk. Raises FileMissingError if one is not a regular file, or changes
        while it is read.
        """
        make_folder(self._folder.blobs_dir)
        if self._known_in is None:
            self._known_in = dict(self._known_blobs())
        wanted, self._failed = list(paths), False
        found: list[tuple[str, int]] = []
        # If there are only a few files, which are often large, each has a call of its own.
        size = max(1, min(_FILES_PER_CALL, len(wanted) // _FILES_PER_CALL))
        parts = [wanted[at : at + size] for at in range(0, len(wanted), size)]
        with (
            closing_fd(open_folder(self._folder.blobs_dir)) as self._blobs_fd,
            ThreadPoolExecutor(
                _MAX_CONCURRENT_FILES, thread_name_prefix="seamark-artifact"
            ) as pool,
        ):
            try:
                for part in self._store_parts(pool, parts):
                    found += part
                    progress(len(found))
            finally:  # running calls finish, no others start
                self._failed = True
        return found

    def _store_parts(
        self, pool: ThreadPoolExecutor, parts: list[list[str]]
    ) -> Iterable[list[tuple[str, int]]]:
        try:
            return pool.map(self._store_part, parts)
        except RuntimeError:  # threads cannot start, for example at interpreter shutdown
            pool.shutdown(cancel_futures=True)
            return map(self._store_part, parts)

    def _store_part(self, paths: Iterable[str]) -> list[tuple[str, int]]:
        found = []
        for path in paths:
            if self._failed:
                break
            try:
                found.append(self._store(path))
            except BaseException:
                self._failed = True
                raise
        return found

    def sync(self) -> None:
        """Force the contents and their names to disk."""
        if not self._folder.blobs_dir.is_dir():
            return
        if len(self._written) <= _MAX_SINGLE_SYNCS or not _sync_all(self._folder.blobs_dir):
            for sha256 in self._written:
                sync_blob(self._folder, sha256)
        self._written.clear()
        sync_folder(self._folder.blobs_dir)

    def _known_blobs(self) -> Iterator[tuple[str, RunFolder]]:
        place = self._folder.path.parent
        for name in _list_names(place):
            other = RunFolder(self._folder.root, self._folder.project, name)
            if not name.startswith("."):
                for sha256 in _list_names(other.blobs_dir):
                    yield sha256, other

    def _store(self, path: str) -> tuple[str, int]:
        with closing_fd(open_source(path)) as fd:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise FileMissingError(f"expected a regular file, got {path!r}")
            if before.st_size < _READ_BYTES:
                stored = self._store_small(fd, before)
            else:
                stored = self._store_large(fd)
            if Stamp.of(os.fstat(fd)) != Stamp.of(before):
                raise FileMissingError(
                    f"{path!r} changed while it was read: add it when no process is writing it"
                )
        return stored

    def _store_small(self, fd: int, like: os.stat_result) -> tuple[str, int]:
        content = os.read(fd, like.st_size + 1)  # one more, to detect growth
        if len(content) < like.st_size:
            content = read_all(fd, like.st_size + 1)  # some file servers return parts
        sha256, size = hashlib.sha256(content).hexdigest(), len(content)
        if self._link(sha256, size, like.st_mode):
            return sha256, size
        rights = 0o666 & (stat.S_IMODE(like.st_mode) | stat.S_IRUSR | stat.S_IWUSR)
        try:
            out = os.open(self._blob_prefix + sha256, _CREATE_FLAGS, rights)
        except FileExistsError:  # identical files
            narrow_blob(self._folder, sha256, like.st_mode)
            return sha256, size
        try:
            write_all(out, memoryview(content))
        except BaseException:  # an incomplete file must not count as complete
            os.unlink(self._blob_prefix + sha256)
            raise
        finally:
            os.close(out)
        self._written.append(sha256)
        return sha256, size

    def _store_large(self, fd: int) -> tuple[str, int]:
        """Store a large file. If its content may be known, hash it first to link it."""
        if self._known_in:
            sha256, size = digest_of(fd)
            if self._link(sha256, size, os.fstat(fd).st_mode):
                return sha256, size
        return copy_blob(self._folder, fd)

    def _link(self, sha256: str, size: int, mode: int) -> bool:
        other, own = (self._known_in or {}).get(sha256), self._blobs_fd
        if other is None:
            return False
        with (  # removed meanwhile, or a disk without links
            quietly(only=OSError),
            closing_fd(open_folder(other.blobs_dir)) as at,
            closing_fd(open_in(at, sha256)) as fd,
        ):
            if os.fstat(fd).st_size != size or digest_of(fd) != (sha256, size):
                return False
            with contextlib.suppress(FileExistsError):  # identical files
                os.link(sha256, sha256, src_dir_fd=at, dst_dir_fd=own, follow_symlinks=False)
            narrow(fd, mode)
            linked = os.stat(sha256, dir_fd=own, follow_symlinks=False)
            if os.path.samestat(linked, os.fstat(fd)):
                return True
            os.unlink(sha256, dir_fd=own)  # replaced meanwhile
        return False


def _sync_all(folder: os.PathLike[str]) -> bool:
    """Force all data of a file system to disk; return whether the system supports it."""
    import ctypes

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:  # only on Linux
        return False
    with closing_fd(os.open(folder, os.O_RDONLY)) as fd:
        if syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    return True


def move_blobs(source: RunFolder, target: RunFolder) -> None:
    """Move contents into another folder of the same disk, except those that it already has."""
    for sha256 in _list_names(source.blobs_dir):
        size = blob_path(source, sha256).lstat().st_size
        if not has_blob(target, sha256, size):
            make_folder(target.blobs_dir)
            os.replace(blob_path(source, sha256), blob_path(target, sha256))
    if target.blobs_dir.is_dir():
        sync_folder(target.blobs_dir)


def _list_names(path: os.PathLike[str]) -> list[str]:
    missing = FileNotFoundError, NotADirectoryError
    with contextlib.suppress(*missing), closing_fd(open_folder(path)) as fd:
        return os.listdir(fd)
    return []


def files_below(folder: str) -> dict[str, str]:
    """Return all files below a folder by relative name (with ``/``), sorted.

    A link to a file in the folder counts as that file. Raises FileMissingError for other links,
    pipes, or a missing folder, and ArgumentError for an undecodable name.
    """
    if not os.path.isdir(folder):
        what = "a file (add it with add_file)" if os.path.exists(folder) else "nothing"
        raise FileMissingError(f"path: expected a folder, found {what} at {folder!r:.200}")
    home = os.path.realpath(folder)
    found: dict[str, str] = {}
    folders = [""]
    while folders:
        below = folders.pop()
        with os.scandir(os.path.join(home, below)) as entries:
            for one in entries:
                if not fits(one.name):
                    raw = os.fsencode(one.path)
                    raise ArgumentError(
                        f"path: expected names that are valid text, found {raw!r:.200}"
                    )
                name = f"{below}/{one.name}" if below else one.name
                if one.is_dir(follow_symlinks=False):
                    folders.append(name)
                elif one.is_file(follow_symlinks=False):
                    found[name] = one.path
                else:
                    found[name] = _resolve_file(one.path, home)
    return dict(sorted(found.items()))


def _resolve_file(path: str, home: str) -> str:
    leads = os.path.realpath(path) if os.path.islink(path) else path
    if leads != path and not leads.startswith(home + os.sep):
        raise FileMissingError(
            f"path: {path!r:.200} is a link out of the folder, to {leads!r:.200}, and is not "
            "followed; add its target separately"
        )
    try:
        mode = os.stat(leads).st_mode
    except FileNotFoundError:
        raise FileMissingError(f"path: {path!r:.200} is a broken link to {leads!r:.200}") from None
    if not stat.S_ISREG(mode):
        kind = "a link to a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise FileMissingError(f"path: expected files, found {kind}: {path!r:.200}")
    return leads
