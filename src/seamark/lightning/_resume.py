"""Checkpoints of a training, and the callback that continues the run of a loaded one.

Lightning (1.9.5 to 2.6.6) calls, in this order: ``setup`` of every callback, in which
``ModelCheckpoint`` gets its folder from the first logger; ``on_load_checkpoint`` of every callback
with the whole checkpoint; ``load_state_dict`` of every callback, in which ``ModelCheckpoint`` drops
its saved files if its folder differs from that in the checkpoint; ``on_fit_start``; and then
``log_hyperparams`` and ``log_graph``, the first calls that a logger records. Therefore runs and
folders change in ``on_load_checkpoint``.

Rank 0 decides and broadcasts the result, because the ranks may have different disks. If only some
ranks changed the folder of a ``ModelCheckpoint``, they would later disagree on whether to save, and
block each other forever.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from seamark.blobs import is_below, moved_path
from seamark.errors import RunNotFoundError
from seamark.lightning import _host
from seamark.lightning._callbacks import QuietCallback
from seamark.paths import join_path
from seamark.process.interrupts import quietly
from seamark.run.adapters import CheckpointSet, fingerprint, guarded, is_url, settle_at_exit
from seamark.run.run import Run

# ``_last_checkpoint_saved`` (2.x) is the only reference to a file saved after an exception.
_PATH_ATTRIBUTES: Final = ("last_model_path", "best_model_path", "_last_checkpoint_saved")


class _Key(NamedTuple):
    # The identity of a callback, also for its weak proxies.

    state_key: str
    folder: str | None


class Checkpoints:
    """Record the files of each callback, the best one and its score.

    The Trainer's first callback is recorded below ``<namespace>/checkpoints``, further ones below
    ``<namespace>/<slug of their state_key>/checkpoints``.
    """

    def __init__(self, run: Run, namespace: str, *, keep: bool) -> None:
        self._run = run
        self._namespace = namespace
        self._keep = keep
        self._savers: dict[_Key, CheckpointSet] = {}
        self._callbacks: dict[_Key, Any] = {}
        self._first: _Key | None = None

    def watch(self, callbacks: Iterable[Any]) -> None:
        """Note a Trainer's first checkpoint callback, which uses the plain namespace."""
        if self._first is None:
            self._first = next(
                (_key(one) for one in callbacks if hasattr(one, "best_model_path")), None
            )

    def saved(self, callback: Any) -> None:
        """Record the files of a callback, or of a weak proxy to it, after a save."""
        key = _key(callback)
        if (
            not self._savers
        ):  # registered now that the run has started, so that the run closes later
            settle_at_exit(self)
        if key not in self._savers:
            path = self._namespace_for(key)
            self._savers[key] = CheckpointSet(self._run, path, keep=self._keep, probe=_probe)
        self._callbacks[key] = callback
        files = self._savers[key]
        files.update(_locations(callback), key.folder)
        if best := getattr(callback, "best_model_path", None):
            files.note_best(str(best), getattr(callback, "best_model_score", None))

    def settle(self) -> None:
        # Synchronize the record with the disk: links and deletions follow the last save. Changes
        # after the run was stopped are not part of it.
        if self._run.get_state() == "stopped":
            return
        for key, files in list(self._savers.items()):
            with quietly(self._drop):  # the other callbacks, and the end of the stage
                self.saved(self._callbacks[key])
            files.adopt(key.folder)
            files.settle()

    def _drop(self, error: Exception) -> None:
        if not isinstance(error, ReferenceError):  # its Trainer is gone; its files may exist
            warn = f"a checkpoint callback raised {error!r}"
            self._run.session.drop("checkpoints", warn=warn)

    def _namespace_for(self, key: _Key) -> str:
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", key.state_key).strip("-.") or "checkpoint"
        numbered = (f"{slug}-{number}" for number in itertools.count(2))
        plain = [""] if self._first in (None, key) else []
        names = itertools.chain(plain, [slug], numbered)
        paths = (join_path(self._namespace, name, "checkpoints") for name in names)
        taken = {files.namespace for files in self._savers.values()}
        return next(path for path in paths if path not in taken)


def _key(callback: Any) -> _Key:
    folder = getattr(callback, "dirpath", None)
    return _Key(
        str(getattr(callback, "state_key", type(callback).__qualname__)),
        os.fspath(folder) if isinstance(folder, (str, os.PathLike)) else None,
    )


def _locations(callback: Any) -> Iterator[str]:
    named = [getattr(callback, name, None) for name in _PATH_ATTRIBUTES]
    best = getattr(callback, "best_k_models", None)
    for path in (*named, *(best if isinstance(best, dict) else ())):
        if isinstance(path, (str, os.PathLike)) and (location := str(os.fspath(path))):
            yield location if is_url(location) else os.path.abspath(location)  # noqa: PTH100


