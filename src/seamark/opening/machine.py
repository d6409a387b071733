"""The `World` of a process: its disk, its launcher and the remotes of the run."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from seamark.errors import PathError
from seamark.journal.folder import RunFolder, hashed_run_id
from seamark.journal.safe import is_folder
from seamark.opening.catalogs import open_catalog
from seamark.opening.place import own_root, reading_place
from seamark.opening.remotes import ask_for_run, claim_name, copy_run
from seamark.opening.resolve import Launch, Presence, RemoteAnswer, resolve, resolve_checkpoint
from seamark.opening.restarts import JobRun, Restart, restart_of_named, restart_of_unnamed
from seamark.opening.revisions import find_duplicate
from seamark.paths import check_name, check_project
from seamark.process.interrupts import quietly
from seamark.process.job import restart_count
from seamark.process.rank import current_rank
from seamark.reading.finding import Finder
from seamark.reading.names import LATEST

if TYPE_CHECKING:
    from seamark.opening.opening import Opening, Saved
    from seamark.opening.resolve import CheckpointDecision
    from seamark.options.settings import Settings

__all__ = ["is_run", "open_checkpoint", "open_run"]


def open_run(options: Settings, *, trains: bool = False) -> Opening:
    """Decide where this process records a run, and what it goes on with.

    The journals that an owner continues are copied to this disk first.

    Args:
        options: Arguments of the run.
        trains: Whether the process may own the run whatever its state: a logger of a training.

    Raises:
        SeamarkError: As `resolve`; `ArgumentError` if the root is no path, or another user's and
            not named.
    """
    world = _Machine.of(options)
    return copy_run(resolve(options, world), trains=trains)


def is_run(options: Settings, project: str) -> bool:
    """Return whether ``with_id`` names a run, and no project has a name; claims nothing.

    Args:
        options: Arguments of the run.
        project: The name.

    Raises:
        SeamarkError: If that cannot be known.
    """
    options = replace(options, conflict=None, make_project=None)
    world = _Machine.of(options)
    if is_folder(world.root / project):
        return False
    opening = resolve(options, world)
    is_known = not opening.is_unanswered or world.presence(opening.folder).exists
    return opening.refusal is None and is_known


def open_checkpoint(
    opening: Opening, saved: Saved, *, stay: bool, training: bool, is_new: bool
) -> CheckpointDecision:
    """Decide which run goes on where a checkpoint is loaded; see `resolve_checkpoint`."""
    world = _Machine(opening.options, opening.folder.root, None)
    found = resolve_checkpoint(opening, saved, world, stay=stay, training=training, is_new=is_new)
    if found.switch is None:
        return found
    return found._replace(switch=copy_run(found.switch, trains=training))


class _Machine:
    """Disk, launcher and remotes of this process.

    Args:
        options: Arguments of the run.
        root: Below which it is recorded, or read.
        place: Root or address of a server where it is only read; None for the root.

    What lies on the disk is looked at once for each run: a decision is of one moment.
    """

    def __init__(self, options: Settings, root: Path, place: Path | str | None) -> None:
        self._options, self.root = options, root
        self._known: dict[RunFolder, Presence] = {}
        self._server = place if isinstance(place, str) else None

    @classmethod
    def of(cls, options: Settings) -> _Machine:
        root = own_root(options.mode, options.root, named=bool(options.with_id))
        place = reading_place(options)
        return cls(options, place if isinstance(place, Path) else root, place)

    @cached_property
    def launch(self) -> Launch:
        return Launch(current_rank().rank, restart_count())

    def find(self) -> RunFolder:
        options, root, project = self._options, self.root, self._options.project
        if self._server is not None:
            return self._find_on_server(self._server)
        if options.custom_run_id:
            return RunFolder(root, project, hashed_run_id(project, options.custom_run_id))
        word = str(options.with_id)
        # The index is not opened for a run whose id is given in full.
        for name in ((project, word), word.rpartition("/")[::2]):
            with quietly(only=PathError):
                folder = RunFolder(root, check_project(name[0]), check_name(name[1]))
                here = self.presence(folder)
                if folder.run != LATEST and (here.exists or here.link is not None):
                    return folder
        from seamark.index.finding import find_below  # SQLAlchemy is for those who need it

        beginnings = options.mode == "read-only"
        return RunFolder(root, *find_below(root, word, project, beginnings=beginnings))

    def _find_on_server(self, place: str) -> RunFolder:
        options, project = self._options, self._options.project
        with contextlib.closing(open_catalog(place, options.api_token)) as catalog:
            if options.custom_run_id:
                run = hashed_run_id(project, options.custom_run_id)
                catalog.fresh_view(project, run)
                return RunFolder(self.root, project, run)
            catalog.refresh()
            return RunFolder(self.root, *Finder(catalog).find(str(options.with_id), project))

    def presence(self, folder: RunFolder) -> Presence:
        if self._server is not None:
            return Presence(exists=True)  # it answered for the run
        if folder not in self._known:
            self._known[folder] = Presence(exists=folder.exists())
            with quietly(only=OSError):  # its project cannot be read
                purged, link = folder.is_purged, folder.link(inside=False)
                self._known[folder] = self._known[folder]._replace(is_purged=purged, link=link)
        return self._known[folder]

    def ask_remotes(self, place: RunFolder | None) -> RemoteAnswer:
        return ask_for_run(self._options, self.root, place)

    def job_run(self) -> JobRun:
        return JobRun.next()

    def restarted(self, folder: RunFolder, job_run: JobRun | None) -> Restart:
        if job_run is None:
            return restart_of_named(folder)
        return restart_of_unnamed(folder, job_run)

    def find_duplicate(self, folder: RunFolder) -> str | None:
        return find_duplicate(self._options, folder)

    def claim_name(self, folder: RunFolder) -> tuple[str | None, tuple[str, ...]]:
        return claim_name(self._options, folder)
