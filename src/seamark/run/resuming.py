"""Resumption of the run that a checkpoint was saved in, once the checkpoint is loaded."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from seamark.errors import SeamarkError
from seamark.opening.machine import open_checkpoint
from seamark.process.interrupts import quietly
from seamark.process.rank import connected, current_rank
from seamark.values import encode_atom

if TYPE_CHECKING:
    from seamark.opening.opening import Opening, Saved
    from seamark.run.session import Session

__all__ = ["resume_checkpoint"]

log = logging.getLogger("seamark")

_WITHDRAWN_S: Final = 5.0
"""Time limit for the disk when a process switches to another run, in seconds."""


def resume_checkpoint(session: Session, saved: Saved, *, stay: bool, training: bool) -> Session:
    """Return the session that continues once a checkpoint is loaded; see `seamark.Run.resumed`.

    Args:
        session: The session that the process has begun.
        saved: State of a run in the checkpoint.
        stay: Do not switch to another run.
        training: False where the checkpoint is only evaluated.

    Raises:
        RunNotFoundError: If ``resume="must"`` and the run is not found.
    """
    if stay or not (session.policy.connected_at_start and connected()):
        return _resume(session, saved, stay=stay, training=training)
    if not current_rank().rank:
        try:
            found = _resume(session, saved, stay=stay, training=training)
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


def _resume(session: Session, saved: Saved, *, stay: bool, training: bool) -> Session:
    """Return the session that continues, as this process alone decides."""
    writer, silent = session.recorder.writer, session.recorder.silent
    is_new = writer is None or session.introduction.covers(list(writer.families))
    found = open_checkpoint(session.opening, saved, stay=stay, training=training, is_new=is_new)
    if found.warning is not None and not silent:
        log.warning("seamark: %s", found.warning)
    if found.notes_origin and (training or writer is None):
        origin = {"run_id": saved.run, "project": saved.project}
        session.record_facts({f"origin/{name}": encode_atom(text) for name, text in origin.items()})
    if found.switch is not None:
        return _switch(session, saved, found.switch, begins=found.begins)
    if found.begins:
        session.begin_attempt(saved)
    return session


def _switch(session: Session, saved: Saved, opening: Opening, *, begins: bool) -> Session:
    """Return a session of the checkpoint's run, which is recorded instead of the first one."""
    found = session.continue_with(opening)
    if begins:
        found.begin_attempt(saved)
    if session.recorder.writer is not None:  # it began at once, and holds nothing but that
        log.info("seamark: run %s is not recorded: run %s goes on", session.folder.run, saved.run)
        _withdraw(session)
        found.open_at_once()
    return found


def _withdraw(session: Session) -> None:
    """Withdraw a run that holds no records of the user, and stop. Never raises.

    A run of this process alone goes into the trash. From one that others record too only the
    journals of this process are removed.
    """

    def lost(error: Exception) -> None:
        log.debug("seamark: run %s could not be withdrawn: %r", session.folder.run, error)

    with quietly(lost):
        shared = session.policy.common_id or session.options.names_a_run
        if not shared:
            session.recorder.values.assign_quietly({"sys/trashed": True})
        writer = session.recorder.writer
        own = writer.writers if shared and writer is not None else ()
        session.ending.finish("stop", _WITHDRAWN_S, quiet=True)  # else it is written again
        for journal in session.folder.journals():
            if journal.writer in own:
                journal.path.unlink(missing_ok=True)
