"""Journal file that is being written, and the queue of records that could not be written."""

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


_CREATE_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
)
_COPY_BYTES: Final = 1 << 20
_SYNC_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
_sync_data = getattr(os, "fdatasync", os.fsync)


class Segment:
    """Open journal file; its writer holds the lock around all calls but `sync` and `sync_folder`.

    Attributes:
        salt: Start value of every CRC in the file.
        begun: Whether it contains its HEADER; readers may then have seen it.
        lost: Whether nothing more can be appended; the writer then continues in another file.
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
        self.fd = os.open(self.path, _CREATE_FLAGS, 0o666)
        self.begun = self.lost = False
        self._found = os.fstat(self.fd)
        self._synced = 0
        self._folder_synced = False

    def start(self, frame: bytes) -> None:
        """Write the file header and the HEADER frame; on OSError, leave no file behind."""
        _, error = self.put([file_header(self.uid) + frame])
        if error is not None:
            self.discard()
            raise error
        self.begun = True

    def discard(self) -> None:
        """Close and remove a file without frames, which readers treat as empty."""
        self.close()
        os.unlink(self.path)  # noqa: PTH108 - strings throughout

    def put(self, frames: Sequence[bytes]) -> tuple[int, OSError | None]:
        """Append frames; return the number of complete ones in the file, and the error or None.

        No byte of the other frames is in the file, unless it is now `lost`.
        """
        data, written = b"".join(frames), 0
        try:
            # A partial write happens if the disk is full. Writing the rest succeeds, or gives the
            # reason.
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
        except OSError as failure:
            let_pass(failure)
            self.lost = True
            return
        # This file cannot grow any more (RLIMIT_FSIZE, or the limit of the file system). Another
        # file may.
        if error is not None and error.errno == errno.EFBIG and size > FILE_HEADER_BYTES:
            self.lost = True

    def repair(self) -> int:
        """Cut off bytes after the last complete frame; return its time, ns since the Unix epoch.

        Return -1 if there is none. The file is then `lost`, and removed if it was always empty.
        """
        self.lost = True  # until it is checked
        # The open file is read, which may have been moved or removed.
        with (
            quietly(only=OSError),
            JournalReader(FileSource(self.path, os.dup(self.fd))) as reader,
        ):
            last, size = reader.last_frame(), reader.size
            if last is None:
                self.discard()
                return -1
            self.begun, self.lost = True, False
            if size > last.end:
                self.take_back(size - last.end, None)
            return last.t
        return -1

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        """Close the descriptor; safe to call twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def sync(self) -> None:
        """Force new bytes to disk, on the sync thread only; OSError if the disk lost some."""
        # Read once: the writer may close the file meanwhile, and -1 is a ValueError for some calls.
        fd = self.fd
        size = os.fstat(fd).st_size
        if size == self._synced:
            return
        self._synced = size  # also on error: it is reported only once
        try:
            _sync_data(fd)
        except OSError as error:
            if error.errno not in _SYNC_UNSUPPORTED:
                raise

    def sync_folder(self) -> None:
        """Force new folder entries to disk once, on the sync thread; errors are ignored."""
        if self._folder_synced:
            return
        self._folder_synced = True
        for folder in (self.folder.journal_dir, self.folder.path, self.folder.path.parent):
            sync_folder(folder)

    def is_linked(self) -> bool:
        """Return whether the file still exists at its path; other programs may remove it."""
        try:
            stat = os.stat(self.path)  # noqa: PTH116 - strings throughout
        except FileNotFoundError:
            return False
        except OSError:
            return True  # unknown at present, for example on a network file system
        return os.path.samestat(stat, self._found)

    def bring_back(self) -> None:
        """Restore a removed file at its path; all bytes are still readable by the descriptor."""
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
                os.unlink(draft)  # noqa: PTH108 - on a full disk it would take needed space
            raise
        os.close(self.fd)
        self.fd, self._found, self._synced, self._folder_synced = fd, os.fstat(fd), 0, False


