"""Access of one process to its journal, and the decision whether and where it records."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from seamark.errors import InactiveRunError, PathError, ReadOnlyError
from seamark.paths import is_inside
from seamark.process.interrupts import quietly
from seamark.run.lifecycle import STOPPED, Lifecycle

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.journal.writer import JournalWriter
    from seamark.run.ranks import EveryRank, RankPaths, RankPolicy


log = logging.getLogger("seamark")


class JournalAccess:
    """Journal of one process, and the decision whether and where it records.

    ``start`` opens the journal for the first record, with a lock held; it raises errors about wrong
    arguments, and nothing is recorded then. Paths at and below ``fixed`` are read-only.

    Attributes:
        writer: The journal; None before the first record.
        ready: The journal, while it can be written without further checks; None before the first
            record, in a forked child until it records, and after the end.
        row: Function ``row(metrics, step)`` that records one number for each path at one step;
            returns whether the row was passed to the kernel (None in a disabled run). Never raises.
        rank: 0, or a higher rank that records its own series.
    """

    row: Callable[..., bool | None]

    def __init__(
        self,
        folder: RunFolder,
        mode: str,
        lifecycle: Lifecycle,
        policy: EveryRank | RankPolicy,
        start: Callable[[], object],
        fixed: str | None,
    ) -> None:
        self.folder = folder
        self.mode = mode
        self.writer: JournalWriter | None = None
        self.ready: JournalWriter | None = None
        self.rank = 0
        self._lifecycle, self._policy, self._fixed = lifecycle, policy, fixed
        self._start = start
        self._before_points: Callable[[Collection[str]], bool] | None = None
        self._lock = threading.RLock()
        self._ranked: RankPaths | None = None
        self._warned = False

    @abstractmethod
    def _settle(self, writer: JournalWriter) -> None:
        """Record with a writer from now on, without further checks."""

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
