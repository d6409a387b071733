"""Recorder of one process: its journal, and the parts that record into it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from seamark.capture.secrets import Secrets
from seamark.journal.writer import SYNC_S, JournalWriter
from seamark.process.interrupts import let_pass
from seamark.run.aggregation import Aggregator
from seamark.run.contents import Contents
from seamark.run.journal_access import JournalAccess
from seamark.run.lifecycle import RESTING, WAITING, Lifecycle
from seamark.run.points import Points
from seamark.run.ranks import RankPaths
from seamark.run.values import Values

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.run.ranks import EveryRank, RankPolicy
    from seamark.run.recorded import Recorded
    from seamark.values import Atom
    from seamark.values.aggregates import Keep


_USUAL: Final = Secrets()
_RESERVED: Final = {"tags": "atom"}
"""Families allowed below a reserved namespace: keyed tags are single values."""


class Recorder(JournalAccess):
    """Journal of one process, and the parts that record into it.

    ``after_t`` is the time of the last record of a run on another disk, ns since the Unix epoch.
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
        secrets: Secrets = _USUAL,
        keep: Mapping[str, Keep] | None = None,
        expect_tags: Callable[[Mapping[str, Atom]], object] = lambda _: None,
        fixed: str | None = None,
        after_t: int = 0,
    ) -> None:
        super().__init__(folder, mode, lifecycle, policy, start, fixed)
        self.row = self._first_row
        self._header, self._after_t = header, after_t
        self.secrets = secrets
        self.kept = Aggregator(self, keep or {})
        self.contents = Contents(self, secrets)
        self.points = Points(self, self.contents, self.kept)
        self.values = Values(self, self.contents, self.points, expect_tags)
        self.parameters = self.values.parameters

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

    def _first_row(self, metrics: Any, step: Any = None, time_ns: int | None = None) -> bool | None:
        try:
            if self.to_write() is not None:  # the row was replaced
                return self.row(metrics, step, time_ns)
            if self.mode == "disabled":
                self.row = _nothing
        except Exception as error:  # noqa: BLE001 - see `let_pass`
            let_pass(error)
            self._warn_of_silence(error)
        return False

    def _watched_row(
        self, metrics: Any, step: Any = None, time_ns: int | None = None
    ) -> bool | None:
        writer, ranked = self.writer, self._ranked
        if writer is None:
            return self._first_row(metrics, step, time_ns)
        try:
            if self.kept.cells or self.kept.patterns:  # they have the same path on all ranks
                metrics = self.kept.divert(metrics)
                if not metrics:
                    return False
            if ranked is not None:
                metrics = {ranked[path]: value for path, value in metrics.items()}
            self.announce(metrics)
        except Exception as error:  # noqa: BLE001 - no mapping, or no key: the writer says so
            let_pass(error)
        return writer.append_row(metrics, step, time_ns)

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


def _nothing(metrics: Any, step: Any = None, time_ns: Any = None) -> None:
    """Record nothing: the row of a disabled run."""


@runtime_checkable
class Part(Protocol):
    """Session of one process in a run, or in the log of a project, model or artifact."""

    lifecycle: Lifecycle
    recorder: Recorder
    recorded: Recorded
