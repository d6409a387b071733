"""Checkpoints of a training, and the callback that continues the run of a loaded checkpoint.

Lightning (1.9.5 to 2.6.6) calls, in this order: ``setup`` of every callback, in which
``ModelCheckpoint`` takes its folder from the first logger; ``on_load_checkpoint`` of every callback
with the whole checkpoint; ``load_state_dict`` of every callback, in which ``ModelCheckpoint``
forgets its saved files if its folder is not the one in the checkpoint; ``on_fit_start``; and then
``log_hyperparams`` and ``log_graph``, the first calls that a logger records. Therefore runs and
folders change in ``on_load_checkpoint``.

Rank 0 decides and broadcasts the result, because the ranks may see different disks. If only some
ranks changed the folder of a ``ModelCheckpoint``, they would later disagree on whether to save, and
wait for each other for ever.
"""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
import weakref
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.blobs import is_below, moved_path
from seamark.errors import RunNotFoundError
from seamark.lightning import _host
from seamark.lightning._callbacks import QuietCallback
from seamark.paths import join_path
from seamark.process.interrupts import quietly
from seamark.run.adapters import CheckpointSet, fingerprint, guarded, is_url, settle_at_exit

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["LOGGERS", "Checkpoints", "ResumeCallback", "attach_late"]


# ``_last_checkpoint_saved`` (2.x) is the only name of a file saved because of an exception.
_PATH_ATTRIBUTES: Final = ("last_model_path", "best_model_path", "_last_checkpoint_saved")


class _Key(NamedTuple):
    # The identity of a callback; weak proxies have none of their own.

    state_key: str
    folder: str | None


class Checkpoints:
    """Records for each callback the files that it keeps, the best of them and its score.

    The Trainer's first callback records below ``<namespace>/checkpoints``, further ones below
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
        """Note a Trainer's first checkpoint callback: it keeps the plain namespace."""
        if self._first is None:
            self._first = next(
                (_key(one) for one in callbacks if hasattr(one, "best_model_path")), None
            )

    def saved(self, callback: Any) -> None:
        """Record the files that a callback (or a weak proxy of one) keeps, after a save."""
        key = _key(callback)
        if not self._savers:  # not before: the run, which is recorded to by now, closes after it
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
        # Make the record equal the disk; links and deletions come after the last save. What happens
        # after somebody stopped the run is not part of it.
        if self._run.get_state() == "stopped":
            return
        for key, files in list(self._savers.items()):
            with quietly(self._drop):  # the other callbacks, and how the stage ended
                self.saved(self._callbacks[key])
            files.adopt(key.folder)
            files.settle()

    def _drop(self, error: Exception) -> None:
        if not isinstance(error, ReferenceError):  # its Trainer is gone; its files may be there
            warn = f"a checkpoint callback is odd: {error!r}"
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
    """Like `fingerprint`, also for the remote files that Lightning writes through fsspec."""
    if not is_url(location):
        return fingerprint(location)
    fsspec: Any = sys.modules["fsspec"]  # Lightning has imported it to write there
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
    # `runs` has run id and project of each logger from now on; `folders`, by number of checkpoint
    # callback, the folder in the checkpoint and that from now on; `refusal` says why training must
    # not begin.

    runs: tuple[tuple[str, str], ...] = ()
    folders: Mapping[int, tuple[str, str]] = {}
    refusal: str | None = None


