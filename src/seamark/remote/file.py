"""Another root folder as a remote, such as one on a disk that several machines mount.

Journals are appended under a lock of the file (``flock``), at the offset that was compared with
its size, and forced to disk before anybody is told. A new journal is written under a name with a
dot and renamed, so that no reader meets half a header.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from seamark.errors import ArgumentError, PathError
from seamark.journal.folder import RunFolder, split_journal_name
from seamark.journal.safe import locked, make_folder, names_in, open_folder, sync_folder
from seamark.paths import check_name, check_place
from seamark.process.interrupts import quietly
from seamark.remote.protocol import Diverged, Gap, Purged, Refused, RemoteError, Sent, Unreachable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from seamark.remote.protocol import RunKey

__all__ = ["FileRemote", "root_of"]

_COPY_BYTES: Final = 1 << 20
_WAIT_S: Final = 1.0
_FLAGS: Final = os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_FOREVER: Final = frozenset(
    {
        *(errno.EACCES, errno.ELOOP, errno.EPERM, errno.EROFS),
        *(errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR),
    }
)


def root_of(uri: str) -> Path:
    """Return the folder that ``file:///folder`` names, or raise `ArgumentError`."""
    parts = urlsplit(uri)
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        msg = f"remote: expected file:///folder with a path from the root on, got {uri!r:.200}"
        raise ArgumentError(msg)
    return Path(os.path.normpath(path))


class FileRemote:
    """Sends to another root; see `seamark.remote.protocol.Remote`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"<seamark root {self.root}>"

    # ---------------------------------------------------------------- journals

    def journals(self, run: RunKey) -> Mapping[str, int]:
        """See `seamark.remote.protocol.Remote.journals`."""
        with self.translate_errors():
            folder = self._folder(run)
            return {
                name: (folder.journal_dir / name).stat().st_size
                for name in names_in(folder.journal_dir)
            }

    def send(self, run: RunKey, journal: str, offset: int, data: bytes) -> Sent:
        """See `seamark.remote.protocol.Remote.send`."""
        with self.translate_errors():
            return self._append(run, journal, offset, _Bytes(data))

    def send_gap(self, run: RunKey, journal: str, offset: int, length: int) -> Sent:
        """See `seamark.remote.protocol.Remote.send_gap`.

        What will never be a frame is kept as zeros, which are none either.
        """
        with self.translate_errors():
            return self._append(run, journal, offset, _Zeros(length))

    def _append(self, run: RunKey, journal: str, offset: int, data: _Bytes | _Zeros) -> Sent:
        folder = self._folder(run)
        _check_journal(journal)
        with quietly(only=FileNotFoundError):
            return self._append_to(folder, journal, offset, data)
        if offset:
            msg = f"{journal}: the journal is not there yet"
            raise Gap(msg, 0)
        self._begin(folder, journal, data)
        return self._append_to(folder, journal, offset, data)

    def _append_to(
        self, folder: RunFolder, journal: str, offset: int, data: _Bytes | _Zeros
    ) -> Sent:
        above = open_folder(folder.journal_dir)
        try:
            fd = os.open(journal, os.O_RDWR | os.O_APPEND | _FLAGS, dir_fd=above)
        finally:
            os.close(above)
        try:
            with locked(fd):
                known = os.fstat(fd).st_size
                if offset > known:
                    msg = f"{journal}: {offset - known} bytes before {offset} are missing"
                    raise Gap(msg, known)
                overlap = min(known - offset, data.size)
                if not data.equals(fd, offset, overlap):
                    msg = f"{journal}: other bytes are kept there from {offset} on"
                    raise Diverged(msg, known)
                if overlap < data.size:
                    _write(fd, known, data, overlap)
                    os.fsync(fd)
                size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        return Sent(size, sum(self._sizes(folder).values()), _WAIT_S)

    def _begin(self, folder: RunFolder, journal: str, data: _Bytes | _Zeros) -> None:
        # Another shipper may make the journal at the same time; there is never one without its
        # first bytes.
        folder.refuse_links()
        make_folder(folder.journal_dir)
        draft = f".{journal}.{secrets.token_hex(4)}"
        above = open_folder(folder.journal_dir)
        try:
            made = os.open(
                draft,
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | _FLAGS,
                0o666,
                dir_fd=above,
            )
            try:
                try:
                    _write(made, 0, data, 0)
                    os.fsync(made)
                finally:
                    os.close(made)
                with contextlib.suppress(FileExistsError):  # another shipper was first
                    os.link(draft, journal, src_dir_fd=above, dst_dir_fd=above)
            finally:
                os.unlink(draft, dir_fd=above)
            os.fsync(above)
        finally:
            os.close(above)
        for path in (folder.path, folder.path.parent):
            sync_folder(path)

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
        """See `seamark.remote.protocol.Remote.put_blob`.

        Where an earlier try has left a part, its bytes are compared and not written again.
        """
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):  # noqa: PLR2004
            msg = f"digest: expected 64 hex digits, got {digest!r:.80}"
            raise ValueError(msg)
        with self.translate_errors():
            folder = self._folder(run)
            if (folder.blobs_dir / digest).is_file():
                return
            folder.refuse_links()
            make_folder(folder.blobs_dir)
            above = open_folder(folder.blobs_dir)
            try:
                self._keep_blob(above, digest, size, file)
            finally:
                os.close(above)
            sync_folder(folder.path)

    def _keep_blob(self, above: int, digest: str, size: int, file: BinaryIO) -> None:
        draft = f".{digest}.part"
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666, dir_fd=above)
        try:
            with locked(fd):
                hashed, offset = hashlib.sha256(), 0
                file.seek(0)
                while offset < size:
                    piece = file.read(min(_COPY_BYTES, size - offset))
                    if not piece:
                        break
                    if os.pread(fd, len(piece), offset) != piece:
                        _put(fd, piece, offset)
                    hashed.update(piece)
                    offset += len(piece)
                if offset < size or hashed.hexdigest() != digest:
                    os.unlink(draft, dir_fd=above)
                    msg = f"file {digest}: what was read has another content"
                    raise ValueError(msg)
                os.ftruncate(fd, size)
                os.fsync(fd)
                with quietly(only=FileNotFoundError):  # another shipper has renamed it just now
                    os.rename(draft, digest, src_dir_fd=above, dst_dir_fd=above)
                os.fsync(above)
        finally:
            os.close(fd)

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
            msg = f"{folder.words} was purged in {self.root}"
            raise Purged(msg)
        return folder

    @contextlib.contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of the file system as `Refused`, or `Unreachable` for now."""
        try:
            yield
        except RemoteError:
            raise
        except OSError as error:
            why = error.strerror or str(error)
            msg = f"{self.root} cannot be written: {why}"
            if error.errno in _FOREVER:
                raise Refused(msg) from error
            raise Unreachable(msg) from error


