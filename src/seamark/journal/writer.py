"""Writer of a journal: one ``write(2)`` per call, and the handling of its failures.

Each run has a `JournalWriter`. It serializes and checks what the caller logs
(`seamark.journal.losses`), writes the records (`seamark.journal.stream`), counts losses
(`seamark.journal.losses`), and syncs the journal in a thread (`seamark.journal.upkeep`). Failures
never reach the caller, because training has priority.

The rules are in ``docs/explanation/journal.md``, "Writing".
"""

from __future__ import annotations

import math
import os
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from seamark.journal.folder import RunFolder
from seamark.journal.format import Kind, packed_json
from seamark.journal.losses import Guard, Losses, sound_row
from seamark.journal.rows import Column, Families, Row
from seamark.journal.segment import Payloads
from seamark.journal.stream import Stream, do_nothing
from seamark.journal.upkeep import SyncThread, Upkeep
from seamark.paths import is_inside
from seamark.process import fork
from seamark.process.interrupts import quietly, raised_by_signal_handler
from seamark.values import to_floats, to_step
from seamark.values._numbers import NUMERIC, Converted

SYNC_S: Final = 5.0
"""Interval at which a thread syncs data to disk, in seconds."""
HEARTBEAT_S: Final = 30.0
"""Interval at which the same thread writes a heartbeat frame, in seconds."""
ROTATE_BYTES: Final = 1 << 30
"""Size at which a journal is continued in a new file, in bytes."""
CLOSE_TIMEOUT_S: Final = 30.0
"""Time limit of `JournalWriter.rest` and `JournalWriter.close` for the disk, in seconds."""