def _probe(location: str) -> Hashable | None:
    """Return a fingerprint, also for remote files that Lightning writes through fsspec."""
    if not is_url(location):
        return fingerprint(location)
    fsspec: Any = sys.modules["fsspec"]  # Lightning imported it to write there
    files, path = fsspec.core.url_to_fs(location)
    if not files.exists(path):
        return None
    info = files.info(path)
    return tuple(str(info.get(key)) for key in ("size", "mtime", "LastModified", "created", "ETag"))


log = logging.getLogger("seamark")
LOGGERS: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""All live `SeamarkLogger` objects of this process."""
_KEY: Final = "seamark"
"""Checkpoint key whose value consists only of dicts, strings, ints and None."""
_FORMAT: Final = 1


class _Plan(NamedTuple):
    # `runs` are the new run id and project of each logger; `folders`, by number of the checkpoint
    # callback, the folder in the checkpoint and the new one; `refusal` is the reason why training
    # must not start.

    runs: tuple[tuple[str, str], ...] = ()
    folders: Mapping[int, tuple[str, str]] = {}
    refusal: str | None = None


class ResumeCallback(QuietCallback):
    """Continue the run of a checkpoint when a training loads it.

    Every Trainer created while a `SeamarkLogger` exists gets this callback automatically; a second
    one, or one in a Trainer without a `SeamarkLogger`, does nothing. It stores the run of each
    `SeamarkLogger` in every checkpoint under the key ``"seamark"``. When ``fit`` loads such a
    checkpoint, the loggers continue these runs as a new attempt, and readers hide records that
    earlier attempts made after the checkpoint. See ``resume`` of `SeamarkLogger`. With several
    ranks, every rank must have the logger.
    """

    # Has no ``state_dict``: Lightning rejects two callbacks of a class that have one.

    _saved: Mapping[str, Any] | None = None
    _mark_is_due = False

    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        # Called before all other callbacks, which may record data of a step.
        if self._loggers(trainer):
            trainer.callbacks = [self, *(one for one in trainer.callbacks if one is not self)]
            self._saved = None

    @guarded
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        if loggers := self._loggers(trainer):
            # Lightning saves in ``on_train_batch_end``, before it logs the metrics of the step, and
            # in ``on_train_epoch_end``, before it logs those of the epoch; these metrics belong to
            # the checkpoint. A handler of SLURM's signal, however, may save in the middle of a
            # step, which is then repeated.
            done = trainer.fit_loop.epoch_loop.batch_progress.current
            self._mark_is_due = bool(done.started == done.processed)
            states = {
                str(number): logger.checkpoint_state(marked=self._mark_is_due)
                for number, logger in enumerate(loggers)
            }
            self._saved = checkpoint[_KEY] = {"format": _FORMAT, "runs": states}

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        if loggers := self._loggers(trainer):
            plan = trainer.strategy.broadcast(
                self._plan(trainer, loggers, checkpoint) if trainer.is_global_zero else None
            )
            if plan.refusal:
                raise RunNotFoundError(plan.refusal)
            for number, (saved, folder) in plan.folders.items():
                callback = trainer.checkpoint_callbacks[number]
                callback.dirpath = folder
                _relocate(_state_of(callback, checkpoint), saved, folder)
            if not trainer.is_global_zero:
                self._follow(trainer, loggers, checkpoint, plan)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Raise if ``resume="must"`` and no run was found."""
        loggers = self._loggers(trainer)
        # Some strategies load a checkpoint later, after they have set up the model.
        if not (trainer.ckpt_path and trainer.strategy.restore_checkpoint_after_setup):
            _expect_resumed(trainer, loggers)
        if not getattr(trainer, "enable_autolog_hparams", True):
            for logger in loggers:  # in this case Lightning does not notify loggers of the stage
                logger.log_graph(pl_module)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        loggers = self._loggers(trainer)
        _expect_resumed(trainer, loggers)
        for logger in loggers:
            logger.begin_training(trainer)

    def on_train_epoch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self._mark_is_due:
            self._mark_is_due = False
            for logger in self._loggers(trainer):
                logger.own_run.mark_checkpoint()

    on_train_batch_start = on_train_end = on_train_epoch_start

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        # Lightning also notifies them after this, but not those that follow a logger that raises.
        for logger in self._loggers(trainer):
            logger.finalize("failed")

    # ---------------------------------------------------------------- internals

    def _loggers(self, trainer: Any) -> list[Any]:
        """Return the Seamark loggers of a trainer; empty if another such callback handles them."""
        first = next((one for one in trainer.callbacks if isinstance(one, ResumeCallback)), self)
        found = trainer.loggers if first is self else ()
        return [one for one in found if isinstance(one, _host.RunLogger)]

    def _plan(self, trainer: Any, loggers: Sequence[Any], checkpoint: Mapping[str, Any]) -> _Plan:
        """Resume on rank 0; the other ranks get an answer even if that fails."""
        try:
            if self._saved is None or checkpoint.get(_KEY) != self._saved:
                return _resume(trainer, loggers, checkpoint)
            # Otherwise it was just saved by a search for a learning rate or batch size.
        except RunNotFoundError as error:
            return _Plan(refusal=str(error))
        except Exception as error:  # noqa: BLE001 - training comes first
            self._lost("on_load_checkpoint", error)
        return _Plan()

    @guarded
    def _follow(
        self, trainer: Any, loggers: Sequence[Any], checkpoint: Mapping[str, Any], plan: _Plan
    ) -> None:
        for (logger, state), place in zip(_match(loggers, checkpoint), plan.runs, strict=False):
            logger.follow(*place)
            if state and (state.get("run"), state.get("project")) == place:
                logger.resume(state, training=trainer.state.fn == "fit")


