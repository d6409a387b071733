"""The callback that has a training go on with the run of the checkpoint that it loads.

The order in which Lightning calls (1.9.5 and 2.6.6), and what follows from it:

1. ``save_dir`` of the first logger and (2.x) ``experiment`` of all of them: the loggers attach this
   callback to the trainer that asks. It is the first in its list from then on.
2. ``setup`` of every callback; that of ``ModelCheckpoint`` comes last and takes its folder from
   the first logger, whose run may be about to change.
3. The checkpoint is read; ``on_load_checkpoint`` of every callback, then ``load_state_dict`` of
   every callback: ``ModelCheckpoint`` forgets what it kept if its folder differs from the one in
   the checkpoint. So the folders have to follow in between. (1.9: only in ``fit``.)
4. ``on_fit_start``, then ``log_hyperparams`` and ``log_graph``: the first that a logger records.
   Strategies that load after the model was set up (FSDP, DeepSpeed) come to 3 only after this.

What ranks have to do alike is decided by rank 0 and told to the others: each of them may see
another disk. Where one changes the folder of a ``ModelCheckpoint`` and another does not, they
differ later in whether to save, and wait for each other for ever.
"""

from __future__ import annotations

import filecmp
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.blobs import moved_path
from seamark.errors import RunNotFoundError
from seamark.lightning import _host
from seamark.lightning._base import RunLogger
from seamark.process.interrupts import let_pass
from seamark.run.adapters import guarded

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["KEY", "ResumeCallback", "attach", "attach_late"]

log = logging.getLogger("seamark")

KEY: Final = "seamark"
"""Where a checkpoint keeps what belongs to Seamark: nothing but dicts, strings, ints and None."""

_FORMAT: Final = 1


class _Decision(NamedTuple):
    """What rank 0 did when a checkpoint was loaded. Plain, for it travels to the other ranks.

    Attributes:
        runs: Run id and project of each logger from now on.
        states: What the checkpoint holds of each logger, None where it holds nothing.
        folders: Folder of each checkpoint callback whose folder the logger decides.
        moved: Where files are now that were in the run folder before that was moved; None for those
            that are not there.
        refusal: Why training must not begin; None if it may.
    """

    runs: tuple[tuple[str, str], ...] = ()
    states: tuple[Mapping[str, Any] | None, ...] = ()
    folders: tuple[Any, ...] = ()
    moved: Mapping[str, str | None] = {}
    refusal: str | None = None


