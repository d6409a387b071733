"""Journal file that is being written, and the queue of frames that the disk refused."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from seamark.journal.folder import RunFolder, journal_name, writer_id
from seamark.journal.format import FILE_HEADER_BYTES, file_header, salt_of
from seamark.journal.reader import JournalReader
from seamark.journal.safe import FileSource, sync_folder
from seamark.process.interrupts import let_pass, quietly

if TYPE_CHECKING:
    from seamark.journal.rows import FrameMaker

__all__ = ["LARGE_BYTES", "MAX_RECORDS", "Backlog", "Note", "Payloads", "Record", "Segment"]


_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
_COPY_BYTES: Final = 1 << 20
_NO_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_sync_data = getattr(os, "fdatasync", os.fsync)


class Segment:
    """An open journal file; its writer holds the lock around all but `sync` and `sync_folder`.

    Attributes:
        salt: Start value of every CRC in the file.
        begun: Whether it holds its HEADER, so that somebody may have read it.
        lost: True once nothing more can be appended; the writer continues in another file.
    """

    def __init__(self, folder: RunFolder, uid: bytes) -> None:
        self.folder = folder
        folder.refuse_links()
        there = folder.journal_dir
        there.mkdir(parents=True, exist_ok=True)
        self.uid = uid
        self.writer = writer_id(self.uid)
        self.salt = salt_of(self.uid)
        self.path = str(there / journal_name(self.writer, self.uid))
        self.fd = os.open(self.path, _CREATE, 0o666)
        self.begun = self.lost = False
        self._inode = self._inode_of(self.fd)
        self._synced = 0
        self._folder_synced = False

    @staticmethod
    def _inode_of(fd: int) -> tuple[int, int]:
        stat = os.fstat(fd)
        return stat.st_dev, stat.st_ino

    def start(self, frame: bytes) -> None:
        """Write the file header and the HEADER frame; on OSError, leave no file behind."""
        _, error = self.put([file_header(self.uid) + frame])
        if error is not None:
            self.discard()
            raise error
        self.begun = True

    def discard(self) -> None:
        """Close and remove a file without frames, in which no reader has found anything."""
        self.close()
        os.unlink(self.path)  # noqa: PTH108 - strings throughout

    def put(self, frames: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Append frames; return how many are whole in the file, and why others are not, or None.

        Of these others no byte is in the file, unless it is `lost` now.
        """
        data, written = b"".join(frames), 0
        try:
            # A part is taken where space ends; the attempt at the rest says why, or brings it.
            while written < len(data):
                if not (more := os.write(self.fd, data[written:])):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # noqa: TRY301
                written += more
        except OSError as error:
            let_pass(error)
            whole = 0
            for frame in frames:
                if len(frame) > written:
                    break
                written -= len(frame)
                whole += 1
            self.take_back(written, error)
            return whole, error
        return len(frames), None

    def take_back(self, torn: int, error: OSError | None) -> None:
        """Cut off the ``torn`` bytes of an incomplete frame; if that fails, the file is `lost`.

        A ``write(2)`` that raises has written nothing, so the size always gives the last valid
        offset.
        """
        try:
            size = os.fstat(self.fd).st_size - torn
            os.ftruncate(self.fd, size)
        except OSError as trouble:
            let_pass(trouble)
            self.lost = True
            return
        # This file may not grow any more (RLIMIT_FSIZE, or the file system's limit); another may.
        if error is not None and error.errno == errno.EFBIG and size > FILE_HEADER_BYTES:
            self.lost = True

    def mend(self) -> int:
        """Cut off bytes after the last whole frame; return its time, ns since the Unix epoch.

        It is -1 without one; then the file is `lost`, and removed if nothing was ever in it.
        """
        self.lost = True  # until it was looked at
        with quietly(only=OSError), self._reader() as reader:
            last, size = reader.last_frame(), reader.size
            if last is None:
                self.discard()
                return -1
            self.begun, self.lost = True, False
            if size > last.end:
                self.take_back(size - last.end, None)
            return last.t
        return -1

    def _reader(self) -> JournalReader:
        """Return a reader of the open file, even if it was moved or removed."""
        return JournalReader(FileSource(self.path, os.dup(self.fd)))

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        """Close the descriptor; harmless when called twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def sync(self) -> None:
        """Force new bytes to disk, on the sync thread only; OSError if the disk lost some."""
        # Once: the writer may close the file meanwhile, and -1 is a ValueError to some calls.
        fd = self.fd
        size = os.fstat(fd).st_size
        if size == self._synced:
            return
        self._synced = size  # also if it fails: the disk says so once, and lies when asked again
        try:
            _sync_data(fd)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def sync_folder(self) -> None:
        """Force new folder entries to disk once, on the sync thread; failures do not matter."""
        if self._folder_synced:
            return
        self._folder_synced = True
        for folder in (self.folder.journal_dir, self.folder.path, self.folder.path.parent):
            sync_folder(folder)

    def is_linked(self) -> bool:
        """Return whether the file still lies where it was made; somebody may have removed it."""
        try:
            stat = os.stat(self.path)  # noqa: PTH116 - strings throughout
        except FileNotFoundError:
            return False
        except OSError:
            return True  # cannot be told now, say on a network file system
        return (stat.st_dev, stat.st_ino) == self._inode

    def bring_back(self) -> None:
        """Write a removed file again where it was; the descriptor still holds every byte."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        draft = f"{os.path.dirname(self.path)}/.{os.path.basename(self.path)}"  # noqa: PTH119, PTH120 - strings throughout
        fd = os.open(
            draft,
            os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_CLOEXEC", 0),
            0o666,
        )
        try:
            offset = 0
            while data := os.pread(self.fd, _COPY_BYTES, offset):
                offset += os.write(fd, data)
            os.rename(draft, self.path)  # noqa: PTH104
        except BaseException:
            os.close(fd)
            with quietly(only=OSError):
                os.unlink(draft)  # noqa: PTH108 - on a full disk it would take what others need
            raise
        os.close(self.fd)
        self.fd, self._inode, self._synced, self._folder_synced = fd, self._inode_of(fd), 0, False


