"""A run that is to be gone on with, and of which nothing lies on this disk."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import PathError
from seamark.journal.folder import RunFolder
from seamark.paths import check_name, check_project
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank

if TYPE_CHECKING:
    from seamark.remote.opening import Opening
    from seamark.run.options import RunOptions

__all__ = ["Elsewhere", "find_elsewhere"]

log = logging.getLogger("seamark")

PATIENCE_S: Final = 5.0
"""How long the start of a run waits for what remotes know of it, in seconds."""


@dataclass(frozen=True)
class Elsewhere:
    """What remotes know of a run.

    Attributes:
        folder: Where it is recorded on this disk.
        opening: What one of them knows of it; None if it lies here, or nobody knows it.
        unanswered: Whether one was asked and did not say.
    """

    folder: RunFolder
    opening: Opening | None = None
    unanswered: bool = False

    @property
    def may_begin(self) -> bool:
        """Whether it may be recorded although nothing of it lies on this disk."""
        return self.opening is not None or self.unanswered


def find_elsewhere(options: RunOptions, folder: RunFolder) -> Elsewhere:
    """Ask the remotes of a run for it, if it was named and nothing of it lies here.

    Who gets no answer within a few seconds is warned once, and goes on: families, steps and
    attempts are settled by the fold then.

    Args:
        options: Of the run.
        folder: Where it would be recorded.
    """
    asked = options.remotes and options.names_a_run and options.resume != "never"
    if not asked or folder.is_there() or folder.purged_mark.exists() or current_rank().rank:
        return Elsewhere(folder)
    if (place := _place(options, folder)) is None:
        return Elsewhere(folder)
    found: list[Opening] = []
    failures: list[str] = []
    asking = threading.Thread(
        target=_ask, args=(options, place, found, failures), name="seamark-opening", daemon=True
    )
    with quietly(only=RuntimeError):
        asking.start()
        asking.join(PATIENCE_S)
        if asking.is_alive():
            failures.append(f"no answer within {PATIENCE_S:g} s")
    if found:
        return Elsewhere(place, found[0])
    if failures:
        log.warning(
            "seamark: whether run %s exists elsewhere could not be found out: %s. It is recorded "
            "on this disk as if it were new, and put together with what is there when it is sent",
            *(place.run, failures[0][:400]),
        )
        return Elsewhere(place, unanswered=True)
    return Elsewhere(folder)


def _place(options: RunOptions, folder: RunFolder) -> RunFolder | None:
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


def _ask(options: RunOptions, folder: RunFolder, found: list[Opening], failures: list[str]) -> None:
    """Ask one remote after the other, until one knows the run."""
    from seamark.remote.places import open_remote
    from seamark.remote.protocol import Missing, RunKey

    for uri in options.remotes:
        try:
            remote: Any = open_remote(uri, options.api_token)
            if (ask := getattr(remote, "opening", None)) is None:
                continue
            found.append(ask(RunKey(folder.project, folder.run), PATIENCE_S))
            remote.close()
        except Missing:
            continue
        except Exception as error:  # noqa: BLE001 - it may be somebody else's
            failures.append(str(error))
        else:
            return