def make_callbacks() -> list[ResumeCallback]:
    """Return the callback for a new Trainer; empty without a logger."""
    loggers = list(LOGGERS)
    for logger in loggers:
        logger.set_configurations_aside()
    return [ResumeCallback()] if loggers else []


def attach_late(trainer: Any) -> None:
    """Add a `ResumeCallback` to a trainer created before its Seamark logger."""
    if not any(isinstance(one, ResumeCallback) for one in trainer.callbacks):
        trainer.callbacks = [ResumeCallback(), *trainer.callbacks]
        if trainer.ckpt_path:
            log.warning(
                "seamark: the checkpoint was loaded without a ResumeCallback, so this is a new "
                "run; create the SeamarkLogger before the Trainer, or pass the Trainer a "
                "seamark.lightning.ResumeCallback"
            )


def _expect_resumed(trainer: Any, loggers: Sequence[Any]) -> None:
    """Raise on all ranks if a logger of rank 0 must resume a run and did not."""
    if any(logger.own_run.session.options.must_resume for logger in loggers):
        refusal = None
        try:
            for logger in loggers if trainer.is_global_zero else ():
                logger.own_run.session.resume.expect_found()
        except RunNotFoundError as error:
            refusal = str(error)
        if refusal := trainer.strategy.broadcast(refusal):
            raise RunNotFoundError(refusal)


def _resume(trainer: Any, loggers: Sequence[Any], checkpoint: Mapping[str, Any]) -> _Plan:
    before = _checkpoint_folder(trainer)
    runs = []
    for logger, state in _match(loggers, checkpoint):
        if state:
            logger.resume(state, training=trainer.state.fn == "fit")
        runs.append((logger.own_run.id, logger.own_run.project))
    folders = {}
    for number, callback in enumerate(trainer.checkpoint_callbacks):
        if before is not None and getattr(callback, "dirpath", None) == before:
            run_folder = trainer.loggers[0].own_run.folder
            saved = str(_state_of(callback, checkpoint).get("dirpath"))
            # The run may have been moved or renamed.
            place = moved_path(run_folder, saved)
            is_inside = is_below(run_folder, place)
            folder = place if is_inside else _checkpoint_folder(trainer)
            folders[number] = (saved if is_inside else "", folder)
    return _Plan(tuple(runs), folders)


def _checkpoint_folder(trainer: Any) -> Any:
    first = trainer.loggers[0]
    if not isinstance(first, _host.RunLogger):
        return None
    return os.path.join(first.log_dir, "checkpoints")  # noqa: PTH118 - it may be a URL


def _match(
    loggers: Sequence[Any], checkpoint: Mapping[str, Any]
) -> Iterator[tuple[Any, Mapping[str, Any] | None]]:
    # With equal numbers, loggers and states are matched by order; otherwise by project and prefix,
    # in order.
    kept = checkpoint.get(_KEY)  # not ours
    runs = kept.get("runs") if isinstance(kept, Mapping) else None
    left = [runs[number] for number in sorted(runs, key=int)] if isinstance(runs, Mapping) else []
    by_order = len(left) == len(loggers)
    if left and not by_order:
        log.warning(
            "seamark: the checkpoint is of %d loggers, the trainer has %d; loggers that could not "
            "be matched record new runs",
            len(left),
            len(loggers),
        )
    seen = set()
    for logger in loggers:
        own = {} if by_order else logger.checkpoint_state()
        names = () if by_order else ("project", "prefix")
        state = next((one for one in left if all(one.get(k) == own[k] for k in names)), None)
        left = [one for one in left if one is not state]
        if id(logger.own_run) not in seen:  # for one run, loading a checkpoint is a single attempt
            seen.add(id(logger.own_run))
            yield logger, state


def _state_of(callback: Any, checkpoint: Mapping[str, Any]) -> Any:
    return (checkpoint.get("callbacks") or {}).get(callback.state_key) or {}


def _relocate(state: dict[str, Any], old: str, new: str) -> None:
    # It would drop its saved files, or, in a copy, delete those of the original.

    def move(path: Any) -> Any:
        return new + path[len(old) :] if isinstance(path, str) and path.startswith(old) else path

    for name, value in state.items() if old else ():
        is_scores = isinstance(value, dict)
        state[name] = {move(path): value[path] for path in value} if is_scores else move(value)
