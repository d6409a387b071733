"""Writing a journal: one ``write(2)`` a call, and what happens when that fails.

`JournalWriter` is what a run holds. It opens its first file at the first record and goes on in a
new file, which ``continues`` the old one, after a fork, at `ROTATE_BYTES`, and when a write or an
``fdatasync`` failed in a way that cannot be undone. A record that could not be written waits in
memory, up to a limit, until the disk takes something again. What is over the limit is counted, the
count is written as soon as that is possible, and nothing of all this reaches the caller: training
comes first.

The rules are in ``docs/explanation/journal.md``, "Writing".
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import threading
import time
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, FamilyError
from seamark.journal._format import (
    MAX_PAYLOAD_BYTES,
    ZLIB,
    Kind,
    dump_json,
    frame_bytes,
)
from seamark.journal.backlog import LARGE_BYTES, MAX_RECORDS, Backlog, Payloads, Record
from seamark.journal.folder import writer_id
from seamark.journal.interrupts import raised_by_signal_handler
from seamark.journal.keeper import Keeper
from seamark.journal.reader import JournalReader
from seamark.journal.rows import Column, Row, RowTable
from seamark.journal.segment import Segment
from seamark.paths import check_writable, is_inside
from seamark.values import to_floats, to_step

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = [
    "CLOSE_TIMEOUT_S",
    "HEARTBEAT_S",
    "ROTATE_BYTES",
    "SYNC_S",
    "JournalWriter",
    "wall_clock",
]

SYNC_S: Final = 5.0
"""Data are forced to disk at this interval, on a thread; in seconds."""
HEARTBEAT_S: Final = 30.0
"""A heartbeat frame is written at this interval, by the same thread; in seconds."""
ROTATE_BYTES: Final = 1 << 30
"""A journal that grew to this size is continued in a new one."""
CLOSE_TIMEOUT_S: Final = 30.0
"""How long `JournalWriter.close` waits for the disk, in seconds."""

_REOPEN_S: Final = 1.0
_MAX_AHEAD_NS: Final = 3600 * 10**9
_SEEN_LIMIT: Final = 4096
_COLUMN_POINTS: Final = 500_000
_ROW_VALUES: Final = 1_000_000
_COMPRESS_BYTES: Final = 1 << 16
_PLAIN: Final = frozenset({float, int, bool})
_PURGED: Final = "the run was purged"
_STOPPED: Final = "the run is stopped"

log = logging.getLogger("seamark")


_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that counts on while the machine sleeps, where the system has one."""


def wall_clock() -> Callable[[], int]:
    """Return a clock that reads the wall once and never steps after.

    Nanoseconds since the Unix epoch.
    """
    read = time.clock_gettime_ns
    offset = time.time_ns() - read(_STEADY)
    return lambda: read(_STEADY) + offset


