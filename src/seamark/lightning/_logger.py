"""The logger: what Lightning says becomes records of one run."""

from __future__ import annotations

import inspect
import logging
import os
import re
import sys
import warnings
import weakref
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, get_type_hints

from seamark.errors import ArgumentError, InactiveRunError, ReadOnlyError
from seamark.lightning import _host
from seamark.lightning._arguments import check_prefix, check_values, of_the_run
from seamark.lightning._base import RunLogger
from seamark.lightning._callbacks import time_ranks
from seamark.lightning._checkpoints import Checkpoints
from seamark.lightning._deprecated import DeprecatedMethods, check_legacy
from seamark.lightning._experiment import silent_experiment
from seamark.lightning._resume import attach, attach_late
from seamark.lightning._settings import (
    batch_facts,
    configuration,
    facts,
    hide_in_files,
    set_aside,
    settings,
)
from seamark.lightning._translate import (
    MetricPaths,
    can_hold,
    folder_name,
    masked,
    state_after,
)
from seamark.paths import join_path
from seamark.process.interrupts import let_pass
from seamark.process.rank import current_rank
from seamark.run.adapters import check_run, guarded, new_run, words_of
from seamark.run.handler import Handler
from seamark.run.run import Run
from seamark.types import File
from seamark.values import Atom, encode_atom, parameters

__all__ = ["NeptuneLogger", "SeamarkLogger"]

log = logging.getLogger("seamark")

_VERSION_PATH: Final = "source_code/integrations/pytorch-lightning"
_OF_THE_LOGGER_TOO: Final = frozenset({"checkpoints", "on_duplicate", "ranks", "resume"})
"""Arguments of a run that a logger of an existing run may have as well."""
_NOT_PICKLED: Final = {
    "_agreed_in": None,
    "_api_key": None,
    "_began_in": None,
    "_checkpoints": None,
    "_fitting": None,
    "_held": None,
}


