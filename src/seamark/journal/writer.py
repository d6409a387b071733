"""Writing a journal: one ``write(2)`` a call, and what happens when that fails.

`JournalWriter` is what a run holds. It opens its first file at the first record and goes on in a
new file, which ``continues`` the old one, after a fork, at `ROTATE_BYTES`, and when a write or an
``fdatasync`` failed in a way that cannot be undone. A record that could not be written is counted,
the count is written as soon as the disk takes something again, and nothing of that reaches the
caller: training comes first.

The rules are in ``docs/explanation/journal.md``, "Writing".
"""

from __future__ import annotations

import logging
import math
import os
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
        """Writer id of the open journal, or None while there is none."""
        return self._segment.writer if self._segment else None

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
        self._write_points(Row(self._table, values, step, time_ns), len(values))

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
        self._guarded(
            lambda: self._write_points(
                Column(self._table, path, values, steps, times_ns), len(values)
            )
        )

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
            self._guarded(
                lambda: self._append(
                    lambda: b"".join(
                        [self._frame(kind, payload, flags=flags) for payload, flags in packed]
                    ),
                    len(packed),
                )
            )

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
            count: How many values or records.
            message: What a person should read, once.
            once: What "once" is decided by; the reason if left out.
        """
        try:
            key = reason if once is None else once
            with self._lock:
                self.dropped[reason] = self.dropped.get(reason, 0) + count
                if key not in self._warned and len(self._warned) < _SEEN_LIMIT:
                    self._warned.add(key)
                    self._warn(
                        f"{message}. Training goes on; "
                        "further losses of this kind are only counted."
                    )
                if self._busy:
                    return  # said when the lock is free
            self._speak()
        except Exception as error:
            if raised_by_signal_handler(error):
                raise

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
        if self._segment is not None or self._owes_report:
            self.retry_now()
            self._write_close(reason)
        self._closed = True
        self._table.retire_all()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.end()
        return [keeper]

    def _write_close(self, reason: str) -> None:
        def build() -> bytes:
            told = {"reason": reason, "dropped": self.dropped}
            return self._frame(Kind.CLOSE, dump_json(told))

        if self._append(build, 0):
            self._note_told()

    def rotate(self) -> None:
        """Go on in a new journal with the next record; its header says what is so then."""
        self._guarded(self._rotate)

    def _rotate(self) -> None:
        if self._segment is not None:
            self._write_close("rotate")
            self._leave()

    def _rotate_if_long(self) -> None:
        if self._segment is not None and self._segment.size >= ROTATE_BYTES:
            self._rotate()

    def _beat(self) -> None:
        if self._append(lambda: self._frame(Kind.HEARTBEAT, self._told()), 0):
            self._note_told()

    def _told(self) -> bytes:
        return dump_json({"dropped": self.dropped}) if self.dropped else b""

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
        t = self._clock()
        if t <= self._last_t:
            t = self._last_t + 1
        self._last_t = t
        return frame_bytes(self._salt, kind, t, payload, flags=flags, aux=aux)

    def _append(self, build: Callable[[], bytes], records: int) -> bool:
        """Write what ``build`` returns; once more, in the next journal, if this one had to be left.

        Returns:
            True if the bytes are in the kernel; False if the records are lost, and counted.
        """
        why = "the run is stopped" if self._closed else ""
        for _ in range(0 if why else 2):
            if self._segment is None and (why := self._open()):
                break
            segment = self._segment
            assert segment is not None  # noqa: S101 - _open returned no reason
            try:
                segment.put(build())
            except OSError as error:
                if raised_by_signal_handler(error):
                    raise
                why = error.strerror or str(error)
                self._table.retire_all()  # the next row goes the slow way, which tells the count
                if not segment.lost:
                    break
                self._leave()
                continue
            if self._owes_report:
                self._report(segment)
            return True
        if records:
            self._owes_report = True
            self.drop(
                "disk",
                records,
                f"{self.folder.path} cannot be written: {why}; values are being lost",
            )
        return False

    def _report(self, segment: Segment) -> None:
        """Tell how much was lost, now that the disk takes something again."""
        try:
            segment.put(self._frame(Kind.HEARTBEAT, self._told()))
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
        # What this journal was told of stays there; the next one counts only the rest.
        self.dropped = {
            reason: count - self._reported.get(reason, 0)
            for reason, count in self.dropped.items()
            if count > self._reported.get(reason, 0)
        }
        self._reported = {}
        self._table.leave_journal()

    def _open(self) -> str:
        """Open the next journal. Returns why that is impossible now, or an empty string."""
        now = time.monotonic()
        if now < self._retry_at:
            return "it could not be opened just now"
        if self.folder.purged_mark.exists():
            return "the run was purged"
        try:
            self._look_back()
            told = self._header()  # may take a while, in which others would see an empty journal
            segment = Segment(self.folder)
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
            self._retry_at = now + _REOPEN_S
            return error.strerror or str(error)
        self._segment, self._fd = segment, segment.fd
        if self._keeper is None:
            self._keeper = Keeper(self, self._sync_s, self._heartbeat_s)
            self._keeper.start_if_possible()
        return ""

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

    # ---------------------------------------------------------------- rows

    def _write_points(self, points: Row | Column, count: int) -> None:
        if self._append(points.frames, count):
            points.written(self._last_t)

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
