"""Transfers of runs, models and artifacts to other places, where they are hidden until complete."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, RunExistsError, RunNotFoundError, SeamarkError
from seamark.journal.folder import RunFolder, iter_runs, root_dir
from seamark.journal.headers import first_record_ns
from seamark.journal.safe import is_folder
from seamark.options.run_options import folder_at, path_of
from seamark.paths import check_project, home_of, model_key
from seamark.process.interrupts import let_pass, quietly
from seamark.reading.names import check_conflict
from seamark.remote.arrival import ArrivalJournal, trashing
from seamark.remote.protocol import KeepsByName, Purged, RemoteError, RunKey, Settles
from seamark.remote.sync import Patience, Synced, sync_run, unsent_data
from seamark.run.container import Container
from seamark.run.lineage import SPACES, artifact_folder
from seamark.run.logbook import append_ops
from seamark.run.shipping import transfer_to
from seamark.values import encode_atom
from seamark.values._numbers import argument_error

if TYPE_CHECKING:
    from seamark.index.index import Index
    from seamark.reading.attributes import Attribute
    from seamark.reading.catalog import Ref
    from seamark.reading.names import Arrival, Conflict
    from seamark.reading.reader import Reader
    from seamark.remote.protocol import Remote
    from seamark.remote.sync import Left


_NAME: Final = "sys/name"
_TRASHED: Final = "sys/trashed"


def sync(
    what: Any,
    to: str | None = None,
    *,
    make_project: bool = True,
    conflict: Conflict = "new",
    project: str | None = None,
    root: str | os.PathLike[str] | None = None,
    api_token: str | None = None,
) -> list[Moved]:
    """Send runs, models and artifacts to a server or to another root, as ``seamark sync`` does.

    Artifacts on this disk that are inputs or outputs of a run are sent before it. A run that exists
    there is continued, and nothing is sent twice. A new run becomes visible there once it is
    complete. The call may be interrupted at any time and repeated.

    Args:
        what: A run, an artifact or a model: the object, its id, its name, ``PROJECT/NAME``,
            ``"latest"``, or its folder; a version, such as ``"digits:3"``, likewise; a folder with
            any of them; or several of these.
        to: Destination such as ``"https://seamark.lab"`` or ``"file:///mnt/runs"``; SEAMARK_REMOTE,
            if that names a single place.
        make_project: Whether to create missing projects.
        conflict: Action if another run of the project there has the same name: ``"new"`` names this
            one ``<name>-2`` there, ``"skip"`` does not send it, ``"error"`` raises, ``"replace"``
            moves the other run to the trash there. An artifact version becomes a further version
            with ``"new"``; the other actions apply if the artifact there has no version in common
            with this one, and ``"replace"`` moves all of its versions to the trash.
        project: Destination project for all of them and for the artifacts sent with runs; by
            default each keeps its project.
        root: Folder of all runs, in which names are searched; SEAMARK_DIR or the nearest
            ``.seamark``.
        api_token: For the server; SEAMARK_API_TOKEN, or what ``seamark login`` has kept.

    Returns:
        The result of each, in the order of sending: artifacts before their run.

    Raises:
        ArgumentError: If an argument is invalid, or a name is ambiguous.
        RunNotFoundError: If ``what`` does not exist.
        RunExistsError: With ``conflict="error"``, if another run there has the same name.
        RemoteError: If an item could not be sent; all others were.
    """
    from seamark.blobs import finish_staged
    from seamark.remote.schemes import canonical, open_remote, shown

    check_conflict(conflict)
    uri = _place(to)
    folders = with_artifacts(dict.fromkeys(_folders(what, root)))
    if not folders:
        raise RunNotFoundError(f"what: expected runs, got nothing in {what!r:.200}")
    with contextlib.closing(open_remote(uri, api_token)) as remote:
        expect_other_place(remote, folders)
        place = shown(canonical(uri))
        mover = Mover(remote, place, conflict=conflict, make_project=make_project, project=project)
        done = []
        for folder in folders:
            finish_staged(folder)
            done.append(mover.move(mover.look(folder)))
    if problems := [line for one in done for line in one.problems]:
        msg = f"not everything was sent to {place}: {'; '.join(dict.fromkeys(problems))}"
        raise RemoteError(msg[:2000])
    return done


@dataclass(slots=True)
class Moved(Synced):
    """Result of moving one run.

    Attributes:
        to: Destination.
        project: Project path there; for containers other than runs, with the path within the
            project.
        name: Name there; None if it has none or existed before.
        called: Name here, if one was requested.
        skipped: Whether nothing was sent because another run there has the name.
    """

    to: str = ""
    project: str = ""
    name: str | None = None
    called: str | None = None
    skipped: bool = False

    @property
    def run(self) -> str:
        """Run id, here and there."""
        return self.folder.run


@dataclass(frozen=True, slots=True)
class _Known:
    name: str | None
    trashed: bool
    last_ns: int
    artifacts: list[tuple[str, Mapping[str, Any]]]
    journal: ArrivalJournal


class Mover:
    """Transfer of runs to one place; thread-safe."""

    def __init__(
        self,
        remote: Remote,
        uri: str,
        *,
        conflict: Conflict = "new",
        make_project: bool = True,
        patience: Patience | None = None,
        project: str | None = None,
    ) -> None:
        self._remote, self._uri = remote, uri
        self._conflict, self._make_project = conflict, make_project
        self._project = None if project is None else check_project(project)
        if project is not None and isinstance(remote, KeepsByName):
            raise ArgumentError(
                f"project: {uri} determines the project of sent runs; got {project!r}"
            )
        self._patience = patience or Patience()

    def look(self, folder: RunFolder) -> Left:
        """Return the missing parts of a run; see `what_is_left`."""
        return unsent_data(folder, self._remote, self._patience, self._project)

    def move(self, left: Left, progress: Callable[[int], None] = lambda _: None) -> Moved:
        """Send the unsent data of a run, as `look` returned it.

        An existing run is continued; names are only checked for new runs and interrupted transfers.
        Raises only `RunExistsError`; other errors are among the problems. ``progress`` is called
        with the number of sent bytes after each part.
        """
        try:
            known = self._known_if_new(left)
            arrival = None if known is None else self._ask(left, known)
            if known is None or arrival is None:  # it is continued, or the destination has no names
                return self._moved(left, sync_run(left, self._remote, progress, self._patience))
            return self._bring(left, known, arrival, progress)
        except Purged:
            return self._moved(left, Synced(left.folder, purged=True))
        except RunExistsError:
            raise
        except (SeamarkError, OSError) as error:
            let_pass(error)
            return self._moved(left, Synced(left.folder, problems=[str(error)]))

    # ---------------------------------------------------------------- a new run

    def _known_if_new(self, left: Left) -> _Known | None:
        """Return facts about a run that is new or incomplete there, else None."""
        folder = left.folder
        if folder.kind not in ("run", "artifact") or left.problems or left.purged:
            return None
        journal = ArrivalJournal(left.key, first_record_ns(folder))
        arrived = left.known.get(journal.name, 0)
        is_new = not left.known or 0 < arrived <= len(journal.begin)
        return _known(folder, journal) if is_new and folder.journals() else None

    def _bring(
        self, left: Left, known: _Known, arrival: Arrival, progress: Callable[[int], None]
    ) -> Moved:
        folder, key, journal = left.folder, left.key, known.journal
        if arrival.outcome == "skip":
            return self._moved(left, Synced(folder), skipped=True)
        if journal.name not in left.known:
            self._patience.ask(lambda: self._remote.send(key, journal.name, 0, journal.begin))
        synced = sync_run(left, self._remote, progress, self._patience)
        if synced.problems or synced.purged:
            return self._moved(left, synced)
        now_ns = time.time_ns()
        arrival = self._ask(left, known) or arrival  # it may have taken hours
        if arrival.outcome == "skip":
            return self._moved(left, synced, skipped=True)
        # A run that replaces this one checked the name later, by the clock of the destination.
        end_ns = max(arrival.t_ns or now_ns, known.last_ns + 1000)
        for other in arrival.others:
            replaced = RunKey(key.project, other)
            name, data = trashing(replaced, max(time.time_ns(), end_ns + 2))
            self._patience.ask(functools.partial(self._remote.send, replaced, name, 0, data))
        path, transfer = transfer_to(folder, self._uri, arrival.name, end_ns, self._project)
        told = {path: encode_atom(transfer)}
        atoms = {_TRASHED: encode_atom(known.trashed), **told}
        if arrival.name is not None and arrival.name != known.name:
            atoms[_NAME] = encode_atom(arrival.name)
        ops = [{"op": "assign", "atoms": atoms}, *self._moved_artifacts(known)]
        end = journal.end(ops, end_ns + 1)
        at = len(journal.begin)
        self._patience.ask(lambda: self._remote.send(key, journal.name, at, end))
        self._record_transfer(folder, told)
        return self._moved(left, synced, name=arrival.name, called=known.name)

    def _ask(self, left: Left, known: _Known) -> Arrival | None:
        if not isinstance(remote := self._remote, Settles):
            return None
        folder, home = left.folder, home_of(left.key.project)
        found = self._patience.ask(
            lambda: remote.arrive(
                left.key,
                known.name if not known.trashed else None,
                "new" if known.trashed else self._conflict,
                make_project=self._make_project,
                versions=_versions(folder),
            )
        )
        if found is not None and found.outcome == "taken":
            there = f"run {', '.join(found.others)}"
            if folder.kind == "artifact":
                there = "another artifact"
            raise RunExistsError(
                f"{folder.words}: {there} of project {home!r} at {self._uri} has"
                f" the name {found.name!r:.200} (conflict= selects what to do)"
            )
        if found is not None and found.outcome == "no project":
            raise RemoteError(
                f"there is no project {home!r} at {self._uri} "
                "(make_project=True, or no --no-make-project, creates it)"
            )
        return found

    def _record_transfer(self, folder: RunFolder, told: dict[str, Any]) -> None:
        """Record the transfer in the local run, unless that is read-only, and send the record."""
        with quietly(only=(SeamarkError, OSError)):
            append_ops(folder, [{"op": "assign", "atoms": told}])
            sync_run(self.look(folder), self._remote, patience=self._patience)

    def _moved_artifacts(self, known: _Known) -> list[dict[str, Any]]:
        return [
            {**value, "op": "artifact", "path": path, "of": {**of, "project": self._project}}
            for path, value in known.artifacts
            if self._project is not None
            and isinstance(of := value.get("of"), dict)
            and of.get("kind") == "artifact"
        ]

    def _moved(self, left: Left, synced: Synced, **facts: Any) -> Moved:
        shared = {one.name: getattr(synced, one.name) for one in fields(Synced)}
        return Moved(**shared, to=self._uri, project=left.key.project, **facts)


def _known(folder: RunFolder, journal: ArrivalJournal) -> _Known:
    from seamark.index.index import Index

    with Index.open(folder.root) as index:
        index.refresh(folder.project, folder.run)
        view = index.view(folder.project, folder.run)
        last = max((one.last_t for one in view.journals()), default=0)
        name = _value(view, _NAME, str)
        if folder.kind == "artifact":
            name = model_key(folder.project, folder.run)
        artifacts = [(one.path, one.value) for one in _marked(view)]
        return _Known(name, bool(_value(view, _TRASHED, bool)), last, artifacts, journal)


def _marked(view: Reader) -> list[Attribute]:
    held = [one for space in SPACES.values() for one in view.attributes(space)]
    return [one for one in held if one.family == "artifact"]


def _versions(folder: RunFolder) -> list[str]:
    if folder.kind != "artifact":
        return []
    versions = iter_runs(folder.root, folder.project, models=True)
    return [one.run for one in versions if one.project == folder.project]


def _value(view: Reader, path: str, kind: type) -> Any:
    found = view.attribute(path)
    return found.value if found is not None and isinstance(found.value, kind) else None


def with_artifacts(folders: Iterable[RunFolder]) -> list[RunFolder]:
    """Return each folder once, with the local artifacts of each run before it."""
    from seamark.index.index import Index

    found: dict[RunFolder, None] = {}
    with contextlib.ExitStack() as opened:
        index_of = functools.cache(lambda root: opened.enter_context(Index.open(root)))
        for folder in folders:
            if folder.kind == "run" and folder.exists():
                found |= dict.fromkeys(_artifacts_of(index_of(folder.root), folder))
            found[folder] = None
    return list(found)


def _artifacts_of(index: Index, folder: RunFolder) -> list[RunFolder]:
    with quietly(only=SeamarkError):  # errors of the run are reported when it is sent
        view = index.fresh_view(folder.project, folder.run)
        given = [one.value.get("of") for one in _marked(view)]
        return [found for of in given if (found := artifact_folder(of, folder.root)) is not None]
    return []


def expect_other_place(remote: Remote, folders: Iterable[RunFolder]) -> None:
    """Raise `ArgumentError` if the remote is the root of one of the runs."""
    there = getattr(remote, "root", None)
    for root in {folder.root for folder in folders}:
        if isinstance(there, Path) and there.exists() and there.samefile(root):
            raise ArgumentError(f"to: expected another place than the root itself, got {there}")


def _place(to: str | None) -> str:
    from seamark.remote.schemes import canonical

    given = [to] if to else os.environ.get("SEAMARK_REMOTE", "").replace(",", " ").split()
    if len(given) != 1:
        raise ArgumentError(
            "to: expected one place, such as 'https://seamark.lab' or 'file:///mnt/runs', here or "
            f"in SEAMARK_REMOTE, got {len(given)}"
        )
    return canonical(given[0])


def _folders(what: Any, root: str | os.PathLike[str] | None) -> Iterator[RunFolder]:
    if isinstance(what, Container):
        yield what.folder
    elif isinstance(what, str | os.PathLike):
        yield from _named(what, root)
    elif isinstance(what, Iterable):
        for one in what:
            yield from _folders(one, root)
    else:
        raise argument_error(what, "what", "a run, its name, a folder or several of these")


def _named(
    what: str | os.PathLike[str], root: str | os.PathLike[str] | None
) -> Iterator[RunFolder]:
    if (place := path_of(what)) is not None:
        if not place.is_dir():
            raise argument_error(os.fspath(what), "what", "a folder with runs", RunNotFoundError)
        if (found := folder_at(place)) is not None:
            yield found
            return
        inside = (one for one in sorted(place.iterdir()) if is_folder(one))
        yield from filter(None, map(folder_at, inside))  # of one project
        for one in iter_runs(place, models=True):
            if not one.is_purged:
                yield folder_at(one.path) or one
        return
    from seamark.index.index import Index

    with Index.open(root_dir(root)) as index:
        index.refresh()
        try:
            ref = _found(index, str(what))
        except RunNotFoundError:
            if not is_folder(Path(what)):
                raise
            yield from _named(Path(what).absolute(), root)  # such as ".seamark"
            return
    yield RunFolder(root_dir(root), *ref)


def _found(index: Index, word: str) -> Ref:
    from seamark.reading.finding import Finder
    from seamark.store.query.selection import find_registered

    try:
        return Finder(index).find(word)
    except RunNotFoundError:
        with contextlib.suppress(RunNotFoundError):
            return find_registered(index, word).ref
        raise