_MAX_COLUMN_POINTS: Final = 500_000
_MAX_ROW_VALUES: Final = 1_000_000
_PLAIN_STEPS: Final = frozenset({float, int, bool, type(None)})
"""Types of steps that are packed without conversion."""
_STEADY_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Clock that continues while the machine sleeps, if the system has one."""
_CLOCK_READS: Final = 3
"""Number of comparisons of the two clocks; the most precise one determines their difference."""


def wall_clock() -> Callable[[], int]:
    """Return a clock in ns since the Unix epoch that reads the wall clock now and never steps.

    Times determine which of two processes wrote last. If a busy machine paused the process between
    reading the two clocks, its times would always be late. So the clocks are read several times,
    and the closest pair counts.
    """
    read = time.clock_gettime_ns
    closest, offset = math.inf, 0
    for _ in range(_CLOCK_READS):
        before, wall, after = read(_STEADY_CLOCK), time.time_ns(), read(_STEADY_CLOCK)
        if after - before < closest:
            closest, offset = after - before, wall - (before + after) // 2
    return lambda: read(_STEADY_CLOCK) + offset


class JournalWriter:
    """Writer that appends the records of one process to a run.

    All methods may be called from any thread, from signal handlers, and after a fork.

    An append returns whether its bytes are in the kernel, where only a crash of the machine can
    lose them. False means that they wait in memory, for the disk or for the record that a signal
    handler interrupted; that they are lost and counted in `dropped`; or that there are none.

    Args:
        folder: Folder of the run.
        header: Returns the caller's part of the HEADER record for a new journal (owner, attempt,
            rank, ...); ``format``, ``run``, ``project``, ``writer``, ``continues`` and ``prior_t``
            are added.
        clock: Nanoseconds since the Unix epoch, never stepping; see `wall_clock`.
        sync_s: Interval of ``fdatasync``, in seconds.
        heartbeat_s: Interval of heartbeats, in seconds.
        after_t: Time of the run's last record on another host, nanoseconds since the Unix epoch;
            all records of this object are later.
        reserved: See `Families`.
        at_heartbeat: Called by the sync thread at each heartbeat; must not raise.
    """

    def __init__(
        self,
        folder: RunFolder,
        header: Callable[[], dict[str, Any]],
        *,
        clock: Callable[[], int] | None = None,
        sync_s: float = SYNC_S,
        heartbeat_s: float = HEARTBEAT_S,
        after_t: int = 0,
        reserved: Mapping[str, str] | None = None,
        at_heartbeat: Callable[[], object] = do_nothing,
    ) -> None:
        self.folder = folder
        self.families = Families(reserved)
        self.claim, self.expect = self.families.claim, self.families.expect
        self._divert: Callable[[Any], Any] | None = None
        self._guard = Guard(self._interrupted, self._report_failure)
        self._losses = Losses(self._guard)
        self._stream = Stream(folder, header, clock or wall_clock(), self._losses)
        if after_t:
            who = "a process that recorded this run on another host"
            self._stream.begin_after(after_t, who)
        self._table = self._stream.table
        self._schemas = self._table.schemas
        self._upkeep = Upkeep(
            self._stream,
            self._guard,
            self._losses,
            every_s=(sync_s, heartbeat_s),
            limit=lambda: ROTATE_BYTES,
            at_heartbeat=at_heartbeat,
        )
        fork.register(self.after_fork)

    # ---------------------------------------------------------------- facts

    @property
    def writer(self) -> str | None:
        """Writer id of the open journal, or of that of waiting records; else None."""
        return self._stream.writer

    def name(self) -> str:
        """Return the writer id; if there is none yet, choose it now."""
        with self._guard.lock:
            return self._stream.name()

    @property
    def writers(self) -> tuple[str, ...]:
        """Writer ids of all journals of this object, the open one last."""
        open_one = self._stream.writer
        return (*self._stream.ends, *(() if open_one is None else (open_one,)))

    @property
    def dropped(self) -> Mapping[str, int]:
        """Number of lost records by reason, without those reported in an earlier journal."""
        return self._losses.counts

    @property
    def last_t(self) -> int:
        """Time of the last frame, nanoseconds since the Unix epoch."""
        return self._stream.last_t

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._stream.closed

    @property
    def is_idle(self) -> bool:
        """Whether no record waits for the one that a signal handler interrupted."""
        return not self._guard.deferred

    def positions(self) -> dict[str, int]:
        """Return the current {writer id: bytes} of all journals that this object wrote.

        Waiting records are written first if the disk accepts them now. Otherwise they will be after
        these positions, like an op that is appended after this call.
        """
        stream = self._stream
        if stream.backlog.waiting or stream.in_doubt:
            self._guard.run(stream.catch_up)
        with self._guard.lock:
            ends = dict(stream.ends)
            if stream.segment is not None:
                ends[stream.segment.writer] = stream.segment.size
            return ends

    # ---------------------------------------------------------------- metrics

    def append_row(  # noqa: C901, PLR0912 - inlined: every call would cost a tenth of a row
        self, metrics: Mapping[str, Any], step: float | None = None, time_ns: int | None = None
    ) -> bool:
        """Record one value for each of several float series at one step; never raises.

        The common case (a known key set, plain numbers) takes one pack, one CRC and one write.
        Without a step, the row has the largest last step of its paths plus 1. ``time_ns`` is a time
        given by the caller, in nanoseconds since the Unix epoch. Returns whether all values that
        are numbers are in the kernel.
        """
        schema = found = None
        try:
            schema = self._schemas.get(tuple(metrics))
            if schema is not None:
                values = metrics.values()
                # sum() is the fastest check that all values are plain numbers: with a tensor or a
                # NumPy number among them, its result is not a float. A key set that had such a
                # value is checked by type from then on, so that tensors are not added up at each
                # step.
                if not schema.plain or type(sum(values, 0.0)) is not float:
                    schema.plain = False
                    if not NUMERIC.issuperset(map(type, values)):
                        found = to_floats(metrics)
                        values = found[0].values()
                if type(step) not in _PLAIN_STEPS:
                    step = to_step(step)
                guard, stream = self._guard, self._stream
                with guard.lock:
                    if schema.live and not guard.busy and len(values) == len(schema.paths):
                        guard.busy = True
                        try:
                            if step is None:
                                step = self._table.after(schema.series)
                            elif step - step != 0:
                                raise ValueError  # NaN or infinite
                            t = stream.clock()
                            if t <= stream.last_t:
                                t = stream.last_t + 1
                            if time_ns is None:
                                row = schema.pack(t, step, *values)
                                frame = schema.join(zlib.crc32(row, schema.salt), schema.head, row)
                            else:
                                frame = schema.timed(t, step, time_ns, values)
                            stream.last_t = schema.last_t = t
                            schema.last_step = step
                            try:
                                if (written := os.write(stream.fd, frame)) == len(frame):
                                    return True
                                stream.take_back(written, None)
                            except BaseException as error:  # noqa: BLE001 - raised again there
                                stream.row_failed(error)
                        finally:
                            guard.busy = False
                            if guard.deferred:
                                guard.run_deferred()
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            # The slow path handles and reports whatever the fast path cannot handle.
            if schema is not None:
                schema.plain = False
        with quietly(self._report_lost_row):
            return self._append_slowly(metrics, step, time_ns, found)
        return False

    def _append_slowly(
        self, metrics: Any, step: Any, time_ns: int | None, found: Converted | None
    ) -> bool:
        if self._divert is not None and (rest := self._divert(metrics)) is not metrics:
            return self.append_row(rest, step, time_ns) if rest else False
        sound = sound_row(metrics, step, found, self.claim, self._losses)
        if sound is None:
            return False
        values, step = sound
        if len(values) > _MAX_ROW_VALUES and step is None:
            with self._guard.lock:  # exceeds a frame: several rows with the same step
                step = self._table.after([self._table.of(path) for path in values])
        items = list(values.items())
        parts = [
            dict(items[start : start + _MAX_ROW_VALUES])
            for start in range(0, len(items), _MAX_ROW_VALUES)
        ]
        written = [
            self._guard.run(partial(self._write, Row, part, step, time_ns)) for part in parts
        ]
        return all(written)

    def _write(self, make: Callable[..., Row | Column], *points: Any) -> bool:
        return self._stream.append(make(self._table, *points))

    def append_column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float] | None = None,
        times_ns: Sequence[int] | None = None,
    ) -> bool:
        """Record many points of one float series at a checked path, 500,000 per frame.

        Without steps, points are numbered after the last step. Times are nanoseconds since the Unix
        epoch. Returns whether all points are in the kernel. Raises FamilyError for another family.
        """
        self.claim(path, "float_series")
        written = []
        for start in range(0, len(values), _MAX_COLUMN_POINTS):
            part = slice(start, start + _MAX_COLUMN_POINTS)
            points = (
                values[part],
                None if steps is None else steps[part],
                None if times_ns is None else times_ns[part],
            )
            written.append(self._guard.run(partial(self._write, Column, path, *points)))
        return bool(written) and all(written)

    # ---------------------------------------------------------------- other records

    def append_op(self, op: Mapping[str, Any], kind: int = Kind.OP) -> bool:
        """Append one JSON record: an op, texts or histograms; see `append_ops`."""
        return self.append_ops([op], kind)

    def append_ops(self, ops: Iterable[Mapping[str, Any]], kind: int = Kind.OP) -> bool:
        """Append JSON records in one write; return whether all of them are in the kernel.

        If the disk accepts only a part, the complete records in it stay, and the others wait.
        Raises ArgumentError if a record exceeds the maximum size of a frame, ValueError if it
        cannot be represented in JSON.
        """
        packed = list(map(packed_json, ops))
        if not packed:
            return False
        return self._guard.run(
            partial(self._stream.append, Payloads(self._stream.frame, kind, packed))
        )

    # ---------------------------------------------------------------- steps and families

    def divert_to(self, take: Callable[[Any], Any]) -> None:
        """Pass each row with a new set of keys to ``take``, which removes non-points.

        ``take`` returns the remaining row, or the same object if it removed nothing.
        """
        self._divert = take

    def take_step(self, path: str, step: float | None) -> float:
        """Return and store the step of a point of a text, file or histogram series."""
        with self._guard.lock:
            series = self._table.of(path)
            taken = self._table.after([series]) if step is None else step
            series.last_t, series.last_step = self._stream.last_t + 1, taken
            return taken

    def remember_step(self, path: str, step: float) -> None:
        """Store the last step of a series recorded before this process; NaN if it was cleared."""
        if not math.isfinite(step):
            return
        with self._guard.lock:
            series = self._table.of(path)
            if series.last_t < 0 and not series.schemas:
                series.last_t, series.last_step = 0, step

    def forget(self, namespace: str) -> None:
        """Remove families and steps of a path and of all paths below it, after a delete."""
        with self._guard.lock:
            self.families.forget(namespace)
            self.forget_steps([path for path in self._table.series if is_inside(path, namespace)])

    def forget_steps(self, paths: Iterable[str]) -> None:
        """Remove the last steps of series that were deleted or cleared."""
        with self._guard.lock:
            self._table.forget(paths)

    # ---------------------------------------------------------------- failures

    def _interrupted(self) -> None:
        self._stream.interrupted()

    def _report_failure(self, error: Exception) -> None:
        self.drop("record", 1, f"a record could not be written: {error!r:.300}")

    def _report_lost_row(self, error: Exception) -> None:
        self.drop("metrics", 1, f"a call of log_metrics could not be recorded: {error!r:.300}")

    def drop(self, reason: str, count: int, message: str, *, once: object = None) -> None:
        """Count ``count`` lost values or records and warn once about it; never raises.

        Losses are counted by ``reason``, such as ``"disk"``. One warning is logged for each
        ``once``, by default for each ``reason``. ``count`` is 0 if the values may still be written.
        """
        self._losses.drop(reason, count, message, once)

    # ---------------------------------------------------------------- maintenance and end

    def begin(self) -> None:
        """Write the header now, with a heartbeat, instead of with the first record."""
        self._guard.run(self._stream.beat)

    def beat_every(self, heartbeat_s: float) -> None:
        """Set the heartbeat interval in seconds, for background threads started later."""
        self._upkeep.every_s = (self._upkeep.every_s[0], heartbeat_s)

    def rotate(self) -> None:
        """Continue in a new journal with the next record; its header is made at that time."""
        self._guard.run(self._stream.rotate)

    def retry_now(self) -> None:
        """Make the next record try the disk again, even if a write has just failed."""
        self._stream.retry_now()

    def rest(self, timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write all waiting records and CLOSE, and release the descriptor and the thread.

        The next record opens a journal that continues this one, with a new header and a new thread.
        Records that cannot be written now keep waiting, and the thread stays; `close` counts them.
        In a signal handler that interrupted a record, this happens after that record, without
        waiting for it.

        The disk has ``timeout_s`` seconds; with 0, the thread does the remaining work. Returns
        whether everything is on disk, and both descriptor and thread are released.
        """
        ended: list[SyncThread | None] = []
        if not self._guard.run(lambda: self._stop_thread(ended)):
            return self.closed
        if not timeout_s and ended[0] is not None and ended[0].ident is not None:
            return False
        return self._upkeep.finish(ended[0], timeout_s)

    def _stop_thread(self, ended: list[SyncThread | None]) -> bool:
        if self._stream.rest():
            return False
        ended.append(self._upkeep.end())
        return True

    def close(self, reason: str = "stop", timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write CLOSE, have the sync thread force everything to disk, and close the file.

        ``reason`` is ``"stop"``, or ``"exit"`` at the end of a process. Returns False if the disk
        did not respond within ``timeout_s`` seconds.
        """
        ended: list[SyncThread | None] = []
        self._guard.run(lambda: self._close(reason, ended))
        if not ended:  # already closed, or in the middle of a record, which comes first
            return True
        return self._upkeep.finish(ended[0], timeout_s)

    def _close(self, reason: str, ended: list[SyncThread | None]) -> None:
        if not self._stream.closed:
            self._stream.end(reason)
            ended.append(self._upkeep.end())

    def after_fork(self) -> None:
        """Reset the copy in a forked child, which opens a journal only for new records."""
        self._guard.begin_child()
        self._upkeep.begin_child()
        self._stream.begin_child()
        self._losses.begin_child()
