"""Object storage of a server: objects are written once and never overwritten.

An object is created completely and durably or not at all; a folder and a bucket can both do that. A
folder can also have growing objects, to which a single writer appends bytes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from seamark.errors import ArgumentError, MissingExtraError, SeamarkError
from seamark.journal.safe import parts_of

_TEMP: Final = ".new"
"""Folder of unfinished files; its entries are not objects."""
_ABANDONED_NS: Final = 24 * 3600 * 10**9
"""Age from which an unfinished file counts as left by a dead process, in nanoseconds."""
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_APPEND_FLAGS: Final = os.O_WRONLY | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_LINK_ERRORS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})
_BLOCK_BYTES: Final = 1 << 20
_CACHED_BLOCKS: Final = 128
"""Number of blocks of remote objects cached in memory."""


class ObjectsUnreachable(SeamarkError, OSError):  # noqa: N818 - named after the state
    """The object storage is not available; a retry may succeed."""


class ObjectInfo(NamedTuple):
    """Metadata of an object; `made_ns` is by the clock of the storage, since the Unix epoch."""

    name: str
    size: int
    made_ns: int


class ObjectStore(Protocol):
    """Object storage; safe to use from several threads and processes.

    Names are relative, with ``/``; see `seamark.journal.safe.parts_of`.
    """

    def put(self, name: str, data: bytes, *more: bytes) -> None:
        """Write a new object, `data` followed by `more`; it is durable on return.

        Raises:
            FileExistsError: If an object of that name exists, which is not changed.
            OSError: If the storage refuses it; the object does not exist then.
        """

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of an object, fewer at its end; `FileNotFoundError` if it is missing."""

    def delete(self, name: str) -> None:
        """Remove an object, if it exists."""

    def listed(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield metadata of all objects whose names have a prefix."""

    def cut(self, name: str, size: int) -> None:
        """Truncate an object created by `FolderObjects.grow` to its first bytes."""

    def check(self) -> None:
        """Raise `ObjectsUnreachable` if the opened storage was replaced or is missing."""

    def close(self) -> None:
        """Close all open resources; harmless when called twice."""


def open_objects(uri: str) -> ObjectStore:
    """Open an object storage by its URI.

    The URI is ``file:///folder``, a folder that is created if missing, or a URI of fsspec such as
    ``s3://bucket/prefix``, which needs the matching package.
    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ArgumentError(
                f"objects: expected an absolute folder such as file:///srv/seamark, got {uri!r}"
            )
        return FolderObjects(Path(unquote(parts.path)))
    if not parts.scheme or not parts.netloc:
        raise ArgumentError(
            f"objects: expected a URI such as file:///srv/seamark or s3://bucket, got {uri!r}"
        )
    return FsspecObjects(uri)


# ---------------------------------------------------------------------- a folder


class FolderObjects:
    """Objects as files of a folder, which is created if missing; see `ObjectStore`.

    An object is written to a new file, synced, and linked to its name, which fails if the name
    exists; then the folders above it are synced.

    If the folder disappears or is replaced, for example by the empty folder below a mount, nothing
    is read or written until it is back.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._new = folder / _TEMP
        self._new.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._inode = _inode(folder)
        self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        before = time.time_ns() - _ABANDONED_NS
        for path in self._new.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime_ns < before:
                    path.unlink()

    def check(self) -> None:
        """See `ObjectStore.check`."""
        if _inode(self.folder) != self._inode:
            raise ObjectsUnreachable(
                f"--blobs: the folder {str(self.folder)!r} of this server is missing: restore it,"
                " for example by mounting it, or restart the server"
            )

    def _path(self, name: str) -> Path:
        parts = parts_of(name, "object")
        if parts[0] == _TEMP:
            raise ArgumentError(f"object: {name!r} is reserved for unfinished objects")
        return self.folder.joinpath(*parts)

    def put(self, name: str, data: bytes, *more: bytes) -> None:
        """See `ObjectStore.put`."""
        path = self._path(name)
        self.check()
        self._make_folders(path.parent)
        new = self._new / secrets.token_hex(16)
        try:
            _write_synced(new, (data, *more))
            _link_or_rename(new, path)
        finally:
            with contextlib.suppress(OSError):
                new.unlink()
        try:
            _sync_folder(path.parent)
        except OSError:
            with contextlib.suppress(OSError):  # not durable, so it must not exist either
                path.unlink()
            raise

    def grow(self, name: str, size: int) -> GrowingObject:
        """Create a growing object for `size` bytes; those that are not written yet are zeros.

        The zeros are written, so that one `fdatasync` is enough for the data that replaces them.
        """
        self.put(name, bytes(size))
        return GrowingObject(os.open(self._path(name), _APPEND_FLAGS), size, self.check)

    def cut(self, name: str, size: int) -> None:
        """See `ObjectStore.cut`."""
        os.truncate(self._path(name), size)

    def _make_folders(self, folder: Path) -> None:
        missing = []
        while folder != self.folder and not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for each in reversed(missing):
            each.mkdir(exist_ok=True, mode=0o700)
            _sync_folder(each.parent)

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`."""
        try:
            fd = os.open(self._path(name), _READ_FLAGS)
        except FileNotFoundError:
            self.check()
            raise
        try:
            if length is None:
                length = max(0, os.fstat(fd).st_size - offset)
            parts = []
            while length and (part := os.pread(fd, length, offset)):
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
        finally:
            os.close(fd)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def delete(self, name: str) -> None:
        """See `ObjectStore.delete`. Folders that become empty stay."""
        self._path(name).unlink(missing_ok=True)

    def listed(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.listed`."""
        self.check()
        waiting = [prefix.rpartition("/")[0]]
        while waiting:
            above = waiting.pop()
            try:
                with os.scandir(self.folder / above if above else self.folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in found:
                name = f"{above}/{entry.name}" if above else entry.name
                if entry.is_dir(follow_symlinks=False):
                    inside = name + "/"
                    if name != _TEMP and (inside.startswith(prefix) or prefix.startswith(inside)):
                        waiting.append(name)
                elif name.startswith(prefix) and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        known = entry.stat(follow_symlinks=False)
                        yield ObjectInfo(name, known.st_size, known.st_mtime_ns)

    def close(self) -> None:
        """See `ObjectStore.close`; nothing is open between two calls."""


class GrowingObject:
    """Object to which one thread at a time appends bytes; created by `FolderObjects.grow`.

    Appended bytes are as durable as other objects, and are changed only by `take_back`, before any
    reader knows of them. `end` is the number of appended bytes. `check` raises `OSError` if the
    file cannot be found by its name any more.
    """

    def __init__(self, fd: int, size: int, check: Callable[[], None]) -> None:
        self._fd, self._size, self._check, self.end = fd, size, check, 0

    @property
    def capacity(self) -> int:
        """Number of bytes that can still be appended."""
        return self._size - self.end

    def add(self, *parts: bytes) -> None:
        """Append bytes durably; after an `OSError` nothing more may be appended."""
        self.end += self._write_synced(self.end, b"".join(parts))

    def take_back(self, end: int) -> None:
        """Overwrite the bytes after `end` with zeros, durably; errors as for `add`."""
        self._write_synced(end, bytes(self.end - end))
        self.end = end

    def _write_synced(self, place: int, data: bytes) -> int:
        self._check()
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, place)
            view, place = view[written:], place + written
        _sync_data(self._fd)
        return len(data)

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


_sync_data: Final = getattr(os, "fdatasync", os.fsync)


def _inode(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _write_synced(path: Path, parts: tuple[bytes, ...]) -> None:
    fd = os.open(path, _CREATE_FLAGS, 0o600)
    try:
        for part in parts:
            view = memoryview(part)
            while view:
                view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _link_or_rename(new: Path, path: Path) -> None:
    try:
        os.link(new, path)
    except OSError as error:
        if error.errno not in _LINK_ERRORS:
            raise
        # A file system without hard links. Names are random, so no other process uses this one.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        new.rename(path)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ---------------------------------------------------------------------- fsspec


class FsspecObjects:
    """Objects in a storage of fsspec, such as S3; see `ObjectStore`.

    The address is a setting of the server, and never comes from a record.
    """

    def __init__(self, uri: str) -> None:
        try:
            from fsspec.core import url_to_fs

            self._fs, root = url_to_fs(uri)
        except ImportError as error:
            raise MissingExtraError(
                f"objects: {uri!r} requires a missing package: {error}"
            ) from error
        except ValueError as error:
            raise ArgumentError(f"objects: {uri!r} is not supported by fsspec: {error}") from error
        self._root = str(root).rstrip("/")
        self._block = lru_cache(_CACHED_BLOCKS)(self._read_block)

    def _path(self, name: str) -> str:
        parts_of(name, "object")
        return f"{self._root}/{name}"

    def put(self, name: str, data: bytes, *more: bytes) -> None:
        """See `ObjectStore.put`. Names are random, so checking first is enough."""
        path = self._path(name)
        if self._fs.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(path, b"".join((data, *more)))

    def get(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """See `ObjectStore.get`. The last blocks are cached, as an object never changes."""
        if length is None:
            found: bytes = self._fs.cat_file(self._path(name), start=offset)
            return found
        parts, end = [], offset + length
        while offset < end:
            number, start = divmod(offset, _BLOCK_BYTES)
            block = self._block(name, number)
            part = block[start : start + end - offset]
            if not part:
                break
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    def _read_block(self, name: str, number: int) -> bytes:
        path, start = self._path(name), number * _BLOCK_BYTES
        size = int(self._fs.size(path))
        if start >= size:
            return b""
        block: bytes = self._fs.cat_file(path, start=start, end=min(size, start + _BLOCK_BYTES))
        return block

    def delete(self, name: str) -> None:
        """See `ObjectStore.delete`."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def listed(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.listed`."""
        above = prefix.rpartition("/")[0]
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(f"{self._root}/{above}" if above else self._root, detail=True)
        except FileNotFoundError:
            return
        for path, info in sorted(found.items()):
            name = str(path)[len(self._root) + 1 :]
            if name.startswith(prefix):
                yield ObjectInfo(name, int(info["size"]), _time_of(info))

    def cut(self, name: str, size: int) -> None:
        """See `ObjectStore.cut`; there are no growing objects."""

    def check(self) -> None:
        """See `ObjectStore.check`; a check would need a request."""

    def close(self) -> None:
        """See `ObjectStore.close`."""
        self._block.cache_clear()


def _time_of(info: dict[str, Any]) -> int:
    # Without a time the object counts as new, so it is kept.
    for key in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1e9)
        if isinstance(value, (int, float)):
            return int(value * 1e9)
    return time.time_ns()
