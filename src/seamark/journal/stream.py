"""Sequence of the journals of one writer, to which frames are appended.

The rules are in ``docs/explanation/journal.md``, "Writing".
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.folder import writer_id
from seamark.journal.format import Kind, dump_json, frame_bytes, time_of
from seamark.journal.reader import MAX_AHEAD_NS, JournalReader
from seamark.journal.rows import RowTable
from seamark.journal.segment import LARGE_BYTES, MAX_RECORDS, Backlog, Note, Record, Segment
from seamark.process.interrupts import let_pass, quietly, raised_by_signal_handler

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.losses import Losses


_REOPEN_S: Final = 1.0
_MAX_ABANDONED: Final = 16
"""Maximum number of abandoned journals that wait for the sync thread, each with a descriptor."""
_PURGED: Final = "the run was purged"
_STOPPED: Final = "the run is stopped"


def do_nothing() -> None:
    """Do nothing."""


class Stream:
    """Open or next journal of a writer, and the records that wait for it.

    The writer holds its lock around all calls. Methods that return a text return the reason of a
    failure, or an empty text on success. ``clock`` is in nanoseconds since the Unix epoch and never
    steps. ``header`` returns the caller's part of the HEADER record for a new journal.

    Attributes:
        last_t: Time of the last frame, nanoseconds since the Unix epoch.
        to_close: Journals no longer written to, which the sync thread forces to disk and closes.
        ends: Sizes of these journals as {writer id: bytes}.
        in_doubt: Whether it is unknown, after an exception, how much of the last write succeeded.
        wake: Called when the sync thread has work to do.
    """

    def __init__(
        self,
        folder: RunFolder,
        header: Callable[[], dict[str, Any]],
        clock: Callable[[], int],
        losses: Losses,
    ) -> None:
        self.folder = folder
        self.header = header
        self.clock = clock
        self.losses = losses
        self.wake: Callable[[], object] = do_nothing
        self.table = RowTable(self.frame)
        self.segment: Segment | None = None
        self.fd = -1
        self.last_t = 0
        self.backlog = Backlog(clock)
        self.to_close: deque[Segment] = deque()
        self.ends: dict[str, int] = {}
        self.in_doubt = self.closed = False
        self._uid: bytes | None = None
        self._next_header: Mapping[str, Any] | None = None
        self._frame_time: int | None = None
        self._unfinished: tuple[Record, list[bytes]] | None = None
        self._is_ordered = False
        self._continues: str | None = None
        self._retry_at = 0.0

    @property
    def writer(self) -> str | None:
        """Writer id of the open journal, or of the next one if records wait; else None."""
        if self.segment is not None:
            return self.segment.writer
        return None if self._uid is None else writer_id(self._uid)

    def name(self) -> str:
        """Return the writer id of the open journal, or of the next one if none is open."""
        if self.segment is not None:
            return self.segment.writer
        self._uid = self._uid or secrets.token_bytes(16)
        return writer_id(self._uid)

    def frame(self, kind: int, payload: bytes, *, flags: int = 0, aux: int = 0) -> bytes:
        """Return a frame for the open journal, at the next tick of the clock."""
        t = self.clock() if self._frame_time is None else self._frame_time
        if t <= self.last_t:
            t = self.last_t + 1
        self.last_t = t
        return frame_bytes(self.table.salt, kind, t, payload, flags=flags, aux=aux)

    # ---------------------------------------------------------------- writing

    def append(self, record: Record) -> bool:
        """Write a record after waiting ones, or queue or drop it; return whether it was written."""
        waits = self.closed or self.in_doubt or self.backlog.waiting
        why = (self.catch_up() if waits else "") or self._put(record)
        if why and not (self._may_wait(record, why) and self._queue(record, why)):
            self._drop(record.count, why)
        return not why

    def _put(self, record: Record) -> str:
        """Write a record; if this journal cannot be continued, write the rest to a new one."""
        why = ""
        for _ in range(2):
            if self.segment is None and (why := self._open()):
                break
            segment, before = self.segment, self.last_t
            assert segment is not None  # noqa: S101 - _open returned no reason
            frames = record.frames()
            self._unfinished = record, frames
            whole, error = segment.put(frames)
            record.mark_written(whole, self.last_t)
            self._unfinished = None
            if error is None:
                if self.losses.has_unreported:
                    self._report(segment)
                return ""
            why = error.strerror or str(error)
            self.last_t = time_of(frames[whole - 1]) if whole else before
            self.table.retire_all()  # the next row uses the slow path, which catches up
            if not segment.lost:
                break
            self.switch_file()
        return why

    def _report(self, segment: Segment) -> None:
        whole, _ = segment.put([self.frame(Kind.HEARTBEAT, self.losses.payload())])
        if whole:
            self.losses.mark_recorded()
        elif segment.lost:
            self.switch_file()

    def beat(self) -> bool:
        """Write a heartbeat with the losses so far; return whether it was written."""
        beat = Note(self.frame, Kind.HEARTBEAT, self.losses.payload)
        if self.catch_up() or self._put(beat):
            return False
        self.losses.mark_recorded()
        return True

    def put_close(self, reason: str) -> str:
        """Write CLOSE; the caller ensures that no record waits."""
        note = Note(
            self.frame,
            Kind.CLOSE,
            lambda: dump_json({"reason": reason, "dropped": self.losses.counts}),
        )
        if not (why := self._put(note)):
            self.losses.mark_recorded()
        return why

    def rotate(self) -> None:
        """Continue in a new journal with the next record; its header is made at that time."""
        self.catch_up()
        if self.backlog.waiting:
            self.backlog.begin_journal(self._header_now())
            return
        self._next_header = None
        if self._leave("rotate"):
            self.switch_file()

    def rest(self) -> str:
        """Write all waiting records and CLOSE, and leave the journal."""
        self._retry_at = 0.0
        return self.catch_up() or self._leave("stop")

    def _leave(self, reason: str) -> str:
        """Write CLOSE, and leave the journal if there is one."""
        if self.segment is not None:
            if why := self.put_close(reason):
                return why
            self.switch_file()
        return ""

    def end(self, reason: str) -> None:
        """Write waiting records and CLOSE, and leave the journal finally; count lost records."""
        if self.segment is not None or self.losses.has_unreported or self.backlog.waiting:
            self._retry_at = 0.0
            why = self.catch_up() or self.put_close(reason)
            if self.backlog.waiting:
                self._drop(len(self.backlog), why)
        self.closed, self.backlog = True, Backlog(self.clock)
        self.switch_file()

    def retry_now(self) -> None:
        """Make the next record try the disk again, even if a write has just failed."""
        self._retry_at = 0.0

    # ---------------------------------------------------------------- after an exception

    def interrupted(self) -> None:
        """Mark that an exception interrupted a write; the next record first checks the file."""
        self.in_doubt = True
        self.table.retire_all()  # the slow path checks the file

    def settle(self) -> None:
        """Cut off an incomplete frame; mark complete ones, so that no record is written twice."""
        if (segment := self.segment) is not None:
            last_t = segment.repair()
            if self._unfinished is not None:
                record, frames = self._unfinished
                record.mark_written(sum(time_of(frame) <= last_t for frame in frames), self.last_t)
            if segment.lost:
                self.switch_file()
            self.wake()
        self._unfinished, self.in_doubt = None, False

    def row_failed(self, error: BaseException) -> None:
        """Handle an error of a row on the fast path; raise it unless it comes from the disk."""
        if not isinstance(error, OSError) or raised_by_signal_handler(error):
            self.interrupted()
            raise error
        self.take_back(0, error)

    def take_back(self, torn: int, error: OSError | None) -> None:
        """Cut off the torn bytes of a row on the fast path; the next row uses the slow path."""
        if (segment := self.segment) is not None:
            segment.take_back(torn, error)
            if segment.lost:
                self.switch_file()
        self.table.retire_all()

    # ---------------------------------------------------------------- waiting records

    def catch_up(self) -> str:
        """Write waiting records, oldest first, each with its original time."""
        if self.closed:
            return _STOPPED
        if self.in_doubt:
            self.settle()
        while self.backlog.waiting:
            first = self.backlog.waiting[0]
            if first.record is None:
                if why := self._leave("rotate"):
                    return why
                self._next_header = first.header
            elif not first.record.done and (why := self._put_queued(first.record, first.t)):
                if self._may_wait(first.record, why):
                    return why
                self._drop(first.record.count, why)
            self.backlog.done()
        return ""

    def _put_queued(self, record: Record, t: int) -> str:
        self._frame_time = t
        try:
            return self._put(record)
        finally:
            self._frame_time = None

    def _may_wait(self, record: Record, why: str) -> bool:
        """Return whether a record may be written later without blocking other records."""
        lasting = why in (_PURGED, _STOPPED)
        return not lasting and (self.segment is None or record.size <= LARGE_BYTES)

    def _queue(self, record: Record, why: str) -> bool:
        if not self.backlog.can_add(record):
            return False
        if self.segment is None and not self.backlog.waiting:
            self.name()  # determines the writer id of the queued journal
            self.backlog.begin_journal(self._header_now())
        self.backlog.add(record)
        self.wake()
        self.losses.warn_once(
            "waiting",
            f"{self.folder.path} cannot be written: {why}; up to {MAX_RECORDS:,} records wait in "
            "memory until it can be written. Training continues",
        )
        return True

    def _header_now(self) -> Mapping[str, Any] | None:
        with quietly(only=OSError):
            return self.header()
        return None

    def _drop(self, count: int, why: str) -> None:
        self.losses.has_unreported = True
        self.losses.drop(
            "disk", count, f"{self.folder.path} cannot be written: {why}; values are being lost"
        )

    # ---------------------------------------------------------------- sequence of files

    def switch_file(self) -> None:
        """Continue in another file with the next record."""
        segment, self.segment, self.fd = self.segment, None, -1
        if segment is None:
            return
        if segment.begun:
            self.ends.setdefault(segment.writer, 0)
            self._continues = segment.writer
            with quietly(only=OSError):
                self.ends[segment.writer] = segment.size
        self.to_close.append(segment)
        if len(self.to_close) > _MAX_ABANDONED:
            with quietly(only=OSError):
                self.to_close.popleft().close()
        self.table.start_journal()
        if not self.closed:  # otherwise there is no next journal
            self.losses.start_journal()

    def abandon(self) -> None:
        """Leave a journal that is unreliable or no longer wanted."""
        if self.in_doubt:
            self.settle()
        if self.segment is not None:
            self.segment.lost = True
            self.switch_file()

    def begin_child(self) -> None:
        """Leave the journal and waiting records to the parent process after a fork."""
        self._unfinished, self.in_doubt = None, False
        self.backlog, self._uid = Backlog(self.clock), None
        self._next_header = self._frame_time = None
        self.switch_file()
        while self.to_close:
            with quietly(only=OSError):
                self.to_close.popleft().close()

    def _open(self) -> str:
        now = time.monotonic()
        if now < self._retry_at:
            return "a recent attempt to open it failed"
        if self.folder.is_purged:
            return _PURGED
        before, named, next_header = self.last_t, self._uid, self._next_header
        try:
            self._order_after_others()
            before = self.last_t
            # Called before the file exists: it may be slow, and readers would see an empty journal.
            given = self.header() if next_header is None else next_header
            segment = Segment(self.folder, named or secrets.token_bytes(16))
            self._uid = self._next_header = None
            self.table.salt = segment.salt
            header = {
                "format": 1,
                "run": self.folder.run,
                "project": self.folder.project,
                "writer": segment.writer,
                "continues": self._continues,
                "prior_t": self.last_t,
                **given,
            }
            frame = self.frame(Kind.HEADER, dump_json(header))
            # Set before the write, so that the journal counts as open after an exception.
            self.segment, self.fd = segment, segment.fd
            segment.start(frame)
        except OSError as error:
            let_pass(error)
            self.segment, self.fd = None, -1
            self._retry_at, self.last_t = now + _REOPEN_S, before
            # An existing file was left by an earlier failed attempt.
            self._uid = None if isinstance(error, FileExistsError) else named
            self._next_header = next_header
            return error.strerror or str(error)
        self.wake()
        return ""

    def begin_after(self, t: int, who: str) -> None:
        """Start after time ``t`` (ns) of a record, unless its writer's clock was far ahead."""
        if t > self.clock() + MAX_AHEAD_NS:
            self.losses.warn(
                f"the clock of {who} is over an hour ahead; new records are not ordered after its "
                "records"
            )
        else:
            self.last_t = max(self.last_t, t)

    def _order_after_others(self) -> None:
        """Start after the latest time in the run; see `begin_after`."""
        if self._is_ordered:
            return
        self._is_ordered = True
        for journal in self.folder.journals():
            with quietly(only=OSError), JournalReader(journal.path) as reader:
                if (last := reader.last_frame()) is not None:
                    self.begin_after(last.t, f"the process that wrote {journal.path}")
