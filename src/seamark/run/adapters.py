"""Parts that all adapters share: the base of their loggers, and records of checkpoints.

A callback names files when it saves, some of which do not exist yet, and removes others later
without notice. A `CheckpointSet` therefore compares names with the disk: those that matter at every
save, and all of them when a stage of the training ends. Only a file that the callback itself
removed leaves the record: one that it still names, or that disappeared with its folder, was removed
by somebody else, such as the end of a temporary folder.
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
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from seamark.blobs import find_inside, is_below
from seamark.errors import ArgumentError, FileMissingError
from seamark.options.run_options import check_names
from seamark.paths import check_path, is_inside, join_path
from seamark.process.interrupts import let_pass, quietly
from seamark.run.handler import Handler
from seamark.run.run import Run, make_run
from seamark.types import Histogram
from seamark.values import encode_atom, histograms, series_leaves, to_float
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute
    from seamark.values import Atom

__all__ = [
    "CheckpointSet",
    "agreed_run",
    "batch_size",
    "check_run",
    "checkpoint_name",
    "fingerprint",
    "guarded",
    "is_url",
    "new_run",
    "record_histograms",
    "record_series",
    "settle_at_exit",
    "words_of",
]


P = ParamSpec("P")
Self = TypeVar("Self")


def guarded(
    method: Callable[Concatenate[Self, P], None],
) -> Callable[Concatenate[Self, P], None]:
    """Hand errors of a method, but not of signal handlers, to ``_lost(method name, error)``."""

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
    if run is None:  # it is being made, or unpickled
        return f"<{kind}>"
    name = f" {run.name!r}" if run.name else ""
    return f"<{kind} of {run.project}/{run.id}{name} in {run.root}>"


def check_run(run: object, others: Mapping[str, Any], what: str = "SeamarkLogger") -> None:
    """Check ``run=``, and that nothing (but None) is given beside it for a new run."""
    if run is None:
        return
    root = run.get_root_object() if isinstance(run, Handler) else run
    if not isinstance(root, Run):
        wanted = "the Run that seamark.init_run() returns, or a namespace such as run['folds/1']"
        raise argument_error(run, f"{what}(run=...)", wanted)
    if redundant := [name for name, value in others.items() if value is not None]:
        msg = (
            f"{what}(run=...): {', '.join(redundant)} cannot be given with a run that "
            "exists; pass them to seamark.init_run() instead"
        )
        raise ArgumentError(msg)


def agreed_run(run: Run) -> Run:
    """Return the run that all ranks record into: that of rank 0. Every rank has to call this."""
    session = run.session.agree()
    return run if session is run.session else Run(session)


def new_run(*, api_key: str | None = None, **given: Any) -> Run:
    """Return a run that touches no disk until something is recorded."""
    if api_key is not None:
        if given.get("api_token") is not None:
            msg = "SeamarkLogger: expected api_key or api_token (they are the same), got both"
            raise ArgumentError(msg)
        given["api_token"] = api_key
    return make_run(**check_names(given))


def record_series(run: Run, values: Mapping[str, Any], step: Any, prefix: str = "") -> None:
    """Record numbers in one row, and texts, at one step; count the rest. Never raises."""
    try:
        numbers, texts = series_leaves(values, prefix)
        if numbers:
            run.log_metrics(numbers, step)
    except Exception as error:  # noqa: BLE001 - stands in training loops
        let_pass(error)
        run.session.drop(
            "series", warn=f"values could not be recorded: {type(error).__name__}: {error}"
        )
        return
    if texts:
        _append_each(run, "text", texts, step)


def record_histograms(run: Run, tensors: Mapping[str, Any], step: Any, prefix: str = "") -> None:
    """Record histograms, made where the tensors are, at one step; never raises."""
    what = f"histograms below {prefix!r} could not be recorded"
    with run.session.recorder.guard("histogram", what):
        made, failed = histograms({join_path(prefix, name): each for name, each in tensors.items()})
        points = {path: Histogram(edges, counts) for path, (edges, counts) in made.items()}
        if points:
            _append_each(run, "histogram", points, step)
        for path, trouble in failed.items():
            run.session.drop("histogram", warn=f"no histogram of {path!r}: {trouble}")


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
    """Return size, mtime and inode (of a folder: of its files); None if nothing is there."""
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

    Call this after the first record of the run, which closes after it then. Only a weak reference
    is held.
    """
    reference, pid = weakref.ref(checkpoints), os.getpid()

    def settle() -> None:
        found = reference()
        if found is not None and pid == os.getpid():
            found.settle()

    atexit.register(settle)


