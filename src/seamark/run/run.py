"""Runs as `init_run` returns them to a training script."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from seamark.opening.machine import open_run
from seamark.opening.opening import Saved
from seamark.options.run_options import RunOptions, accept_options, check_names
from seamark.options.settings import Settings
from seamark.pictures.drawing import PlotOptions, plot_run
from seamark.reading.curves import Look
from seamark.run.chrono import Chrono, Chronos, Loops, Progress
from seamark.run.container import Container
from seamark.run.distribution import distribution_of
from seamark.run.lineage import Associations
from seamark.run.params import Params
from seamark.run.resuming import parse_positional_argument, resume_checkpoint
from seamark.run.session import Carried, Session
from seamark.run.shipping import TRANSFERS, transfers_of
from seamark.values import encode_atom

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from seamark.reading.points import Attempt
    from seamark.reading.rank_text import RankTiming
    from seamark.reading.recorded_errors import RecordedError
    from seamark.reading.report import Report
    from seamark.run.lineage import Lineage
    from seamark.values.aggregates import Keep


T = TypeVar("T")


@accept_options
def init_run(first: str | None = None, /, **options: Unpack[RunOptions]) -> Run:
    """Start a run, or open one that exists, and return it.

    Every argument of ``neptune.init_run`` 1.14 is accepted under its own name; those that have no
    meaning here do nothing. None is the same as not given.

    Args:
        first: The project. What looks like an id, such as ``KEY-12``, is ``with_id`` if a run has
            that id and no project that name, and beside ``project=`` in any case.
        **options: Of the run.

    Raises:
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        ArgumentError: If arguments contradict each other or have no legal value, if ``with_id`` may
            be any of several runs, or if ``ranks="all"`` and the ranks cannot agree on one run.
            Of a ``config_path``, file, line and column are named.
        DuplicateRunError: If ``on_duplicate="error"`` and there is a run that is the same.
        FileMissingError: If there is no file at ``config_path``.
        PathError: If the project's path breaks the grammar.
        RunNotFoundError: If ``with_id`` names no run, or if ``resume="must"`` and there is none.
        RunExistsError: If another run has its name at a remote, with ``conflict="error"``.
        JournalError: If the root cannot be written to.
    """
    session = _session(parse_positional_argument(first, check_names(options)))
    session.begin_at_once()
    return Run(session)


def make_run(**given: Any) -> Run:
    """Return a run that touches no disk and captures nothing until its first record."""
    session = _session(given, trains=True)
    if not session.policy.is_follower:
        session.expect_place()
    return Run(session)


def _session(given: Mapping[str, Any], *, trains: bool = False) -> Session:
    opening = open_run(Settings.of(**given), trains=trains)
    return Session(opening, Carried(made_in=os.getpid()))


class Run(Container):
    """A training or evaluation that is or was recorded.

    Made by `init_run`; ``Run(...)`` with its arguments is the same. Use it as a context manager, or
    call `stop`; at the end of the process it stops by itself.
    """

    session: Session

    container_type: ClassVar[str] = "run"
    _opened = staticmethod(init_run)

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._chronos = Chronos(session.recorder, session.lifecycle)
        self._loops = Loops(session.recorder)
        self._associations = Associations(session.recorder, session.options)

    # ---------------------------------------------------------------- facts

    def __repr__(self) -> str:
        word = "opened" if self._is_recorded_by_other_processes else self.written_state
        word = self.mode if self.mode in ("disabled", "read-only") else word
        return f"<seamark.Run {self.folder.project}/{self.folder.run} {word}>"

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
        """Name as given to this object, and with ``mode="read-only"`` as recorded.

        What it is called after others renamed it is read with ``run["sys/name"].fetch()``.
        """
        recorded = self.session.recorded.value("sys/name") if self.mode == "read-only" else None
        return recorded or self.session.options.name

    @property
    def writer(self) -> str | None:
        """Writer id of this process, or None before the first record."""
        writer = self.session.recorder.writer
        return writer.writer if writer else None

    @property
    def state(self) -> str:
        """State as this process last wrote it; as recorded, if only others wrote any.

        What other processes know is read with ``run["sys/state"].fetch()``.
        """
        if self.mode == "read-only" or self._is_recorded_by_other_processes:
            return self.session.recorded.value("sys/state") or self.written_state
        return self.written_state

    @property
    def written_state(self) -> str:
        """State as this process last wrote it; ``"created"`` if it wrote none."""
        return self.session.state.word

    @property
    def _is_recorded_by_other_processes(self) -> bool:
        wrote = self.written_state != "created" or self.session.recorder.positions()
        return not wrote and bool(self.folder.journals())

    @property
    def errors(self) -> list[RecordedError]:
        """Errors of all ranks and attempts, the oldest first.

        Exceptions that left a ``with`` block, a fit or the script, Ctrl-C included, and those given
        to `set_state`; each with type, message, traceback, time and rank. Those of processes that
        only added to the run are not among them.
        """
        from seamark.reading.recorded_errors import recorded_errors

        recorded = self.session.recorded
        return [] if recorded.is_empty else recorded_errors(recorded.view())

    def report(self, short: bool = False) -> Report:  # noqa: FBT001, FBT002 - as people call it
        """Return a summary of the recorded run: a dict that prints itself.

        Its keys: ``name``, ``state``, ``detail``, ``description``, ``revision``, ``version`` (of
        the code), ``start_time``, ``end_time``, ``running_time_s``, ``tags``, ``groups``,
        ``keyed_tags``, ``parameters``, ``metadata``, ``metrics`` (of a series the last value, of
        what is kept instead of points what is kept), ``chronos`` (times in seconds) and ``errors``.
        What is not recorded is None or empty. Times are text, so that ``json.dumps`` takes it.

        Args:
            short: Leave out ``project``, ``id``, ``custom_id``, ``parent``, ``owner``,
                ``claimed_by``, ``hostname``, ``creation_time``, ``last_record``, ``edited``,
                ``trashed``, ``attempts``, ``environment``, ``distribution``, ``code``,
                ``progress``, ``inherited_tags``, ``changes``, ``masked``, ``health``, and the
                tracebacks of errors.
        """
        from seamark.reading.report import report_of_run, with_plain_values

        view = self.session.recorded.reader()
        attributes = self.session.recorded.attributes(reader=view)
        return with_plain_values(report_of_run(view, attributes, project=self.project, short=short))

    @property
    def checkpoints(self) -> str:
        """``"reference"`` or ``"keep"``: how checkpoint files are recorded."""
        return self.session.options.checkpoints

    @property
    def ranks(self) -> str:
        """``"zero"`` or ``"all"``: which ranks record."""
        return self.session.options.ranks

    @property
    def params(self) -> Params:
        """Hyperparameters of the run, a mapping to read and change, kept under ``parameters/``."""
        return Params(self.session)

    @property
    def tags(self) -> dict[str, Any]:
        """Keyed tags by key, as recorded up to now, with those of the projects above.

        They are kept under ``tags/``; tags without a key are those of ``sys/tags``. Of a run that
        is sent to a server they include what the projects say only there, which is asked once.
        """
        if self.session.recorder.silent:  # what it was given is all that it knows
            return self.session.introduction.tags()
        return super().tags | self.session.tags.server_tags()

    @property
    def transfers(self) -> list[dict[str, Any]]:
        """When the run was moved or sent, from where, to where and by whom, the oldest first.

        Of what ``remote=`` sends, it is when that began. ``name`` is that where the run came to.
        """
        return transfers_of(self.session.recorded.attributes(TRANSFERS))

    def to_dict(self) -> dict[str, Any]:
        """Return the whole run as JSON values, as ``seamark export --format json`` writes it.

        `seamark.from_dict` makes the run again. Bytes of files are not in it. Points lie in
        ``series``, ``texts``, ``files`` and ``histograms``, everything else in ``attributes``.
        """
        return self.session.recorded.document()

    def log_distribution(self, what: Any) -> dict[str, Any]:
        """Record under ``distributed/`` how a training is distributed.

        Args:
            what: A model as it is trained (DataParallel, DistributedDataParallel, FSDP, a DeepSpeed
                engine, XLA's wrappers), or the module or object that distributes: ``horovod.torch``
                and its like, ``torch_xla.core.xla_model``, ``torch.distributed``, a strategy of
                TensorFlow. It is known by its class and asked for plain facts; nothing is imported.

        Returns:
            What was recorded, by name.

        Raises:
            ArgumentError: If it is nothing of that kind.
            InactiveRunError: If the run was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        facts = distribution_of(what)
        atoms = {f"distributed/{name}": encode_atom(fact) for name, fact in facts.items()}
        self.session.recorder.values.record_atoms(atoms)
        return facts

    def mark_input(self, what: Any, *, name: str | None = None) -> None:
        """Record that the run reads something, under ``artifacts/inputs/<name>``.

        Args:
            what: A container (an artifact, another run, a model, ...), an existing path, whose
                files are recorded by their digests, ``"[PROJECT/]NAME:VERSION"`` of an artifact, a
                URL, or a `seamark.Reference`.
            name: What it is called in this run; None for its own name.

        Raises:
            ArgumentError: If it is nothing of that kind, if a text is a path and an artifact, or if
                this process called something else so.
            FileMissingError: If there is no such path.
            RunNotFoundError: If there is no such artifact.
            InactiveRunError: If the run was stopped, or an artifact is not saved yet.
            ReadOnlyError: If the run was opened for reading.
            OSError: If a file cannot be read.
        """
        self.session.shipping.send_along(self._associations.mark("input", what, name))

    def mark_output(self, what: Any, *, name: str | None = None) -> None:
        """Record that the run made something, under ``artifacts/outputs/<name>``.

        Arguments and errors are as in `mark_input`.
        """
        self.session.shipping.send_along(self._associations.mark("output", what, name))

    def lineage(self) -> Lineage:
        """Return the ancestors and descendants of this run, over all generations.

        These are its inputs and outputs, the runs that made or read them, and so on, in the same
        place.

        Raises:
            RunNotFoundError: If nothing was recorded yet.
        """
        from seamark.run.lineage import lineage_of

        self.session.recorded.view()  # with what was recorded up to now
        index = self.session.recorded.index
        index.refresh()
        return lineage_of(index, (self.folder.project, self.folder.run))

    @property
    def monitoring_namespace(self) -> str:
        """Path of this process's captured values: as given, or ``monitoring/<writer>``."""
        given = self.session.options.monitoring_namespace
        return given or "/".join(filter(None, ("monitoring", self.writer)))

    def plot(
        self,
        *paths: str,
        x: str = "step",
        smooth: float | None = None,
        log_x: bool = False,
        log_y: bool = False,
        attempt: Attempt = "latest",
        points: int = 1000,
        half_life: float | None = None,
        low: float | None = None,
        high: float | None = None,
        refresh: float | None = None,
    ) -> Any:  # a figure of plotly, which has no types
        """Return a figure of series of this run; see `Handler.plot` for arguments and errors.

        ``paths`` are series, namespaces, or patterns with ``*`` and ``?``.
        """
        look = Look(points, x, low, high, smooth, half_life, log_x, log_y)
        return plot_run(self.session.recorded, paths, PlotOptions(look, attempt), refresh)

    def chrono(
        self,
        name: str,
        *,
        keep: Keep | None = None,
        on_start: Callable[[], object] | None = None,
        on_end: Callable[[], object] | None = None,
        cuda: Literal["off", "events", "synchronize"] = "off",
    ) -> Chrono:
        """Return a timer of a block, ``with run.chrono("batch"):``, or as a decorator of functions.

        What the times come to, in seconds, is kept under ``chronos/<name>``, as by `Handler.keep`;
        inside of another block under ``chronos/<outer>/<name>``. A block inside itself counts where
        it stands already. What is raised inside goes on, and the block counts.

        Args:
            name: Path below ``chronos/``.
            keep: What is kept; ``seamark.Statistics()`` if left out.
            on_start: Called without arguments before the clock starts.
            on_end: Called without arguments before the clock stops, such as
                ``torch.cuda.synchronize``.
            cuda: ``"events"`` times what a GPU does, between two CUDA events, and waits for
                nothing; ``"synchronize"`` waits for it before the clock starts and before it stops.
                Without a device both are ``"off"``.

        Raises:
            PathError: If the name breaks the grammar of paths.
            ArgumentError: If another argument has a value that cannot be used.
        """
        return self._chronos.chrono(name, keep, on_start, on_end, cuda)

    def progress(
        self, iterable: Iterable[T], name: str, *, total: int | None = None, start: int = 0
    ) -> Progress[T]:
        """Return a loop over something, ``for epoch in run.progress(range(10), "epoch"):``.

        How far it and the loops inside of it are is recorded once a second, under
        ``sys/progress``; while the run lives, ``seamark show`` and ``seamark watch`` tell it.

        Args:
            iterable: What to iterate over.
            name: What the loop is called.
            total: How many rounds there are; None takes ``start`` and what ``len()`` says.
            start: How many were done before, by a training that this one goes on with.

        Raises:
            ArgumentError: If an argument has a value that cannot be used.
        """
        return self._loops.progress(iterable, name, total, start)

    def __getattr__(self, name: str) -> Any:
        from seamark.options.run_options import VERBS, also

        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}{also(VERBS, name)}",
            name=name,
            obj=self,
        )

    # ---------------------------------------------------------------- state

    def start(self) -> None:
        """Start a run that was recorded with ``start=False``.

        A process that opened such a run owns its state from then on. Where it was running once, and
        on ranks that record nothing, nothing happens; `set_state` sets one that has ended running.

        Raises:
            ArgumentError: If the run was opened with ``owner=False``, and has not begun.
            InactiveRunError: If it was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        self.session.start()

    def stragglers(self) -> list[RankTiming]:
        """Return how each rank is doing and how long its steps take, the slowest rank first.

        For runs that every rank recorded (``ranks="all"``), together with
        ``profiling/step_time_s`` and, better, ``profiling/own_time_s``.

        Raises:
            MissingFieldError: If only one rank recorded, or none the times of its steps.
        """
        from seamark.errors import MissingFieldError
        from seamark.reading.rank_text import rank_timings

        if self.session.recorded.is_empty:
            raise MissingFieldError(f"{self.folder.words}: nothing is recorded yet")
        return rank_timings(self.session.recorded.view())

    # ---------------------------------------------------------------- checkpoints and resuming

    def checkpoint_state(self, *, marked: bool | None = None) -> dict[str, Any]:
        """Return the state of this run for a checkpoint: see `resumed`.

        Strings, ints, dicts and None only: the run's id, its project, and how long every journal is
        now. Where a rank sees no journal, loading the checkpoint hides nothing.

        With ``ranks="all"`` every rank has to call this at the same place of the training: what it
        has recorded by then belongs to the checkpoint. Of a rank that never does, that is what it
        has recorded when the others save.

        Args:
            marked: Whether `mark_checkpoint` will be called when the last record was made that
                belongs to what the checkpoint holds. A framework may save in the middle of a step,
                and record the metrics of that step afterwards. None: that was made already.
        """
        here = marked is None and self.ranks == "all"
        state = self.session.resume.checkpoint_state(marked=bool(marked) or here)
        if here:
            self.mark_checkpoint()
        return state

    def mark_checkpoint(self) -> None:
        """Mark records from now on as later than the last checkpoint. Never raises."""
        self.session.resume.mark_checkpoint()

    def resumed(
        self, state: Mapping[str, Any], *, stay: bool = False, training: bool = True
    ) -> Run:
        """Return the run that a checkpoint was saved in, about to begin a new attempt.

        Readers hide by default what older attempts recorded after the checkpoint. A run that has
        recorded something of its own, that was opened by an id or with ``resume="never"``, or a
        checkpoint whose run is not below this root, leave everything as it is; the run then names
        where its weights come from under ``origin/run_id`` and ``origin/project``.

        Where `init_run` connected the ranks (``ranks="all"`` in a process group), every rank has to
        call this: rank 0 decides for all.

        Args:
            state: What `checkpoint_state` returned then.
            stay: Do not switch to another run.
            training: False where the checkpoint is only evaluated: no attempt begins, and only
                ``resume="must"`` switches to its run.

        Raises:
            ArgumentError: If it is not such a state.
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        saved = Saved.of(state)
        found = resume_checkpoint(self.session, saved, stay=stay, training=training)
        return self if found is self.session else Run(found)

    # ---------------------------------------------------------------- the end

    def set_state(
        self, state: str, *, detail: str | None = None, error: BaseException | None = None
    ) -> None:
        """Set the state of the run, where it is not detected automatically.

        A run is completed when it is stopped, and failed when an exception ends it. A state that
        was set stays until another one is set: `stop` only completes a run that is running.

        Args:
            state: ``"running"``, ``"interrupted"``, ``"failed"``, ``"suspended"``, ``"completed"``.
            detail: An additional word such as ``"broken"``, recorded as ``sys/state_detail``.
            error: Cause of the state; it is listed in `errors`, with secrets masked.

        Raises:
            ArgumentError: If the state cannot be set, or this process may not set it: see
                ``owner`` of `init_run`.
            InactiveRunError: If it was stopped.
            ReadOnlyError: If it was opened for reading.
        """
        self.session.set_state(state, detail=detail, error=error)

    def release(self) -> bool:
        """Give back a run that `seamark.Project.claim` returned, so that others may claim it.

        Stopping the run does the same.

        Returns:
            Whether it was still this process's, which may have counted as crashed since.
        """
        return self.session.hold is not None and self.session.hold.release()

    def stop(self, *, seconds: float | None = None) -> None:
        """Finish: store taken files, mark the run completed, force everything to disk.

        May be called twice.

        Args:
            seconds: How long to wait for files and the disk; None: as long as files are stored.
        """
        self.session.ending.finish("stop", seconds)

    def __enter__(self) -> Run:  # noqa: PYI034 - typing.Self is of Python 3.11
        if not self.session.options.start and self.session.recording:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop; an exception on its way out fails the run, Ctrl-C interrupts it."""
        self.session.ending.finish("stop", error=error)

    def __reduce__(self) -> Any:
        """Travel as one value; the copy opens a journal of its own when it records something."""
        return Run, (self.session,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        """Return the same run: copying a script's objects must not start another."""
        return self
