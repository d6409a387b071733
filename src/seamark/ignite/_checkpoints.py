"""Recording the files that Ignite's own checkpoint handlers keep on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.ignite import _host
from seamark.ignite._target import checked_tag, dropping, target_of
from seamark.paths import join_path
from seamark.run.checkpoints import CheckpointSet, settle_at_exit

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

    def attach(self, engine: Any, event_name: Any) -> Any:
        """Look when an event fires and when the engine completes.

        Args:
            engine: The engine that the handler is attached to.
            event_name: An event, or several joined by ``|``.

        Returns:
            Ignite's ``RemovableEventHandle``.
        """
        wanted = _host.engine.EventsList() | _host.engine.Events.COMPLETED
        several = isinstance(event_name, _host.engine.EventsList)
        for event in event_name if several else [event_name]:
            wanted = wanted | event
        return engine.add_event_handler(wanted, self)

    def __call__(self, *_args: Any, **_kwargs: Any) -> None:
        """Record what the handler keeps now. Never raises."""
        self._update(is_end=False)

    def settle(self) -> None:
        """Make the record equal the disk, at the end. Never raises."""
        self._update(is_end=True)

    def _update(self, *, is_end: bool) -> None:
        run, base = target_of(self._logger, "attach_checkpoint")
        with dropping(run, "checkpoints", "checkpoints could not be recorded"):
            locations = self._locations()
            is_first = self._files is None
            if not run.session.speaks_for_all or (is_first and not locations):
                return  # nothing was saved yet: leave no trace on disk
            if self._files is None or self._recorded_by != (run, os.getpid()):  # resumed or forked
                path = join_path(base, self._tag, "model/checkpoints")
                self._files = CheckpointSet(run, path, keep=run.checkpoints == "keep")
                self._recorded_by = (run, os.getpid())
            self._files.update(locations, self._folder)
            self._note_best(self._files)
            if is_first:  # not before: the run, which is recorded to by now, closes after it
                settle_at_exit(self)
            if is_end:
                self._files.adopt(self._folder)
                self._files.settle()

    def _saved(self) -> list[tuple[float, str]]:
        """Return (priority, file name) of what a ``Checkpoint`` keeps, the best one last."""
        return list(self._handler.state_dict()["_saved"])

    def _locations(self) -> list[str]:
        if hasattr(self._handler, "save_handler"):
            # Text, as the record has it.
            return [os.path.join(self._folder, name) for _, name in self._saved()]  # noqa: PTH118
        files = sorted(Path(self._folder).glob("*.*"))  # a file being written has no extension
        return [str(path) for path in files if path.is_file() and not path.name.startswith(".")]

    def _note_best(self, files: CheckpointSet) -> None:
        if getattr(self._handler, "score_function", None) is None or not (saved := self._saved()):
            return
        score, name = saved[-1]
        files.note_best(os.path.join(self._folder, name), score)  # noqa: PTH118
