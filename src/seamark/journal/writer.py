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
import os
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import FamilyError
from seamark.journal._format import (
    MARK,
    MAX_PAYLOAD_BYTES,
    ZLIB,
    Kind,
    dump_json,
    frame_bytes,
)
from seamark.journal.keeper import Keeper
from seamark.journal.reader import JournalReader
from seamark.journal.rows import Column, Row, RowTable
from seamark.journal.segment import Segment
from seamark.paths import check_path, is_inside
from seamark.values import to_floats, to_step

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.rows import Schema

__all__ = ["HEARTBEAT_S", "ROTATE_BYTES", "SYNC_S", "JournalWriter", "wall_clock"]

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
    """

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
        self._busy = False
        self._deferred: list[Callable[[], object]] = []
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
        _writers.add(self)

    # ---------------------------------------------------------------- facts

    @property
    def writer(self) -> str | None:
        """Writer id of the open journal, or None while there is none."""
        return self._segment.writer if self._segment else None

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

    def append_row(  # noqa: C901 - inlined: every call would cost a tenth of a row
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
            if schema is not None and time_ns is None:
                values = metrics.values()
                if _PLAIN.issuperset(map(type, values)):
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
                                body = schema.pack(
                                    schema.length, 5, 0, MARK, schema.number, t, step, *values
                                )
                                frame = zlib.crc32(body, self._salt).to_bytes(4, "little") + body
                                self._last_t = schema.last_t = t
                                schema.last_step = step
                                try:
                                    written = os.write(self._fd, frame)
                                except OSError as error:
                                    self._retry_row(schema, values, step, 0, error)
                                else:
                                    if written != len(frame):
                                        self._retry_row(schema, values, step, written, None)
                            finally:
                                self._busy = False
                            if self._deferred:
                                self._run_deferred()
                            return
        except Exception:  # noqa: BLE001, S110 - what the fast way does not understand, the slow way words
            pass
        self._append_row_slowly(metrics, step, time_ns)
        return

    def _append_row_slowly(self, metrics: Any, step: Any, time_ns: int | None) -> None:
        """Record a row key by key.

        Log_metrics stands in training loops, so nothing is raised here either.
        """
        try:
            self._append_row_checked(metrics, step, time_ns)
        except Exception as error:  # noqa: BLE001
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
        if values := self._checked(metrics):
            self._guarded(
                lambda: self._write_points(Row(self._table, values, step, time_ns), len(values))
            )

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
                self.claim(check_path(key), "float_series")
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
        self._guarded(lambda: self._write_points(Row(self._table, {path: value}, step, time_ns), 1))

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
        """Append one JSON record: an op, texts or histograms.

        Raises:
            ValueError: If it is longer than a frame may be, or holds what JSON has no form for.
        """
        payload, flags = dump_json(op), 0
        if len(payload) > MAX_PAYLOAD_BYTES:
            msg = f"record: expected at most {MAX_PAYLOAD_BYTES} bytes of JSON, got {len(payload)}"
            raise ValueError(msg)
        if len(payload) > _COMPRESS_BYTES:
            payload, flags = zlib.compress(payload, 1), ZLIB
        self._guarded(lambda: self._append(lambda: self._frame(kind, payload, flags=flags), 1))

    def take_step(self, path: str, step: float | None) -> float:
        """Return the step of a point of a text, file or histogram series, and remember it."""
        with self._lock:
            series = self._table.of(path)
            taken = self._table.after([series]) if step is None else step
            series.last_t, series.last_step = self._last_t + 1, taken
            return taken

    def remember_step(self, path: str, step: float) -> None:
        """Take over the last step that a series had before this process wrote to it."""
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
                first = key not in self._warned and len(self._warned) < _SEEN_LIMIT
                if first:
                    self._warned.add(key)
            if first:
                log.warning(
                    "seamark: %s. Training goes on; further losses of this kind are only counted.",
                    message,
                )
        except Exception:  # noqa: BLE001, S110 - the last line of defence has nobody left to tell
            pass

    # ---------------------------------------------------------------- the sync thread, the end

    def keep(self, *, heartbeat: bool = False) -> None:
        """Do what the sync thread does at each interval; never raises."""
        try:
            self._run_deferred()
            segment = self._segment
            if segment is None:
                return
            if heartbeat:
                self._guarded(self._beat)
            self._bring_back(segment)
            segment.sync_folder()
            self._sync(segment)
            if segment.size >= ROTATE_BYTES:
                self._guarded(self._rotate)
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
                self.drop(
                    "removed",
                    1,
                    f"{segment.path} was removed and cannot be written again: {error.strerror}",
                )
                return
            self._fd = segment.fd
        log.warning(
            "seamark: %s was removed while recording; it was written again from memory",
            segment.path,
        )

    def close(self, reason: str = "stop", timeout_s: float = CLOSE_TIMEOUT_S) -> bool:
        """Write CLOSE, have everything forced to disk by the sync thread, and close the file.

        Args:
            reason: ``"stop"``, or ``"exit"`` at the end of the process.
            timeout_s: How long to wait for the disk, in seconds.

        Returns:
            False if the disk did not answer in time.
        """
        with self._lock:
            if self._closed:
                return True
            if self._segment is not None:
                self._guarded(lambda: self._write_close(reason))
            self._closed = True
            self._table.retire_all()
            keeper, self._keeper = self._keeper, None
        done = keeper is None or keeper.finish(timeout_s)
        if keeper is not None and keeper.ident is None:
            self.keep()  # the thread could not be started
        with self._lock:
            if done:
                self._leave()
            else:
                log.warning(
                    "seamark: the disk did not answer within %g s; %s may lack its end",
                    timeout_s,
                    self.folder.path,
                )
        return done

    def _write_close(self, reason: str) -> None:
        told = dump_json({"reason": reason, "dropped": self.dropped})
        self._append(lambda: self._frame(Kind.CLOSE, told), 0)

    def _rotate(self) -> None:
        self._write_close("rotate")
        self._leave()

    def _beat(self) -> None:
        told = dump_json({"dropped": self.dropped}) if self.dropped else b""
        self._append(lambda: self._frame(Kind.HEARTBEAT, told), 0)

    def after_fork(self) -> None:
        """Make the copy in a forked child whole again.

        It opens a journal of its own only if it records something.
        """
        self._lock = threading.RLock()
        self._busy = False
        self._deferred = []
        self._keeper = None
        self.dropped = {}
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

    def _run_deferred(self) -> None:
        with self._lock:
            while self._deferred and not self._busy:
                self._guarded(self._deferred.pop(0))

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
        for _ in range(2):
            if why or (self._segment is None and (why := self._open())):
                break
            segment = self._segment
            assert segment is not None  # noqa: S101 - _open returned no reason
            try:
                segment.put(build())
            except OSError as error:
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
        told = dict(self.dropped)
        try:
            segment.put(self._frame(Kind.HEARTBEAT, dump_json({"dropped": told})))
        except OSError:
            return
        self._reported, self._owes_report = told, False

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
            segment = Segment(self.folder)
            self._salt = segment.salt
            header = {
                "format": 1,
                "run": self.folder.run,
                "project": self.folder.project,
                "writer": segment.writer,
                "continues": self._continues,
                "prior_t": self._last_t,
                **self._header(),
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
                log.warning(
                    "seamark: the clock behind %s is over an hour ahead; its order is not followed",
                    journal.path,
                )
            elif last is not None:
                self._last_t = max(self._last_t, last.t)

    # ---------------------------------------------------------------- rows

    def _write_points(self, points: Row | Column, count: int) -> None:
        if self._append(points.frames, count):
            points.written(self._last_t)

    def _retry_row(
        self,
        schema: Schema,
        values: Iterable[float],
        step: float,
        written: int,
        error: OSError | None,
    ) -> None:
        """Deal with a row of the quick way that the disk did not take whole."""
        segment = self._segment
        if segment is not None:
            segment.take_back(written, error)
            if segment.lost:
                self._leave()
        self._table.retire_all()
        row = Row(self._table, dict(zip(schema.paths, values, strict=True)), step, None)
        self._write_points(row, len(schema.paths))


_writers: weakref.WeakSet[JournalWriter] = weakref.WeakSet()


def _renew_after_fork() -> None:
    for writer in list(_writers):
        writer.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_after_fork)
