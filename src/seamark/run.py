"""A run: what `init_run` returns and a training script holds."""

from __future__ import annotations

import atexit
import copy
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from seamark.capture import Capture, Switches, error_message
from seamark.capture.worker_end import at_worker_end
from seamark.journal.folder import RunFolder, host_name, root_dir
from seamark.journal.interrupts import raised_by_signal_handler
from seamark.journal.process import process_facts
from seamark.journal.rank_writer import was_here
from seamark.journal.rivals import Rivals
from seamark.journal.writer import CLOSE_TIMEOUT_S, JournalWriter
from seamark.place import expect_run, expect_writable, refuse_purged, run_folder
from seamark.ranked import Ranked
from seamark.ranks import current_rank, job_key
from seamark.settings import RunSettings, check_arguments
from seamark.values import Atom, escape, to_time_ns

if TYPE_CHECKING:
    from typing_extensions import Self

    from seamark.attempts import Descent


__all__ = ["Run", "init_run"]

log = logging.getLogger("seamark")


def init_run(
    project: str | None = None,
    *,
    name: str | None = None,
    with_id: str | None = None,
    custom_run_id: str | None = None,
    mode: str | None = None,
    description: str | None = None,
    tags: str | Iterable[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    params: Any = None,
    owner: bool = True,
    ranks: str = "zero",
    resume: str = "auto",
    checkpoints: str | None = None,
    api_token: str | None = None,
    git_ref: Any = None,
    source_files: str | Iterable[str] | None = None,
    capture_stdout: bool | None = None,
    capture_stderr: bool | None = None,
    capture_hardware_metrics: bool | None = None,
    capture_traceback: bool | None = None,
    capture_script: bool | None = None,
    capture_packages: bool | None = None,
    capture_host: bool | None = None,
    capture_git: bool | None = None,
    capture_signals: bool | None = None,
    monitoring_namespace: str | None = None,
    fail_on_exception: bool | None = None,
    **others: Any,
) -> Run:
    """Start a run, or open one that exists, and return it.

    Every argument of ``neptune.init_run`` 1.14 is accepted under its own name; switches are on
    unless set to False.

    Args:
        project: Path of the project, such as ``"team/mnist"``; SEAMARK_PROJECT, NEPTUNE_PROJECT or
            ``"default"``.
        name: Shown name, free text.
        with_id: Id of an existing run to open.
        custom_run_id: A name under which several processes find the same run;
            SEAMARK_CUSTOM_RUN_ID.
        mode: ``"online"``, ``"async"`` and ``"sync"`` are the same; ``"offline"`` sends nothing;
            ``"read-only"`` opens with_id for reading; ``"disabled"`` does nothing; ``"debug"``
            records into a temporary root. SEAMARK_MODE.
        description: Free text.
        tags: One string or several.
        root: Folder of all runs; SEAMARK_DIR or ``./.seamark``.
        params: Hyperparameters, kept under ``parameters/``.
        owner: Whether this process decides the run's state; False for scripts that only add
            something.
        ranks: ``"zero"``: only rank 0 records, other ranks hold a silent run. ``"all"``: every rank
            records into one run, its series under ``ranks/<rank>/`` unless it is rank 0; values,
            tags and files are those of rank 0. Every rank has to call this then, with the same
            ``with_id`` or ``custom_run_id``, or once ``init_process_group()`` or ``hvd.init()`` has
            connected them.
        resume: ``"auto"``: a job that its launcher restarted, or that loads a checkpoint, goes on
            with its run. ``"never"``: each start is a run. ``"must"``: there has to be a run to go
            on with: by ``with_id``, ``custom_run_id``, a restart or a checkpoint.
        checkpoints: ``"reference"`` or ``"keep"``; None keeps with a remote and refers without one.
        api_token: For remotes; held in memory only.
        git_ref: A repository's path, or False to record nothing of git.
        source_files: Files to keep under ``source_code/files``.
        capture_stdout: Accepted; output is not captured by this version.
        capture_stderr: Accepted; output is not captured by this version.
        capture_hardware_metrics: Accepted; hardware is not captured by this version.
        capture_traceback: Record the traceback of an uncaught exception.
        capture_script: Record the script and its arguments, secrets masked.
        capture_packages: Record the versions of Python and of installed packages.
        capture_host: Record host name and pid.
        capture_git: Record commit, branch, dirty state and remote.
        capture_signals: Mark the run when SIGTERM arrives.
        monitoring_namespace: Instead of ``monitoring/<writer>``.
        fail_on_exception: Whether an uncaught exception fails the run.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        ArgumentError: If arguments contradict each other or have no legal value, or if
            ``ranks="all"`` and the ranks cannot agree on one run.
        PathError: If a name cannot be a folder.
        RunNotFoundError: If ``with_id`` names no run, or if ``resume="must"`` and there is none.
        JournalError: If the root cannot be written to.
    """
    check_arguments(others)
    given = {key: value for key, value in locals().items() if key != "others"}
    return Run._create(lazy=False, **given)  # noqa: SLF001 - the one public way to it


class Run(Ranked):
    """One training (or evaluation) that is being recorded, or was.

    Made by `init_run`. Use it as a context manager, or call `stop`; at the end of the process it
    stops by itself.
    """

    def __init__(self, settings: RunSettings, folder: RunFolder) -> None:
        super().__init__(folder, settings.mode)
        self._settings = settings
        self._state = "created"
        self._capture: Any = None
        self._pid = os.getpid()
        self._told = False
        self._told_before = False
        self._row: Any = self._first_row
        self._last_words: list[Callable[[], None]] = []

    @classmethod
    def _create(cls, *, lazy: bool, **given: Any) -> Run:
        """Make a run.

        Args:
            lazy: Touch no disk and capture nothing until the first record; what loggers need.
            **given: The arguments of `init_run`.
        """
        settings = RunSettings(**given)
        folder = run_folder(settings)
        if settings.with_id or settings.mode == "read-only":
            expect_run(folder)
        else:
            refuse_purged(folder, settings.custom_run_id)
        run = cls(settings, folder)
        run._made_in = os.getpid()
        run = run.after_restart()
        if settings.ranks == "all" and not (lazy or settings.with_id or settings.custom_run_id):
            # Whatever the mode: a rank that is disabled must not leave the others waiting.
            run = run.agree()
        if not lazy and settings.mode != "read-only":
            run._begin_at_once()  # noqa: SLF001 - of its own class
        return run

    def _begin_at_once(self) -> None:
        self.expect_resumed()
        if not self._silent:
            expect_writable(self.folder)
        self._to_write()

    # ---------------------------------------------------------------- facts

    def __repr__(self) -> str:
        """Return where the run is."""
        return f"<seamark.Run {self.folder.project}/{self.folder.run} {self._state}>"

    @property
    def id(self) -> str:
        """Run id, 16 characters."""
        return self.folder.run

    @property
    def project(self) -> str:
        """Project path."""
        return self.folder.project

    @property
    def root(self) -> Path:
        """Absolute root folder."""
        return self.folder.root

    @property
    def name(self) -> str | None:
        """Shown name as given to this object."""
        return self._settings.name

    @property
    def writer(self) -> str | None:
        """Writer id of this process, or None before the first record."""
        return self._writer.writer if self._writer else None

    @property
    def state(self) -> str:
        """State as this process last wrote it.

        What other processes know is read with ``run["sys/state"].fetch()``.
        """
        return self._state

    @property
    def checkpoints(self) -> str:
        """``"reference"`` or ``"keep"``: what becomes of checkpoint files."""
        return self._settings.checkpoints

    @property
    def settled(self) -> bool:
        """Whether every record made so far is in the kernel.

        False only inside a signal handler that interrupted a record: what the handler recorded
        follows right after that one.
        """
        return self._writer is None or self._writer.settled

    def begin(self) -> bool:
        """Start the run, if that has not happened yet; return whether this process records.

        For files, which travel in a lane that does not start it.
        """
        return self.recording and self._to_write() is not None

    @property
    def _secrets(self) -> tuple[str, ...]:
        """Values that must not be recorded, whatever text they turn up in."""
        return (self._settings.api_token,) if self._settings.api_token else ()

    def positions(self) -> dict[str, int]:
        """Return {writer id: bytes} of this process's journals, as they are now."""
        return self._writer.positions() if self._writer else {}

    def at(self, run: str, project: str | None = None, *, owner: bool = True) -> Run:
        """Return a run with the settings of this one and another id; nothing is on disk yet.

        Args:
            run: Run id.
            project: Project path, this run's if left out.
            owner: False for a rank that adds something to the run of rank 0, whose state is not its
                own: such a run is recorded whatever the rank, and at the paths that it is told.
        """
        settings = copy.copy(self._settings)
        settings.owner = settings.owner and owner
        if not owner:
            settings.ranks = "zero"
        found = Run(settings, RunFolder(self.root, project or self.project, run))
        found._told_before, found._made_in = not owner, self._made_in
        found._descent = replace(self._descent, begun=None, continues=True)
        return found

    def tell(self, atoms: Mapping[str, Atom]) -> None:
        """Record facts with the first record, or now if there was one. Never raises.

        Args:
            atoms: Encoded values by path.
        """
        if self._writer is None:
            self._settings.params = {**self._settings.params, **atoms}
            return
        try:
            self.record_atoms(atoms)
        except Exception as error:  # noqa: BLE001 - nobody asked for them
            self.drop("facts", warn=f"facts could not be recorded: {error}")

    def _untold(self) -> Mapping[str, Atom]:
        return self._settings.params if self._writer is None and not self._silent else {}

    # ---------------------------------------------------------------- starting

    def _start(self) -> JournalWriter:
        if self._inherited is not None:
            return self._go_on(self._inherited)
        self.expect_resumed()
        writer = self._open_writer()
        self._pid = os.getpid()
        existed = bool(self.folder.journals())
        self._writer = writer
        self._silent_rank = False
        self._row = writer.append_row
        if existed and (not writer.rank or was_here(self.folder, writer.rank)):
            self._row = self._row_of_opened_run
            self._learning = threading.Thread(target=self._learn, name="seamark-open", daemon=True)
            self._learning.start()
        settings = self._settings
        if settings.owner:
            self._set_state("running")
        if not self._told_before and not writer.rank:
            self._tell_of_itself(writer)
        if settings.owner:
            self._begin_watching()
        return writer

    def _tell_of_itself(self, writer: JournalWriter) -> None:
        """Write what `init_run` was given."""
        settings = self._settings
        atoms: dict[str, Any] = {}
        for key in ("name", "description", "custom_run_id"):
            if (value := getattr(settings, key)) is not None:
                atoms[f"sys/{key}"] = value
        if settings.owner:
            atoms["sys/hostname"] = host_name()
            atoms.update(_distributed(settings.params))
        self.assign_quietly(atoms)
        if settings.tags:
            writer.claim("sys/tags", "string_set")
            tags = [escape(tag) for tag in settings.tags]
            writer.append_op({"op": "add", "path": "sys/tags", "values": tags})
        if settings.params:
            self.record_atoms(settings.params)

    def _begin_watching(self) -> None:
        _finish_at_exit(self)
        settings, apart = self._settings, self._rank_apart()
        switches = dict(settings.switches)
        if apart:  # as on rank 0, which tells it
            switches.update(git=False, script=False, packages=False)
        self._capture = Capture(
            self,
            Switches(
                **switches,
                git_ref=settings.git_ref,
                monitoring_namespace=None if apart else settings.monitoring_namespace,
                fail_on_exception=settings.fail_on_exception,
                known_secrets=self._secrets,
            ),
        )
        self._capture.start()
        if apart:
            return
        rivals = Rivals(self.folder, self._descent.lineage)
        rivals.look()
        if self._writer is not None:
            self._writer.at_heartbeat = rivals.look
        if settings.source_files and not self._told_before:
            try:
                self["source_code/files"].upload_files(settings.source_files)
            except (OSError, ValueError, TypeError) as error:
                self.drop("source_files", 1, f"source_files could not be kept: {error}")
        if self.positions():  # else a warning has said why nothing can be written yet
            begun = self._descent.begun
            what = f"recording attempt {begun.number} to" if begun else "recording to"
            self._tell(what, f"see it with: seamark show {self.id}")
            self._tell_why_new()

    def _tell_why_new(self) -> None:
        descent = self._descent
        if descent.passed_over and not (descent.begun or descent.continues or self._told_before):
            log.warning(
                "seamark: this job was restarted and records a new run: run %s, which it recorded "
                "before, had another command line. Give custom_run_id to have one run whatever "
                "the command line",
                descent.passed_over,
            )

    def _tell(self, what: str, then: str) -> None:
        """Print one line for people, on stderr."""
        try:
            where = os.path.relpath(self.folder.path)
            root = "" if self.root == root_dir() else f" --root {os.path.relpath(self.root)}"
            print(f"seamark: {what} {where} ({then}{root})", file=sys.stderr, flush=True)  # noqa: T201
        except Exception:  # noqa: BLE001, S110 - a closed stderr must not end a training
            pass

    def _header(self) -> dict[str, Any]:
        from seamark import __version__

        here = self._pid == os.getpid()  # a forked helper is no owner
        rank, apart = current_rank(), self._rank_apart()
        owner = self._settings.owner and here and not apart
        return {
            "seamark": __version__,
            **self._header_of_attempt(owner=owner, takes_part=owner or bool(apart and here)),
            "owner": owner,
            **process_facts(),
            "rank": apart or rank.rank,
            "launcher": rank.launcher,
            "job": job_key(),
        }

    def _learn(self) -> None:
        """Learn families and last steps of a run that existed, on a thread, from the index."""
        writer = self._writer
        try:
            from seamark.local.index import Index

            index = Index.open(self.root)
            try:
                index.refresh(self.project, self.id)
                view = index.view(self.project, self.id)
                for one in view.attributes():
                    if writer is None:
                        break
                    if one.path.startswith("sys/") and one.family == "atom":
                        continue
                    writer.families.setdefault(one.path, one.family)
                    last = getattr(one.value, "last_step", None)
                    if last is not None and one.family.endswith("_series"):
                        writer.remember_step(one.path, float(last))
                owner = self._settings.owner and not self._rank_apart()
                if owner and self._state != "failed" and view.has_failed():
                    self.assign_quietly({"sys/failed": False})
            finally:
                index.close()
            if owner:
                from seamark.content import finish_staged

                finish_staged(self.folder, self._record_content)
        except Exception as error:  # noqa: BLE001 - without it, conflicts are settled by the fold
            log.debug("seamark: what run %s held before could not be read: %r", self.id, error)
        finally:
            self._learning = None
            if writer is not None:
                self._row = writer.append_row

    # ---------------------------------------------------------------- metrics

    def log_metrics(
        self,
        metrics: Mapping[str, Any],
        step: float | None = None,
        *,
        timestamp: float | datetime | None = None,
    ) -> None:
        """Record one number for each path, all at one step. The quick way; never raises.

        What cannot be recorded (a bad path, a path of another family, something that is no number)
        is left out, warned about once and counted under ``monitoring/seamark/dropped``.

        Args:
            metrics: Numbers by path; NaN and infinities are kept, ints beyond 2**53 are rounded to
                float64.
            step: Finite number, kept as given; None numbers the row 1 above the largest last step
                of these paths.
            timestamp: Seconds since the Unix epoch, or a datetime; the time of the call is always
                kept as well.
        """
        if timestamp is None:
            self._row(metrics, step)
        else:
            self._row_with_time(metrics, step, timestamp)

    def _row_with_time(
        self, metrics: Mapping[str, Any], step: float | None, timestamp: Any
    ) -> None:
        try:
            time_ns = to_time_ns(timestamp)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            time_ns = None
            self.drop("timestamp", 1, f"log_metrics: the timestamp is left out: {error}")
        self._row(metrics, step, time_ns)

    def _first_row(
        self, metrics: Mapping[str, Any], step: float | None = None, time_ns: int | None = None
    ) -> None:
        """Start the run with the first row; in read-only and stopped runs, warn and count."""
        try:
            if self._silent:
                if self.mode == "disabled":
                    self._row = _nothing
                elif self._still_other_rank is not None:
                    self._row = self._row_of_other_rank
                return
            if (writer := self._to_write()) is not None:
                if self._row == self._first_row:  # started before a fork
                    self._row = writer.append_row
                self._row(metrics, step, time_ns)
        except Exception as error:
            if raised_by_signal_handler(error):
                raise
            if not self._told:
                self._told = True
                log.warning("seamark: log_metrics records nothing: %s", error)

    def _row_of_other_rank(
        self, metrics: Mapping[str, Any], step: float | None = None, time_ns: int | None = None
    ) -> None:
        """Record nothing, as long as this is another rank than 0."""
        if self._still_other_rank is None or not self._still_other_rank():
            self._row = self._first_row
            self._first_row(metrics, step, time_ns)

    def _row_of_opened_run(
        self, metrics: Mapping[str, Any], step: float | None = None, time_ns: int | None = None
    ) -> None:
        """Record while the thread still learns what the run holds.

        Only a step left out has to wait for it.
        """
        if (writer := self._writer) is not None:
            self._numbered(writer, step).append_row(metrics, step, time_ns)

    # ---------------------------------------------------------------- state

    def note_state(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        """Write the run's state; never raises, and does nothing where this process owns no state.

        Args:
            state: ``"running"``, ``"completed"``, ``"failed"``, ``"interrupted"`` or
                ``"suspended"``.
            error: What ended the run; type and message are kept, secrets masked.
            signal: Name of the signal that ended it.
        """
        try:
            writer = self._writer
            if (
                writer is None
                or writer.closed
                or not self._settings.owner
                or self._pid != os.getpid()
            ):
                return
            if state == "interrupted" and self._state == "suspended":
                return  # the job is queued again already; being stopped now is part of that
            self._set_state(state, error=error, signal=signal)
        except Exception as trouble:
            if raised_by_signal_handler(trouble):
                raise
            self.drop("state", 1, f"the state {state!r} could not be recorded: {trouble!r:.200}")

    def _set_state(
        self, state: str, *, error: BaseException | None = None, signal: str | None = None
    ) -> None:
        op: dict[str, Any] = {"op": "state", "state": state}
        if error is not None:
            message = escape(error_message(error, known=self._secrets))
            op["error"] = {"type": type(error).__name__, "message": message}
        if signal is not None:
            op["signal"] = signal
        was, self._state = self._state, state
        if self._writer is not None:
            self._writer.append_op(op)
            if "failed" in (was, state):
                self.assign_quietly({"sys/failed": state == "failed"})

    def get_state(self) -> str:
        """Return ``"created"``, ``"started"`` or ``"stopped"``.

        What this object is, in Neptune's words.
        """
        return "stopped" if self._stopped else "created" if self._writer is None else "started"

    # ---------------------------------------------------------------- the end

    def stop(self, *, seconds: float | None = None) -> None:
        """Finish: store taken files, mark the run completed, force everything to disk.

        May be called twice.

        Args:
            seconds: How long to wait for files and the disk; None waits as long as files are being
                stored.
        """
        self._finish("stop", seconds)

    def before_end(self, call: Callable[[], None]) -> None:
        """Have something called once when this process is about to end the run.

        For records that are put together late; what it raises is logged and goes no further.
        """
        self._last_words.append(call)

    def _say_last_words(self) -> None:
        calls, self._last_words = self._last_words, []
        for call in calls:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - the run has to end
                log.debug("seamark: a last record of run %s failed: %r", self.id, error)

    def _finish(self, reason: str, seconds: float | None) -> None:
        writer = self._writer
        if writer is not None and self._pid != os.getpid():
            if writer.writer is not None:  # a forked helper closes what it wrote itself
                writer.close(reason)
            return
        self._say_last_words()
        with self._start_lock:
            if self._stopped:
                return
            self._stopped = True
        if writer is None:
            return
        writer.retry_now()
        if self._capture is not None:
            self._capture.stop()
        if self._content is not None:
            self._content.close(seconds)
        if self._state == "running":
            self.note_state("completed")
        writer.close(reason, CLOSE_TIMEOUT_S if seconds is None else min(seconds, CLOSE_TIMEOUT_S))
        lost = sum(writer.dropped.values())
        _running.pop(id(self), None)
        if self._settings.owner and not writer.rank:
            tail = f", {lost} values or records were lost" if lost else ""
            self._tell(f"{self._state}{tail}:", f"see it with: seamark show {self.id}")

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop.

        An exception on its way out fails the run, Ctrl-C interrupts it. Nothing is swallowed.
        """
        self._note_error(error)
        self.stop()

    def _note_error(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, (SystemExit, GeneratorExit)):
            interrupted = isinstance(error, KeyboardInterrupt)
            if self._capture is not None:
                self._capture.note_exception(error)
            if interrupted or self._settings.fail_on_exception:
                self.note_state("interrupted" if interrupted else "failed", error=error)

    # ---------------------------------------------------------------- pickling

    def __reduce__(self) -> Any:
        """Travel as settings and place.

        The copy opens a journal of its own when it records something.
        """
        told = self._told_before or self._writer is not None
        return _revive, (self._settings, self.folder, told, self._descent)

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        """Return the same run: copying a script's objects must not start another."""
        return self


def _revive(
    settings: RunSettings,
    folder: RunFolder,
    told: bool,  # noqa: FBT001
    descent: Descent,
) -> Run:
    """Return a copy; name, tags and parameters are not written again once the first has done it."""
    run = Run(settings, folder)
    run._told_before, run._descent = told, descent  # noqa: SLF001 - of this module
    return run


def _distributed(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of the ranks; nothing where there is one, or where an adapter knows."""
    rank = current_rank()
    if (rank.world_size or 1) == 1 or any(path.startswith("distributed/") for path in told):
        return {}
    facts = {"launcher": rank.launcher, "world_size": rank.world_size}
    return {f"distributed/{name}": fact for name, fact in facts.items() if fact is not None}


def _nothing(metrics: Any, step: Any = None, time_ns: Any = None) -> None:
    """Record nothing, at no cost: the row of a disabled run."""


_running: dict[int, Run] = {}


def _finish_at_exit(run: Run) -> None:
    # Always the newest of the registered, hence the first called: before a debug root is removed.
    atexit.unregister(_finish_all)
    atexit.register(_finish_all)
    at_worker_end(_finish_all)
    _running[id(run)] = run


def _finish_all(error: BaseException | None = None) -> None:
    for run in list(_running.values()):
        run._note_error(error)  # noqa: SLF001
        run._finish("exit", 60.0)  # noqa: SLF001
