"""Base of projects, models and model versions: a log without a training."""

from __future__ import annotations

import logging
import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from seamark.errors import ArgumentError
from seamark.journal.writer import CLOSE_TIMEOUT_S
from seamark.pictures.printing import obeys_escapes
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.liveness import process_facts
from seamark.run import at_exit
from seamark.run.container import INTERNAL, Container
from seamark.run.lifecycle import RECORDING, STOPPED, Lifecycle
from seamark.run.opened import learn
from seamark.run.options import hidden_by_environment
from seamark.run.ranks import EveryRank
from seamark.run.recorded import Recorded
from seamark.run.recorder import Recorder
from seamark.run.shipping import Shipping
from seamark.run.tags import TagCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Self

    from seamark.errors import QueryError
    from seamark.journal.folder import RunFolder
    from seamark.reading.catalog import Catalog
    from seamark.reading.tables import RunsTable
    from seamark.run.through import Through
    from seamark.store.query.selection import Selection
    from seamark.utils import ProgressBarCallback

__all__ = ["Logbook", "Progress"]

Progress = bool | Callable[[int, int], None] | type["ProgressBarCallback"] | None
"""Whether, or with what, it is shown how far folding is."""

_PATIENCE_S: Final = 0.5
_EXIT_S: Final = 60.0
"""How long the end of a process waits for files."""

log = logging.getLogger("seamark")


class Logbook(Container):
    """A container that no training is recorded in: nothing is captured, and it has no state.

    Args:
        folder: Where it lies.
        mode: See ``init_run``.
        place: What is read in the place of the folder's root; None for the root.
        remotes: URIs of what it is sent to.
        token: To show there.
        through: Reads it while a part of it lies only on a server.
    """

    _internal: ClassVar[frozenset[str]] = INTERNAL | {
        *("finish_at_exit", "remotes", "tell", "token", "warn")
    }

    def __init__(
        self,
        folder: RunFolder,
        mode: str,
        *,
        place: Path | str | None = None,
        remotes: tuple[str, ...] = (),
        token: str | None = None,
        through: Through | None = None,
    ) -> None:
        self.remotes, self.token = remotes, token
        self._pid = os.getpid()
        self.lifecycle = Lifecycle()
        policy = EveryRank(disabled=mode == "disabled")
        self.recorder = Recorder(
            folder,
            mode,
            self.lifecycle,
            policy,
            header=self._header,
            start=self._start,
            secrets=hidden_by_environment(),
        )
        self.recorded = Recorded(
            folder,
            silent=lambda: policy.silent,
            known=list,
            disabled=mode == "disabled",
            place=place,
            token=token,
            through=through,
            settle=self.recorder.kept.write,
        )
        self.recorder.expect_tags = TagCheck(self.recorded, remotes, token).expect
        self._told: set[str] = set()
        self._shipping = Shipping(remotes, token, self.recorder)
        fork.register(self.after_fork)

    # ---------------------------------------------------------------- tables

    def _table(
        self,
        selection: Selection,
        columns: Iterable[str] | None,
        progress_bar: Progress,
    ) -> RunsTable:
        """Return a table of what matches; a mistake is reported before anything is read."""
        selection.check()
        selection.expression()
        index = self._refreshed(str(selection.project), progress_bar)
        return index.table(selection, columns, self.warn)

    def _refreshed(self, project: str, progress_bar: Progress) -> Catalog:
        """Return what answers, up to date for a project and what is below it."""
        if not (progress_bar is None or isinstance(progress_bar, bool) or callable(progress_bar)):
            wanted = "True, False, None, a function of two numbers or a progress bar's class"
            msg = f"progress_bar: expected {wanted}, got {progress_bar!r:.80}"
            raise ArgumentError(msg)
        index = self.recorded.index
        with _progress(progress_bar) as progress:
            index.refresh(project, progress=progress)
        return index

    def warn(self, error: QueryError) -> None:
        """Say once what a path that no run has may be meant for; a later run may have it."""
        self.tell(str(error).split("\n", 1)[0])

    def tell(self, message: str) -> None:
        """Say something once."""
        if message not in self._told:
            self._told.add(message)
            log.warning("seamark: %s", message)

    # ---------------------------------------------------------------- its own log

    def _header(self) -> dict[str, Any]:
        from seamark import __version__

        self._shipping.begin()  # here, as a forked child opens journals of its own
        told = {"seamark": __version__, "attempt": None, "owner": False, **process_facts()}
        kind = self.folder.kind
        return told if kind == "project" else {"kind": kind, **told}

    def _start(self) -> None:
        was_there = self.folder.is_there()
        # Nobody asks whether the process lives: a day in a notebook is to leave no heartbeats.
        writer = self.recorder.open()
        writer.beat_every(math.inf)
        self.lifecycle.phase = RECORDING
        self._pid = os.getpid()
        at_exit.finish_at_exit(self, self._key)
        if was_there:
            with quietly():  # without it, the fold settles conflicts
                learn(self.folder, writer, "monitoring")

    def after_fork(self) -> None:
        """Make the copy in a forked child whole again."""
        self.recorder.after_fork()

    def stop(self, *, seconds: float | None = None) -> None:
        """Finish writing and close the index; may be called twice.

        Args:
            seconds: How long to wait for files; None waits as long as they are being stored.
        """
        self._finish("stop", seconds)

    def finish_at_exit(self, error: BaseException | None) -> None:
        """Finish because the process ends, whatever ended it."""
        del error  # of which nothing is recorded here
        if self._pid == os.getpid():
            self._finish("exit", _EXIT_S)
        elif (writer := self.recorder.writer) is not None and writer.writer is not None:
            self.recorder.kept.write()  # a forked helper closes what it wrote itself
            writer.close("exit")

    def _finish(self, reason: str, seconds: float | None) -> None:
        if self.lifecycle.phase != STOPPED:
            self.lifecycle.call("stop")
            self.lifecycle.phase = STOPPED
            at_exit.settle(self, self._key)
            self.recorder.store_files(seconds)
            self.recorder.close(reason, CLOSE_TIMEOUT_S)
            self.recorded.close()
            self._shipping.finish(seconds, later=reason == "exit")

    @property
    def _key(self) -> str:
        return os.fspath(self.folder.path)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()


class _Steps:
    """Tells a progress bar of Neptune's kind how many more runs are folded."""

    def __init__(self, bar: ProgressBarCallback) -> None:
        self._bar = bar
        self._done = 0

    def __call__(self, done: int, total: int) -> None:
        """Take note of how many are folded now."""
        self._bar.update(by=done - self._done, total=total)
        self._done = done


@contextmanager
def _progress(wanted: Progress) -> Iterator[Callable[[int, int], None] | None]:
    """Give what is to be called while runs are folded; on a terminal a line shows how far it is."""
    if isinstance(wanted, type):
        with wanted(description="Reading runs", unit="runs") as bar:
            yield _Steps(bar)
        return
    if callable(wanted) or wanted is False or not obeys_escapes(sys.stderr):
        yield wanted if callable(wanted) else None
        return
    started, shown = time.monotonic(), False

    def show(done: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - started > _PATIENCE_S and (done % 100 == 0 or done == total):
            shown = True
            sys.stderr.write(f"\rseamark: reading runs {done:,} of {total:,} ")
            sys.stderr.flush()

    try:
        yield show
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
