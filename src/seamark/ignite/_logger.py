"""Logger that attaches handlers to engines, and recorder of checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from seamark.ignite import _host
from seamark.ignite._handlers import OptimizerParamsHandler, OutputHandler, global_step_from_engine
from seamark.ignite._host import checked_tag, dropping, target_of
from seamark.ignite._watch import EngineWatch
from seamark.options.run_options import RunOptions, accept_options
from seamark.paths import join_path
from seamark.process.rank import connected
from seamark.run.adapters import (
    CheckpointSet,
    agreed_run,
    check_run,
    new_run,
    settle_at_exit,
    words_of,
)
from seamark.run.handler import Handler
from seamark.run.run import Run
from seamark.values import Atom

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CheckpointRecorder:
    """Record the new files of a ``Checkpoint`` or ``DiskSaver`` when called."""

    def __init__(self, logger: Any, handler: Any, tag: str | None) -> None:
        saver = getattr(handler, "save_handler", handler)
        folder = getattr(saver, "dirname", None)
        if not isinstance(folder, (str, os.PathLike)):
            raise TypeError(
                "attach_checkpoint: expected a Checkpoint or ModelCheckpoint that saves with a "
                f"DiskSaver, or a DiskSaver, got {type(handler)} with {type(saver)}"
            )
        target_of(logger, "attach_checkpoint")
        self._logger = logger
        self._handler = handler
        self._folder = os.path.abspath(folder)  # noqa: PTH100 - resolve() would follow links
        self._tag = checked_tag(tag, "attach_checkpoint") or ""
        self._files: CheckpointSet | None = None
        self._recorded_by: tuple[Run, int] | None = None

    def attach(self, engine: Any, event_name: Any) -> Any:
        """Check whenever an event, or one of several joined by ``|``, fires, and at completion."""
        wanted = _host.engine.EventsList() | _host.engine.Events.COMPLETED
        several = isinstance(event_name, _host.engine.EventsList)
        for event in event_name if several else [event_name]:
            wanted = wanted | event
        return engine.add_event_handler(wanted, self)

    def settle(self) -> None:
        """Synchronize the record with the disk at the end. Never raises."""
        self(is_end=True)

    def __call__(self, *_args: Any, is_end: bool = False, **_kwargs: Any) -> None:
        """Record the current files of the handler. Never raises."""
        run, base = target_of(self._logger, "attach_checkpoint")
        with dropping(run, "checkpoints", "checkpoints could not be recorded"):
            locations = self._locations()
            is_first = self._files is None
            if not run.session.speaks_for_all or (is_first and not locations):
                return  # nothing was saved yet: do not start the run
            if self._files is None or self._recorded_by != (run, os.getpid()):  # resumed or forked
                path = join_path(base, self._tag, "model/checkpoints")
                self._files = CheckpointSet(run, path, keep=run.checkpoints == "keep")
                self._recorded_by = (run, os.getpid())
            self._files.update(locations, self._folder)
            self._note_best(self._files)
            if is_first:  # registered now that the run has started, so that the run closes later
                settle_at_exit(self)
            if is_end:
                self._files.adopt(self._folder)
                self._files.settle()

    def _saved(self) -> list[tuple[float, str]]:
        """Return (priority, file name) of the files of a ``Checkpoint``, best one last."""
        return list(self._handler.state_dict()["_saved"])

    def _locations(self) -> list[str]:
        if hasattr(self._handler, "save_handler"):
            # Text, as in the record.
            return [os.path.join(self._folder, name) for _, name in self._saved()]  # noqa: PTH118
        files = sorted(Path(self._folder).glob("*.*"))  # a file being written has no extension
        return [str(path) for path in files if path.is_file() and not path.name.startswith(".")]

    def _note_best(self, files: CheckpointSet) -> None:
        if getattr(self._handler, "score_function", None) is None or not (saved := self._saved()):
            return
        score, name = saved[-1]
        files.note_best(os.path.join(self._folder, name), score)  # noqa: PTH118


# Path at which Neptune's logger for Ignite recorded the version.
_VERSION_PATH: Final = "source_code/integrations/neptune-pytorch-ignite"


@accept_options
class SeamarkLogger(_host.base.BaseLogger):  # type: ignore[misc] # of any release
    """An Ignite logger that records into a Seamark run.

    It accepts the arguments of Ignite's ``NeptuneLogger`` and writes the same fields. Item access
    and methods apply to the run: ``logger["parameters"] = {...}``. Nothing is written before the
    first record. Only rank 0 records, so that there is one run for all ranks. If the logger is in
    the ``to_save`` of a ``Checkpoint``, a training that loads the checkpoint continues the same run
    as a new attempt.

    With ``ranks="all"`` every rank records its series, those of rank n above 0 under
    ``ranks/<n>/``, and its step times: ``profiling/step_time_s`` and, if the logger records a
    parameter of the optimizer, ``profiling/own_time_s``, which excludes waiting for other ranks.
    Every rank must then create the logger and attach it to the training engine. The ranks agree on
    the run when the logger is created, if they are connected by then, and whenever the engine
    starts. Before that, ranks other than 0 record nothing.

    When the training engine starts, rank 0 records facts about the distribution under
    ``distributed/``: ``strategy`` (the backend), ``launcher``, ``world_size``, ``nodes``,
    ``devices`` of a node, ``accelerator``, and, if known, ``batch_size`` of a process,
    ``accumulate_grad_batches`` and ``effective_batch_size``.

    Args:
        run: An existing ``Run``, or a namespace such as ``run["folds/1"]``, instead of a new run.
            `close` leaves it open.
        **options: Of the run.

    Raises:
        ArgumentError: If arguments are invalid or contradict each other.
        UnknownArgumentError: If an argument does not exist; the message names the nearest one.
        PathError: If the project is invalid.
        RunNotFoundError: If the run of ``with_id`` does not exist.

    Example:
        ::

            with SeamarkLogger(project="digits", tags=["baseline"]) as logger:
                logger.attach_output_handler(
                    trainer,
                    event_name=Events.ITERATION_COMPLETED,
                    tag="training",
                    output_transform=lambda loss: {"loss": loss},
                )
                logger.attach_output_handler(
                    evaluator,
                    event_name=Events.EPOCH_COMPLETED,
                    tag="validation",
                    metric_names="all",
                    global_step_transform=global_step_from_engine(trainer),
                )
                trainer.run(loader, max_epochs=10)
    """

    def __init__(
        self,
        api_token: str | None = None,
        project: str | None = None,
        /,
        *,
        run: Run | Handler | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        given: dict[str, Any] = {"api_token": api_token, "project": project, **options}
        check_run(run, given)
        self._is_own = run is None
        self._experiment: Run | Handler = new_run(**given) if run is None else run
        self._watch = EngineWatch(self)
        if self._run.ranks == "all" and connected():
            self.agree_on_run()
        self._run.session.record_facts({_VERSION_PATH: Atom("string", _host.VERSION)})

    # ---------------------------------------------------------------- the run

    @property
    def experiment(self) -> Any:
        """The ``Run`` or the given namespace; it does nothing on ranks that do not record."""
        return self._experiment

    @property
    def _run(self) -> Run:
        root = self._experiment.get_root_object()
        assert isinstance(root, Run)  # noqa: S101 - check_run saw to it
        return root

    def __repr__(self) -> str:
        return words_of(self, self._run if "_experiment" in self.__dict__ else None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.__dict__.get("_experiment"), name)

    def __getitem__(self, key: str) -> Handler:
        return self._experiment[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._experiment[key] = value

    def __delitem__(self, key: str) -> None:
        del self._experiment[key]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; a propagating exception fails the run."""
        if self._is_own:
            self._run.__exit__(kind, error, trace)

    def close(self) -> None:
        """Finish the run, unless it was given as ``run``. May be called repeatedly.

        A run that is closed while an exception is being handled counts as failed or interrupted.
        """
        self.__exit__(*sys.exc_info())

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the run for a checkpoint: its id, and the position of its records."""
        run = self._run
        return run.checkpoint_state(marked=run.session.recording and self._watch.expect_step())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue the run of a checkpoint as a new attempt.

        Call it before anything is recorded, for example by ``Checkpoint.load_objects`` at the start
        of a script. A logger with ``run``, ``with_id`` or ``custom_run_id`` does not switch.

        Args:
            state_dict: Result of `state_dict`.

        Raises:
            ArgumentError: If it is not such a state.
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        found = self._run.resumed(state_dict, stay=not self._is_own)
        if self._is_own:
            self._experiment = found

    def agree_on_run(self) -> None:
        """Agree with all ranks on the run of rank 0. Every rank must call this.

        Needed only if ranks other than 0 record; with ``ranks="all"`` it is done whenever the
        training engine starts. Otherwise, a run with a given id, or one that was pickled in the
        process that created the logger, is the same on all ranks anyway.

        Raises:
            ArgumentError: If ``ranks="all"`` and the ranks are not connected yet.
        """
        if self._run.ranks != "all" and self._run.session.policy.common_id:
            return
        agreed, here = agreed_run(self._run), self._experiment
        self._experiment = agreed[here.path] if isinstance(here, Handler) else agreed

    # ---------------------------------------------------------------- attaching

    def attach(
        self,
        engine: Any,
        log_handler: Callable[..., Any],
        event_name: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Call a handler with (engine, logger, event name, ...) whenever an event fires.

        Args:
            engine: The engine.
            log_handler: One of the handlers of this package, or a function.
            event_name: An event, with or without a filter, several joined by ``|``, or a registered
                event that the engine's state counts.
            *args: Passed to the handler.
            **kwargs: Passed to the handler.

        Returns:
            Ignite's ``RemovableEventHandle``.

        Raises:
            TypeError: If the engine is not an ``Engine``.
            RuntimeError: If an event is unknown; nothing is attached then.
        """
        _host.check_engine(engine, "engine")
        several = isinstance(event_name, _host.engine.EventsList)
        events = list(event_name) if several else [event_name]
        for event in events:
            if event not in _host.engine.State.event_to_attr:
                raise RuntimeError(f"Unknown event name '{event}'")
        self._watch.look_at(engine, log_handler, times=self._run.ranks == "all")
        for event in events:
            engine.add_event_handler(event, log_handler, self, event, *args, **kwargs)
        return _host.engine.RemovableEventHandle(event_name, log_handler, engine)

    def attach_checkpoint(
        self, engine: Any, handler: Any, event_name: Any, tag: str | None = None
    ) -> Any:
        """Record the files of a ``Checkpoint`` or ``ModelCheckpoint`` on disk.

        The handler itself must be attached first. Each file is recorded below
        ``<tag>/model/checkpoints`` until the handler removes it, with ``best_model_path`` and
        ``best_model_score`` next to them if the handler has a score.

        Args:
            engine: The engine to which the handler is attached.
            handler: A handler that saves with a ``DiskSaver``, or a ``DiskSaver``.
            event_name: The event to which the handler is attached.
            tag: Namespace; None for none.

        Returns:
            Ignite's ``RemovableEventHandle``.

        Raises:
            TypeError: If the engine is not an ``Engine``, or the handler does not save with a
                ``DiskSaver``.
            PathError: If the tag is not a valid path.
        """
        _host.check_engine(engine, "engine")
        return CheckpointRecorder(self, handler, tag).attach(engine, event_name)

    def _create_output_handler(self, *args: Any, **kwargs: Any) -> OutputHandler:
        return OutputHandler(*args, **kwargs)

    def _create_opt_params_handler(self, *args: Any, **kwargs: Any) -> OptimizerParamsHandler:
        return OptimizerParamsHandler(*args, **kwargs)


