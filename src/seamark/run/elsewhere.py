"""A run that is to be gone on with, and of which nothing or not all lies on this disk."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import ArgumentError, PathError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.journal.parts import is_whole
from seamark.paths import check_name, check_project
from seamark.process import fork
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank
from seamark.remote.asking import PATIENCE_S
from seamark.remote.protocol import Missing

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.options.settings import Settings
    from seamark.remote.opening import Opening

__all__ = ["Elsewhere", "ask_again", "find_elsewhere", "look_elsewhere"]

log = logging.getLogger("seamark")

_AS_NEW: Final = (
    ". It is recorded on this disk as if it were new, and put together with what is there when it "
    "is sent"
)


@dataclass(frozen=True)
class Elsewhere:
    """Facts that a remote knows about a run.

    Attributes:
        folder: Where it is recorded on this disk.
        opening: What one of them knows of it; None if all of it lies here, or nobody knows it.
        unanswered: Whether one was asked and did not say.
    """

    folder: RunFolder
    opening: Opening | None = None
    unanswered: bool = False

    @property
    def may_begin(self) -> bool:
        """Whether it may be recorded although nothing of it lies on this disk."""
        return self.opening is not None or self.unanswered


def find_elsewhere(options: Settings, folder: RunFolder) -> Elsewhere:
    """Ask the remotes of a run for it, if it was named and nothing of it lies here.

    Who gets no answer within a few seconds is warned once, and goes on: families, steps and
    attempts are settled by the fold then.

    Args:
        options: Of the run.
        folder: Where it would be recorded.

    Raises:
        ArgumentError: If ``with_id`` may mean several runs that are there.
    """
    if not options.names_a_run or options.resume == "never":
        return Elsewhere(folder)
    return _look(options, folder, _place(options, folder), _AS_NEW)


def look_elsewhere(options: Settings, folder: RunFolder) -> Elsewhere:
    """Ask the remotes of a run for another one, which a checkpoint names.

    Args:
        options: Of the run that was begun.
        folder: Where the other one would be recorded.
    """
    return _look(options, folder, folder)


def _look(
    options: Settings, folder: RunFolder, place: RunFolder | None, unknown: str = ""
) -> Elsewhere:
    """Ask for a run whose place is known; without that, for the one that its name means.

    Args:
        options: Of the run that is begun.
        folder: Where it would be recorded if nobody knows it.
        place: Where it lies.
        unknown: What is said to become of it where nobody answers.
    """
    is_here = folder.is_there()
    settled = folder.is_purged or (is_here and is_whole(folder))
    if not options.remotes or settled or current_rank().rank:
        return Elsewhere(folder)
    if is_here:  # with a part of it
        return Elsewhere(folder, ask_again(options, folder))
    asking = _Asking(options, folder.root, place)
    failures = asking.wait()
    if asking.found:
        return Elsewhere(*asking.found[0])
    if asking.ambiguous:
        raise asking.ambiguous[0]
    if not failures:
        return Elsewhere(folder)
    log.warning(
        "seamark: whether run %s exists elsewhere could not be found out: %s%s",
        *(options.with_id if place is None else place.run, failures[0][:400]),
        "" if place is None else unknown,
    )
    return Elsewhere(folder) if place is None else Elsewhere(place, unanswered=True)


def ask_again(
    options: Settings, folder: RunFolder, mark: tuple[str, int] | None = None
) -> Opening | None:
    """Ask the remotes of a run what they know of it, of which a part lies here; None: nothing.

    Args:
        options: Of the run.
        folder: The run.
        mark: Writer id and number of the mark of a checkpoint, if its ends are asked for.
    """
    asking = _Asking(options, folder.root, folder, mark)
    failures = asking.wait()
    if not asking.found and failures:
        log.warning(
            "seamark: run %s is only partly on this disk, and what the rest holds could not be "
            "found out: %s. It goes on with what is here",
            *(folder.run, failures[0][:400]),
        )
    return asking.found[0][1] if asking.found else None


def _place(options: Settings, folder: RunFolder) -> RunFolder | None:
    """Return where the run would lie that was named by its id; None if it was not."""
    if not options.names_an_id:
        return None
    if options.with_id is None:
        return folder
    project, _, run = options.with_id.rpartition("/")
    with quietly(only=PathError):
        project = check_project(project) if project else options.project
        return RunFolder(folder.root, project, check_name(run, "run"))
    return None


class _Asking:
    """Asks one remote after the other, until one knows the run; on a thread of its own.

    Args:
        options: Of the run.
        root: Where it would be recorded.
        place: Where in it; None if only its name is known.
        mark: Of a checkpoint; see `ask_again`.

    Attributes:
        found: Where the run lies, and what is known of it.
        failures: Why a remote did not say.
        ambiguous: Raised as several runs have that name.
    """

    def __init__(
        self,
        options: Settings,
        root: Path,
        place: RunFolder | None,
        mark: tuple[str, int] | None = None,
    ) -> None:
        self._options = options
        self._root = root
        self._place = place
        self._mark = mark
        self.found: list[tuple[RunFolder, Opening]] = []
        self.failures: list[str] = []
        self.ambiguous: list[ArgumentError] = []

    def wait(self) -> list[str]:
        """Ask on a thread, and wait for a few seconds; return why a remote did not say."""
        thread = threading.Thread(target=self.ask, name="seamark-opening", daemon=True)
        with quietly(only=RuntimeError):
            thread.start()
            thread.join(PATIENCE_S)
            if thread.is_alive():
                return [f"no answer within {PATIENCE_S:g} s"]
            return self.failures
        return []

    def ask(self) -> None:
        """Ask. Never raises."""
        for uri in self._options.remotes:
            try:
                if self._asked(uri):
                    return
            except (Missing, RunNotFoundError):
                continue
            except Exception as error:  # noqa: BLE001 - it may be somebody else's
                self.failures.append(str(error))

    def _asked(self, uri: str) -> bool:
        """Return whether a remote knows the run.

        Raises:
            Exception: If it does not say.
        """
        from seamark.remote.places import open_remote
        from seamark.remote.protocol import RunKey

        with fork.held_off():  # modules are imported
            remote: Any = open_remote(uri, self._options.api_token)
        try:
            ask = getattr(remote, "opening", None)
            place = self._place or self._meant(remote)
            if ask is None or place is None or self.ambiguous:
                return False
            told = {} if self._mark is None else {"mark": self._mark}
            self.found.append((place, ask(RunKey(place.project, place.run), PATIENCE_S, **told)))
        finally:
            with quietly():
                remote.close()
        return True

    def _meant(self, remote: Any) -> RunFolder | None:
        """Return the run that a name means there; None if it may mean several.

        Raises:
            RunNotFoundError: If it means none.
            RemoteError: If that cannot be known.
        """
        if (connection := getattr(remote, "connection", None)) is None:
            return None
        from seamark.reading.finding import Finder
        from seamark.remote.http.catalog import RemoteCatalog

        catalog = RemoteCatalog(connection)
        catalog.refresh()
        finder, word = Finder(catalog), str(self._options.with_id)
        try:
            found = finder.find(word, self._options.project, beginnings=False)
        except ArgumentError as error:
            self.ambiguous.append(error)
            return None
        return RunFolder(self._root, *found)
