"""The checkpoints of all checkpoint callbacks that save under one logger."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.paths import join_path
from seamark.process.interrupts import quietly
from seamark.run.checkpoints import CheckpointSet, fingerprint, is_url, settle_at_exit

if TYPE_CHECKING:
    from seamark.run.run import Run

__all__ = ["Checkpoints"]

# ``_last_checkpoint_saved`` (2.x) is the only name of a file saved because of an exception.
_PATH_ATTRIBUTES: Final = ("last_model_path", "best_model_path", "_last_checkpoint_saved")


class _Key(NamedTuple):
    """The identity of a callback; weak proxies have none of their own."""

    state_key: str
    folder: str | None


class Checkpoints:
    """Records for each callback the files that it keeps, the best of them and its score.

    The Trainer's first callback records below ``<namespace>/checkpoints``, further ones below
    ``<namespace>/<slug of their state_key>/checkpoints``.

    Args:
        run: Where to record.
        namespace: Attribute path of the model, such as ``"training/model"``.
        keep: Take the bytes into the run folder, instead of recording where they are.
    """

    def __init__(self, run: Run, namespace: str, *, keep: bool) -> None:
        self._run = run
        self._namespace = namespace
        self._keep = keep
        self._savers: dict[_Key, CheckpointSet] = {}
        self._callbacks: dict[_Key, Any] = {}
        self._first: _Key | None = None

    def watch(self, callbacks: Iterable[Any]) -> None:
        """Note the first checkpoint callback of a Trainer that begins a stage.

        It keeps the plain namespace, whichever saves first.
        """
        if self._first is None:
            self._first = next(
                (_key(one) for one in callbacks if hasattr(one, "best_model_path")), None
            )

    def saved(self, callback: Any) -> None:
        """Record what a callback keeps; it has just saved something.

        Args:
            callback: A checkpoint callback, or a weak proxy of one.
        """
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
        """Make the record equal the disk; links and deletions come after the last save.

        What happens after somebody stopped the run is not part of it.
        """
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
