"""Logger that translates calls of Lightning to records of a run."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import Unpack

from seamark.errors import InactiveRunError, PathError, ReadOnlyError
from seamark.journal.folder import check_location
from seamark.lightning import _host
from seamark.lightning._callbacks import time_ranks
from seamark.lightning._host import (
    DeprecatedMethods,
    batch_facts,
    check_legacy,
    configuration,
    facts,
    hide_in_files,
    set_aside,
    settings,
)
from seamark.lightning._resume import LOGGERS, Checkpoints, attach_late
from seamark.options.checks import check_switch, naming
from seamark.options.run_options import RunOptions, accept_options
from seamark.options.settings import check_argument
from seamark.paths import check_path, join_path
from seamark.process.interrupts import formattable, let_pass
from seamark.run.adapters import agreed_run, check_run, guarded, new_run, words_of
from seamark.run.handler import Handler
from seamark.run.run import Run
from seamark.types import File
from seamark.values import Atom, encode_atom, parameters

log = logging.getLogger("seamark")

_VERSION_PATH: Final = "source_code/integrations/pytorch-lightning"
_OF_THE_LOGGER_TOO: Final = frozenset({"checkpoints", "on_duplicate", "ranks", "resume"})
"""Run arguments that are also allowed for a logger of an existing run."""


class MetricPaths(dict[str, str]):
    """Cache of attribute paths by metric name."""

    def __init__(self, prefix: str) -> None:
        super().__init__()
        self.prefix = prefix

    def __missing__(self, name: str) -> str:
        path = self[name] = f"{self.prefix}/{name}" if self.prefix else str(name)
        return path


@accept_options
@_host.configurable
class SeamarkLogger(DeprecatedMethods):
    """A Lightning logger that records a training into a Seamark run.

    It accepts the arguments of the ``NeptuneLogger`` that Lightning removed in 2026, and writes the
    same namespaces. Nothing is written before the first value. Unless ``ranks="all"``, only rank 0
    records, and ``experiment`` does nothing on other ranks.

    Args:
        api_key: Alias of ``api_token``, as in other loggers.
        run: An existing ``Run``, or a namespace such as ``run["folds/1"]``, instead of a new run.
            Only the options ``checkpoints``, ``on_duplicate``, ``ranks`` and ``resume`` can be
            combined with it.
        log_model_checkpoints: Whether to record the files of checkpoint callbacks.
        prefix: Namespace for everything that this logger writes; empty for none.
        save_dir: Folder for Lightning's files, by default ``<run folder>/files``. Checkpoints are
            saved in ``<save_dir>/<name>/<version>/checkpoints``.
        log_graph: Whether to store the model's structure under ``<prefix>/model/graph``. A forward
            pass is made only if the module has an ``example_input_array``.
        agg_key_funcs: Accepted and without effect.
        agg_default_func: Accepted and without effect.
        **options: Of the run.

    With ``ranks="all"`` every rank records its metrics, rank n above 0 under
    ``<prefix>/ranks/<n>/``, and its step times, ``profiling/step_time_s`` and
    ``profiling/own_time_s``. Every rank must then have the logger: at the start of a stage the
    ranks agree on the run of rank 0, and other ranks record nothing before that. `ResumeCallback`
    describes the effect of ``resume`` on ``fit``.

    Raises:
        ArgumentError: If arguments are invalid, contradict each other, or belong to an older
            logger.
        UnknownArgumentError: If an argument does not exist; the message names the nearest one.
        PathError: If the prefix or the project is invalid.
        RunNotFoundError: If the run of ``with_id`` does not exist.

    Example:
        ::

            from seamark.lightning import SeamarkLogger

            logger = SeamarkLogger(project="digits", tags=["baseline"])
            trainer = Trainer(max_epochs=10, logger=logger)
            trainer.fit(model)
            logger.experiment["note"] = "trained on the old split"
    """

    LOGGER_JOIN_CHAR = "/"

    def __init__(
        self,
        *,
        api_key: str | None = None,
        run: Run | Handler | None = None,
        log_model_checkpoints: bool | None = True,
        prefix: str | None = "training",
        save_dir: str | os.PathLike[str] | None = None,
        log_graph: bool = False,
        agg_key_funcs: Mapping[str, Callable[[Sequence[float]], float]] | None = None,
        agg_default_func: Callable[[Sequence[float]], float] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        check_legacy(options)
        check_switch("SeamarkLogger: log_model_checkpoints", log_model_checkpoints)
        check_switch("SeamarkLogger: log_graph", log_graph)
        for key in _OF_THE_LOGGER_TOO:
            check_argument(key, options.get(key))
        described = {key: one for key, one in options.items() if key not in _OF_THE_LOGGER_TOO}
        check_run(run, {"api_key": api_key, **described})
        check_location("save_dir", save_dir)
        super().__init__()
        if agg_key_funcs is not None or agg_default_func is not None:
            warnings.warn(
                "SeamarkLogger: agg_key_funcs and agg_default_func have no effect",
                UserWarning,
                stacklevel=2,
            )
        with naming("SeamarkLogger: prefix", PathError):
            path = check_path(prefix) if prefix else ""
        self._is_own = run is None
        self._experiment: Run | Handler = (
            new_run(api_key=api_key, **options) if run is None else run
        )
        root = self._experiment.get_root_object()
        self._base = run.path if isinstance(run, Handler) else ""
        self._prefix = join_path(self._base, path)
        self._save_dir = None if save_dir is None else os.fspath(save_dir)
        self._files_dir = self._save_dir
        self._log_model_checkpoints = bool(log_model_checkpoints)
        # A new run already has the argument, possibly from a file.
        kept = (run is not None and options.get("checkpoints")) or root.checkpoints
        self._keep = kept == "keep"
        self._log_graph = log_graph
        self._has_set_aside = self._has_warned = False
        self._record_into(root)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_checkpoints": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the logger of the same run in another process; nothing is created."""
        self.__dict__.update(state)
        self._record_into(self._run)

    def __repr__(self) -> str:
        return words_of(self, self.__dict__.get("_run"))

    @property
    def name(self) -> str:
        """Name of the run, or its project, as a valid folder name."""
        return _host.folder_name(self._run.name or self._run.project.rpartition("/")[2])

    @property
    def version(self) -> str:
        """Id of the run."""
        return self._run.id

    @property
    def save_dir(self) -> str:
        """Folder for Lightning's files: the given one, or that of the run.

        If the run's folder is not writable, it is the current folder.
        """
        if self._files_dir is None:
            folder = self._run.folder.files_dir
            self._files_dir = str(folder)
            if not (self._run.session.recorder.silent or _can_hold(folder)):
                self._files_dir = os.getcwd()  # noqa: PTH109 - the default of Lightning
                log.warning("seamark: %s is not writable: Lightning uses another folder", folder)
        return self._files_dir

    @property
    def log_dir(self) -> str:
        """Folder of this run below `save_dir`, in which checkpoints are saved."""
        return os.path.join(self.save_dir, self.name, self.version)  # noqa: PTH118 - maybe a URL

    @property
    def own_run(self) -> Run:
        """The run itself, even if `experiment` is one of its namespaces."""
        return self._run

    @property
    def experiment(self) -> Any:
        """The ``Run`` or the given namespace; it does nothing on ranks that do not record."""
        return self._experiment

    run = experiment
    """Alias of `experiment`."""

    # ---------------------------------------------------------------- calls of Lightning

    def log_metrics(self, metrics: Mapping[str, Any], step: float | None = None) -> None:
        """Record numbers or tensors with one element at one step.

        ``step`` is recorded as passed by Lightning; None numbers the points.
        """
        try:
            if (run := self._recording()) is not None:
                paths = self._series
                run.log_metrics({paths[name]: value for name, value in metrics.items()}, step)
        except Exception as error:  # noqa: BLE001 - as guarded, without its cost
            self._lost("log_metrics", error)

    @guarded
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *_args: Any, **_kwargs: Any
    ) -> None:
        """Record new and changed hyperparameters under ``<prefix>/hyperparams``.

        Accepts a mapping, Namespace, dataclass or OmegaConf, possibly nested. Types are kept, and
        nothing is called.
        """
        found = parameters(params, self._path(self.PARAMETERS_KEY))
        self._recording()
        self._note(found)  # on all ranks, so that run.params is the same everywhere

    @guarded
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Begin a stage, and store the structure of the model if requested.

        A forward pass is made with ``example_input_array``, never with ``input_array``.
        """
        trainer = None
        with contextlib.suppress(RuntimeError):  # 2.x raises without one
            trainer = getattr(model, "trainer", None)
        if trainer is not None:
            self._begin_stage(trainer)
        path = self._path("model/graph")
        if self._log_graph and self._run.session.speaks_for_all and path not in self._noted:
            # A forward pass of a sharded model on a single rank would block forever.
            alone = trainer is None or trainer.world_size == 1
            has_example = getattr(model, "example_input_array", None) is not None
            graph = _host.model_summary(model) if alone and has_example else str(model)
            self._keep_text(path, graph, "txt")

    @guarded
    def log_model_summary(self, model: Any, max_depth: int = -1) -> None:
        """Store Lightning's table of layers under ``<prefix>/model/summary``.

        ``max_depth`` is the number of levels of layers; -1 shows all.
        """
        if self._run.session.speaks_for_all:
            self._keep_text(
                self._path("model/summary"), _host.model_summary(model, max_depth), "txt"
            )

    @guarded
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Record the current files of a checkpoint callback or of a weak proxy to it."""
        if self._log_model_checkpoints and self._run.session.speaks_for_all:
            self._recording()
            self._checkpoints.saved(checkpoint_callback)

    @guarded
    def finalize(self, status: str) -> None:
        """Record the end of a stage. The run stays open and continues with the next stage.

        ``status`` is ``"success"``, ``"failed"`` or ``"finished"`` (a job that continues later).
        """
        run = self._run
        # A failed start (an existing folder, an argument) is not part of a run recorded by others.
        # After a restart, however, it ends the same job.
        restarted = run.session.resume.restarted_as is not None
        untouched = run.writer is None and not restarted and run.folder.journals()
        if run.session.recorder.silent or (status == "failed" and untouched):
            return
        self._checkpoints.settle()
        self._note({self._path("status"): Atom("string", str(status))})
        state, error = _host.state_after(status, sys.exc_info()[1])
        if state not in (None, run.written_state):
            run.session.rest(state, error=error)
        # A stage may fail between saving a configuration and `log_graph`.
        hide_in_files(run.folder.files_dir, run.session.secrets)
        self._began_in = 0  # no process

    # ---------------------------------------------------------------- calls of `ResumeCallback`

    @guarded
    def set_configurations_aside(self) -> None:
        """Rename configurations of earlier starts, which LightningCLI does not replace."""
        uses_cli = any(f"{package}.cli" in sys.modules for package in _host.PACKAGES)
        is_done = self._has_set_aside or self._save_dir is not None
        if uses_cli and not is_done and not self._run.session.recorder.silent:
            self._has_set_aside = True
            set_aside(self._run.folder.files_dir)

    def checkpoint_state(self, *, marked: bool = False) -> dict[str, Any]:
        """Return the state of the run for a checkpoint; see ``Run.checkpoint_state``."""
        return {**self._run.checkpoint_state(marked=marked), "prefix": self._prefix}

    def resume(self, state: Mapping[str, Any], *, training: bool) -> None:
        """Continue the run of a checkpoint; see ``Run.resumed``."""
        self._switch(self._run.resumed(state, stay=not self._is_own, training=training))

    def follow(self, run: str, project: str) -> None:
        """Switch to the run of rank 0, whatever the disk of this rank contains."""
        is_same = (run, project) == (self._run.id, self._run.project)
        if self._is_own and self._run.writer is None and not is_same:
            self._switch(Run(self._run.session.at(run, project)))

    @guarded
    def begin_training(self, trainer: Any) -> None:
        """Record the number of samples in a step, known once the trainer has its data."""
        if self._run.session.speaks_for_all:
            self._note_facts(batch_facts(trainer))

    # ---------------------------------------------------------------- internals

    def _switch(self, run: Run) -> None:
        self._files_dir = self._save_dir  # also for a run that switched to the id of rank 0
        if run is not self._run:
            # LightningCLI has already saved its configuration next to the run that does not start.
            hide_in_files(self._run.folder.files_dir, self._run.session.secrets)
            self._experiment = run
            self._record_into(run)

    def _record_into(self, run: Run) -> None:
        self._run = run
        self._series = MetricPaths(self._prefix)
        self._checkpoints = Checkpoints(run, self._path("model"), keep=self._keep)
        self._noted: dict[str, Atom] = {}
        self._began_in = 0
        LOGGERS.add(self)

    def _path(self, *parts: str) -> str:
        return join_path(self._prefix, *parts)

    def _recording(self) -> Run | None:
        """Return the run if this process records; start it after a fork and after a stage."""
        run = self._run
        if self._began_in != os.getpid():
            if run.session.recorder.silent:
                return None
            self._began_in = os.getpid()
            self._series = MetricPaths(run.session.series_base(self._prefix))
            self._note({_VERSION_PATH: Atom("string", _host.VERSION)})
            if run.written_state == "completed":
                run.session.go_on()
        return run

    def _note(self, atoms: Mapping[str, Atom]) -> None:
        new = {path: atom for path, atom in atoms.items() if self._noted.get(path) != atom}
        # If the disk is full, the next stage tries again.
        if new and self._run.session.record_atoms(new):
            self._noted.update(new)

    def _begin_stage(self, trainer: Any) -> None:
        attach_late(trainer)
        if self._run.ranks == "all":  # called on every rank at every stage
            if self._is_own:  # otherwise the creator of the run did it, on every rank
                self._switch(agreed_run(self._run))
            time_ranks(trainer)
        run = self._run
        if not run.session.speaks_for_all:
            return
        if trainer.state.fn == "fit":
            run.session.own()
            ended_badly = run.written_state in {"failed", "interrupted"}
            if ended_badly and not trainer.global_step and not trainer.ckpt_path:
                # The steps of this training overlap with those of the last.
                run.session.resume.begin_again()
        if run.written_state in {"created", "completed", "failed", "interrupted"}:
            run.session.go_on()
        hide_in_files(run.folder.files_dir, run.session.secrets)
        if self._log_model_checkpoints:
            self._checkpoints.watch(trainer.checkpoint_callbacks)
        self._recording()
        self._note_facts(facts(trainer))
        self._note_settings(trainer)

    def _note_facts(self, found: Mapping[str, Any]) -> None:
        self._note(
            {
                join_path(self._base, "distributed", name): encode_atom(fact)
                for name, fact in found.items()
            }
        )

    def _note_settings(self, trainer: Any) -> None:
        text, sections = configuration(trainer, self._run.session.secrets)
        if trainer.state.fn == "fit":
            sections["trainer"] = {**sections.get("trainer", {}), **settings(trainer)}
        if sections:
            self._note(parameters(sections, self._prefix))
        if text:
            self._keep_text(self._path("config"), text, "yaml")

    def _keep_text(self, path: str, text: str, extension: str) -> None:
        whole = Atom("string", text)
        if self._noted.get(path) != whole and self._recording() is not None:
            self._run[path].upload(File.from_content(text, extension=extension))
            self._noted[path] = whole

    def _lost(self, method: str, error: Exception) -> None:
        let_pass(error)
        warn = f"{method}: {type(error).__name__}: {formattable(error)}"
        if self._run.writer is not None and not isinstance(error, InactiveRunError | ReadOnlyError):
            self._run.session.drop(f"lightning.{method}", warn=warn)
        elif not self._has_warned:  # a run that is not open neither warns nor counts
            self._has_warned = True
            log.warning("seamark: the logger records nothing (%s)", warn)


def _can_hold(folder: Path) -> bool:
    while not os.path.lexists(folder):
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


# For an argument of any type, LightningCLI passes its own partially parsed values.
SeamarkLogger.__init__.__annotations__["params"] = Mapping[str, Any] | None

NeptuneLogger = SeamarkLogger
"""Alias of the class, named as in Lightning."""