MAX_BYTES: Final = 8 << 20
"""Maximum size of waiting records, in bytes; they take at most a few times as much memory."""
MAX_RECORDS: Final = 10_000
"""Maximum number of waiting calls of any size: an hour of training at 3 per second."""
LARGE_BYTES: Final = 64 << 10
"""Maximum bytes of a record that waits while a journal is open: smaller ones may still fit."""


class Record(Protocol):
    """Data appended to a journal by one call."""

    @property
    def count(self) -> int:
        """Number of values or records that are not yet in a journal, and may be lost."""

    @property
    def size(self) -> int:
        """Approximate size in bytes."""

    @property
    def done(self) -> bool:
        """Whether the whole record is in a journal."""

    def frames(self) -> list[bytes]:
        """Return the frames missing in the open journal; called again for each other journal."""

    def mark_written(self, whole: int, t: int) -> None:
        """Mark the first ``whole`` frames, up to time ``t`` (ns), as written; idempotent."""

    def mark_queued(self, t: int) -> None:
        """Mark the record, made at time ``t`` (ns), as waiting."""


class Payloads:
    """JSON records that are appended together; ``packed`` has the payload and flags of each."""

    def __init__(self, frame: FrameMaker, kind: int, packed: Sequence[tuple[bytes, int]]) -> None:
        self._frame, self._kind, self._packed = frame, kind, packed
        self._start = self._end = 0

    @property
    def count(self) -> int:
        """Number of records that are not yet in a journal."""
        return len(self._packed) - self._end

    @property
    def size(self) -> int:
        """Size of the payloads in bytes."""
        return sum(len(payload) for payload, _ in self._packed)

    @property
    def done(self) -> bool:
        """Whether all records are in a journal."""
        return not self.count

    def frames(self) -> list[bytes]:
        """Return one frame for each missing record."""
        self._start = self._end
        frames = []
        for payload, flags in self._packed[self._start :]:
            frames.append(self._frame(self._kind, payload, flags=flags))
        return frames

    def mark_written(self, whole: int, t: int) -> None:
        """Store the number of records in the journal."""
        self._end = self._start + whole

    def mark_queued(self, t: int) -> None:
        """Do nothing: these records have no state that depends on it."""


class Note:
    """Frame about the writer itself, made when it can be written to an open journal."""

    count = size = 0

    def __init__(self, frame: FrameMaker, kind: int, payload: Callable[[], bytes]) -> None:
        self._frame, self._kind, self._payload = frame, kind, payload
        self.done = False

    def frames(self) -> list[bytes]:
        """Return the one frame."""
        return [self._frame(self._kind, self._payload())]

    def mark_written(self, whole: int, t: int) -> None:
        """Store whether the frame was written."""
        self.done = bool(whole)

    def mark_queued(self, t: int) -> None:
        """Do nothing: such a frame never waits."""


class Waiting(NamedTuple):
    """Waiting record, made at ``t`` (ns since the Unix epoch); None: a new journal begins here."""

    t: int
    record: Record | None
    size: int = 0
    header: Mapping[str, Any] | None = None


class Backlog:
    """Queue of waiting records, oldest first; the writer holds its lock around all calls."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self.waiting: deque[Waiting] = deque()
        self._bytes = 0
        self._records = 0

    def __len__(self) -> int:
        """Return the number of values or records that wait."""
        return sum(each.record.count for each in self.waiting if each.record is not None)

    def can_add(self, record: Record) -> bool:
        """Return whether a record can be added."""
        return self._records < MAX_RECORDS and self._bytes + record.size <= MAX_BYTES

    def add(self, record: Record) -> None:
        """Add a record with the current time."""
        t, size = self._clock(), record.size
        record.mark_queued(t)
        self.waiting.append(Waiting(t, record, size))
        self._records, self._bytes = self._records + 1, self._bytes + size

    def begin_journal(self, header: Mapping[str, Any] | None) -> None:
        """Start a new journal for later records; None: its HEADER is made when it is opened."""
        self.waiting.append(Waiting(self._clock(), None, header=header))

    def done(self) -> None:
        """Remove the oldest entry."""
        first = self.waiting.popleft()
        if first.record is not None:
            self._records, self._bytes = self._records - 1, self._bytes - first.size