class ResumeCallback(_host.Callback):
    """Goes on with the run that a checkpoint was saved in when a training loads it.

    Every Trainer with a `SeamarkLogger` gets one by itself when a stage begins; a second one does
    nothing. It puts the run of each `SeamarkLogger` into every checkpoint, under the key
    ``"seamark"``, and when ``fit`` loads such a checkpoint the loggers go on with these runs: as a
    new attempt, before which readers hide what was recorded after the checkpoint. See ``resume`` of
    `SeamarkLogger`. With several ranks, every rank has to have the logger.
    """

    # Has no ``state_dict``: Lightning refuses two callbacks of one kind that have one.

    def __init__(self) -> None:
        super().__init__()
        self._unplaced: list[Any] = []
        self._saved: Mapping[str, Any] | None = None
        self._due = self._expected = self._begun = self._told = False

    # ---------------------------------------------------------------- what Lightning calls

    @guarded
    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Note whose folders the logger decides, and be called before all other callbacks."""
        loggers = self._loggers(trainer)
        if not loggers:
            return
        # First, so that nobody has recorded anything of a step before this says that it began.
        trainer.callbacks = [self, *(one for one in trainer.callbacks if one is not self)]
        self._saved, self._expected, self._begun = None, False, False
        found = trainer.checkpoint_callbacks
        self._unplaced = [one for one in found if getattr(one, "dirpath", "") is None]
        if trainer.loggers[0] is loggers[0] and any(map(_refuses_to_replace, trainer.callbacks)):
            loggers[0].make_room()
        if _loads_late(trainer):
            for logger in loggers:
                logger.hold()

    @guarded
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Put the run of every Seamark logger, and how far it is recorded, into a checkpoint."""
        loggers = self._loggers(trainer)
        if loggers:
            self._due = _is_between_steps(trainer)
            states = {
                str(number): logger.checkpoint_state(marked=self._due)
                for number, logger in enumerate(loggers)
            }
            self._saved = checkpoint[KEY] = {"format": _FORMAT, "runs": states}

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Have every Seamark logger go on with the run that the checkpoint was saved in.

        Raises:
            RunNotFoundError: If a logger with ``resume="must"`` finds none; on all ranks.
        """
        loggers = self._loggers(trainer)
        if not loggers:
            return
        decision = self._decide(trainer, loggers, checkpoint) if trainer.is_global_zero else None
        decision = trainer.strategy.broadcast(decision)
        if decision.refusal:
            raise RunNotFoundError(decision.refusal)
        if not trainer.is_global_zero:
            self._follow(trainer, loggers, checkpoint, decision)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse to train with ``resume="must"`` and no run found.

        Raises:
            RunNotFoundError: If a logger with ``resume="must"`` goes on with none; on all ranks.
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
        """Have loggers record that it failed, whatever they were waiting for.

        Lightning tells them as well, after this; but not those behind a logger that raises then.
        """
        for logger in self._loggers(trainer):
            logger.release()
            logger.finalize("failed")

    # ---------------------------------------------------------------- inside

    def _loggers(self, trainer: Any) -> list[RunLogger]:
        """Return the Seamark loggers of a trainer; none if another such callback acts for them."""
        first = next((one for one in trainer.callbacks if isinstance(one, ResumeCallback)), self)
        if first is not self:
            return []
        return [one for one in trainer.loggers if isinstance(one, RunLogger)]

    def _decide(
        self, trainer: Any, loggers: Sequence[RunLogger], checkpoint: Mapping[str, Any]
    ) -> _Decision:
        """Have the loggers of rank 0 go on; whatever goes wrong, the others are told something."""
        try:
            return self._resume(trainer, loggers, checkpoint)
        except RunNotFoundError as error:
            return _Decision(refusal=str(error))
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost("on_load_checkpoint", error)
            return _Decision()

    def _resume(
        self, trainer: Any, loggers: Sequence[RunLogger], checkpoint: Mapping[str, Any]
    ) -> _Decision:
        if self._saved is not None and checkpoint.get(KEY) == self._saved:
            # Saved since this stage began, and put back: those who look for a learning rate or a
            # batch size try them out like this.
            return _Decision()
        training = trainer.state.fn == "fit"
        states = _states(checkpoint)
        if not states and any(logger.own_run.must_resume for logger in loggers):
            msg = (
                "resume='must': the checkpoint names no run; it was saved without "
                "seamark.lightning.ResumeCallback or without a SeamarkLogger"
            )
            raise RunNotFoundError(msg)
        folders = _Folders(trainer, self._unplaced)
        matched = dict(_matched(loggers, states))
        done: set[int] = set()
        for number, state in matched.items():
            logger = loggers[number]
            if id(logger.own_run) not in done:  # namespaces of one run are one attempt
                done.add(id(logger.own_run))
                logger.resumed(state, training=training)
        moved = _moved(checkpoint, {logger.own_run.folder for logger in loggers})
        _relocate(checkpoint, moved)
        folders.follow(checkpoint)
        return _Decision(
            tuple((logger.own_run.id, logger.own_run.project) for logger in loggers),
            tuple(matched.get(number) for number in range(len(loggers))),
            tuple(callback.dirpath for callback in self._unplaced),
            moved,
        )

    @guarded
    def _follow(
        self,
        trainer: Any,
        loggers: Sequence[RunLogger],
        checkpoint: Mapping[str, Any],
        decision: _Decision,
    ) -> None:
        """Do on another rank what rank 0 has done, without a look at the disk."""
        # Folders first: whatever goes wrong with a run must not let ranks differ in these.
        for callback, folder in zip(self._unplaced, decision.folders, strict=False):
            callback.dirpath = folder
        _relocate(checkpoint, decision.moved)
        training = trainer.state.fn == "fit"
        done: set[int] = set()
        for logger, (run, project), state in zip(
            loggers, decision.runs, decision.states, strict=False
        ):
            if id(logger.own_run) in done:
                continue
            logger.follow(run, project)
            done.add(id(logger.own_run))
            if state and (state.get("run"), state.get("project")) == (run, project):
                logger.resumed(state, training=training)

    def _begin(self, trainer: Any) -> None:
        loggers = self._loggers(trainer)
        self._expect_resumed(trainer, loggers)
        for logger in loggers:
            logger.release()
        if not self._begun and not getattr(trainer, "enable_autolog_hparams", True):
            for logger in loggers:  # Lightning tells no logger that a stage begins then
                logger.log_graph(trainer.lightning_module)
        self._begun = True
        if self._due:
            self._mark(trainer)

    def _expect_resumed(self, trainer: Any, loggers: Sequence[RunLogger]) -> None:
        if self._expected or not any(logger.own_run.must_resume for logger in loggers):
            return
        refusal = None
        if trainer.is_global_zero:
            try:
                for logger in loggers:
                    logger.expect_resumed()
            except RunNotFoundError as error:
                refusal = str(error)
        refusal = trainer.strategy.broadcast(refusal)
        self._expected = True
        if refusal:
            raise RunNotFoundError(refusal)

    def _mark(self, trainer: Any) -> None:
        self._due = False
        for logger in self._loggers(trainer):
            logger.mark_checkpoint()

    def _lost(self, hook: str, error: Exception) -> None:
        let_pass(error)
        if not self._told:
            self._told = True
            log.warning(
                "seamark: could not store the run in a checkpoint, or read it from one (%s): %r",
                hook,
                error,
            )


# --------------------------------------------------------------------- trainers


def attach(trainer: Any) -> bool:
    """Put a `ResumeCallback` before the other callbacks of a trainer, if it has none yet.

    Args:
        trainer: One with a Seamark logger.

    Returns:
        Whether it had none.
    """
    own = next((one for one in trainer.callbacks if isinstance(one, ResumeCallback)), None)
    first = own or ResumeCallback()
    trainer.callbacks = [first, *(one for one in trainer.callbacks if one is not first)]
    return own is None


def attach_late(trainer: Any) -> None:
    """Attach to a trainer that reads nothing of its second logger before it loads a checkpoint.

    1.9 does not. What it saves from now on names its run.

    Args:
        trainer: One with a Seamark logger; a stage has begun.
    """
    if attach(trainer) and trainer.ckpt_path and not _loads_late(trainer):
        log.warning(
            "seamark: the checkpoint was loaded before the logger knew of it, so this is a new "
            "run; put the SeamarkLogger before other loggers, or give the Trainer a "
            "seamark.lightning.ResumeCallback"
        )


# --------------------------------------------------------------------- which logger goes on


def _states(checkpoint: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what a checkpoint holds of the loggers that saved it, in their order."""
    kept = checkpoint.get(KEY)
    runs = kept.get("runs") if isinstance(kept, Mapping) else None
    if not isinstance(runs, Mapping):
        return []
    return [runs[number] for number in sorted(runs, key=int)]