def _check_journal(name: str) -> None:
    writer, uid = split_journal_name(name)
    try:
        check_name(writer, "writer")
    except PathError as error:
        raise Refused(str(error)) from error
    if uid is None:
        msg = f"journal: expected <writer>.<uid>, got {name!r:.200}"
        raise Refused(msg)


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.size = len(data)

    def piece(self, start: int, size: int) -> memoryview | bytes:
        return self._data[start : start + size]

    def equals(self, fd: int, offset: int, size: int) -> bool:
        return all(
            os.pread(fd, len(piece), offset + start) == piece
            for start in range(0, size, _COPY_BYTES)
            if (piece := self.piece(start, min(_COPY_BYTES, size - start))) is not None
        )


class _Zeros:
    def __init__(self, size: int) -> None:
        self.size = size

    def piece(self, start: int, size: int) -> memoryview | bytes:
        return bytes(max(0, min(size, self.size - start)))

    def equals(self, fd: int, offset: int, size: int) -> bool:
        # Anything may be there already: what was declared is kept.
        return True


def _write(fd: int, known: int, data: _Bytes | _Zeros, start: int) -> None:
    # All of it or, after an error, nothing: only whole frames are ever seen there.
    try:
        while start < data.size:
            start += os.write(fd, data.piece(start, _COPY_BYTES))
    except OSError:
        with quietly(only=OSError):
            os.ftruncate(fd, known)
        raise


def _put(fd: int, piece: bytes, offset: int) -> None:
    view = memoryview(piece)
    while view:
        written = os.pwrite(fd, view, offset)
        view, offset = view[written:], offset + written