MAX_BYTES: Final = 8 << 20
"""Maximum size of waiting records, in bytes; their memory is at most a few times as large."""
MAX_RECORDS: Final = 10_000
"""Maximum number of waiting calls of any size: an hour of training at three per second."""
LARGE_BYTES: Final = 64 << 10
"""A larger record that an open journal refuses does not wait: smaller ones may still fit. In bytes.
"""


class Record(Protocol):
    """Data that one call appends to a journal."""

    @property
    def count(self) -> int:
        """Number of values or records that are in no journal yet, and would be lost with it."""

    @property
    def size(self) -> int:
        """Bytes that it holds, roughly."""

    @property
    def done(self) -> bool:
        """Whether all of it is in a journal."""

    def frames(self) -> list[bytes]:
        """Return the frames that are missing in the open journal; asked again for another one."""

    def mark_written(self, whole: int, t: int) -> None:
        """Note that the first ``whole`` frames, up to time ``t`` (ns), are written; idempotent."""

    def mark_queued(self, t: int) -> None:
        """Note that it waits, and was made at a time in ns."""


class Payloads:
    """JSON records that are appended together; ``packed`` is payload and flags of each."""

    def __init__(self, frame: FrameMaker, kind: int, packed: Sequence[tuple[bytes, int]]) -> None:
        self._frame, self._kind, self._packed = frame, kind, packed
        self._start = self._end = 0

    @property
    def count(self) -> int:
        """Number of records that are not in a journal yet."""
        return len(self._packed) - self._end

    @property
    def size(self) -> int:
        """Bytes of their payloads."""
        return sum(len(payload) for payload, _ in self._packed)

    @property
    def done(self) -> bool:
        """Whether all of them are in a journal."""
        return not self.count

    def frames(self) -> list[bytes]:
        """Return one frame for each that is missing."""
        self._start = self._end
        frames = []
        for payload, flags in self._packed[self._start :]:
            frames.append(self._frame(self._kind, payload, flags=flags))
        return frames

    def mark_written(self, whole: int, t: int) -> None:
        """Note how many are in the journal."""
        self._end = self._start + whole

    def mark_queued(self, t: int) -> None:
        """Nothing depends on it."""


class Note:
    """Frame about the writer itself, made when a journal is open to take it."""

    count = size = 0

    def __init__(self, frame: FrameMaker, kind: int, payload: Callable[[], bytes]) -> None:
        self._frame, self._kind, self._payload = frame, kind, payload
        self.done = False

    def frames(self) -> list[bytes]:
        """Return it."""
        return [self._frame(self._kind, self._payload())]

    def mark_written(self, whole: int, t: int) -> None:
        """Note that it was written."""
        self.done = bool(whole)

    def mark_queued(self, t: int) -> None:
        """Do nothing: it never waits."""


class Waiting(NamedTuple):
    """A record made at ``t`` (ns since the Unix epoch); None: where another journal begins."""

    t: int
    record: Record | None
    size: int = 0
    header: Mapping[str, Any] | None = None


class Backlog:
    """Queue of waiting records, oldest first; the writer holds its lock around every call."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._records = 0

    def __len__(self) -> int:
        """Return how many values or records would be lost with it."""
        return sum(each.record.count for each in self.waiting if each.record is not None)

    @property
    def first(self) -> Waiting:
        """Oldest entry of the queue."""
        return self.waiting[0]

    def can_add(self, record: Record) -> bool:
        """Return whether a record can be added."""
        return self._records < MAX_RECORDS and self._bytes + record.size <= MAX_BYTES

    def add(self, record: Record) -> None:
        """Keep a record, as made now."""
        t, size = self._clock(), record.size
        record.mark_queued(t)
        self.waiting.append(Waiting(t, record, size))
        self._records, self._bytes = self._records + 1, self._bytes + size

    def begin_journal(self, header: Mapping[str, Any] | None) -> None:
        """Mark that later records go to a new journal; None: its HEADER is made at its opening."""
        self.waiting.append(Waiting(self._clock(), None, header=header))

    def done(self) -> None:
        """Remove the oldest entry."""
        first = self.waiting.popleft()
        if first.record is not None:
            self._records, self._bytes = self._records - 1, self._bytes - first.size