class JournalWriter:
    """Appends the records of one process to a run.

    All methods may be called from any thread, from signal handlers, and after a fork.

    Args:
        folder: The run.
        header: Returns the HEADER record's own part for a new journal (owner, attempt, rank, ...);
            ``format``, ``run``, ``project``, ``writer``, ``continues`` and ``prior_t`` are filled
            in here.
        clock: Nanoseconds since the Unix epoch, never stepping; see `wall_clock`.
        sync_s: Interval of ``fdatasync``, in seconds.
        heartbeat_s: Interval of heartbeats, in seconds.

    Attributes:
        families: Family by path, of what this process wrote and what the run was known to hold.
        dropped: How many records were lost, by reason, and are not yet told in a journal that was
            left.
        rank: 0, or the rank that writes its own series beside those of rank 0.
        at_heartbeat: Called by the sync thread at each heartbeat; must not raise.
    """

    rank = 0

    def __init__(
        self,
        folder: RunFolder,
        header: Callable[[], dict[str, Any]],
        *,
        clock: Callable[[], int] | None = None,
        sync_s: float = SYNC_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self.folder = folder
        self.families: dict[str, str] = {}
        self.dropped: dict[str, int] = {}
        self._header = header
        self._clock = clock or wall_clock()
        self._sync_s, self._heartbeat_s = sync_s, heartbeat_s
        self._lock = threading.RLock()
        self._round = threading.Lock()
        self._busy = False
        self._deferred: deque[Callable[[], object]] = deque()
        self._unsaid: deque[str] = deque()
        self._segment: Segment | None = None
        self._uid: bytes | None = None
        self._told: Mapping[str, Any] | None = None
        self._backlog = Backlog(self._clock)
        self._as_of: int | None = None
        self._fd = -1
        self._salt = 0
        self._last_t = 0
        self._looked_back = False
        self._continues: str | None = None
        self._ends: dict[str, int] = {}
        self._closed = False
        self._retry_at = 0.0
        self._owes_report = False
        self._reported: dict[str, int] = {}
        self._warned: set[object] = set()
        self._table = RowTable(self._frame)
        self._schemas = self._table.schemas
        self._keeper: Keeper | None = None
        self.at_heartbeat: Callable[[], object] = _nothing
        _writers.add(self)

    # ---------------------------------------------------------------- facts

    @property
    def writer(self) -> str | None:
        """Writer id of the open journal, or of that in which what waits will lie; else None."""
        if self._segment is not None:
            return self._segment.writer
        return None if self._uid is None else writer_id(self._uid)

    def shares(self, path: str) -> bool:
        """Tell whether values and files at a path are this process's to say."""
        del path
        return True

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def settled(self) -> bool:
        """Whether no record waits for the one that a signal handler interrupted."""
        return not self._deferred

    def positions(self) -> dict[str, int]:
        """Return {writer id: bytes} of every journal that this object wrote, as they are now."""
        with self._lock:
            ends = dict(self._ends)
            if self._segment is not None:
                ends[self._segment.writer] = self._segment.size
            return ends

    # ---------------------------------------------------------------- metrics

    def append_row(  # noqa: C901, PLR0912 - inlined: every call would cost a tenth of a row
        self, metrics: Mapping[str, Any], step: float | None = None, time_ns: int | None = None
    ) -> None:
        """Record one value of several float series at one step; never raises for what it is given.

        The common case (a key set seen before, plain numbers) is one pack, one CRC and one write.

        Args:
            metrics: Number by path.
            step: Finite number; None numbers the row 1 above the largest last step of these paths.
            time_ns: A time of the caller's own, nanoseconds since the Unix epoch.
        """
        try:
            schema = self._schemas.get(tuple(metrics))
            if schema is not None and time_ns is None and (step is None or type(step) in _PLAIN):
                values = metrics.values()
                # sum() is the quickest proof that all are plain numbers: with a tensor among them,
                # which the slow way moves together, it is no float. A key set that had one is
                # looked through by type, so that nobody's tensors are added up at every step.
                if (schema.plain or _PLAIN.issuperset(map(type, values))) and isinstance(
                    sum(values, 0.0), float
                ):
                    with self._lock:
                        if schema.live and not self._busy:
                            self._busy = True
                            try:
                                if step is None:
                                    step = self._table.after(schema.series)
                                elif step - step != 0:
                                    raise ValueError  # NaN or infinite
                                t = self._clock()
                                if t <= self._last_t:
                                    t = self._last_t + 1
                                row = schema.pack(t, step, *values)
                                frame = schema.join(zlib.crc32(row, schema.salt), schema.head, row)
                                self._last_t = schema.last_t = t
                                schema.last_step = step
                                try:
                                    if (written := os.write(self._fd, frame)) == len(frame):
                                        return
                                    self._take_back(written, None)
                                except OSError as error:
                                    if raised_by_signal_handler(error):
                                        raise
                                    self._take_back(0, error)
                            finally:
                                self._busy = False
                                if self._deferred:
                                    self._run_deferred()
                else:
                    schema.plain = False
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            # What the quick way does not understand, the slow way words.
        self._append_row_slowly(metrics, step, time_ns)

    def _append_row_slowly(self, metrics: Any, step: Any, time_ns: int | None) -> None:
        """Record a row key by key.

        Log_metrics stands in training loops, so nothing is raised here either.
        """
        try:
            self._append_row_checked(metrics, step, time_ns)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            self.drop("metrics", 1, f"a call of log_metrics could not be recorded: {error!r:.300}")

    def _append_row_checked(self, metrics: Any, step: Any, time_ns: int | None) -> None:
        if not isinstance(metrics, Mapping):
            self.drop(
                "metrics",
                1,
                f"log_metrics: expected a mapping of paths to numbers, got {metrics!r:.120}",
            )
            return
        if step is not None:
            try:
                step = to_step(step)
            except (TypeError, ValueError) as error:
                self.drop("step", max(1, len(metrics)), f"log_metrics: {error}")
                return
        values = self._checked(metrics)
        if len(values) > _ROW_VALUES and step is None:
            with self._lock:  # more than a frame takes: several rows of one step
                step = self._table.after([self._table.of(path) for path in values])
        items = list(values.items())
        for start in range(0, len(items), _ROW_VALUES):
            part = dict(items[start : start + _ROW_VALUES])
            self._guarded(partial(self._write_row, part, step, time_ns))

    def _write_row(
        self, values: Mapping[str, float], step: float | None, time_ns: int | None
    ) -> None:
        self._append(Row(self._table, values, step, time_ns))

    def _checked(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Return what can be recorded; leave out, count and warn about the rest."""
        values, refused = to_floats(metrics)
        for key, error in refused.items():
            self.drop(
                "value", 1, f"log_metrics: {key!r:.120} is left out: {error}", once=("value", key)
            )
        kept = {}
        for key, value in values.items():
            try:
                self.claim(check_writable(key), "float_series")
            except (TypeError, ValueError) as error:
                self.drop(
                    "path", 1, f"log_metrics: {key!r:.120} is left out: {error}", once=("path", key)
                )
            else:
                kept[key] = value
        return kept

    def append_point(
        self, path: str, value: float, step: float | None, time_ns: int | None = None
    ) -> None:
        """Record one point of a float series; path, value and step were checked by the caller.

        Raises:
            FamilyError: If the path is known to hold another family.
        """
        self.claim(path, "float_series")
        self._guarded(partial(self._write_row, {path: value}, step, time_ns))

    def append_column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float] | None = None,
        times_ns: Sequence[int] | None = None,
    ) -> None:
        """Record many points of one float series, in one frame for each 500,000 of them.

        Args:
            path: A checked path.
            values: Numbers.
            steps: As many finite numbers, or None to number the points from the last step on.
            times_ns: As many times, nanoseconds since the Unix epoch, or None.

        Raises:
            FamilyError: If the path is known to hold another family.
        """
        self.claim(path, "float_series")
        for start in range(0, len(values), _COLUMN_POINTS):
            part = slice(start, start + _COLUMN_POINTS)
            self._append_column(
                path,
                values[part],
                None if steps is None else steps[part],
                None if times_ns is None else times_ns[part],
            )

    def _append_column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float] | None,
        times_ns: Sequence[int] | None,
    ) -> None:
        self._guarded(lambda: self._append(Column(self._table, path, values, steps, times_ns)))

    # ---------------------------------------------------------------- other records

    def append_op(self, op: Mapping[str, Any], kind: int = Kind.OP) -> None:
        """Append one JSON record: an op, texts or histograms; see `append_ops`."""
        self.append_ops([op], kind)

    def append_ops(self, ops: Iterable[Mapping[str, Any]], kind: int = Kind.OP) -> None:
        """Append JSON records in one write, all of them or none.

        Raises:
            ArgumentError: If one is longer than a frame may be.
            ValueError: If one holds what JSON has no form for.
        """
        packed = [_packed(op) for op in ops]
        if packed:
            self._guarded(partial(self._append, Payloads(self._frame, kind, packed)))

    def take_step(self, path: str, step: float | None) -> float:
        """Return the step of a point of a text, file or histogram series, and remember it."""
        with self._lock:
            series = self._table.of(path)
            taken = self._table.after([series]) if step is None else step
            series.last_t, series.last_step = self._last_t + 1, taken
            return taken

    def remember_step(self, path: str, step: float) -> None:
        """Take over the last step that a series had before this process wrote to it.

        A series that was cleared has none: what is told of it is NaN.
        """
        if not math.isfinite(step):
            return
        with self._lock:
            series = self._table.of(path)
            if series.last_t < 0 and not series.schemas:
                series.last_t, series.last_step = 0, step

    def claim(self, path: str, family: str) -> None:
        """Take ``path`` for ``family``.

        Raises:
            FamilyError: If it is known to hold another one.
        """
        held = self.families.setdefault(path, family)
        if held != family:
            msg = (
                f"path {path!r} holds values of the family {held.replace('_', ' ')!r} and cannot "
                f"take {family.replace('_', ' ')!r}; use another path, or free this one with "
                f"`del run[{path!r}]`"
            )
            raise FamilyError(msg)

    def expect(self, families: Mapping[str, str]) -> None:
        """Look whether each path can take its family, before any of them is claimed.

        Raises:
            FamilyError: If one is known to hold another family.
        """
        for path, family in families.items():
            if self.families.get(path, family) != family:
                self.claim(path, family)  # raises, and says both

    def forget(self, namespace: str) -> None:
        """Forget families and steps of a path and of everything below it, after a delete."""
        with self._lock:
            for path in [path for path in self.families if is_inside(path, namespace)]:
                del self.families[path]
            self.forget_steps([path for path in self._table.series if is_inside(path, namespace)])

    def forget_steps(self, paths: Iterable[str]) -> None:
        """Forget the last steps of series that were deleted or cleared."""
        with self._lock:
            self._table.forget(paths)

    # ---------------------------------------------------------------- losses

    def drop(self, reason: str, count: int, message: str, *, once: object = None) -> None:
        """Count what was lost and warn once about it; never raises.

        Args:
            reason: Short name under which it is counted, such as ``"disk"``.
            count: How many values or records; 0 for what may not be lost in the end.
            message: What a person should read, once.
            once: What "once" is decided by; the reason if left out.
        """
        try:
            key = reason if once is None else once
            with self._lock:
                if count:
                    self.dropped[reason] = self.dropped.get(reason, 0) + count
                self._warn_once(
                    key,
                    f"{message}. Training goes on; further losses of this kind are only counted.",
                )
                if self._busy:
                    return  # said when the lock is free
            self._speak()
        except Exception as error:
            if raised_by_signal_handler(error):
                raise

    def _warn_once(self, key: object, message: str) -> None:
        if key not in self._warned and len(self._warned) < _SEEN_LIMIT:
            self._warned.add(key)
            self._warn(message)

    def _warn(self, message: str) -> None:
        """Have a warning said as soon as the lock is free.

        Never under it: a logging handler that writes to this very run holds a lock of its own, and
        may be waiting for ours in another thread.
        """
        self._unsaid.append(f"seamark: {message}")

    def _speak(self) -> None:
        while self._unsaid:
            try:
                message = self._unsaid.popleft()
            except IndexError:  # another thread, or a handler, says it
                return
            log.warning("%s", message)

    # ---------------------------------------------------------------- the sync thread, the end

    def keep(self, *, heartbeat: bool = False) -> None:
        """Do what the sync thread does at each interval; never raises."""
        with self._round:  # the file that one round syncs is not exchanged by another
            self._keep(heartbeat=heartbeat)

    def _keep(self, *, heartbeat: bool) -> None:
        try:
            self._run_deferred()
            if self._backlog:
                self._guarded(self._catch_up)
            if heartbeat and self._segment is not None:
                self._guarded(self._beat)
                self.at_heartbeat()
            if (segment := self._segment) is None:
                return
            self._bring_back(segment)
            segment.sync_folder()
            self._sync(segment)
            self._guarded(self._rotate_if_long)
            self._speak()
        except Exception as error:  # noqa: BLE001 - a thread of ours must not print a traceback into training
            self.drop("sync", 1, f"the sync thread met {error!r:.300}")

    def _sync(self, segment: Segment) -> None:
        try:
            segment.sync()
        except OSError as error:
            with self._lock:
                if self._segment is not segment or segment.fd < 0:
                    return  # it was left in the meantime
                self._leave()
            self.drop("sync", 1, f"{segment.path} could not be forced to disk: {error.strerror}")

    def _bring_back(self, segment: Segment) -> None:
        if segment.is_linked():
            return
        with self._lock:
            if self._segment is not segment or self._busy:
                return
            if self.folder.purged_mark.exists():
                self._leave()
                self.drop(
                    "purged", 1, f"run {self.folder.run} was purged; nothing more is recorded"
                )
                return
            try:
                segment.bring_back()
            except OSError as error:
                # Tried again at the next interval; as long as the file is open, nothing is lost.
                if "removed" not in self._warned:
                    self.drop(
                        "removed",
                        1,
                        f"{segment.path} was removed and cannot be written again: {error.strerror}",
                    )
                return
            self._fd = segment.fd
            self._warn(
                f"{segment.path} was removed while recording; it was written again from memory"
            )

    def close(self, reason: str = "stop", timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write CLOSE, have everything forced to disk by the sync thread, and close the file.

        Args:
            reason: ``"stop"``, or ``"exit"`` at the end of the process.
            timeout_s: How long to wait for the disk, in seconds.

        Returns:
            False if the disk did not answer in time.
        """
        ended: list[Keeper | None] = []
        self._guarded(lambda: ended.extend(self._end(reason)))
        if (
            not ended
        ):  # closed before; or a signal handler in the middle of a record, which comes first
            return True
        keeper = ended[0]
        done = keeper is None or keeper.finish(timeout_s)
        if keeper is not None and keeper.ident is None:
            self.keep()  # the thread could not be started
        if done:
            with self._lock:
                self._leave()
        else:
            self._warn(
                f"the disk did not answer within {timeout_s:g} s; "
                f"{self.folder.path} may lack its end"
            )
        self._speak()
        return done

    def retry_now(self) -> None:
        """Have the next record try the disk again even if it failed just now; for last words."""
        self._retry_at = 0.0

    def _end(self, reason: str) -> list[Keeper | None]:
        """Write CLOSE and have the sync thread do its last round.

        Returns:
            The thread (None if there is none), or nothing if the journal was closed before.
        """
        if self._closed:
            return []
        if self._segment is not None or self._owes_report or self._backlog:
            self.retry_now()
            why = self._write_close(reason)
            if self._backlog:
                self._lose(len(self._backlog), why)
        self._closed, self._backlog = True, Backlog(self._clock)
        self._table.retire_all()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.end()
        return [keeper]

    def _write_close(self, reason: str) -> str:
        """Write CLOSE behind all that waits. Returns why that is impossible, or an empty string."""
        return self._catch_up() or self._put_close(reason)

    def _put_close(self, reason: str) -> str:
        def build() -> bytes:
            told = {"reason": reason, "dropped": self.dropped}
            return self._frame(Kind.CLOSE, dump_json(told))

        if not (why := self._put(build)):
            self._note_told()
        return why

    def rotate(self) -> None:
        """Go on in a new journal with the next record; its header says what is so then."""
        self._guarded(self._rotate)

    def _rotate(self) -> None:
        self._catch_up()
        if self._backlog:
            self._backlog.begin_journal(self._header_now())
            return
        self._told = None
        if self._segment is not None:
            self._put_close("rotate")
            self._leave()

    def _rotate_if_long(self) -> None:
        if self._segment is not None and self._segment.size >= ROTATE_BYTES:
            self._rotate()

    def _beat(self) -> None:
        if not (self._catch_up() or self._put(self._beat_frame)):
            self._note_told()

    def _beat_frame(self) -> bytes:
        told = dump_json({"dropped": self.dropped}) if self.dropped else b""
        return self._frame(Kind.HEARTBEAT, told)

    def _note_told(self) -> None:
        """Remember that the open journal holds the counts as they are now."""
        self._reported, self._owes_report = dict(self.dropped), False

    def after_fork(self) -> None:
        """Make the copy in a forked child whole again.

        It opens a journal of its own only if it records something.
        """
        self._lock, self._round = threading.RLock(), threading.Lock()
        self._busy = False
        self._deferred = deque()
        self._unsaid = deque()
        self._keeper = None
        self.dropped, self._owes_report = {}, False
        self._backlog, self._uid = Backlog(self._clock), None  # what waits is the parent's to write
        self._told = self._as_of = None
        self._leave()

    # ---------------------------------------------------------------- under the lock

    def _guarded(self, write: Callable[[], object]) -> None:
        """Run ``write`` under the lock.

        If this very thread is writing already (a signal handler), right after that.
        """
        with self._lock:
            if self._busy:
                self._deferred.append(write)
                return
            self._busy = True
            try:
                write()
            finally:
                self._busy = False
                if self._deferred:
                    self._run_deferred()
        if self._unsaid:
            self._speak()

    def _run_deferred(self) -> None:
        """Write what signal handlers recorded in the middle of another record.

        Also while that one is left with an exception.
        """
        with self._lock:
            while self._deferred and not self._busy:
                self._busy = True
                try:
                    # Looked at again: a handler that came after the line above emptied it.
                    if self._deferred:
                        self._deferred.popleft()()
                finally:
                    self._busy = False

    def _frame(self, kind: int, payload: bytes, *, flags: int = 0, aux: int = 0) -> bytes:
        t = self._clock() if self._as_of is None else self._as_of
        if t <= self._last_t:
            t = self._last_t + 1
        self._last_t = t
        return frame_bytes(self._salt, kind, t, payload, flags=flags, aux=aux)

    def _append(self, record: Record) -> None:
        """Write a record behind all that waits, or have it wait."""
        why = self._catch_up() or self._put(record.frames)
        if not why:
            record.written(self._last_t)
        elif not self._may_wait(record, why) or not self._keep_back(record, why):
            self._lose(record.count, why)

    def _put(self, build: Callable[[], bytes]) -> str:
        """Write what ``build`` returns; once more, in the next journal, if this one had to be left.

        Returns:
            Why that is impossible, or an empty string: the bytes are in the kernel.
        """
        why = ""
        for _ in range(2):
            if self._segment is None and (why := self._open()):
                break
            segment, before = self._segment, self._last_t
            assert segment is not None  # noqa: S101 - _open returned no reason
            try:
                segment.put(build())
            except OSError as error:
                if raised_by_signal_handler(error):
                    raise
                why, self._last_t = error.strerror or str(error), before
                self._table.retire_all()  # the next row goes the slow way, which catches up
                if not segment.lost:
                    break
                self._leave()
                continue
            if self._owes_report:
                self._report(segment)
            return ""
        return why

    # ---------------------------------------------------------------- what waits

    def _catch_up(self) -> str:
        """Write what waits, oldest first, each record at the time at which it was made.

        A signal handler that raises right after the write has the record written twice: its call
        has returned long ago, so that it must not be lost.

        Returns:
            Why nothing can be written behind it now, or an empty string.
        """
        if self._closed:
            return _STOPPED
        while self._backlog:
            t, record, header = self._backlog.first
            self._as_of = t
            try:
                why = self._turn(header) if record is None else self._put(record.frames)
            finally:
                self._as_of = None
            if record is not None and not why:
                record.caught_up()
            elif record is not None and not self._may_wait(record, why):
                self._lose(record.count, why)
            elif why:
                return why
            self._backlog.done()
        return ""

    def _turn(self, header: Mapping[str, Any] | None) -> str:
        """Have what follows written to a journal of its own; returns why that cannot be."""
        if self._segment is not None:
            if why := self._put_close("rotate"):
                return why
            self._leave()
        self._told = header
        return ""

    def _may_wait(self, record: Record, why: str) -> bool:
        """Tell whether a record may be written some time, without keeping others from that."""
        lasting = why in (_PURGED, _STOPPED)
        return not lasting and (self._segment is None or record.size <= LARGE_BYTES)

    def _keep_back(self, record: Record, why: str) -> bool:
        """Keep a record in memory; False if there is no room for it."""
        if not self._backlog.has_room_for(record):
            return False
        if self._segment is None and not self._backlog:
            self._uid = self._uid or secrets.token_bytes(16)  # facts are filed under its id
            self._backlog.begin_journal(self._header_now())
        self._backlog.add(record)
        self._start_keeper()
        self._warn_once(
            "waiting",
            f"{self.folder.path} cannot be written: {why}; up to {MAX_RECORDS:,} records wait in "
            "memory until it can be. Training goes on",
        )
        return True

    def _header_now(self) -> Mapping[str, Any] | None:
        """Return what a HEADER would say now, None if that cannot be told before it is written."""
        try:
            return self._header()
        except OSError:
            return None

    def _lose(self, count: int, why: str) -> None:
        """Count what was neither written nor kept."""
        self._owes_report = True
        self.drop(
            "disk", count, f"{self.folder.path} cannot be written: {why}; values are being lost"
        )

    def _report(self, segment: Segment) -> None:
        """Tell how much was lost, now that the disk takes something again."""
        try:
            segment.put(self._beat_frame())
        except OSError as error:
            if raised_by_signal_handler(error):
                raise
        else:
            self._note_told()

    def _leave(self) -> None:
        """Go on in another file with the next record."""
        segment, self._segment, self._fd = self._segment, None, -1
        if segment is None:
            return
        try:
            self._ends[segment.writer] = segment.size
            segment.close()
        except OSError:
            self._ends.setdefault(segment.writer, 0)
        self._continues = segment.writer
        self._table.leave_journal()
        if self._closed:  # there is no next one
            return
        # What this journal was told of stays there; the next one counts only the rest.
        self.dropped = {
            reason: count - self._reported.get(reason, 0)
            for reason, count in self.dropped.items()
            if count > self._reported.get(reason, 0)
        }
        self._reported = {}

    def _open(self) -> str:
        """Open the next journal. Returns why that is impossible now, or an empty string."""
        now = time.monotonic()
        if now < self._retry_at:
            return "it could not be opened just now"
        if self.folder.purged_mark.exists():
            return _PURGED
        before = self._last_t
        try:
            self._look_back()
            before = self._last_t
            # May take a while, in which others would see an empty journal.
            told = self._header() if self._told is None else self._told
            segment = Segment(self.folder, self._uid or secrets.token_bytes(16))
            self._salt = self._table.salt = segment.salt
            header = {
                "format": 1,
                "run": self.folder.run,
                "project": self.folder.project,
                "writer": segment.writer,
                "continues": self._continues,
                "prior_t": self._last_t,
                **told,
            }
            segment.start(self._frame(Kind.HEADER, dump_json(header)))
        except OSError as error:
            self._retry_at, self._last_t = now + _REOPEN_S, before
            if isinstance(error, FileExistsError):  # what an attempt left that failed as well
                self._uid = None
            return error.strerror or str(error)
        self._segment, self._fd = segment, segment.fd
        self._uid = self._told = None
        self._start_keeper()
        return ""

    def _start_keeper(self) -> None:
        if self._keeper is None:
            self._keeper = Keeper(self, self._sync_s, self._heartbeat_s)
            self._keeper.start_if_possible()

    def _look_back(self) -> None:
        """Start above the largest time in the run, unless a clock far ahead wrote it."""
        if self._looked_back:
            return
        self._looked_back = True
        now = self._clock()
        for journal in self.folder.journals():
            try:
                with JournalReader(journal.path) as reader:
                    last = reader.last_frame()
            except OSError:
                continue
            if last is not None and last.t > now + _MAX_AHEAD_NS:
                self._warn(
                    f"the clock behind {journal.path} is over an hour ahead; "
                    "its order is not followed"
                )
            elif last is not None:
                self._last_t = max(self._last_t, last.t)

    def _take_back(self, written: int, error: OSError | None) -> None:
        """Cut off a row of the quick way that the disk did not take whole; the slow way is next."""
        if (segment := self._segment) is not None:
            segment.take_back(written, error)
            if segment.lost:
                self._leave()
        self._table.retire_all()


def _packed(op: Mapping[str, Any]) -> tuple[bytes, int]:
    """Return the payload of a JSON record, and its flags."""
    payload = dump_json(op)
    if len(payload) > MAX_PAYLOAD_BYTES:
        msg = f"record: expected at most {MAX_PAYLOAD_BYTES} bytes of JSON, got {len(payload)}"
        raise ArgumentError(msg)
    return (zlib.compress(payload, 1), ZLIB) if len(payload) > _COMPRESS_BYTES else (payload, 0)


def _nothing() -> None:
    pass


_writers: weakref.WeakSet[JournalWriter] = weakref.WeakSet()


def _renew_after_fork() -> None:
    for writer in list(_writers):
        writer.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)
