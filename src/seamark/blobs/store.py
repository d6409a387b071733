"""Contents of files, each stored once under the SHA-256 of its bytes.

A blob is written under a temporary name in the run's ``.staging/`` and then moved to
``blobs/<sha256>``, so that readers never see incomplete blobs. Its bytes are cloned (reflink) or
copied from the source, never linked to it, because a trainer may rewrite its files in place. The
digest is computed from the copy, so it is correct whatever happens to the source.

Only users who can read the source can read the blob; see `narrow`. If a blob, ``blobs/`` or
``.staging/`` is a link, it is not followed; see `seamark.journal.safe`.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from seamark.errors import ArgumentError, FileMissingError
from seamark.journal.folder import RunFolder
from seamark.journal.safe import (
    closing_fd,
    is_folder,
    make_folder,
    open_file,
    open_folder,
    remove_entry,
    sync_folder,
)
from seamark.process.interrupts import quietly

_TEMPORARY: Final = ".tmp-"
"""Prefix of the names of unfinished files in ``.staging/``."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_BLOCK: Final = 1 << 20
_FICLONE: Final = 0x40049409  # _IOW(0x94, 9, int), linux/fs.h
_NEW_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL
_MIN_AGE_S: Final = 3600.0
ANY_MODE: Final = 0o777
"""Mode of content that does not come from a file; only the umask limits it."""


class Stamp(NamedTuple):
    """Size (bytes), modification time (ns since the Unix epoch), inode and device of a file."""

    size: int
    mtime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, stat: os.stat_result) -> Stamp:
        """Return the stamp of a file from its ``os.stat``."""
        return cls(stat.st_size, stat.st_mtime_ns, stat.st_ino, stat.st_dev)


def blob_path(folder: RunFolder, sha256: str) -> Path:
    """Return the path of a blob, existing or not; ArgumentError if the digest is invalid."""
    if not _DIGEST.fullmatch(sha256):
        raise ArgumentError(
            f"sha256: expected 64 lower-case hexadecimal digits, got {sha256!r:.80}"
        )
    return folder.path.joinpath("blobs", sha256)


def has_blob(folder: RunFolder, sha256: str, size: int | None = None) -> bool:
    """Return whether a blob exists, and has the given size (bytes) if any."""
    path = blob_path(folder, sha256)
    with quietly(only=OSError):
        found = path.lstat()
        is_whole = stat.S_ISREG(found.st_mode) and size in (None, found.st_size)
        return is_whole and not path.parent.is_symlink()
    return False


def open_blob(folder: RunFolder, sha256: str, size: int | None = None) -> BinaryIO:
    """Open a blob; FileMissingError if missing or of another size, ArgumentError if invalid."""
    path = blob_path(folder, sha256)
    try:
        file = os.fdopen(open_file(path), "rb")
    except FileNotFoundError as error:
        why = f": {error}" if isinstance(error, FileMissingError) else ""
        raise FileMissingError(f"the contents {sha256} are not in {folder.path}{why}") from error
    found = os.fstat(file.fileno()).st_size
    if size is not None and found != size:
        file.close()
        raise FileMissingError(
            f"the contents {sha256} in {folder.path} have {found:,} bytes, expected {size:,}"
        )
    return file


def narrow_blob(folder: RunFolder, sha256: str, mode: int) -> None:
    """Restrict the permissions of a blob to those of a file mode; see `narrow`."""
    with quietly(only=OSError), closing_fd(open_file(blob_path(folder, sha256))) as fd:
        narrow(fd, mode)


def narrow(fd: int, mode: int) -> None:
    """Restrict the permissions of an open file to those of its source, which has ``mode``.

    The owner can always read and write the file.
    """
    now = stat.S_IMODE(os.fstat(fd).st_mode)
    wanted = now & (stat.S_IMODE(mode) | stat.S_IRUSR | stat.S_IWUSR)
    if wanted != now:
        os.fchmod(fd, wanted)


def open_source(path: str | os.PathLike[str]) -> int:
    """Return a descriptor of a file, open for reading."""
    return os.open(path, os.O_RDONLY)


