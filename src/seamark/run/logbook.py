"""Logs of projects, models and versions, which have no training; and edits of runs."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import JournalError
from seamark.journal.folder import RunFolder
from seamark.journal.writer import CLOSE_TIMEOUT_S
from seamark.opening.place import expect_run, expect_writable
from seamark.options.settings import hidden_by_environment
from seamark.pictures.printing import progress_bar
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.liveness import process_facts
from seamark.run.container import Container, TagCheck
from seamark.run.lifecycle import RECORDING, STOPPED, Lifecycle, finish_at_exit, note_finished
from seamark.run.ranks import EveryRank
from seamark.run.recorded import Recorded
from seamark.run.recorder import Recorder
from seamark.run.shipping import Shipping
from seamark.run.state import learn, run_on_disk
from seamark.values import encode_atom
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

    from seamark.errors import QueryError
    from seamark.journal.writer import JournalWriter
    from seamark.reading.catalog import Catalog, Ref, Selection
    from seamark.reading.tables import RunsTable
    from seamark.utils import ProgressBarCallback


Progress = bool | Callable[[int, int], None] | type["ProgressBarCallback"] | None
"""Whether to show the progress of folding, or a function or class that shows it."""
_EXIT_S: Final = 60.0
"""Time limit for storing files at the end of a process, in seconds."""
log = logging.getLogger("seamark")


class LogSession:
    """Session of one process in a log, without captures and state."""

    def __init__(
        self,
        folder: RunFolder,
        mode: str,
        *,
        place: Path | str | None = None,
        remotes: tuple[str, ...] = (),
        token: str | None = None,
        is_partial: bool = False,
        fixed: str | None = None,
    ) -> None:
        self.remotes, self.token = remotes, token
        self._pid = os.getpid()
        self._warned: set[str] = set()
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
            expect_tags=lambda atoms: tags.expect(atoms),  # noqa: PLW0108 - made later
            fixed=fixed,
        )
        self.recorded: Recorded = Recorded(
            folder,
            policy,
            known=list,
            disabled=mode == "disabled",
            place=place,
            token=token,
            remotes=remotes if is_partial else (),
            is_partial=is_partial,
            settle=self.recorder.kept.write,
        )
        tags = TagCheck(self.recorded, remotes, token)
        self.shipping = Shipping(remotes, token, self.recorder)
        fork.register(self.recorder.after_fork)

    # ---------------------------------------------------------------- tables

    def up_to_date(self, progress_bar: Progress = False) -> Catalog:  # noqa: FBT002 - as people
        """Return the catalog, updated for the project and everything below it."""
        if not (progress_bar is None or isinstance(progress_bar, bool) or callable(progress_bar)):
            wanted = "True, False, None, a function of two numbers or a progress bar class"
            raise argument_error(progress_bar, "progress_bar", wanted)
        index = self.recorded.index
        with _progress(progress_bar) as progress:
            index.refresh(self.recorder.folder.project, progress=progress)
        if not self.recorded.remote:  # a server is asked only if the disk has no answer
            self.check_exists()
        return index

    def select(self, progress_bar: Progress = False, **wanted: Any) -> tuple[Catalog, Selection]:  # noqa: FBT002 - as people
        """Return the updated catalog and a checked selection of runs below this project."""
        from seamark.reading.catalog import Selection
        from seamark.store.query.selection import expression_of

        selection = Selection(**{"project": self.recorder.folder.project, **wanted})
        selection.check()
        expression_of(selection)
        return self.up_to_date(progress_bar), selection

    def table(
        self, columns: Iterable[str] | None, progress_bar: Progress, **wanted: Any
    ) -> RunsTable:
        """Return a table of the matching runs; see `select`."""
        index, selection = self.select(progress_bar, **wanted)
        return index.table(selection, columns, self.warn)

    def check_exists(self) -> None:
        """Warn once if the project does not exist, but others do."""
        folder, recorded = self.recorder.folder, self.recorded
        if folder.kind == "project" and not recorded.has_project():
            where = f"{folder.project!r} below {recorded.place} (seamark ls lists the runs)"
            self.warn_once(f"there is no project {where}")

    def warn(self, error: QueryError) -> None:
        """Suggest, once, a path for one that no run has; a later run may have it."""
        self.warn_once(str(error).split("\n", 1)[0])

    def warn_once(self, message: str) -> None:
        """Log a warning once."""
        if message not in self._warned:
            self._warned.add(message)
            log.warning("seamark: %s", message)

    # ---------------------------------------------------------------- its own log

    def _header(self) -> dict[str, Any]:
        from seamark import __version__

        self.shipping.begin()  # here, as a forked child opens journals of its own
        told = {"seamark": __version__, "attempt": None, "owner": False, **process_facts()}
        kind = self.recorder.folder.kind
        return told if kind in ("project", "run") else {"kind": kind, **told}

    def _start(self) -> None:
        was_there = self.recorder.folder.exists()
        writer = self._open()
        if was_there:
            with quietly():  # without it, the fold resolves conflicts
                learn(run_on_disk(self.recorder.folder)[0], writer)

    def _open(self) -> JournalWriter:
        # A log has no state that depends on its process: a day in a notebook writes no heartbeats.
        writer = self.recorder.open()
        writer.beat_every(math.inf)
        self.lifecycle.enter(RECORDING)
        self._pid = os.getpid()
        self.expect_end()
        return writer

    def expect_end(self) -> None:
        """Finish when the process ends, unless that has been done by then."""
        finish_at_exit(self, self._finish_at_exit, self.recorder.folder)

    def _finish_at_exit(self, _: BaseException | None) -> None:
        if self._pid == os.getpid():
            self.finish("exit", _EXIT_S)
        elif (writer := self.recorder.writer) is not None and writer.writer is not None:
            self.recorder.kept.write()  # a forked helper closes its own journal
            writer.close("exit")

    def finish(self, reason: str, seconds: float | None = None) -> None:
        """Finish writing and close the index; may be called twice."""
        if self.lifecycle.phase != STOPPED:
            self.lifecycle.call("stop")
            self.lifecycle.enter(STOPPED)
            note_finished(self, self.recorder.folder)
            self.recorder.store_files(seconds)
            self.recorder.close(reason, CLOSE_TIMEOUT_S)
            self.recorded.close()
            self.shipping.finish(seconds, later=reason == "exit")


class Logbook(Container):
    """A container without a training: it has no captures and no state."""

    session: LogSession

    def stop(self, *, seconds: float | None = None) -> None:
        """Finish writing and close the index; may be called twice.

        Args:
            seconds: Time limit for storing files; None for none.
        """
        self.session.finish("stop", seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@contextmanager
def _progress(wanted: Progress) -> Iterator[Callable[[int, int], None] | None]:
    if isinstance(wanted, type):
        before = 0
        with wanted(description="Reading runs", unit="runs") as bar:

            def show(done: int, total: int) -> None:
                nonlocal before
                bar.update(by=done - before, total=total)
                before = done

            yield show
    elif callable(wanted):
        yield wanted
    else:
        with progress_bar("Reading runs", quiet=wanted is False) as show_bar:
            yield show_bar


def set_trashed(catalog: Catalog, root: Path | None, refs: Iterable[Ref], *, trashed: bool) -> None:
    """Move runs to the trash, or restore them."""
    op = {"op": "assign", "atoms": {"sys/trashed": encode_atom(trashed)}}
    for project, run in refs:
        if root is None:
            from seamark.remote.http.catalog import RemoteCatalog

            assert isinstance(catalog, RemoteCatalog)  # noqa: S101 - there are no other places
            catalog.edit((project, run), {"trashed": trashed})
        elif not append_ops(RunFolder(root, project, run), [op]):
            raise JournalError(None, f"{root / project / run}: the change could not be written")


def append_ops(
    folder: RunFolder,
    ops: Iterable[Mapping[str, Any]],
    remotes: tuple[str, ...] = (),
    token: str | None = None,
) -> bool:
    """Append ops through a new journal without ownership; return whether all were written."""
    expect_run(folder)
    expect_writable(folder)
    session = LogSession(folder, "offline", remotes=remotes, token=token)
    with Logbook(session) as opened:
        kept = [opened.session.recorder.values.record_op(op) for op in ops]
    return all(kept)
