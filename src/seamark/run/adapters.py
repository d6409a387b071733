"""Parts that all adapters share: the base of their loggers, and records of checkpoints.

A callback names files before some of them exist, and removes others later without notice. A
`CheckpointSet` therefore compares names with the disk: the relevant ones at every save, and all of
them when a stage of the training ends. Only a file that the callback itself removed leaves the
record. A file that the callback still names, or that disappeared with its folder, was removed by
something else, such as the end of a temporary folder.
"""

from __future__ import annotations

import atexit
import math
import os
import stat
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from seamark.blobs import find_inside, is_below
from seamark.errors import ArgumentError, FileMissingError
from seamark.options.run_options import check_names
from seamark.paths import check_path, is_inside, join_path
from seamark.process.interrupts import let_pass, quietly
from seamark.reading.attributes import Attribute
from seamark.run.handler import Handler
from seamark.run.run import Run, make_run
from seamark.types import Histogram
from seamark.values import Atom, encode_atom, histograms, series_leaves, to_float
from seamark.values._numbers import argument_error

P = ParamSpec("P")
Self = TypeVar("Self")


def guarded(
    method: Callable[Concatenate[Self, P], None],
) -> Callable[Concatenate[Self, P], None]:
    """Pass errors of a method, but not of signal handlers, to ``_lost(method name, error)``."""

    @wraps(method)
    def quiet(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the promise of this decorator
            let_pass(error)
            self._lost(method.__name__, error)

    return quiet


def words_of(logger: object, run: Run | None) -> str:
    """Return the repr of a logger: its class, and project, id, name and root of its run."""
    kind = type(logger).__name__
    if run is None:  # it is being constructed or unpickled
        return f"<{kind}>"
    name = f" {run.name!r}" if run.name else ""
    return f"<{kind} of {run.project}/{run.id}{name} in {run.root}>"


def check_run(run: object, others: Mapping[str, Any], what: str = "SeamarkLogger") -> None:
    """Check ``run=``, and that no argument for a new run is given besides it, except None."""
    if run is None:
        return
    root = run.get_root_object() if isinstance(run, Handler) else run
    if not isinstance(root, Run):
        wanted = "the Run that seamark.init_run() returns, or a namespace such as run['folds/1']"
        raise argument_error(run, f"{what}(run=...)", wanted)
    if redundant := [name for name, value in others.items() if value is not None]:
        raise ArgumentError(
            f"{what}(run=...): {', '.join(redundant)} cannot be given with an existing "
            "run; pass them to seamark.init_run() instead"
        )


def agreed_run(run: Run) -> Run:
    """Return the run of rank 0, into which all ranks record. Every rank must call this."""
    session = run.session.agree()
    return run if session is run.session else Run(session)


def new_run(*, api_key: str | None = None, **given: Any) -> Run:
    """Return a run that touches no disk until something is recorded."""
    if api_key is not None:
        if given.get("api_token") is not None:
            raise ArgumentError("SeamarkLogger: expected api_key or api_token (synonyms), got both")
        given["api_token"] = api_key
    return make_run(**check_names(given))


def record_series(run: Run, values: Mapping[str, Any], step: Any, prefix: str = "") -> None:
    """Record numbers, in one row, and texts at one step; count other values. Never raises."""
    with run.session.recorder.guard("series", "values could not be recorded"):
        numbers, texts = series_leaves(values, prefix)
        if numbers:
            run.log_metrics(numbers, step)
        if texts:
            _append_each(run, "text", texts, step)


def record_histograms(run: Run, tensors: Mapping[str, Any], step: Any, prefix: str = "") -> None:
    """Record histograms at one step, computed on the tensors' device. Never raises."""
    what = f"histograms below {prefix!r} could not be recorded"
    with run.session.recorder.guard("histogram", what):
        made, failed = histograms({join_path(prefix, name): each for name, each in tensors.items()})
        points = {path: Histogram(edges, counts) for path, (edges, counts) in made.items()}
        if points:
            _append_each(run, "histogram", points, step)
        for path, trouble in failed.items():
            run.session.drop(
                "histogram", warn=f"the histogram of {path!r} could not be recorded: {trouble}"
            )


def _append_each(run: Run, what: str, points: Mapping[str, Any], step: Any) -> None:
    try:
        Handler(run, "").append(points, step=step)
    except Exception as error:  # noqa: BLE001 - nothing was written; the next lines tell which
        let_pass(error)
        for path, point in points.items():
            with run.session.recorder.guard(what, f"a {what} could not be recorded at {path!r}"):
                run[path].append(point, step=step)


def batch_size(loader: Any) -> int | None:
    """Return the batch size of this process; None if its loader does not define it."""
    for one in (loader, getattr(loader, "batch_sampler", None)):
        size = getattr(one, "batch_size", None)
        if isinstance(size, int):
            return size
    return None


_SAVES_UNTIL_REMOVED: Final = 2
"""Number of saves after which a replaced file is removed: callbacks remove it after reporting the
save."""


def is_url(location: str) -> bool:
    """Return whether a location is on a remote file system, such as ``s3://bucket/last.ckpt``."""
    return "://" in location


def checkpoint_name(location: str, folder: str | None) -> str:
    """Return a checkpoint's name on the run: its path below the folder, without extension.

    Empty if it is not inside the folder; without a folder the whole path is the name.
    """
    if folder is None:
        relative = location.partition("://")[2] if is_url(location) else location
    elif is_url(location) or is_url(folder):
        start = folder.rstrip("/") + "/"
        relative = location[len(start) :] if location.startswith(start) else ""
    else:
        relative = os.path.relpath(location, folder)
        if relative == os.curdir or relative.startswith(os.pardir + os.sep):
            relative = ""
    stem = os.path.splitext(relative.replace(os.sep, "/"))[0]  # noqa: PTH122 - of a URL too
    return join_path(*stem.split("/"))


def fingerprint(location: str) -> Hashable | None:
    """Return size, mtime and inode of a file, or of a folder's files; None if it is missing."""
    try:
        found = os.stat(location)  # noqa: PTH116 - the hook runs in the training loop
        if not stat.S_ISDIR(found.st_mode):
            return found.st_size, found.st_mtime_ns, found.st_ino
        return tuple(
            (str(part), each.st_size, each.st_mtime_ns, each.st_ino)
            for part in sorted(Path(location).rglob("*"))
            for each in (part.stat(),)
            if not stat.S_ISDIR(each.st_mode)
        )
    except (FileNotFoundError, NotADirectoryError):
        return None


def settle_at_exit(checkpoints: Any) -> None:
    """Call ``settle`` at the end of this process, when asynchronous writers are done.

    Call this after the first record of the run, so that the run is closed later. Only a weak
    reference is held.
    """
    reference, pid = weakref.ref(checkpoints), os.getpid()

    def settle() -> None:
        found = reference()
        if found is not None and pid == os.getpid():
            found.settle()

    atexit.register(settle)


@dataclass(slots=True)
class _Checkpoint:
    # `stamp` is the fingerprint of the recorded file, None if there is none. For `removable`
    # further saves, a missing file counts as removed by the callback.

    path: str
    stamp: Hashable | None = None
    removable: float = 0

    def note_save(self, *, named: bool, was_named: bool) -> None:
        if named:
            self.removable = 0
        elif was_named:
            self.removable = _SAVES_UNTIL_REMOVED
        elif self.removable:
            self.removable -= 1


class CheckpointSet:
    """The checkpoints of one callback, recorded as files below one namespace of a run.

    No method raises if recording fails: the failure is counted on the run, with a warning. ``keep``
    copies the bytes into the run folder. ``probe`` detects whether a checkpoint exists and changed;
    the default, `fingerprint`, cannot examine remote files.
    """

    def __init__(
        self,
        run: Run,
        namespace: str,
        *,
        keep: bool = False,
        probe: Callable[[str], Hashable | None] = fingerprint,
    ) -> None:
        self._run = run
        self.namespace = namespace
        self._keep = keep
        self._probe = probe
        self._files: dict[str, _Checkpoint] = {}
        self._named: set[str] = set()
        self._adopted = False
        self._best: dict[str, Atom] = {}

    def update(self, locations: Iterable[str], folder: str | None) -> None:
        """Record the files that a callback names after a save; remove those that it deleted.

        A file that left the list is checked twice, because callbacks delete it after this call. A
        file that stays on disk stays recorded, whatever happens to it later. A missing file is
        recorded once it exists. Files outside ``folder`` are recorded under their file names.
        """
        named = list(locations)
        for location in named:
            if location not in self._files:
                self._add(location, folder)
        before, self._named = self._named, set(named)
        for location, file in self._files.items():
            file.note_save(named=location in self._named, was_named=location in before)
        for location in sorted(self._files):
            if location in self._named or self._files[location].removable:
                self._look(location)

    def note_best(self, location: str, score: Any) -> None:
        """Record which checkpoint is the best one, and its score, if that changed."""
        found: dict[str, object] = {"best_model_path": location}
        if score is not None:
            found["best_model_score"] = to_float(score)
        model = self.namespace.rpartition("/")[0]
        best = {join_path(model, name): encode_atom(found[name]) for name in found}
        # If the disk is full, the next save tries again.
        if best != self._best and self._run.session.record_atoms(best):
            self._best = best

    def adopt(self, folder: str | None) -> None:
        """Take over the references into the folder that earlier processes of the run recorded.

        A callback that restores its state from a checkpoint deletes those files without naming
        them. Bytes kept in the run have no location and stay. The first call reads the run; further
        calls do nothing.
        """
        if self._adopted:
            return
        self._adopted = True
        if len(self._run.folder.journals()) < 2:  # noqa: PLR2004 - nobody else wrote to this run
            return
        found: list[Attribute] = []
        with self._guard("what was recorded before could not be read"):
            # A callback does not delete files of another machine, and a hook must not wait for
            # them.
            reader = self._run.session.recorded.local_reader()
            found = [] if reader is None else reader.attributes(self.namespace)
        own = {one.path for one in self._files.values()}
        for one in found:
            if one.family != "file" or one.path in own:
                continue
            location = self._place_of(one.value)
            if location and location not in self._files and checkpoint_name(location, folder):
                stamp = tuple(one.value.get(key) for key in ("size", "mtime_ns", "inode"))
                self._files[location] = _Checkpoint(one.path, stamp, math.inf)

    def settle(self) -> None:
        """Check every checkpoint named so far; links and deletions may appear late."""
        for location in tuple(self._files):
            self._look(location)

    def _place_of(self, file: Mapping[str, Any]) -> str | None:
        """Return the location of a file, also in a moved folder; None if its bytes are kept."""
        location = file.get("ref")
        if location is None or is_url(location) or is_below(self._run.folder, location):
            return location
        if "inside" in file:  # it may be missing: a callback may have deleted it since
            return str(self._run.folder.path / file["inside"])
        found = find_inside(self._run.folder, file)
        return location if found is None else str(found.path)

    def _add(self, location: str, folder: str | None) -> None:
        name = checkpoint_name(location, folder)
        if not name:
            name = checkpoint_name(location, os.path.dirname(location))  # noqa: PTH120 - or URL
        whole, extension = checkpoint_name(location, None), os.path.splitext(location)[1]  # noqa: PTH122
        names = (name, name + extension, whole, whole + extension)  # "a.ckpt" next to "a.pt"
        taken = {one.path for one in self._files.values()}
        paths = [join_path(self.namespace, one) for one in names]
        path = next((one for one in paths if one not in taken), paths[-1])
        with self._guard(f"checkpoint {location} has a name that is not a path"):
            self._files[location] = _Checkpoint(check_path(path))

    def _look(self, location: str) -> None:
        with self._guard(f"checkpoint {location} could not be recorded"):
            try:
                found = self._probe(location)
                if found is None:
                    self._forget_removed(location)
                elif self._files[location].stamp != found:
                    self._take(location, found)
            except FileMissingError:  # deleted since it was checked
                self._forget_removed(location)

    def _guard(self, what: str) -> quietly:
        return self._run.session.recorder.guard("checkpoints", what)

    def _take(self, location: str, found: Hashable) -> None:
        self._run.session.begin()
        file, content = self._files[location], self._run.session.content
        if self._keep and not is_url(location):
            recorded = content.keep(file.path, Path(location))
        else:
            recorded = content.refer(file.path, location if is_url(location) else Path(location))
        if recorded:  # otherwise the disk was full; the next check tries again
            file.stamp = found

    def _forget_removed(self, location: str) -> None:
        file = self._files[location]
        if file.stamp is None or not file.removable:
            return
        if not is_url(location) and not Path(location).parent.is_dir():
            return
        if not self._run.session.record_op({"op": "delete", "paths": [file.path]}):
            file.removable = math.inf  # the disk was full: every save checks it
            return
        file.stamp, file.removable = None, 0
        self._run.session.content.prune(file.path)
        for other, one in self._files.items():  # removing "a" removed "a/b" too
            if one.stamp is not None and is_inside(one.path, file.path):
                self._take(other, one.stamp)