def _matched(
    loggers: Sequence[RunLogger], states: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the number of each logger with the state that is its own.

    As many loggers as states belong together by their order. Else by what they are: the same run,
    or else the same project and prefix, in order.
    """
    if len(loggers) == len(states):
        yield from enumerate(states)
        return
    left = list(states)
    unmatched = list(enumerate(loggers))
    for facts in (("run", "project"), ("project", "prefix")):
        for number, logger in list(unmatched):
            own = logger.checkpoint_state()
            for state in left:
                if all(state.get(fact) == own[fact] for fact in facts):
                    left.remove(state)
                    unmatched.remove((number, logger))
                    yield number, state
                    break
    if states:
        log.warning(
            "seamark: the checkpoint is of %d loggers, the trainer has %d; those that could not be "
            "told apart record new runs",
            len(states),
            len(loggers),
        )


# --------------------------------------------------------------------- folders that moved


_KEPT_PATHS: Final = ("dirpath", "best_model_path", "last_model_path", "kth_best_model_path")
"""What ``ModelCheckpoint`` keeps in a checkpoint, beside ``best_k_models`` with its scores."""


def _savers(checkpoint: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what checkpoint callbacks keep in a checkpoint."""
    for state in (checkpoint.get("callbacks") or {}).values():
        if isinstance(state, dict) and isinstance(state.get("dirpath"), str):
            yield state


def _moved(checkpoint: Mapping[str, Any], folders: Iterable[RunFolder]) -> dict[str, str | None]:
    """Return where the files of checkpoint callbacks are, of runs that were moved or copied."""
    found: dict[str, str | None] = {}
    for state in _savers(checkpoint):
        old = state["dirpath"]
        new = next((there for one in folders if (there := moved_path(one, old)) != old), None)
        if new is None:
            continue
        found[old] = new
        for path in (*map(state.get, _KEPT_PATHS[1:]), *(state.get("best_k_models") or {})):
            if isinstance(path, str) and path.startswith(old + os.sep):
                there = new + path[len(old) :]
                found[path] = there if os.path.lexists(there) else None
    return found


def _relocate(checkpoint: Mapping[str, Any], moved: Mapping[str, str | None]) -> None:
    """Have checkpoint callbacks find the files that they kept before their folder was moved.

    They would forget them, or, of a copy, remove those of the first one.
    """
    for state in _savers(checkpoint) if moved else ():
        for name in _KEPT_PATHS:
            if isinstance(path := state.get(name), str):
                state[name] = moved.get(path) or path
        if kept := state.get("best_k_models"):
            there = {moved.get(path, path): score for path, score in kept.items()}
            state["best_k_models"] = {path: score for path, score in there.items() if path}


# --------------------------------------------------------------------- folders that follow


class _Folders:
    """What lies in the folder of the first logger, before and after it goes over to another run.

    For rank 0. The folders of ``ModelCheckpoint`` are those of rank 0 on all ranks.
    """

    def __init__(self, trainer: Any, unplaced: Sequence[Any]) -> None:
        self._trainer = trainer
        self._unplaced = unplaced
        first = trainer.loggers[0]
        self._logger = first if isinstance(first, RunLogger) else None
        if self._logger is not None:
            self._was = self._logger.own_run.folder
            self._save_dir = self._logger.save_dir
            self._checkpoints = _checkpoints_of(self._logger)

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
        for name in ("dirpath", "_log_dir"):  # has no other way in; which it is depends on releases
            if getattr(profiler, name, None) == self._save_dir:
                setattr(profiler, name, self._logger.save_dir)
        _carry_files(self._was, self._logger.own_run.folder)

    def _is_abandoned(self, dirpath: object) -> bool:
        """Tell whether a folder was to be that of a run which does not come to be."""
        if not isinstance(dirpath, (str, os.PathLike)) or self._was.journal_dir.is_dir():
            return False
        return os.fspath(dirpath) == self._checkpoints

    def _place(self, saved: object) -> str:
        """Return where the checkpoints of the resumed run are."""
        assert self._logger is not None  # noqa: S101 - `follow` saw to it
        run = self._logger.own_run.id
        if isinstance(saved, str) and run in Path(saved).parts and Path(saved).is_dir():
            return saved  # also where the name of the logger is another one now
        return _checkpoints_of(self._logger)


def _checkpoints_of(logger: RunLogger) -> str:
    return os.path.join(logger.log_dir, "checkpoints")  # noqa: PTH118 - may be a URL


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


def _refuses_to_replace(callback: Any) -> bool:
    """Tell whether a callback is that of LightningCLI, and refuses to replace a file."""
    is_saver = any(cls.__name__ == "SaveConfigCallback" for cls in type(callback).__mro__)
    return is_saver and not callback.overwrite


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
