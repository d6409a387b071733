"""Bringing runs to another place: under which name, and not seen there before they are whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, RunExistsError, SeamarkError
from seamark.journal.folder import iter_runs
from seamark.journal.headers import begun_ns
from seamark.paths import check_project, home_of, model_key
from seamark.process.interrupts import let_pass
from seamark.registry.edits import record_beside
from seamark.remote.arrival import ArrivalJournal, trashing
from seamark.remote.protocol import KeepsByName, Purged, RemoteError, RunKey, Settles
from seamark.remote.sync import Patience, Synced, sync_run, what_is_left
from seamark.run.associated import SPACES
from seamark.run.transfers import transfer_to
from seamark.values import encode_atom

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.reading.arriving import Arrival, Conflict
    from seamark.reading.reader import Reader
    from seamark.remote.protocol import Remote
    from seamark.remote.sync import Left

__all__ = ["Moved", "Mover"]

_NAME: Final = "sys/name"
_TRASHED: Final = "sys/trashed"


@dataclass(slots=True)
class Moved(Synced):
    """Result of moving one run.

    Attributes:
        to: Where to.
        project: Project path there, with a place below it where it is no run.
        name: Its name there; None if it has none, or if it was there before.
        called: Its name here, if that was asked for.
        skipped: Whether nothing was sent, because another run there has its name.
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
    """Facts of a local run that matter where it is moved to."""

    name: str | None
    trashed: bool
    last_ns: int
    artifacts: list[tuple[str, Mapping[str, Any]]]


