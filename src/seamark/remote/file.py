"""Another root folder as a remote, for example on a shared disk.

Journals are appended under a file lock (``flock``) after the offset was compared with the file
size. Data is synced to disk before a call returns.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote, urlsplit

from seamark.blobs.store import has_blob, put_stream, write_all
from seamark.errors import ArgumentError, PathError
from seamark.journal.folder import RunFolder
from seamark.journal.reader import JournalReader
from seamark.journal.safe import (
    closing_fd,
    locked,
    make_folder,
    names_in,
    open_folder,
    sync_folder,
)
from seamark.journal.shipping import BatchError, check_journal_name
from seamark.paths import check_place
from seamark.process.interrupts import quietly
from seamark.remote.protocol import (
    Diverged,
    Gap,
    Purged,
    Refused,
    RemoteError,
    RunKey,
    Sent,
    Unreachable,
)

_BATCH_INTERVAL_S: Final = 1.0
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_PERMANENT_ERRNOS: Final = frozenset(
    {
        errno.EACCES,
        errno.ELOOP,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.EISDIR,
    }
)


def root_of(uri: str) -> Path:
    """Return the folder of a ``file:///folder`` URI, or raise `ArgumentError`."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        raise ArgumentError(
            f"remote: expected file:///folder with an absolute path, got {uri!r:.200}"
        )
    return Path(os.path.normpath(path))


class FileRemote:
    """Remote that stores runs below another root; see `seamark.remote.protocol.Remote`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # ---------------------------------------------------------------- journals

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.Remote.journals`."""
        with self.translate_errors():
            folder = self._folder(run)
            return {
                name: _end_of_frames(folder.journal_dir / name, size)
                for name, size in self._sizes(folder).items()
            }

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """See `seamark.remote.protocol.Remote.send`."""
        return self._append(run, journal, offset, data)

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """See `seamark.remote.protocol.Remote.send_gap`.

        The gap is filled with zero bytes, which are not valid frames either.
        """
        return self._append(run, journal, offset, bytes(length), is_gap=True)

    def _append(
        self, run: RunKey, journal: str, offset: int, data: bytes, *, is_gap: bool = False
    ) -> Sent:
        with self.translate_errors():
            folder = self._folder(run)
            try:
                check_journal_name(journal)
            except BatchError as error:
                raise Refused(str(error)) from error
            with self._open_journal(folder, journal, offset) as fd, locked(fd):
                known = os.fstat(fd).st_size
                if offset > known:
                    raise Gap(
                        f"{journal}: {offset - known} bytes before {offset} are missing", known
                    )
                overlap = min(known - offset, len(data))
                # At a gap, the stored bytes may differ: they are kept.
                if not is_gap and os.pread(fd, overlap, offset) != data[:overlap]:
                    raise Diverged(
                        f"{journal}: the stored bytes from {offset} on are different", known
                    )
                if overlap < len(data):
                    _append_or_undo(fd, known, memoryview(data)[overlap:])
                    os.fsync(fd)
                size = os.fstat(fd).st_size
            return Sent(size, sum(self._sizes(folder).values()), _BATCH_INTERVAL_S)

    @contextlib.contextmanager
    def _open_journal(self, folder: RunFolder, journal: str, offset: int) -> Iterator[int]:
        """Open a journal; create it if the batch starts at offset 0."""
        if not offset:
            folder.refuse_links()
            make_folder(folder.journal_dir)
        try:
            with closing_fd(open_folder(folder.journal_dir)) as above:
                try:
                    fd = os.open(journal, _FLAGS, dir_fd=above)
                except FileNotFoundError:
                    if offset:
                        raise
                    # Another process may create it at the same time. To readers, an empty file is a
                    # journal that has just begun.
                    fd = os.open(journal, _FLAGS | os.O_CREAT, 0o666, dir_fd=above)
                    for path in (folder.journal_dir, folder.path, folder.path.parent):
                        sync_folder(path)
        except FileNotFoundError as error:
            raise Gap(f"{journal}: the journal does not exist yet", 0) from error
        with closing_fd(fd):
            yield fd

    def _sizes(self, folder: RunFolder) -> dict[str, int]:
        found = {}
        for name in names_in(folder.journal_dir):
            with quietly(only=OSError):
                found[name] = (folder.journal_dir / name).stat().st_size
        return found

    # ---------------------------------------------------------------- files

    def missing_blobs(self, run: RunKey, digests: Collection[str]) -> Collection[str]:
        """See `seamark.remote.protocol.Remote.missing_blobs`."""
        with self.translate_errors():
            folder = self._folder(run)
            return {each for each in digests if not (folder.blobs_dir / each).is_file()}

    def put_blob(self, run: RunKey, digest: str, size: int, file: BinaryIO) -> None:
        """See `seamark.remote.protocol.Remote.put_blob`."""
        with self.translate_errors():
            folder = self._folder(run)
            if has_blob(folder, digest, size):
                return
            folder.refuse_links()
            try:
                put_stream(folder, file, digest, size)
            finally:
                with quietly(only=OSError):  # not empty: in use by another process
                    folder.staging_dir.rmdir()
            sync_folder(folder.path)

    def close(self) -> None:
        """See `seamark.remote.protocol.Remote.close`."""

    # ---------------------------------------------------------------- inside

    def _folder(self, run: RunKey) -> RunFolder:
        try:
            check_place(run.project, run.run, "run")
        except PathError as error:
            raise Refused(str(error)) from error
        folder = RunFolder(self.root, run.project, run.run)
        if folder.is_purged:
            raise Purged(f"{folder.words} was purged in {self.root}")
        return folder

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate `OSError` to `Refused`, or to `Unreachable` if it may be temporary."""
        try:
            yield
        except RemoteError:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            msg = f"{self.root} cannot be written: {why}"
            if error.errno in _PERMANENT_ERRNOS:
                raise Refused(msg) from error
            raise Unreachable(msg) from error


def _end_of_frames(path: Path, size: int) -> int:
    """Return the end of the last whole frame; a killed sender may leave a partial one."""
    with quietly(only=OSError), JournalReader(path) as reader:
        last = reader.last_frame()
        if last is not None and last.end <= size:
            return last.end
    return 0  # all of it is compared with the sent data


def _append_or_undo(fd: int, known: int, data: memoryview) -> None:
    # On an error, the file is truncated again, so that it contains only whole frames.
    try:
        write_all(fd, data)
    except OSError:
        with quietly(only=OSError):
            os.ftruncate(fd, known)
        raise
