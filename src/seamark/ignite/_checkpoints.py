"""Recording the files that Ignite's own checkpoint handlers keep on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.ignite import _host
from seamark.ignite._target import checked_tag, dropping, target_of
from seamark.paths import join_path
from seamark.run.checkpoints import CheckpointSet
from seamark.values import encode_atom, to_float

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["CheckpointRecorder"]


class CheckpointRecorder:
    """Compares what a handler keeps with what is recorded, whenever it is called.

    Args:
        logger: Where to record.
        handler: A ``Checkpoint`` that saves with a ``DiskSaver``, or a ``DiskSaver``.
        tag: Namespace; None for none.

    Raises:
        TypeError: If the handler is neither.
        PathError: If the tag breaks the grammar of paths.
    """

    def __init__(self, logger: Any, handler: Any, tag: str | None) -> None:
        saver = getattr(handler, "save_handler", handler)
        folder = getattr(saver, "dirname", None)
        if not isinstance(folder, (str, os.PathLike)):
            msg = (
                "attach_checkpoint: expected a Checkpoint or ModelCheckpoint that saves with a "
                f"DiskSaver, or a DiskSaver, got {type(handler)} with {type(saver)}"
            )
            raise TypeError(msg)
        target_of(logger, "attach_checkpoint")
        self._logger = logger
        self._handler = handler
        self._folder = os.path.abspath(folder)  # noqa: PTH100 - resolve() would follow links
        self._tag = checked_tag(tag, "attach_checkpoint") or ""
        self._files: CheckpointSet | None = None
        self._recorded_by: tuple[Run, int] | None = None
        self._best: dict[str, Any] = {}

    def attach(self, engine: Any, event_name: Any) -> Any:
        """Look when an event fires and when the engine completes.

        Args:
            engine: The engine that the handler is attached to.
            event_name: An event, or several joined by ``|``.

        Returns:
            Ignite's ``RemovableEventHandle``.
        """
        target_of(self._logger, "attach_checkpoint")[0].session.before_end(self.settle)
        wanted = _host.engine.EventsList() | _host.engine.Events.COMPLETED
        several = isinstance(event_name, _host.engine.EventsList)
        for event in event_name if several else [event_name]:
            wanted = wanted | event
        return engine.add_event_handler(wanted, self)

    def __call__(self, *_args: Any, **_kwargs: Any) -> None:
        """Record what the handler keeps now. Never raises."""
        self._guarded(self._look)

    def settle(self) -> None:
        """Make the record equal the disk, at the end. Never raises."""
        self._guarded(self._settle)

    def _guarded(self, step: Any) -> None:
        run, base = target_of(self._logger, "attach_checkpoint")
        with dropping(run, "checkpoints", "checkpoints could not be recorded"):
            if run.session.speaks_for_all:
                step(run, join_path(base, self._tag, "model"))

    def _look(self, run: Run, namespace: str) -> None:
        locations = list(self._locations())
        if not locations and self._files is None:
            return  # nothing was saved yet: leave no trace on disk
        self._set_for(run, namespace).update(locations, self._folder)
        self._note_best(run, namespace)

    def _settle(self, run: Run, namespace: str) -> None:
        self._look(run, namespace)
        if self._files is not None:
            self._files.adopt(self._folder)
            self._files.settle()

    def _set_for(self, run: Run, namespace: str) -> CheckpointSet:
        """Return the record of this process; a run that was resumed or forked begins another."""
        if self._files is None or self._recorded_by != (run, os.getpid()):
            path = join_path(namespace, "checkpoints")
            self._files = CheckpointSet(run, path, keep=run.checkpoints == "keep")
            self._recorded_by = (run, os.getpid())
            self._best = {}
            run.session.before_end(self.settle)  # of a run that the logger went over to, too
        return self._files

    def _saved(self) -> list[tuple[float, str]]:
        """Return (priority, file name) of what a ``Checkpoint`` keeps, the best one last."""
        return list(self._handler.state_dict()["_saved"])

    def _locations(self) -> Iterator[str]:
        if hasattr(self._handler, "save_handler"):
            for _, name in self._saved():
                yield os.path.join(self._folder, name)  # noqa: PTH118 - text, as the record has it
            return
        for path in sorted(Path(self._folder).glob("*.*")):  # a file being written has no extension
            if path.is_file() and not path.name.startswith("."):
                yield str(path)

    def _note_best(self, run: Run, namespace: str) -> None:
        if getattr(self._handler, "score_function", None) is None or not (saved := self._saved()):
            return
        score, name = saved[-1]
        found = {
            join_path(namespace, "best_model_path"): os.path.join(self._folder, name),  # noqa: PTH118
            join_path(namespace, "best_model_score"): to_float(score),
        }
        if found != self._best:
            run.session.record_atoms({path: encode_atom(value) for path, value in found.items()})
            self._best = found
