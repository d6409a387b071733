"""A turn of folding: the next stored bytes of one run, up to a limit."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.folder import split_journal_name
from seamark.journal.format import FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES
from seamark.server.changes import note_changes
from seamark.server.folding import tables
from seamark.store.database import Upsert
from seamark.store.ingest import UNREADABLE, Folding
from seamark.store.runs import forget_run, places_of

if TYPE_CHECKING:
    from seamark.journal.safe import Source
    from seamark.server.kept.journals import IntakeJournal, IntakeJournals
    from seamark.store.fold.run_state import JournalState
    from seamark.store.runs import Store

__all__ = ["fold_turn", "forget"]

TURN_BYTES: Final = 16 << 20
"""Maximum number of bytes of a run folded in one turn."""
_LONGEST_FRAME: Final = FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES + 8

_FOLDED: Final = Upsert(
    tables.folded, ("project", "run", "position"), ("project", "run"), overwrite=True
)
_FORGET: Final = sa.delete(tables.folded).where(
    tables.folded.c.project == sa.bindparam("at_project"),
    tables.folded.c.run == sa.bindparam("at_run"),
)


class Turn(NamedTuple):
    """Result of one turn: how many bytes of the run are kept, and whether `more` are to fold."""

    position: int
    more: bool


class _Part:
    def __init__(self, source: Source, end: int) -> None:
        self._source, self._end = source, end
        self.name = source.name

    def size(self) -> int:
        return min(self._end, self._source.size())

    def pread(self, size: int, offset: int) -> bytes:
        try:
            return self._source.pread(max(0, min(size, self._end - offset)), offset)
        except OSError as error:
            raise _later(error) from error

    def quiet_since_ns(self) -> int | None:
        return self._source.quiet_since_ns()

    def owner(self) -> int | None:
        return None

    def gap_end(self, offset: int) -> int | None:
        return self._source.gap_end(offset) if offset < self._end else None

    def close(self) -> None:
        self._source.close()


def fold_turn(  # noqa: C901 - one transaction from its parts
    store: Store,
    kept: IntakeJournals,
    project: str,
    run: str,
    now_ns: Callable[[], int],
    *,
    most: int = TURN_BYTES,
    more: Callable[[sa.Connection], None] | None = None,
) -> Turn:
    """Fold the next stored bytes of a run, at most `most`, and save the result.

    One frame that is longer is folded whole. `more` writes further rows in the same transaction.

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
            return _Part(kept.source(project, run, name), ends[name])
        except OSError as error:
            raise _later(error) from error

    folding = Folding(
        store, project, run, opened, now_ns, heard=lambda name: journals[name].heard_ns
    )
    anew = not all(_is_continued(one, journals) for one in folding.run.state.journals.values())
    if anew:
        folding.discard_state()
    ends.update(_shares(folding.run.state.journals.values(), journals, most))
    folding.add_journals({uid: name for name in ends if (uid := split_journal_name(name)[1])})
    folding.fold(lambda one: ends.get(one.file, 0) > one.offset or one.stopped == UNREADABLE)
    if folding.failed:
        msg = f"{len(folding.failed)} journals of {project}/{run} cannot be read now"
        raise OSError(errno.EIO, msg)
    position = sum(one.size for one in journals.values())
    left = position > sum(ends.values())

    def write(connection: sa.Connection) -> None:
        # Only what was kept at one moment, all of it, is a position: a sum hides which journal has
        # how much.
        if anew or not left:
            database, at = store.database, 0 if left else position
            database.run(connection, _FOLDED, project=project, run=run, position=at)
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
    if is_new and not kept.journals(project, run):  # purged in the meantime
        forget(store, project, run)
        return Turn(0, more=False)
    return Turn(position, more=left)


def _later(error: OSError) -> OSError:
    # Without a number the error would be for good.
    return OSError(error.errno or errno.EIO, str(error))


def forget(
    store: Store,
    project: str,
    run: str,
    *,
    more: Callable[[sa.Connection], None] | None = None,
) -> None:
    """Remove a run that is not kept any more."""
    database = store.database
    with database.writing() as connection:
        found = places_of(store, connection, [(project, run)])
        for one in found.values():
            forget_run(store, connection, one.number)
        database.run(connection, _FORGET, at_project=project, at_run=run)
        if more is not None:
            more(connection)
        if found:
            note_changes(database, connection, [(project, run)], gone=True)


def _is_continued(journal: JournalState, kept: Mapping[str, IntakeJournal]) -> bool:
    # Bytes are never replaced.
    found = kept.get(journal.file)
    return found is not None and found.size >= journal.offset


def _shares(
    known: Iterable[JournalState], kept: Mapping[str, IntakeJournal], most: int
) -> dict[str, int]:
    # Those with little first, so that a long one does not hold up the others.
    folded = {one.file: one.offset for one in known}
    left, ends = most, {}
    rests = sorted((one.size - folded.get(name, 0), name) for name, one in kept.items())
    for rest, name in rests:
        share = min(rest, left)
        if share < rest and share > 0:
            share = min(rest, max(share, _LONGEST_FRAME))
        left = max(0, left - share)
        begun = folded.get(name, 0)
        if begun or share > 0:  # one that is new is taken up with its header, or not at all
            ends[name] = begun + share
    return ends