class SeamarkLogger(DeprecatedMethods, RunLogger):
    """A Lightning logger that records a training into a Seamark run.

    It takes the arguments of the ``NeptuneLogger`` that Lightning removed in 2026, and writes the
    same namespaces. Nothing is on disk before the first value. Unless ``ranks="all"``, other ranks
    than 0 record nothing; ``experiment`` is a stand-in there.

    Args:
        api_key: For remotes. Held in memory only; never pickled, never recorded.
        project: Path of the project, such as ``"team/mnist"``; else SEAMARK_PROJECT,
            NEPTUNE_PROJECT or ``"default"``.
        name: Shown name of the run, free text.
        run: An existing ``Run``, or a namespace of one such as ``run["folds/1"]``, instead of a new
            run.
        log_model_checkpoints: Whether to record what the checkpoint callbacks save.
        prefix: Namespace for everything that this logger writes; empty for none.
        save_dir: Where Lightning puts files: ``<save_dir>/<name>/<version>/checkpoints``. By
            default a folder of the run's own: ``<run folder>/files/checkpoints``.
        checkpoints: ``"reference"`` records where checkpoints are, ``"keep"`` takes their bytes
            into the run folder. By default what the run says.
        log_graph: Whether to keep the model's structure under ``<prefix>/model/graph``. A forward
            pass is made only if the module has an ``example_input_array``.
        ranks: ``"zero"``: rank 0 records. ``"all"``: every rank records its metrics, rank n above 0
            under ``<prefix>/ranks/<n>/``, and the times of its steps, ``profiling/step_time_s`` and
            ``profiling/own_time_s``. Every rank has to have the logger then: when a stage begins
            they agree on the run of rank 0, and until then other ranks record nothing.
        resume: ``"auto"``: where ``fit`` loads a checkpoint, or the job was restarted, go on with
            that run as a new attempt. ``"never"``: record a new run. ``"must"``: refuse to train if
            there is no run to go on with. See `ResumeCallback`.
        on_duplicate: What is done if the project has a run with the same ``params`` and the same
            code: ``"new"`` begins another, ``"reuse"`` goes on with it, ``"error"`` refuses.
        config_path: A YAML or JSON file that says some of these; see ``seamark.init_run``.
        tags: Tags of the run: one string or several, or a mapping of keys to values.
        groups: Names of the groups that the run is in.
        parent: The run that this one is a part of, its id, or ``PROJECT/ID``.
        description: Of the run, free text.
        params: Hyperparameters, kept under ``parameters/``.
        keep: What is kept of fast series in place of their points, by path or pattern; see
            `seamark.Handler.keep`.
        custom_run_id: A name under which several processes find the same run;
            SEAMARK_CUSTOM_RUN_ID.
        with_id: Id of an existing run to record into.
        mode: ``"online"``, ``"async"`` and ``"sync"`` are the same; ``"offline"`` sends nothing;
            ``"read-only"`` opens ``with_id`` for reading; ``"disabled"`` does nothing; ``"debug"``
            records into a temporary root. SEAMARK_MODE.
        root: Folder of all runs; SEAMARK_DIR or ``./.seamark``.
        owner: Whether this process decides the run's state; None: if it creates the run or trains
            in it.
        start: False has the run wait, in state ``"created"``, until a stage of a trainer begins or
            a point is recorded.
        remote: Where the run is sent while it is recorded: the address of a Seamark server, another
            root (``"file:///mnt/runs"``), or several; SEAMARK_REMOTE. Checkpoints are kept by
            default then.
        conflict: What becomes of a new run where another one of its project has its ``name`` at a
            remote: ``"new"``, ``"skip"``, ``"error"`` or ``"replace"``; see ``seamark.init_run``.
        make_project: False refuses a project that is not there at a remote; else it is made.
        api_token: The same as ``api_key``, by its name in ``init_run``.
        git_ref: A repository's path, or False to record nothing of git.
        code_version: What the code is called, or a function that returns it; see
            ``seamark.init_run``.
        source_files: Files to store under ``source_code/files``: paths, folders and patterns; the
            script that runs by default.
        dependencies: ``"infer"``, or the path of a requirements file to keep.
        capture_stdout: Whether to record what Python code prints; ``"fd"``: also what C libraries
            and subprocesses write.
        capture_stderr: The same for what goes to standard error.
        capture_limit: How much output is recorded, such as ``"1MiB/min, 500MiB"``.
        capture_hardware_metrics: Whether to record what CPU, memory, disk, network and GPUs do.
        capture_traceback: Whether to record the traceback of an uncaught exception.
        capture_script: Whether to record the script or the notebook, its arguments, and a version
            of the code, secrets masked.
        capture_packages: Whether to record the versions of Python and of installed packages.
        capture_host: Whether to record where the process runs, and what hardware the host has.
        capture_git: Whether to record commit, branch, dirty state and remote, what has changed
            since the commit, and the names of untracked files.
        capture_signals: Whether to mark the run when SIGTERM arrives.
        monitoring_namespace: Path to use instead of ``monitoring/<writer>``.
        fail_on_exception: Whether an uncaught exception fails the run.
        mask_secrets: Whether what looks like a secret is recorded as ``***``; SEAMARK_MASK_SECRETS.
        secrets: What else is one: names such as ``"patient_id"``, and regular expressions of values
            (`re.compile`); SEAMARK_SECRETS.
        agg_key_funcs: Accepted and without effect.
        agg_default_func: Accepted and without effect.
        **others: Arguments of Neptune's that have no meaning here.

    Raises:
        ArgumentError: If arguments contradict each other, belong to an older logger, or have no
            legal value.
        UnknownArgumentError: If an argument does not exist; the nearest one is named.
        PathError: If the prefix or the project breaks the grammar.
        RunNotFoundError: If ``with_id`` names no run.

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
        project: str | None = None,
        name: str | None = None,
        run: Run | Handler | None = None,
        log_model_checkpoints: bool | None = True,
        prefix: str | None = "training",
        save_dir: str | os.PathLike[str] | None = None,
        checkpoints: Literal["reference", "keep"] | None = None,
        log_graph: bool = False,
        ranks: Literal["zero", "all"] = "zero",
        resume: Literal["auto", "never", "must"] = "auto",
        on_duplicate: Literal["new", "reuse", "error"] = "new",
        config_path: str | os.PathLike[str] | None = None,
        tags: str | Iterable[str] | Mapping[str, Any] | None = None,
        groups: str | Iterable[str] | None = None,
        parent: Run | str | None = None,
        description: str | None = None,
        params: Any = None,
        keep: Mapping[str, Any] | None = None,
        custom_run_id: str | None = None,
        with_id: str | None = None,
        mode: Literal["online", "async", "sync", "offline", "read-only", "disabled", "debug"]
        | None = None,
        root: str | os.PathLike[str] | None = None,
        owner: bool | None = None,
        start: bool | None = None,
        remote: str | Iterable[str] | None = None,
        conflict: Literal["new", "skip", "error", "replace"] | None = None,
        make_project: bool | None = None,
        api_token: str | None = None,
        git_ref: bool | str | os.PathLike[str] | None = None,
        code_version: str | Callable[[], str] | None = None,
        source_files: str | Iterable[str] | None = None,
        dependencies: str | os.PathLike[str] | None = None,
        capture_stdout: bool | Literal["fd"] | None = None,
        capture_stderr: bool | Literal["fd"] | None = None,
        capture_limit: str | None = None,
        capture_hardware_metrics: bool | None = None,
        capture_traceback: bool | None = None,
        capture_script: bool | None = None,
        capture_packages: bool | None = None,
        capture_host: bool | None = None,
        capture_git: bool | None = None,
        capture_signals: bool | None = None,
        monitoring_namespace: str | None = None,
        fail_on_exception: bool | None = None,
        mask_secrets: bool | None = None,
        secrets: Iterable[str | re.Pattern[str]] | None = None,
        agg_key_funcs: Mapping[str, Callable[[Sequence[float]], float]] | None = None,
        agg_default_func: Callable[[Sequence[float]], float] | None = None,
        **others: Any,
    ) -> None:
        given = of_the_run(locals())
        check_legacy(others)
        check_values(
            switches={"log_model_checkpoints": log_model_checkpoints, "log_graph": log_graph},
            of_run={
                "checkpoints": checkpoints,
                "on_duplicate": on_duplicate,
                "ranks": ranks,
                "resume": resume,
            },
        )
        described = {key: given[key] for key in given if key not in _OF_THE_LOGGER_TOO}
        check_run(run, {"api_key": api_key, **described, **others})
        super().__init__()
        if agg_key_funcs is not None or agg_default_func is not None:
            msg = "SeamarkLogger: agg_key_funcs and agg_default_func have no effect"
            warnings.warn(msg, UserWarning, stacklevel=2)
        self._experiment: Run | Handler = (
            new_run(api_key=api_key, **given, **others) if run is None else run
        )
        self._is_own = run is None
        of_it = self._experiment.get_root_object()
        assert isinstance(of_it, Run)  # noqa: S101 - check_run saw to it
        self._run = of_it
        base = run.path if isinstance(run, Handler) else ""
        self._prefix = check_prefix(prefix) if prefix else ""
        self._base = base
        self._paths = self._series = MetricPaths(join_path(base, self._prefix))
        self._api_key = api_key or api_token
        if save_dir is not None and not isinstance(save_dir, (str, os.PathLike)):
            msg = f"save_dir: expected a path or None, got {type(save_dir).__name__}"
            raise ArgumentError(msg)
        self._save_dir = None if save_dir is None else os.fspath(save_dir)
        self._log_model_checkpoints = bool(log_model_checkpoints)
        said = checkpoints if run is not None else None  # else the run was told, also by a file
        self._keep = (said or of_it.checkpoints) == "keep"
        self._log_graph = log_graph
        self._noted: dict[str, Atom] = {}
        self._checkpoints: Checkpoints | None = None
        self._began_in: int | None = None
        self._agreed_in: int | None = None
        self._fitting: Any = None
        self._held: list[Callable[[], None]] | None = None
        self._has_room = self._told = self._elsewhere_told = False
        self._failed_with: int | None = None  # only its id: an error holds on to all frames
        self._default_dir: str | None = None
        self._can_hold: bool | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the key, and what belongs to this process."""
        return {**self.__dict__, **_NOT_PICKLED, "_noted": {}, "_series": self._paths}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become the same logger of the same run in another process; nothing is created."""
        self.__dict__.update(state)

    # ---------------------------------------------------------------- who and where

    def __repr__(self) -> str:
        """Return which run this records into, and where; the run need not have begun."""
        return words_of(self, self.__dict__.get("_run"))

    @property
    def name(self) -> str:
        """The run's name, or its project, as a name that can be a folder."""
        return "" if self._places_plainly() else self._folder_name

    @property
    def version(self) -> str:
        """The run's id."""
        return "" if self._places_plainly() else self._run.id

    @property
    def _folder_name(self) -> str:
        return folder_name(self._run.name or self._run.project.rpartition("/")[2])

    @property
    def save_dir(self) -> str:
        """Where Lightning puts files of this run.

        Where the run's own folder cannot be written, that is where it would put them by itself.
        """
        self._attach_to_who_asks()
        if self._save_dir is not None:
            return self._save_dir
        folder = self._run.folder.files_dir
        if self._can_hold is None:
            self._can_hold = self._is_other_rank() or can_hold(folder)
        if self._can_hold:
            return str(folder)
        elsewhere = self._default_dir or os.getcwd()  # noqa: PTH109 - as Lightning does
        if not self._elsewhere_told:
            self._elsewhere_told = True
            log.warning(
                "seamark: Lightning saves checkpoints below %s, for %s cannot be written",
                elsewhere,
                folder,
            )
        return elsewhere

    @property
    def root_dir(self) -> str:
        """The folder of all runs of this name below `save_dir`; `save_dir` if that is the run's."""
        folder = self.save_dir
        return folder if self._is_in_run(folder) else os.path.join(folder, self._folder_name)  # noqa: PTH118 - Lightning may pass a URL on

    @property
    def log_dir(self) -> str:
        """The folder of this run, in which checkpoints go.

        Where `save_dir` is the run's own, that is it, unless an earlier version put them elsewhere.
        """
        folder = self.save_dir
        named = os.path.join(folder, self._folder_name, self._run.id)  # noqa: PTH118
        if not self._is_in_run(folder):
            return named
        plain, before = (os.path.join(one, "checkpoints") for one in (folder, named))  # noqa: PTH118
        return named if os.path.isdir(before) and not os.path.isdir(plain) else folder  # noqa: PTH112

    @property
    def own_run(self) -> Run:
        """The run itself, on every rank."""
        return self._run

    @property
    def experiment(self) -> Any:
        """The ``Run``, or the namespace given; on other ranks a stand-in that does nothing."""
        self._attach_to_who_asks()
        if self._is_other_rank():
            return silent_experiment(self._run)
        if self._checkpoints is not None and self._checkpoints.unsettled:
            self._checkpoints.settle()
        return self._experiment

    @property
    def run(self) -> Any:
        """The same as `experiment`."""
        return self.experiment

    # ---------------------------------------------------------------- checkpoints and resuming

    def attach(self, trainer: Any) -> None:
        """Have a trainer go on with this logger's run when it loads a checkpoint.

        Happens by itself at the beginning of each stage.

        Args:
            trainer: One of whose loggers this is.
        """
        self._default_dir = trainer.default_root_dir
        attach(trainer)

    def make_room(self) -> None:
        """Have configurations that earlier processes left in the run give way to a new one."""
        if self._save_dir is None and not (self._has_room or self._is_other_rank()):
            self._has_room = True
            set_aside(self._run.folder.files_dir)

    def checkpoint_state(self, *, marked: bool = False) -> dict[str, Any]:
        """Return what a checkpoint keeps of the run; see ``Run.checkpoint_state``.

        Args:
            marked: Whether `mark_checkpoint` will be called.
        """
        return {**self._run.checkpoint_state(marked=marked), "prefix": self._paths.prefix}

    def mark_checkpoint(self) -> None:
        """Say that what is recorded from now on came after the last checkpoint."""
        self._run.mark_checkpoint()

    def resumed(self, state: Mapping[str, Any], *, training: bool = True) -> None:
        """Go on with the run that a checkpoint was saved in; see ``Run.resumed``.

        Args:
            state: What `checkpoint_state` returned then.
            training: False where the checkpoint is only evaluated.

        Raises:
            ArgumentError: If it is nothing of that kind.
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        self._go_over(self._run.resumed(state, stay=not self._is_own, training=training))

    def follow(self, run: str, project: str) -> None:
        """Go over to the run of rank 0, whatever lies on the disk of this rank.

        Args:
            run: Run id.
            project: Project path.
        """
        is_there = (run, project) == (self._run.id, self._run.project)
        if self._is_own and self._run.writer is None and not is_there:
            self._go_over(self._run.at(run, project))

    def expect_resumed(self) -> None:
        """Refuse to go on where ``resume="must"`` and there is nothing to go on with.

        Raises:
            RunNotFoundError: If so.
        """
        self._run.expect_resumed()

    def hold(self) -> None:
        """Record nothing of what begins a stage before `release`: the run may be another one."""
        if self._held is None and self._run.writer is None:
            self._held = []

    @guarded
    def release(self) -> None:
        """Record what was held back."""
        held, self._held = self._held or [], None
        for record in held:
            record()

    # ---------------------------------------------------------------- what Lightning calls

    def log_metrics(self, metrics: Mapping[str, Any], step: float | None = None) -> None:
        """Record numbers at one step.

        Args:
            metrics: Numbers or tensors with one element, by name.
            step: As Lightning passes it, kept as given; None numbers the points.
        """
        try:
            if (run := self._recording()) is not None:
                if self._fitting is not None:
                    self._tell_batch_size()
                paths = self._series
                run.log_metrics({paths[name]: value for name, value in metrics.items()}, step)
        except Exception as error:  # noqa: BLE001 - as guarded, without its cost
            self._lost("log_metrics", error)

    @guarded
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *_args: Any, **_kwargs: Any
    ) -> None:
        """Record hyperparameters under ``<prefix>/hyperparams``, those that are new or changed.

        Args:
            params: A mapping, Namespace, dataclass or OmegaConf, nested as it may be; types are
                kept and nothing is called.
        """
        found = parameters(params, self._path(self.PARAMETERS_KEY))
        atoms = {path: masked(atom, self._api_key) for path, atom in found.items()}
        self._run.recorder.parameters.take(atoms)  # run.params is the same on every rank
        if self._held is None:
            self._note(atoms)
        else:
            self._held.append(partial(self._note, atoms))

    @guarded
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Keep the structure of the model, if asked for. Every stage begins with this call.

        Args:
            model: The module.
            input_array: Without effect; a forward pass is made with ``example_input_array``.
        """
        trainer = getattr(model, "_trainer", None)  # the property raises without one
        if trainer is not None:
            attach_late(trainer)
            if self._run.ranks == "all":
                self._join_ranks(trainer)
        if self._is_other_rank() or self._is_apart():
            return
        if self._held is not None:
            self._held.append(partial(self.log_graph, model, input_array))
            return
        self._begin_stage(trainer)
        path = self._path("model/graph")
        if not self._log_graph or path in self._noted:
            return
        # A forward pass of a sharded model on one rank alone would wait for the others for ever.
        alone = trainer is None or trainer.world_size == 1
        if alone and getattr(model, "example_input_array", None) is not None:
            self._keep_text(path, _host.model_summary(model, max_depth=-1))
        else:
            self._keep_text(path, str(model))
        self._noted[path] = Atom("file", None)

    @guarded
    def log_model_summary(self, model: Any, max_depth: int = -1) -> None:
        """Keep Lightning's table of layers under ``<prefix>/model/summary``.

        Args:
            model: A ``LightningModule``.
            max_depth: Levels of layers to show; -1 for all.
        """
        if not (self._is_other_rank() or self._is_apart()):
            self._keep_text(self._path("model/summary"), _host.model_summary(model, max_depth))

    @guarded
    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Record what a checkpoint callback keeps now.

        Args:
            checkpoint_callback: The callback, or a weak proxy of it.
        """
        if self._log_model_checkpoints and self._recording() is not None and not self._is_apart():
            self._saved().saved(checkpoint_callback)

    def save(self) -> None:
        """Do nothing: what was recorded is with the operating system already."""

    @guarded
    def finalize(self, status: str) -> None:
        """Note how a stage ended. The run stays open: the next stage makes it running again.

        Args:
            status: ``"success"``, ``"failed"`` or ``"finished"`` (a job that will be continued), as
                Lightning says.
        """
        error = sys.exc_info()[1]
        if status == "failed" and self._is_as_found():
            return
        if (run := self._recording(again=False)) is None:
            return
        if self._fitting is not None:
            self._tell_batch_size()
            self._fitting = None
        if self._checkpoints is not None:
            self._checkpoints.settle()
            # After a failure Lightning waits for its asynchronous writers only when it has called
            # this.
            self._checkpoints.unsettled |= status != "success"
        if status:
            self._note({self._path("status"): Atom("string", str(status))}, again=False)
        state, error = state_after(status, error)
        known = error is None or id(error) == self._failed_with
        if state is not None and not (known and state == run.written_state):
            run.rest(state, error=error)
        self._failed_with = id(error) if error is not None else None
        # A stage may fail after a configuration was saved and before `log_graph`.
        hide_in_files(run.folder.files_dir, self._api_key, run.secrets)
        self._began_in = None

    # ---------------------------------------------------------------- inside

    def _places_plainly(self) -> bool:
        """Return whether a callback asks for its folder, which is to be ``<save_dir>/checkpoints``.

        Lightning puts name and version of the logger in between, and the run's own folder has the
        id in its path already.
        """
        if not _host.places_checkpoints(inspect.currentframe()):
            return False
        folder = self.save_dir
        return self._is_in_run(folder) and self.log_dir == folder

    def _is_in_run(self, folder: str) -> bool:
        """Return whether a folder is the run's own for files, which needs no names below it."""
        return self._save_dir is None and folder == str(self._run.folder.files_dir)

    def _attach_to_who_asks(self) -> None:
        """Attach to the trainer that asks for a property, if it is one.

        No hook gives a logger its trainer before a checkpoint is loaded. But `Trainer` reads
        ``save_dir`` of the first logger, and 2.x ``experiment`` of all of them, when it sets up a
        stage, in functions in whose frames it stands.
        """
        trainer = _host.trainer_that_asks(inspect.currentframe())
        if trainer is not None and any(one is self for one in trainer.loggers):
            self.attach(trainer)

    def _go_over(self, found: Run) -> None:
        if found is not self._run:
            self._run = self._experiment = found
            self._noted, self._checkpoints, self._began_in = {}, None, None
            self._can_hold, self._has_room = None, False

    def _is_as_found(self) -> bool:
        """Tell whether the run is one that others recorded, and this process not yet.

        A start that is refused (a folder that exists, an argument) is no part of it. After a
        restart, however, it is the same job that ends.
        """
        run = self._run
        return run.writer is None and run.restarted_as is None and bool(run.folder.journals())

    def _path(self, *parts: str) -> str:
        return join_path(self._paths.prefix, *parts)

    def _is_other_rank(self) -> bool:
        """Whether this process records nothing; asked anew after a fork and after a stage."""
        if _host.global_rank():
            return self._agreed_in != _host.forks
        return (
            self._began_in != _host.forks
            and current_rank().rank != 0
            and self._agreed_in != _host.forks
        )

    def _is_apart(self) -> bool:
        """Whether this process records beside rank 0: its own series, and how it ended."""
        return self._series is not self._paths

    def _join_ranks(self, trainer: Any) -> None:
        """Have all ranks record into the run of rank 0. Every rank comes here, at every stage.

        Until the first time other ranks record nothing: nothing they mint themselves is any good.
        """
        if self._agreed_in != _host.forks:
            found = self._run
            if self._is_own:  # else whoever made the run saw to it, on every rank
                found = self._run.agree()
            self._agreed_in = _host.forks
            self._go_over(found)
            rank = current_rank().rank
            below = join_path(self._paths.prefix, f"ranks/{rank}")
            self._series = MetricPaths(below) if rank else self._paths
        time_ranks(trainer)

    def _recording(self, *, again: bool = True) -> Run | None:
        """Return the run if this process records; ask anew after a fork and after a stage.

        Args:
            again: Whether a run that was completed is running again.
        """
        if _host.global_rank() and self._agreed_in != _host.forks:
            return None
        if self._began_in != _host.forks:
            if self._run.mode == "disabled" or self._is_other_rank():
                return None
            self._began_in = _host.forks
            self._note({_VERSION_PATH: Atom("string", _host.version())})
            if again and self._run.written_state == "completed":
                self._run.go_on()
        return self._run

    def _note(self, atoms: Mapping[str, Atom], *, again: bool = True) -> None:
        """Record those values that are new or changed."""
        if (run := self._recording(again=again)) is None:
            return
        new = {path: atom for path, atom in atoms.items() if self._noted.get(path) != atom}
        if new and run.record_atoms(new):  # else the disk was full; the next stage says it again
            self._noted.update(new)

    def _begin_stage(self, trainer: Any) -> None:
        """Take the beginning of a stage as what revives a run that failed or was interrupted."""
        if trainer is not None and trainer.state.fn == "fit":
            self._run.own()
            ended_badly = self._run.written_state in {"failed", "interrupted"}
            if ended_badly and not trainer.global_step and not trainer.ckpt_path:
                self._run.begin_again()  # the steps of this training overlap those of the last
        if self._run.written_state in {"created", "completed", "failed", "interrupted"}:
            self._run.go_on()
        hide_in_files(self._run.folder.files_dir, self._api_key, self._run.secrets)
        if trainer is None or self._run.mode == "disabled":
            return
        if self._log_model_checkpoints:
            self._saved().watch(getattr(trainer, "checkpoint_callbacks", ()))
        self._tell(facts(trainer))
        self._tell_settings(trainer)
        # A module of 1.9 holds its trainer by a proxy already.
        held = trainer if isinstance(trainer, weakref.ProxyType) else weakref.proxy(trainer)
        self._fitting = held if trainer.state.fn == "fit" else None

    @guarded
    def _tell_batch_size(self) -> None:
        """Tell how many samples a step takes, as soon as the trainer has its data."""
        fitting, self._fitting = self._fitting, None
        if fitting is None:
            return
        try:
            found = batch_facts(fitting)
        except ReferenceError:  # the trainer is gone
            return
        if found:
            self._tell(found)
        else:
            self._fitting = fitting

    @guarded
    def _tell_settings(self, trainer: Any) -> None:
        """Record what the trainer was told, and by LightningCLI what else it was given."""
        found: dict[str, Atom] = {}
        if trainer.state.fn == "fit":
            found = parameters(settings(trainer), self._path("trainer"))
            self._note(found)
        told = configuration(trainer, self._run.secrets)
        if told is None:
            return
        given: dict[str, Atom] = {}
        for name, value in told.values.items():
            given |= parameters(value, self._path(name))
        self._note({**given, **found})
        path, text = self._path("config"), Atom("string", told.text)
        if self._noted.get(path) != text and self._recording() is not None:
            self._run[path].upload(File.from_content(told.text, extension="yaml"))
            self._noted[path] = text

    def _tell(self, found: Mapping[str, Any]) -> None:
        paths = {join_path(self._base, "distributed", name): fact for name, fact in found.items()}
        self._note({path: encode_atom(fact) for path, fact in paths.items()})

    def _keep_text(self, path: str, text: str) -> None:
        if self._recording() is not None:
            self._run[path].upload(File.from_content(text, extension="txt"))

    def _saved(self) -> Checkpoints:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self._run, self._path("model"), keep=self._keep)
        return self._checkpoints

    def _lost(self, method: str, error: Exception) -> None:
        let_pass(error)
        if isinstance(error, (InactiveRunError, ReadOnlyError)) or self._run.writer is None:
            if not self._told:  # a run that is not open neither warns nor counts
                self._told = True
                log.warning("seamark: the logger records nothing (%s): %s", method, error)
        else:
            warn = f"{method}: {type(error).__name__}: {error}"
            self._run.drop(f"lightning.{method}", warn=warn)


# The jsonargparse that LightningCLI 1.9 uses does not evaluate annotations that are strings.
SeamarkLogger.__init__.__annotations__.update(get_type_hints(SeamarkLogger.__init__))
# Of an argument that may be anything, LightningCLI hands over its own halves of what it was given.
SeamarkLogger.__init__.__annotations__["params"] = Mapping[str, Any] | None

NeptuneLogger = SeamarkLogger
"""The same class, under the name that Lightning's had."""
