"""Resumption of the run that a checkpoint was saved in, once the checkpoint is loaded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from seamark.errors import RunNotFoundError, SeamarkError
from seamark.journal.folder import RunFolder
from seamark.journal.parts import is_whole
from seamark.process.interrupts import quietly
from seamark.process.rank import connected, current_rank
from seamark.run.elsewhere import Elsewhere, look_elsewhere
from seamark.values import encode_atom

if TYPE_CHECKING:
    from seamark.run.resume import Saved
    from seamark.run.session import Session

__all__ = ["Resuming"]

log = logging.getLogger("seamark")

_WITHDRAWN_S: Final = 5.0
"""Seconds to wait for the disk where a run is left that goes on elsewhere."""


class Resuming:
    """Decision which session goes on where a checkpoint is loaded, and the step to that one.

    Args:
        session: The session that the process has begun.
        saved: State of a run in the checkpoint.
        stay: Do not switch to another run.
        training: False where the checkpoint is only evaluated: no attempt begins, and only
            ``resume="must"`` switches to its run.
    """

    def __init__(self, session: Session, saved: Saved, *, stay: bool, training: bool) -> None:
        self._session, self._saved = session, saved
        self._stay, self._training = stay, training

    def resume(self) -> Session:
        """Return the session that goes on.

        Raises:
            RunNotFoundError: If ``resume="must"`` and the run is not below this root.
        """
        if self._session.together.connected_at_start and connected() and not self._stay:
            return self._on_all_ranks()
        return self._decide()

    def _on_all_ranks(self) -> Session:
        """Resume the run that rank 0 decides on, on all ranks."""
        session = self._session
        if not current_rank().rank:
            try:
                found = self._decide()
            except SeamarkError as error:
                session.agree(error)
                raise
            return found.agree()
        before = session.resume.origin.begun
        session.resume.mark_checkpoint()
        found = session.agree()
        if found is not session:
            session.ending.finish("stop", _WITHDRAWN_S, quiet=True)
            found.open_at_once()
        elif found.resume.origin.begun != before:
            session.recorder.begin_attempt()
        return found

    def _decide(self) -> Session:
        """Return the session that goes on as far as this process knows."""
        session, saved, options = self._session, self._saved, self._session.options
        here, must = session.folder, options.resume == "must"
        begins = self._training and options.resume != "never"
        if options.mode in ("disabled", "read-only"):
            return session
        if (saved.run, saved.project) == (here.run, here.project):
            if begins:
                session.begin_attempt(saved)
            return session
        place = RunFolder(here.root, saved.project, saved.run)
        elsewhere, exists = Elsewhere(place), place.journal_dir.is_dir()
        if (must or begins) and not (exists and is_whole(place)):
            elsewhere = look_elsewhere(options, place)
            exists = exists or elsewhere.opening is not None
        if must and not exists:
            raise RunNotFoundError(saved.not_found(here))
        if exists and (must or begins):
            writer = session.recorder.writer
            is_new = writer is None or session.introduction.covers(writer.families)
            if is_new and not (self._stay or options.names_a_run):
                return self._switch(elsewhere)
            warn = f"the checkpoint is of run {saved.run!r}; continuing with run {here.run!r}"
            self._warn(warn)
        elif begins:
            self._warn(f"{saved.not_found(here)}; recording a new run")
        if self._training or session.recorder.writer is None:
            session.tell(
                {
                    "origin/run_id": encode_atom(saved.run),
                    "origin/project": encode_atom(saved.project),
                }
            )
        return session

    def _warn(self, message: str) -> None:
        if not self._session.recorder.silent:
            log.warning("seamark: %s", message)

    def _switch(self, elsewhere: Elsewhere) -> Session:
        """Return a session of the checkpoint's run, which is recorded instead of the first one."""
        session, saved = self._session, self._saved
        found = session.at(saved.run, saved.project, elsewhere=elsewhere)
        if self._training:
            found.begin_attempt(saved)
        if session.recorder.writer is not None:  # it began at once, and holds nothing but that
            log.info(
                "seamark: run %s is not recorded: run %s goes on", session.folder.run, saved.run
            )
            self._withdraw()
            found.open_at_once()
        return found

    def _withdraw(self) -> None:
        """Take back what has begun and does not come to be, and stop.

        A run of this process alone goes into the trash. From one that others record too only what
        this process wrote is removed.
        """
        session = self._session

        def lost(error: Exception) -> None:
            log.debug("seamark: run %s could not be withdrawn: %r", session.folder.run, error)

        with quietly(lost):
            shared = session.policy.common_id or session.options.names_a_run
            if not shared:
                session.recorder.assign_quietly({"sys/trashed": True})
            writer = session.recorder.writer
            own = writer.writers if shared and writer is not None else ()
            session.ending.finish("stop", _WITHDRAWN_S, quiet=True)  # else it is written again
            for journal in session.folder.journals():
                if journal.writer in own:
                    journal.path.unlink(missing_ok=True)