def put_bytes(folder: RunFolder, content: bytes, mode: int = ANY_MODE) -> str:
    """Store bytes, with the permissions of their source file, and return their SHA-256.

    The operating system has the bytes when this returns; `sync_blob` forces them to disk.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    if has_blob(folder, sha256, len(content)):
        if mode != ANY_MODE:
            narrow_blob(folder, sha256, mode)
    else:
        with _new_file(folder) as (fd, path):
            narrow(fd, mode)
            write_all(fd, memoryview(content))
            _move_to_blobs(folder, path, sha256)
    return sha256


def copy_blob(
    folder: RunFolder, source: int, check: Callable[[], None] | None = None
) -> tuple[str, int]:
    """Store and sync a copy of an open file, after ``check``; return SHA-256 and size (bytes)."""
    with _new_file(folder) as (fd, path):
        narrow(fd, os.fstat(source).st_mode)
        sha256, size = digest_of(fd) if clone(source, fd) else copy_into(source, fd)
        if check is not None:
            check()
        if not has_blob(folder, sha256, size):
            os.fsync(fd)
            _move_to_blobs(folder, path, sha256)
            sync_folder(folder.blobs_dir)
    return sha256, size


def put_stream(folder: RunFolder, source: BinaryIO, sha256: str, size: int) -> None:
    """Store and sync a content from an open file; ValueError if it does not match."""
    with _new_file(folder) as (fd, path):
        digest, left = hashlib.sha256(), size
        while left and (block := source.read(min(_BLOCK, left))):
            digest.update(block)
            write_all(fd, memoryview(block))
            left -= len(block)
        if left or digest.hexdigest() != sha256:
            raise ValueError(f"file {sha256}: the bytes read do not match this digest")
        os.fsync(fd)
        _move_to_blobs(folder, path, sha256)
        sync_folder(folder.blobs_dir)


def adopt(folder: RunFolder, path: Path) -> tuple[str, int]:
    """Store a private file in ``.staging/``, which remains; return SHA-256 and size (bytes)."""
    with closing_fd(open_source(path)) as fd:
        sha256, size = digest_of(fd)
        if has_blob(folder, sha256, size):
            return sha256, size
        os.fsync(fd)
        _make_run_folder(folder, folder.blobs_dir)
        target = blob_path(folder, sha256)
        try:
            with contextlib.suppress(FileNotFoundError):
                target.unlink()  # of another size, damaged by a power failure
            os.link(path, target)
        except OSError:
            return copy_blob(folder, fd)
        sync_folder(folder.blobs_dir)
        return sha256, size


def remove_blob(folder: RunFolder, sha256: str) -> None:
    """Remove a blob if it exists."""
    path = blob_path(folder, sha256)
    with contextlib.suppress(FileNotFoundError), closing_fd(open_folder(path.parent)) as fd:
        os.unlink(path.name, dir_fd=fd)


def sync_blob(folder: RunFolder, sha256: str) -> None:
    """Force the bytes of a blob to disk; `sync_folder` does the same for its name."""
    path = blob_path(folder, sha256)
    with contextlib.suppress(FileNotFoundError), closing_fd(open_file(path)) as fd:
        os.fsync(fd)


def clone(source: int, target: int) -> bool:
    """Make an empty file a copy-on-write clone of another; return False if not supported."""
    import fcntl  # not on Windows

    with quietly(only=OSError):  # not Linux, or a file system without reflinks
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False


def copy_into(source: int, target: int) -> tuple[str, int]:
    """Copy an open file from its start; return SHA-256 and size (bytes) of the copy."""
    return _hash_content(source, lambda block: write_all(target, block))


def digest_of(fd: int) -> tuple[str, int]:
    """Return SHA-256 and size in bytes of an open file."""
    return _hash_content(fd, lambda _: None)


def read_all(fd: int, limit: int) -> bytes:
    """Return up to ``limit`` bytes of an open file from its start."""
    os.lseek(fd, 0, os.SEEK_SET)
    parts, left = [], limit
    while left > 0 and (part := os.read(fd, min(left, _BLOCK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _hash_content(fd: int, use: Callable[[memoryview], None]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    buffer = memoryview(bytearray(min(_BLOCK, os.fstat(fd).st_size or _BLOCK)))
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(fd, "rb", buffering=0, closefd=False) as file:
        while length := file.readinto(buffer):
            block = buffer[:length]
            digest.update(block)
            use(block)
            size += length
    return digest.hexdigest(), size


def write_all(fd: int, data: memoryview) -> None:
    """Write bytes to a file completely."""
    while data:
        data = data[os.write(fd, data) :]


@contextlib.contextmanager
def _new_file(folder: RunFolder) -> Iterator[tuple[int, Path]]:
    _make_run_folder(folder, folder.staging_dir)
    path = folder.staging_dir / (_TEMPORARY + secrets.token_hex(8))
    fd = os.open(path, _NEW_FLAGS, 0o666)
    try:
        yield fd, path
    finally:
        os.close(fd)
        with quietly(only=OSError):
            path.unlink()


def _make_run_folder(folder: RunFolder, path: Path) -> None:
    # A late file must not recreate a purged run.
    if is_folder(path):
        return
    if folder.is_purged:
        raise OSError(errno.ENOENT, "the run was purged", str(folder.path))
    make_folder(path)


def _move_to_blobs(folder: RunFolder, path: Path, sha256: str) -> None:
    _make_run_folder(folder, folder.blobs_dir)
    os.replace(path, blob_path(folder, sha256))


def remove_leftovers(folder: RunFolder, wanted: Container[str], now_s: float | None = None) -> None:
    """Remove useless files from ``.staging/``: incomplete copies and deleted files.

    Files that are ``wanted``, or changed in the last hour and may soon be recorded, stay.
    """
    limit = (time.time() if now_s is None else now_s) - _MIN_AGE_S
    with quietly(only=OSError), closing_fd(open_folder(folder.staging_dir)) as fd:
        for name in os.listdir(fd):
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if name not in wanted and found.st_ctime < limit:
                with quietly(only=OSError):
                    remove_entry(fd, name)


def remove_staged(folder: RunFolder, name: str) -> None:
    """Remove a file or folder from ``.staging/`` if it exists."""
    with quietly(only=OSError), closing_fd(open_folder(folder.staging_dir)) as fd:
        remove_entry(fd, name)