class Mover:
    """Moves runs to one place; may be used by several threads.

    Args:
        remote: The place.
        uri: How it is called.
        conflict: What to do where another run of the project has the name of one that comes.
        make_project: Whether projects that are not there are made.
        patience: With a place that does not answer.
        project: Project in which all of them come there; by default the one that each has here.

    Raises:
        ArgumentError: If it is no project, or the address of the place names one.
    """

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
            msg = f"project: {uri} names the project in which runs come there; got {project!r}"
            raise ArgumentError(msg)
        self._patience = patience or Patience()

    def look(self, folder: RunFolder) -> Left:
        """Return what of a run is not there; see `what_is_left`."""
        return what_is_left(folder, self._remote, self._patience, self._project)

    def move(self, left: Left, progress: Callable[[int], None] = lambda _: None) -> Moved:
        """Send what is left of a run.

        What is there already goes on: only a run of which nothing is there, or that was cut short
        on its way, is asked for by name. Never raises for what is wrong with the run or the place:
        that is among the problems.

        Args:
            left: As `look` returned it.
            progress: Told after each part how many bytes were sent.

        Raises:
            RunExistsError: If another run there has its name, and that is to be an error.
        """
        try:
            known = self._known_if_new(left)
            arrival = None if known is None else self._ask(left, known)
            if known is None or arrival is None:  # it goes on, or comes where no names are known
                return self._told(left, self._send(left, progress))
            return self._bring(left, known, arrival, progress)
        except Purged:
            return self._told(left, Synced(left.folder, purged=True))
        except RunExistsError:
            raise
        except (SeamarkError, OSError) as error:
            let_pass(error)
            return self._told(left, Synced(left.folder, problems=[str(error)]))

    # ---------------------------------------------------------------- one that comes

    def _known_if_new(self, left: Left) -> _Known | None:
        """Return what a run says of itself that comes for the first time, or was cut short."""
        folder = left.folder
        if folder.kind not in ("run", "artifact") or left.problems or left.purged:
            return None
        journal = ArrivalJournal(left.key, begun_ns(folder))
        arrived = left.known.get(journal.name, 0)
        is_new = not left.known or 0 < arrived <= len(journal.begin)
        return _known(folder) if is_new and folder.journals() else None

    def _send(self, left: Left, progress: Callable[[int], None]) -> Synced:
        return sync_run(left, self._remote, progress, self._patience)

    def _bring(
        self, left: Left, known: _Known, arrival: Arrival, progress: Callable[[int], None]
    ) -> Moved:
        folder, key = left.folder, left.key
        journal = ArrivalJournal(key, begun_ns(folder))
        if arrival.outcome == "skip":
            return self._told(left, Synced(folder), skipped=True)
        if journal.name not in left.known:
            self._patience.ask(lambda: self._remote.send(key, journal.name, 0, journal.begin))
        synced = self._send(left, progress)
        if synced.problems or synced.purged:
            return self._told(left, synced)
        now_ns = time.time_ns()
        arrival = self._ask(left, known) or arrival  # it may have taken hours
        if arrival.outcome == "skip":
            return self._told(left, synced, skipped=True)
        # Who replaces this one asked after it, and is later by the clock of the place.
        end_ns = max(arrival.t_ns or now_ns, known.last_ns + 1000)
        for other in arrival.others:
            self._trash(RunKey(key.project, other), max(time.time_ns(), end_ns + 2))
        path, transfer = transfer_to(folder, self._uri, arrival.name, end_ns, self._project)
        told = {path: encode_atom(transfer)}
        atoms = {_TRASHED: encode_atom(known.trashed), **told}
        if arrival.name is not None and arrival.name != known.name:
            atoms[_NAME] = encode_atom(arrival.name)
        ops = [{"op": "assign", "atoms": atoms}, *self._artifacts_there(known)]
        end = journal.end(ops, end_ns + 1)
        at = len(journal.begin)
        self._patience.ask(lambda: self._remote.send(key, journal.name, at, end))
        self._note_here(folder, told)
        return self._told(left, synced, name=arrival.name, called=known.name)

    def _ask(self, left: Left, known: _Known) -> Arrival | None:
        """Return what becomes of the run there; None of a place that cannot be asked.

        Raises:
            RunExistsError: If another run has its name, and that is to be an error.
            RemoteError: If there is no such project, and none is to be made.
        """
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
            msg = (
                f"{folder.words}: {there} of project {home!r} at {self._uri} has"
                f" the name {found.name!r:.200} (conflict= says what to do then)"
            )
            raise RunExistsError(msg)
        if found is not None and found.outcome == "no project":
            msg = (
                f"there is no project {home!r} at {self._uri} "
                "(make_project=True, or without --no-make-project, makes it)"
            )
            raise RemoteError(msg)
        return found

    def _trash(self, other: RunKey, t_ns: int) -> None:
        name, data = trashing(other, t_ns)
        self._patience.ask(lambda: self._remote.send(other, name, 0, data))

    def _note_here(self, folder: RunFolder, told: dict[str, Any]) -> None:
        """Record the transfer here too, and send that; a root may be one that is only read."""
        try:
            record_beside(folder, [{"op": "assign", "atoms": told}])
            left = what_is_left(folder, self._remote, self._patience, self._project)
            sync_run(left, self._remote, patience=self._patience)
        except (SeamarkError, OSError) as error:
            let_pass(error)

    def _artifacts_there(self, known: _Known) -> list[dict[str, Any]]:
        """Return ops that say of artifacts which a run names that they are in its project there."""
        return [
            {**value, "op": "artifact", "path": path, "of": {**of, "project": self._project}}
            for path, value in known.artifacts
            if self._project is not None
            and isinstance(of := value.get("of"), dict)
            and of.get("kind") == "artifact"
        ]

    def _told(self, left: Left, synced: Synced, **facts: Any) -> Moved:
        shared = {one.name: getattr(synced, one.name) for one in fields(Synced)}
        return Moved(**shared, to=self._uri, project=left.key.project, **facts)


def _known(folder: RunFolder) -> _Known:
    """Return what a run says of itself."""
    from seamark.index.index import Index

    with Index.open(folder.root) as index:
        index.refresh(folder.project, folder.run)
        view = index.view(folder.project, folder.run)
        last = max((one.last_t for one in view.journals()), default=0)
        name = _value(view, _NAME, str)
        if folder.kind == "artifact":
            name = model_key(folder.project, folder.run)
        held = [one for space in SPACES.values() for one in view.attributes(space)]
        artifacts = [(one.path, one.value) for one in held if one.family == "artifact"]
        return _Known(name, bool(_value(view, _TRASHED, bool)), last, artifacts)


def _versions(folder: RunFolder) -> list[str]:
    """Return the digests of all versions of an artifact here; of a run, nothing."""
    if folder.kind != "artifact":
        return []
    versions = iter_runs(folder.root, folder.project, models=True)
    return [one.run for one in versions if one.project == folder.project]


def _value(view: Reader, path: str, kind: type) -> Any:
    found = view.attribute(path)
    return found.value if found is not None and isinstance(found.value, kind) else None
