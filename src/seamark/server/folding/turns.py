"""Turns of folding: the next stored bytes of one run, up to a limit."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.folder import split_journal_name
from seamark.journal.format import FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES
from seamark.journal.safe import Source
from seamark.server.changes import note_changes
from seamark.server.folding import tables
from seamark.server.kept.journals import IntakeJournal, IntakeJournals
from seamark.server.kept.plan import Segment, StoredSource
from seamark.store.database import Upsert
from seamark.store.fold.run_state import JournalState
from seamark.store.ingest import UNREADABLE, Folding
from seamark.store.runs import Store, forget_run, places_of

TURN_BYTES: Final = 16 << 20
"""Maximum number of bytes of a run folded in one turn."""
_MAX_FRAME_BYTES: Final = FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES + 8

_SET_POSITION: Final = Upsert(
    tables.folded, ("project", "run", "position"), ("project", "run"), overwrite=True
)
_DELETE_POSITION: Final = sa.delete(tables.folded).where(
    tables.folded.c.project == sa.bindparam("at_project"),
    tables.folded.c.run == sa.bindparam("at_run"),
)


class Turn(NamedTuple):
    """Result of a turn: stored bytes of the run, and whether `more` remain to be folded."""

    position: int
    more: bool


class _Part(StoredSource):
    def pread(self, size: int, offset: int) -> bytes:
        try:
            return super().pread(size, offset)
        except OSError as error:
            raise _temporary(error) from error


def _segments_before(segments: Iterable[Segment], end: int) -> list[Segment]:
    # Declared gaps are folded whole.
    return [
        one._replace(length=min(one.length, end - one.offset)) if one.place is not None else one
        for one in segments
        if one.offset < end
    ]


def fold_turn(  # noqa: C901 - one transaction
    store: Store,
    kept: IntakeJournals,
    project: str,
    run: str,
    now_ns: Callable[[], int],
    *,
    most: int = TURN_BYTES,
    more: Callable[[sa.Connection], None] | None = None,
) -> Turn:
    """Fold at most `most` stored bytes of a run, and save the result.

    A longer frame is folded whole. `more` writes further rows in the same transaction.

    Raises:
        Conflict: If another process folded the run at the same time; nothing is lost.
        OSError: If bytes cannot be read now.
    """
    journals = dict(sorted(kept.journals(project, run).items()))
    if not journals:
        forget(store, project, run, more=more)
        return Turn(0, more=False)
    ends: dict[str, int] = {}

    def opened(name: str) -> Source:
        try:
            segments = kept.segments(project, run, name)
        except OSError as error:
            raise _temporary(error) from error
        return _Part(kept.objects, name, _segments_before(segments, ends[name]))

    folding = Folding(
        store, project, run, opened, now_ns, heard=lambda name: journals[name].heard_ns
    )
    again = not all(_is_continuation(one, journals) for one in folding.run.state.journals.values())
    if again:
        folding.discard_state()
    ends.update(_turn_ends(folding.run.state.journals.values(), journals, most))
    folding.add_journals({uid: name for name in ends if (uid := split_journal_name(name)[1])})
    folding.fold(lambda one: ends.get(one.file, 0) > one.offset or one.stopped == UNREADABLE)
    if folding.failed:
        raise OSError(
            errno.EIO, f"cannot read {len(folding.failed)} journals of {project}/{run} now"
        )
    position = sum(one.size for one in journals.values())
    left = position > sum(ends.values())

    def write(connection: sa.Connection) -> None:
        # A position is valid only if all bytes stored at one moment are folded; a partial sum would
        # not show the progress of each journal.
        if again or not left:
            database, at = store.database, 0 if left else position
            database.run(connection, _SET_POSITION, project=project, run=run, position=at)
        if more is not None:
            more(connection)
        if folding.changed:
            note_changes(store.database, connection, [(project, run)])

    is_new = folding.is_new
    if folding.changed:
        folding.save(more=write)
    else:
        with store.database.writing() as connection:
            write(connection)
    if is_new and not kept.journals(project, run):  # purged meanwhile
        forget(store, project, run)
        return Turn(0, more=False)
    return Turn(position, more=left)


def _temporary(error: OSError) -> OSError:
    # An error without a number counts as permanent.
    return OSError(error.errno or errno.EIO, str(error))


def forget(
    store: Store,
    project: str,
    run: str,
    *,
    more: Callable[[sa.Connection], None] | None = None,
) -> None:
    """Remove a run whose journals were removed."""
    database = store.database
    with database.writing() as connection:
        found = places_of(store, connection, [(project, run)])
        for one in found.values():
            forget_run(store, connection, one.number)
        database.run(connection, _DELETE_POSITION, at_project=project, at_run=run)
        if more is not None:
            more(connection)
        if found:
            note_changes(database, connection, [(project, run)], gone=True)


def _is_continuation(journal: JournalState, kept: Mapping[str, IntakeJournal]) -> bool:
    # Bytes are never replaced.
    found = kept.get(journal.file)
    return found is not None and found.size >= journal.offset


def _turn_ends(
    known: Iterable[JournalState], kept: Mapping[str, IntakeJournal], most: int
) -> dict[str, int]:
    # Shortest rest first, so that a long journal does not delay others.
    folded = {one.file: one.offset for one in known}
    left, ends = most, {}
    rests = sorted((one.size - folded.get(name, 0), name) for name, one in kept.items())
    for rest, name in rests:
        share = min(rest, left)
        if share < rest and share > 0:
            share = min(rest, max(share, _MAX_FRAME_BYTES))
        left = max(0, left - share)
        offset = folded.get(name, 0)
        if offset or share > 0:  # a new journal is folded from its header on or not at all
            ends[name] = offset + share
    return ends
