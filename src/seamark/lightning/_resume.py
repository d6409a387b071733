"""The callback that has a training go on with the run of the checkpoint that it loads.

The order in which Lightning calls (1.9.5 and 2.6.6), and what follows from it:

1. ``setup`` of every callback; that of ``ModelCheckpoint`` comes last and takes its folder from
   the first logger, whose run may be about to change.
2. The checkpoint is read; ``on_load_checkpoint`` of every callback, then ``load_state_dict`` of
   every callback: ``ModelCheckpoint`` forgets what it kept if its folder differs from the one in
   the checkpoint. So the folders have to follow in between. (1.9: only in ``fit``.)
3. ``on_fit_start``, then ``log_hyperparams`` and ``log_graph``: the first that a logger records.
   Strategies that load after the model was set up (FSDP, DeepSpeed) come to 2 only after this.
"""

from __future__ import annotations

import filecmp
import importlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from seamark.errors import RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.lightning import _host
from seamark.lightning._logger import SeamarkLogger

__all__ = ["KEY", "ResumeCallback", "resume_callback"]

log = logging.getLogger("seamark")

KEY: Final = "seamark"
"""Where a checkpoint keeps what belongs to Seamark: nothing but dicts, strings, ints and None."""

_FORMAT: Final = 1


class _Resuming:
    """The hooks; what they are a callback of is said by the classes below.

    Has no ``state_dict``: Lightning refuses two callbacks of one kind that have one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unplaced: list[Any] = []
        self._due = False
        self._told = False

    # ---------------------------------------------------------------- what Lightning calls

    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Note whose folders the logger decides, and be called before all other callbacks."""
        try:
            loggers = self._loggers(trainer)
            if not loggers:
                return
            # First, so that nobody has recorded anything of a step before this says that it began.
            trainer.callbacks = [self, *(one for one in trainer.callbacks if one is not self)]
            found = trainer.checkpoint_callbacks
            self._unplaced = [one for one in found if getattr(one, "dirpath", "") is None]
            if _loads_late(trainer):
                for logger in loggers:
                    logger.hold()
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Put the run of every Seamark logger, and how far it is recorded, into a checkpoint."""
        try:
            loggers = self._loggers(trainer)
            if loggers:
                self._due = _is_between_steps(trainer)
                states = {
                    str(number): logger.checkpoint_state(marked=self._due)
                    for number, logger in enumerate(loggers)
                }
                checkpoint[KEY] = {"format": _FORMAT, "runs": states}
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Have every Seamark logger go on with the run that the checkpoint was saved in.

        Raises:
            RunNotFoundError: If a logger with ``resume="must"`` finds none.
        """
        try:
            if loggers := self._loggers(trainer):
                self._resume(trainer, loggers, checkpoint)
        except RunNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost(error)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse to train into a new run where one must be gone on with.

        Raises:
            RunNotFoundError: If a logger with ``resume="must"`` goes on with none.
        """
        if not _loads_late(trainer):
            self._begin(trainer)

    def on_sanity_check_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, if that has not happened yet."""
        self._begin(trainer)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, if that has not happened yet."""
        self._begin(trainer)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, where validation is a stage of its own."""
        if trainer.state.fn != "fit":
            self._begin(trainer)

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin."""
        self._begin(trainer)

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin."""
        self._begin(trainer)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Mark the end of what belongs to the last checkpoint."""
        if self._due:
            self._mark(trainer)

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Mark the end of what belongs to the last checkpoint."""
        if self._due:
            self._mark(trainer)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Mark the end of what belongs to the last checkpoint."""
        if self._due:
            self._mark(trainer)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Let loggers record that it failed, whatever they were waiting for."""
        for logger in self._loggers(trainer):
            logger.release()

    # ---------------------------------------------------------------- inside

    def _loggers(self, trainer: Any) -> list[SeamarkLogger]:
        """Return the Seamark loggers of a trainer; none if another such callback acts for them."""
        first = next((one for one in trainer.callbacks if isinstance(one, _Resuming)), self)
        if first is not self:
            return []
        return [one for one in trainer.loggers if isinstance(one, SeamarkLogger)]

    def _resume(
        self, trainer: Any, loggers: Sequence[SeamarkLogger], checkpoint: Mapping[str, Any]
    ) -> None:
        training = trainer.state.fn == "fit"
        states = _states(checkpoint)
        if not states and any(logger.own_run.must_resume for logger in loggers):
            msg = (
                "resume='must': the checkpoint names no run; it was saved without "
                "seamark.lightning.ResumeCallback or without a SeamarkLogger"
            )
            raise RunNotFoundError(msg)
        folders = _Folders(trainer, self._unplaced)
        done: set[int] = set()
        for logger, state in _matched(loggers, states):
            if id(logger.own_run) not in done:  # namespaces of one run are one attempt
                done.add(id(logger.own_run))
                logger.resumed(state, training=training)
        folders.follow(checkpoint)

    def _begin(self, trainer: Any) -> None:
        for logger in self._loggers(trainer):
            logger.expect_resumed()
            logger.release()
        if self._due:
            self._mark(trainer)

    def _mark(self, trainer: Any) -> None:
        self._due = False
        for logger in self._loggers(trainer):
            logger.mark_checkpoint()

    def _lost(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            log.warning("seamark: a checkpoint does not tell of its run: %r", error)


class ResumeCallback(_Resuming, _host.Callback):
    """Goes on with the run that a checkpoint was saved in when a training loads it.

    Every Trainer has one by itself where Seamark is installed and ``seamark.lightning`` was
    imported before the Trainer was made (through the entry points ``lightning.pytorch.
    callbacks_factory`` and ``pytorch_lightning.callbacks_factory``); a second one does nothing. It
    puts the run of each `SeamarkLogger` into every checkpoint, under the key ``"seamark"``, and
    when ``fit`` loads such a checkpoint the loggers go on with these runs: as a new attempt, before
    which readers hide what was recorded after the checkpoint. See ``resume`` of `SeamarkLogger`.

    .. versionadded:: 0.1.0
    """


_host.register(ResumeCallback, "callbacks.callback")


def resume_callback(package: str) -> Any:
    """Return a `ResumeCallback` that is a callback of this package.

    Args:
        package: ``"lightning.pytorch"`` or ``"pytorch_lightning"``; imported.
    """
    if package == _host.PACKAGE:
        return ResumeCallback()
    base = importlib.import_module(f"{package}.callbacks.callback").Callback
    made = {"__module__": __name__, "__reduce__": lambda _: (resume_callback, (package,))}
    return type("ResumeCallback", (_Resuming, base), made)()


# --------------------------------------------------------------------- which logger goes on


def _states(checkpoint: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a checkpoint holds of the loggers that saved it, in their order."""
    kept = checkpoint.get(KEY)
    runs = kept.get("runs") if isinstance(kept, Mapping) else None
    if not isinstance(runs, Mapping):
        return []
    return [runs[number] for number in sorted(runs, key=int)]


def _matched(
    loggers: Sequence[SeamarkLogger], states: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[SeamarkLogger, Mapping[str, Any]]]:
    """Yield each logger with the state that is its own.

    As many loggers as states belong together by their order. Else by what they are: the same run,
    or else the same project and prefix, in order.
    """
    if len(loggers) == len(states):
        yield from zip(loggers, states, strict=True)
        return
    left = list(states)
    for facts in (("run", "project"), ("project", "prefix")):
        for logger in loggers:
            own = logger.checkpoint_state()
            for state in left:
                if all(state.get(fact) == own[fact] for fact in facts):
                    left.remove(state)
                    yield logger, state
                    break
    if states:
        log.warning(
            "seamark: the checkpoint is of %d loggers, the trainer has %d; those that could not be "
            "told apart record new runs",
            len(states),
            len(loggers),
        )


# --------------------------------------------------------------------- folders that follow


class _Folders:
    """What lies in the folder of the first logger, before and after it goes over to another run.

    Every rank comes to the same result without asking another, although each has minted an id of
    its own: the folders of ``ModelCheckpoint`` are those of rank 0 on all ranks, and whether rank 0
    had to stay with its run is seen by what is on the disk. If ranks differed here, they would
    differ later in whether to save, and wait for each other for ever.
    """

    def __init__(self, trainer: Any, unplaced: Sequence[Any]) -> None:
        self._trainer = trainer
        self._unplaced = unplaced
        first = trainer.loggers[0] if trainer.loggers else None
        self._logger = first if isinstance(first, SeamarkLogger) else None
        if self._logger is not None:
            self._was = self._logger.own_run.folder
            self._save_dir = self._logger.save_dir

    def follow(self, checkpoint: Mapping[str, Any]) -> None:
        """Lead everything that was to go into the abandoned folder into the new one."""
        if self._logger is None or self._logger.own_run.folder == self._was:
            return
        saved = checkpoint.get("callbacks") or {}
        for callback in self._unplaced:
            if self._is_abandoned(callback.dirpath):
                state = saved.get(callback.state_key)
                callback.dirpath = self._place(state.get("dirpath") if state else None)
        profiler: Any = getattr(self._trainer, "profiler", None)
        if getattr(profiler, "_log_dir", None) == self._save_dir:
            profiler._log_dir = self._logger.save_dir  # noqa: SLF001 - has no other way in
        if self._trainer.is_global_zero:
            _carry_files(self._was, self._logger.own_run.folder)

    def _is_abandoned(self, dirpath: object) -> bool:
        """Tell whether a folder was to be that of a run which does not come to be."""
        assert self._logger is not None  # noqa: S101 - `follow` saw to it
        if not isinstance(dirpath, (str, os.PathLike)):
            return False
        version = os.path.basename(os.path.dirname(dirpath))  # noqa: PTH119, PTH120 - may be a URL
        then = RunFolder(self._was.root, self._was.project, version)
        mine = os.path.join(self._logger.log_dir_of(then), "checkpoints")  # noqa: PTH118
        return os.fspath(dirpath) == mine and not then.journal_dir.is_dir()

    def _place(self, saved: object) -> str:
        """Return where the checkpoints of the run that is gone on with lie."""
        assert self._logger is not None  # noqa: S101 - `follow` saw to it
        run = self._logger.own_run.id
        if isinstance(saved, str) and run in Path(saved).parts and Path(saved).is_dir():
            return saved  # also where the name of the logger is another one now
        return os.path.join(self._logger.log_dir, "checkpoints")  # noqa: PTH118


def _carry_files(old: RunFolder, new: RunFolder) -> None:
    """Move what was put into the folder of a run that does not come to be into that of another.

    Such as the configuration that LightningCLI saves before a checkpoint is loaded.
    """
    if old.journal_dir.exists() or not old.files_dir.is_dir():
        return
    for path in sorted(old.files_dir.rglob("*")):
        if not path.is_file():
            continue
        to = new.files_dir / path.relative_to(old.files_dir)
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.exists():
            if filecmp.cmp(path, to, shallow=False):
                path.unlink()
                continue
            to = to.with_name(f"{to.stem}-{old.run}{to.suffix}")
        path.replace(to)
    for folder, _, _ in os.walk(old.path, topdown=False):
        os.rmdir(folder)  # noqa: PTH106


def _loads_late(trainer: Any) -> bool:
    return bool(getattr(trainer.strategy, "restore_checkpoint_after_setup", False))


def _is_between_steps(trainer: Any) -> bool:
    """Tell whether what is recorded before the next step belongs to a checkpoint saved now.

    Lightning saves in ``on_train_batch_end``, before it logs the metrics of the step, and in
    ``on_train_epoch_end``, before it logs those of the epoch. A handler of SLURM's signal may save
    in the middle of a step, however, which is then done again.
    """
    done = trainer.fit_loop.epoch_loop.batch_progress.current
    return bool(done.started == done.processed)