@dataclass(slots=True)
class _Checkpoint:
    # `stamp` is the fingerprint of the file that is recorded, None while none is; `removable`, for
    # how many further saves it is the callback that removed it if it is gone.

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

    def try_again(self) -> None:
        self.removable = math.inf  # until its record is deleted


class CheckpointSet:
    """The checkpoints of one callback, recorded as files below one namespace of a run.

    No method raises if recording fails: it is warned about and counted on the run. ``keep``
    takes the bytes into the run folder; ``probe`` finds out whether a checkpoint is there and
    changed, which `fingerprint` does unless remote files are expected.
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
        """Record the files that a callback names after a save; forget those that it removed.

        A file that left the list is looked at twice, because callbacks remove it after this call.
        One that stays on disk stays recorded, whatever happens to it later. One that does not exist
        yet is recorded once it does. What lies outside of ``folder`` is recorded under its file
        name.
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
        # Where the disk is full, the next save tries again.
        if best != self._best and self._run.session.record_atoms(best):
            self._best = best

    def adopt(self, folder: str | None) -> None:
        """Take over the references into the folder that earlier processes of the run recorded.

        A callback that reads its state back from a checkpoint removes their files without naming
        them. Kept bytes name no place and stay. The first call reads the run; further ones do
        nothing.
        """
        if self._adopted:
            return
        self._adopted = True
        if len(self._run.folder.journals()) < 2:  # noqa: PLR2004 - nobody else wrote to this run
            return
        found: list[Attribute] = []
        with self._guard("what was recorded before could not be read"):
            # Files of another machine are none that a callback removes; and a hook waits for none.
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
        """Look at every checkpoint that was ever named here; links and deletions may come late."""
        for location in tuple(self._files):
            self._look(location)

    def _place_of(self, file: Mapping[str, Any]) -> str | None:
        """Return where a file is now, in a moved folder, too; None if bytes are kept."""
        location = file.get("ref")
        if location is None or is_url(location) or is_below(self._run.folder, location):
            return location
        if "inside" in file:  # there or not: a callback may have removed it since
            return str(self._run.folder.path / file["inside"])
        found = find_inside(self._run.folder, file)
        return location if found is None else str(found.path)

    def _add(self, location: str, folder: str | None) -> None:
        name = checkpoint_name(location, folder)
        if not name:
            name = checkpoint_name(location, os.path.dirname(location))  # noqa: PTH120 - or URL
        whole, extension = checkpoint_name(location, None), os.path.splitext(location)[1]  # noqa: PTH122
        names = (name, name + extension, whole, whole + extension)  # "a.ckpt" beside "a.pt"
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
            except FileMissingError:  # removed since it was looked at
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
        if recorded:  # else the disk was full; the next look tries again
            file.stamp = found

    def _forget_removed(self, location: str) -> None:
        file = self._files[location]
        if file.stamp is None or not file.removable:
            return
        if not is_url(location) and not Path(location).parent.is_dir():
            return
        if not self._run.session.record_op({"op": "delete", "paths": [file.path]}):
            file.try_again()  # the disk was full: every save looks at it
            return
        file.stamp, file.removable = None, 0
        self._run.session.content.prune(file.path)
        for other, one in self._files.items():  # removing "a" removed "a/b" too
            if one.stamp is not None and is_inside(one.path, file.path):
                self._take(other, one.stamp)