class ResumeCallback(QuietCallback):
    """Continues the run that a checkpoint was saved in when a training loads it.

    Every Trainer that is made while there is a `SeamarkLogger` gets one by itself; a second one
    does nothing, and neither does one in a Trainer without a `SeamarkLogger`. It puts the run of
    each `SeamarkLogger` into every checkpoint, under the key ``"seamark"``, and when ``fit`` loads
    such a checkpoint the loggers continue these runs: as a new attempt, before which readers hide
    what was recorded after the checkpoint. See ``resume`` of `SeamarkLogger`. With several ranks,
    every rank has to have the logger.
    """

    # Has no ``state_dict``: Lightning refuses two callbacks of one kind that have one.

    _saved: Mapping[str, Any] | None = None
    _mark_is_due = False

    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        # Come before all other callbacks, which may record something of a step.
        if self._loggers(trainer):
            trainer.callbacks = [self, *(one for one in trainer.callbacks if one is not self)]
            self._saved = None

    @guarded
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        if loggers := self._loggers(trainer):
            # Lightning saves in ``on_train_batch_end``, before it logs the metrics of the step, and
            # in ``on_train_epoch_end``, before it logs those of the epoch; they belong to the
            # checkpoint. A handler of SLURM's signal may save in the middle of a step, however,
            # which is then done again.
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
        """Refuse to train with ``resume="must"`` and no run found."""
        loggers = self._loggers(trainer)
        # Strategies that load a checkpoint after they have set up the model do so after this.
        if not (trainer.ckpt_path and trainer.strategy.restore_checkpoint_after_setup):
            _expect_resumed(trainer, loggers)
        if not getattr(trainer, "enable_autolog_hparams", True):
            for logger in loggers:  # Lightning tells no logger that a stage begins then
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
        # Lightning tells them as well, after this; but not those behind a logger that raises then.
        for logger in self._loggers(trainer):
            logger.finalize("failed")

    # ---------------------------------------------------------------- inside

    def _loggers(self, trainer: Any) -> list[Any]:
        """Return the Seamark loggers of a trainer; none if another such callback acts for them."""
        first = next((one for one in trainer.callbacks if isinstance(one, ResumeCallback)), self)
        found = trainer.loggers if first is self else ()
        return [one for one in found if isinstance(one, _host.RunLogger)]

    def _plan(self, trainer: Any, loggers: Sequence[Any], checkpoint: Mapping[str, Any]) -> _Plan:
        """Resume on rank 0; whatever goes wrong, the other ranks get an answer."""
        try:
            if self._saved is None or checkpoint.get(_KEY) != self._saved:
                return _resume(trainer, loggers, checkpoint)
            # Else it was saved a moment ago, by what tries out a learning rate or a batch size.
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
    """Return the callback for a Trainer that is being made; nothing if there is no logger."""
    loggers = list(LOGGERS)
    for logger in loggers:
        logger.set_configurations_aside()
    return [ResumeCallback()] if loggers else []


def attach_late(trainer: Any) -> None:
    """Give a trainer that was made before its Seamark logger a `ResumeCallback`."""
    if not any(isinstance(one, ResumeCallback) for one in trainer.callbacks):
        trainer.callbacks = [ResumeCallback(), *trainer.callbacks]
        if trainer.ckpt_path:
            log.warning(
                "seamark: the checkpoint was loaded without a ResumeCallback, so this is a new "
                "run; make the SeamarkLogger before the Trainer, or give the Trainer a "
                "seamark.lightning.ResumeCallback"
            )


def _expect_resumed(trainer: Any, loggers: Sequence[Any]) -> None:
    """Raise on all ranks if rank 0 has a logger that has to resume a run, and has not."""
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
            # The run may have been moved, or have had another name.
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
    # As many loggers as states belong together by their order; else those with the same project and
    # prefix, in order.
    kept = checkpoint.get(_KEY)  # a stranger's
    runs = kept.get("runs") if isinstance(kept, Mapping) else None
    left = [runs[number] for number in sorted(runs, key=int)] if isinstance(runs, Mapping) else []
    by_order = len(left) == len(loggers)
    if left and not by_order:
        log.warning(
            "seamark: the checkpoint is of %d loggers, the trainer has %d; those that could not be "
            "told apart record new runs",
            len(left),
            len(loggers),
        )
    seen = set()
    for logger in loggers:
        own = {} if by_order else logger.checkpoint_state()
        names = () if by_order else ("project", "prefix")
        state = next((one for one in left if all(one.get(k) == own[k] for k in names)), None)
        left = [one for one in left if one is not state]
        if id(logger.own_run) not in seen:  # of one run, loading a checkpoint is one attempt
            seen.add(id(logger.own_run))
            yield logger, state


def _state_of(callback: Any, checkpoint: Mapping[str, Any]) -> Any:
    return (checkpoint.get("callbacks") or {}).get(callback.state_key) or {}


def _relocate(state: dict[str, Any], old: str, new: str) -> None:
    # It would forget the files that it kept, or, of a copy, remove those of the first one.

    def move(path: Any) -> Any:
        return new + path[len(old) :] if isinstance(path, str) and path.startswith(old) else path

    for name, value in state.items() if old else ():
        is_scores = isinstance(value, dict)
        state[name] = {move(path): value[path] for path in value} if is_scores else move(value)
