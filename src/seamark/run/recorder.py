"""Recorder of one process: its journal, and the decision whether and where it records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from seamark.errors import InactiveRunError, PathError, ReadOnlyError
from seamark.journal.writer import SYNC_S, JournalWriter
from seamark.paths import is_inside
from seamark.process.interrupts import let_pass, quietly
from seamark.run.aggregation import Aggregator
from seamark.run.contents import Contents
from seamark.run.lifecycle import RESTING, STOPPED, WAITING, Lifecycle
from seamark.run.points import Points
from seamark.run.ranks import RankPaths
from seamark.run.values import Values

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets
    from seamark.journal.folder import RunFolder
    from seamark.run.ranks import EveryRank, RankPolicy
    from seamark.run.recorded import Recorded
    from seamark.values import Atom
    from seamark.values.aggregates import Keep


log = logging.getLogger("seamark")

_RESERVED: Final = {"tags": "atom"}
"""Families allowed below a reserved namespace: keyed tags are single values."""


class Recorder:
    """Journal of one process, the decision whether and where it records, and the parts that do so.

    ``start`` opens the journal for the first record, with a lock held; it raises errors about wrong
    arguments, and nothing is recorded then. Paths at and below ``fixed`` are read-only. ``after_t``
    is the time of the last record of a run on another disk, ns since the Unix epoch.

    Attributes:
        writer: The journal; None before the first record.
        ready: The journal, while it can be written without further checks; None before the first
            record, in a forked child until it records, and after the end.
        row: Function ``row(metrics, step)`` that records one number for each path at one step.
            Never raises.
        rank: 0, or a higher rank that records its own series.
    """

    def __init__(
        self,
        folder: RunFolder,
        mode: str,
        lifecycle: Lifecycle,
        policy: EveryRank | RankPolicy,
        *,
        header: Callable[[], dict[str, Any]],
        start: Callable[[], object],
        secrets: Secrets,
        keep: Mapping[str, Keep] | None = None,
        expect_tags: Callable[[Mapping[str, Atom]], object],
        fixed: str | None = None,
        after_t: int = 0,
    ) -> None:
        self.folder, self.mode = folder, mode
        self.writer: JournalWriter | None = None
        self.ready: JournalWriter | None = None
        self.row: Callable[..., object] = self._first_row
        self.rank = 0
        self._lifecycle, self._policy, self._fixed = lifecycle, policy, fixed
        self._header, self._start, self._after_t = header, start, after_t
        self._before_points: Callable[[Collection[str]], bool] | None = None
        self._lock = threading.RLock()
        self._ranked: RankPaths | None = None
        self._warned = False
        self.secrets = secrets
        self.kept = Aggregator(self, keep or {})
        self.contents = Contents(self, secrets)
        self.points = Points(self, self.contents, self.kept)
        self.values = Values(self, self.contents, self.points, expect_tags)
        self.parameters = self.values.parameters

    @property
    def silent(self) -> bool:
        """Whether nothing is recorded by design: disabled, or a rank that does not record."""
        return self._policy.silent

    @property
    def recording(self) -> bool:
        """Whether this process can record: not on silent ranks, not once stopped or read-only."""
        return not (self.silent or self._lifecycle.phase == STOPPED or self.mode == "read-only")

    @property
    def speaks_for_all(self) -> bool:
        """Whether this process records for all ranks: values, tags and files."""
        return self.recording and not (self.rank or (self.writer is None and self._policy.apart))

    def to_write(self) -> JournalWriter | None:
        """Return the writer; None where nothing is recorded by design.

        Raises:
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        if self.silent:
            return None
        if self._lifecycle.phase == STOPPED:
            given = "..." if self.folder.kind == "project" else "with_id=..."
            how = f"init_{self.folder.kind}({given})"
            raise InactiveRunError(
                f"{self.folder.words} was stopped; open it again to write to it: {how}"
            )
        if self.mode == "read-only":
            raise ReadOnlyError(
                f"{self.folder.words} was opened with mode='read-only' and cannot be written to"
            )
        if self.writer is None:
            with self._lock:
                if self.writer is None:
                    self._start()
        elif self.ready is None:
            self._settle(self.writer)
        return self.writer

    def to_append(self) -> JournalWriter | None:
        """Return the writer for points; if the run was stopped, warn once and return None."""
        try:
            return self.to_write()
        except InactiveRunError as error:
            self._warn_of_silence(error)
            return None

    def _warn_of_silence(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("seamark: nothing is recorded: %s", error)

    # ---------------------------------------------------------------- first points

    def announce(self, paths: Collection[str] = ()) -> None:
        """Announce points of float series at some paths; other threads wait meanwhile."""
        if self._before_points is None:
            return
        with self._lock:
            if self._before_points is not None and self._before_points(paths):
                self._before_points = None
                if self.ready is not None:
                    self._settle(self.ready)

    # ---------------------------------------------------------------- paths

    def shares(self, path: str) -> bool:
        """Return whether this process records values and files at a path."""
        writer = self.writer
        if not self.rank or writer is None:
            return True
        return any(is_inside(path, f"monitoring/{each}") for each in writer.writers)

    def series_path(self, path: str) -> str:
        """Return the path of a series on this rank."""
        return path if self._ranked is None else str(self._ranked[path])

    def expect_free(self, path: str) -> None:
        """Refuse to change a fixed path."""
        if self._fixed is not None and is_inside(path, self._fixed):
            raise PathError(
                f"path: {path!r} is part of the content of {self.folder.words}, which never changes"
            )

    def to_share(self, path: str) -> JournalWriter | None:
        """Return the writer for records that rank 0 writes for all; None on other ranks."""
        writer = self.to_write()
        self.expect_free(path)
        return writer if writer is not None and self.shares(path) else None

    # ---------------------------------------------------------------- losses

    def drop(self, reason: str, count: int = 1, warn: str | None = None) -> None:
        """Count a lost record, and warn once for each reason. Never raises."""
        if (writer := self.writer) is not None:
            writer.drop(reason, count, warn or f"records could not be written ({reason})")

    @property
    def lost(self) -> int:
        """Number of values and records lost since it was opened or last rested."""
        return 0 if self.writer is None else sum(self.writer.dropped.values())

    def guard(self, reason: str, what: str) -> quietly:
        """Return a context that swallows errors, counts them as losses and warns of the first."""
        return quietly(lambda error: self.drop(reason, warn=f"{what}: {error!r:.300}"))

    def positions(self) -> dict[str, int]:
        """Return the current sizes of this process's journals as {writer id: bytes}."""
        return self.writer.positions() if self.writer else {}

    def beat_every(self, seconds: float) -> None:
        """Set the seconds between heartbeats; a run at rest closes its journal at the next one."""
        if self.writer is not None:
            self.writer.beat_every(seconds)

    # ---------------------------------------------------------------- the journal

    def open(
        self,
        prepare: Callable[[JournalWriter], object] | None = None,
        *,
        before_points: Callable[[Collection[str]], bool] | None = None,
    ) -> JournalWriter:
        """Start recording as the current rank of this process.

        ``prepare`` gets the writer before any thread can record with it. ``before_points`` is
        called before points are recorded, with the paths of float series, until it returns True.
        """
        self._before_points = before_points
        self.rank = self._policy.apart
        self._ranked = RankPaths(self.rank, self.shares) if self.rank else None
        writer = JournalWriter(
            self.folder,
            self._header,
            after_t=self._after_t,
            reserved=_RESERVED,
            at_heartbeat=self._beat,
        )
        if prepare is not None:
            prepare(writer)
        self.use(writer)
        return writer

    def use(self, writer: JournalWriter) -> None:
        """Continue with a writer; in a forked child with the inherited one."""
        self._policy.settle()
        self.writer = writer
        self.kept.begin(writer)
        self._settle(writer)

    def let_go(self) -> JournalWriter | None:
        """Detach and return the writer: a forked child may be another rank."""
        writer, self.writer, self.ready = self.writer, None, None
        return writer

    def ask_again(self) -> None:
        """Determine again whether this process records; an open journal stays open."""
        self._policy.forget()
        self.ready = None
        if self.writer is None:
            self.row = self._first_row

    def after_fork(self) -> None:
        """Reset the copy in a forked child."""
        self._lock = threading.RLock()
        self.kept.after_fork()
        self._policy.forget()
        self.ready, self.row = None, self._first_row

    def begin_attempt(self) -> None:
        """Continue in a journal of another attempt, with a new header."""
        self.kept.renew()
        if self.writer is not None:
            self.writer.rotate()

    def _beat(self) -> None:
        self.kept.write()
        if self._lifecycle.phase in (RESTING, WAITING):
            self.rest()
        else:
            self._lifecycle.call("heartbeat")

    def _settle(self, writer: JournalWriter) -> None:
        watched = self.rank or self._before_points is not None
        self.ready = writer
        self.row = self._watched_row if watched else writer.append_row

    # ---------------------------------------------------------------- rows

    def _first_row(self, metrics: Any, step: Any = None, time_ns: int | None = None) -> None:
        with quietly(self._warn_of_silence):
            if self.to_write() is not None:  # the row was replaced
                self.row(metrics, step, time_ns)

    def _watched_row(self, metrics: Any, step: Any = None, time_ns: int | None = None) -> None:
        writer, ranked = self.writer, self._ranked
        if writer is None:
            self._first_row(metrics, step, time_ns)
            return
        try:
            if self.kept.cells or self.kept.patterns:  # they have the same path on all ranks
                metrics = self.kept.divert(metrics)
                if not metrics:
                    return
            if ranked is not None:
                metrics = {ranked[path]: value for path, value in metrics.items()}
            self.announce(metrics)
        except Exception as error:  # noqa: BLE001 - no mapping, or no key: the writer says so
            let_pass(error)
        writer.append_row(metrics, step, time_ns)

    # ---------------------------------------------------------------- the end

    def store_files(self, seconds: float | None) -> None:
        """Wait until all files are stored, and accept no further ones."""
        self.ready = None  # called at the end of a run
        self.contents.close(seconds)

    def rest(self) -> None:
        """Release the descriptor and the thread until something is recorded, and soon after that.

        Does not wait: the journal stays open while files are being stored.
        """
        if (writer := self.writer) is None:
            return
        self.kept.write()
        self.beat_every(SYNC_S)
        if self.contents.flush(0):
            writer.rest(0)

    def close(self, reason: str, timeout_s: float) -> int:
        """Write the end of the journal and close it; return the number of lost values."""
        self.ready, self.row = None, self._first_row
        if (writer := self.writer) is None:
            return 0
        self.kept.end()
        writer.close(reason, timeout_s)
        return self.lost


@runtime_checkable
class Part(Protocol):
    """Session of one process in a run, or in the log of a project, model or artifact."""

    lifecycle: Lifecycle
    recorder: Recorder
    recorded: Recorded
