"""Positional arguments of `init_run`, and continuation after a checkpoint is loaded."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import SeamarkError
from seamark.journal.folder import is_run_id
from seamark.opening.machine import is_run, open_checkpoint
from seamark.options.settings import Settings
from seamark.process.interrupts import logged, quietly
from seamark.process.rank import connected, current_rank
from seamark.values import encode_atom

if TYPE_CHECKING:
    from seamark.opening.opening import Opening, Saved
    from seamark.run.session import Session


log = logging.getLogger("seamark")
_LIKE_NEPTUNES: Final = re.compile(r"[A-Z][A-Z0-9]*-[1-9][0-9]*")
"""Pattern of run ids as Neptune makes them: the project's key and a number."""
_READ_ONCE: Final = frozenset({"groups", "secrets", "source_files", "tags"})
"""Options that may be generators and do not help to find a run."""


def parse_positional_argument(first: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run, with the positional one under its name.

    With ``project=`` it is ``with_id``, as in Neptune. Alone it is ``with_id`` if it looks like an
    id, a run has that id, and no project on this disk has that name; otherwise it is the project.
    """
    if first is None:
        return dict(given)
    named = given.get("with_id") is not None or given.get("custom_run_id") is not None
    is_neptunes = isinstance(first, str) and _LIKE_NEPTUNES.fullmatch(first) is not None
    is_id = is_neptunes or (isinstance(first, str) and is_run_id(first))
    if not named and (given.get("project") is not None or (is_id and _is_run(first, given))):
        return {**given, "with_id": first}
    if not named and is_neptunes and not current_rank().rank:
        log.warning(
            "seamark: init_run(%r) means the project of that name; for a run, use with_id=%r, and "
            "project=",
            *(first, first),
        )
    return {**given, "project": first}


def _is_run(first: str, given: Mapping[str, Any]) -> bool:
    with quietly(only=SeamarkError):  # reported where all of them are used
        others = {name: given[name] for name in given.keys() - _READ_ONCE}
        options = Settings.of(**{**others, "with_id": first})
        return options.mode not in ("disabled", "debug") and is_run(options, first)
    return False


_WITHDRAWN_S: Final = 5.0
"""Time limit for the disk when a process switches to another run, in seconds."""


def resume_checkpoint(session: Session, saved: Saved, *, stay: bool, training: bool) -> Session:
    """Return the session that continues after a checkpoint is loaded; see `seamark.Run.resumed`."""
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
    writer, silent = session.recorder.writer, session.recorder.silent
    is_new = writer is None or session.introduction.covers(list(writer.families))
    found = open_checkpoint(
        session.resume.opening, saved, stay=stay, training=training, is_new=is_new
    )
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
    found = session.continue_with(opening)
    if begins:
        found.begin_attempt(saved)
    if session.recorder.writer is not None:  # it was started immediately and has no further records
        log.info("seamark: run %s is not recorded: run %s continues", session.folder.run, saved.run)
        _withdraw(session)
        found.open_at_once()
    return found


def _withdraw(session: Session) -> None:
    # A run of this process alone is moved to the trash. From a shared run only the journals of this
    # process are removed.

    with logged(f"run {session.folder.run} could not be withdrawn", logging.DEBUG):
        shared = session.policy.common_id or session.options.names_a_run
        if not shared:
            session.recorder.values.assign_quietly({"sys/trashed": True})
        writer = session.recorder.writer
        own = writer.writers if shared and writer is not None else ()
        session.ending.finish("stop", _WITHDRAWN_S, quiet=True)  # otherwise it is written again
        for journal in session.folder.journals():
            if journal.writer in own:
                journal.path.unlink(missing_ok=True)