NeptuneLogger = SeamarkLogger
"""Alias of the class, named as in Ignite."""


def setup_seamark_logging(
    trainer: Any,
    optimizers: Any = None,
    evaluators: Any = None,
    log_every_iters: int | None = 100,
    *,
    trainer_metric_names: str | list[str] = "all",
    evaluator_metric_names: str | list[str] = "all",
    **kwargs: Any,
) -> SeamarkLogger:
    """Return a logger attached to a trainer, its optimizers and evaluators.

    It records the trainer's metrics under ``training``, the learning rates, and each evaluator's
    metrics at the trainer's epoch, under the key of the evaluator or ``validation``.

    Args:
        trainer: The engine that trains.
        optimizers: One optimizer, or several by namespace.
        evaluators: One engine, or several by namespace.
        log_every_iters: Number of iterations of the trainer between two records; None means 1.
        trainer_metric_names: Names of metrics, or ``"all"``.
        evaluator_metric_names: Names of metrics, or ``"all"``.
        **kwargs: Arguments of `SeamarkLogger`.

    Raises:
        TypeError: If the trainer, optimizers or evaluators have the wrong type; nothing is attached
            then.
    """
    _host.check_engine(trainer, "trainer")
    by_name = _by_name(optimizers, None, lambda one: hasattr(one, "param_groups"), "optimizers")
    engines = _by_name(
        evaluators, "validation", lambda one: isinstance(one, _host.engine.Engine), "evaluators"
    )
    events, every = _host.engine.Events, 1 if log_every_iters is None else log_every_iters
    step = global_step_from_engine(trainer)
    # All handlers are created before one is attached, because each checks its arguments.
    trained = OutputHandler("training", trainer_metric_names)
    rates = [OptimizerParamsHandler(one, "lr", name) for name, one in by_name.items()]
    evaluated = [
        OutputHandler(name, evaluator_metric_names, global_step_transform=step) for name in engines
    ]
    at_start = events.ITERATION_STARTED(every=every)
    logger = SeamarkLogger(**kwargs)
    logger.attach(trainer, trained, events.ITERATION_COMPLETED(every=every))
    for rate in rates:
        logger.attach(trainer, rate, at_start)
    for engine, handler in zip(engines.values(), evaluated, strict=True):
        logger.attach(engine, handler, events.COMPLETED)
    return logger


def _by_name(
    given: Any, name: str | None, is_one: Callable[[Any], bool], what: str
) -> Mapping[str | None, Any]:
    if given is None:
        return {}
    found = given if isinstance(given, Mapping) else {name: given}
    for key, one in found.items():
        if not is_one(one):
            got = f"{type(one)} under {key!r}" if found is given else f"{type(given)}"
            raise TypeError(
                f"Argument {what} should be either a single one or a dictionary, got {got}"
            )
    return {key if key is None else str(key): one for key, one in found.items()}
