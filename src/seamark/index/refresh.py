"""Update of the index with the new records of a run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from seamark.index.copies import choose, open_journal
from seamark.index.looks import Known, Look, Stat, listing, save_statuses, stat_of
from seamark.journal.format import MAX_PAYLOAD_BYTES, salt_of
from seamark.journal.reader import SETTLE_NS, scan
from seamark.store.ingest import UNREADABLE, Folding, prefix_crc

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.journal.folder import RunFolder
    from seamark.journal.source import Source
    from seamark.store.fold.run_state import JournalState
    from seamark.store.runs import Saving, Store

__all__ = ["Refresh"]


log = logging.getLogger("seamark")


_NOWHERE: Final = Stat(0, 0, 0, 0)


class Refresh:
    """New records in a run's folder, folded and ready to be written.

    ``known`` are the recorded statuses of its files, None if it is new; ``stats`` are the statuses
    before folding, by name, and ``now`` those afterwards. ``folding`` holds the run.

    Raises:
        Conflict: If somebody else folded the same run in the meantime.
        OSError: If the folder of the journals cannot be read; FileNotFoundError or
            NotADirectoryError if there is none.
    """

    def __init__(
        self, store: Store, folder: RunFolder, known: Known | None, now_ns: Callable[[], int]
    ) -> None:
        self._store = store
        self.folder = folder
        self.now_ns = now_ns
        self.before = {look.file: look for look in known.looks} if known else {}
        journals = str(folder.journal_dir)
        listed, names = listing(journals, now_ns())
        self.stats = {name: _stat(f"{journals}/{name}") for name in names}
        self.copies = choose(folder, self.stats, self.before)
        self.folding = folding = Folding(
            store,
            folder.project,
            folder.run,
            partial(open_journal, folder),
            now_ns,
            unknown=known is None,
        )
        if not all(self._continues(journal) for journal in folding.run.state.journals.values()):
            folding.begin_anew()
        folding.take_up(self.copies.chosen)
        self._name_copies()
        folding.fold(self._may_have_more)
        self.now = self._looked_at(listed)
        self._seen = known is not None and (known.listed, known.looks) == (listed, self.now.looks)
        self._saving: Saving | None = None
        if folding.changed:
            self._saving = folding.saving(owner=self._owner, more=self._write_statuses)

    def write(self, connection: sa.Connection) -> None:
        """Write the new records; raises `Conflict` before anything is written."""
        saving, self._saving = self._saving, None  # it refers to this, and is let go
        if saving is not None:
            saving.write(connection)
        elif not self._seen:
            self._write_statuses(connection, self.now.number)

    def saved(self) -> None:
        """Keep the run for the next question, after the transaction."""
        if self.folding.changed:
            self.folding.run.saved(self.now.number)
            self._store.last = self.folding.run

    def _write_statuses(self, connection: sa.Connection, number: int) -> None:
        self.now.number = number
        save_statuses(self._store.database, connection, number, self.now)

    # ------------------------------------------------------------------ its files

    def _continues(self, journal: JournalState) -> bool:
        name = self.copies.chosen.get(journal.uid)
        if name is None:
            return False
        before, now = self.before.get(name), self.stats[name]
        if name != journal.file:
            journal.file, journal.touched, before = name, True, None
        if before is not None and before.stat == now:
            return True
        if now.size < journal.offset:
            return False
        grew = before is not None and before.stat.inode == now.inode and before.stat.size < now.size
        try:
            source = open_journal(self.folder, name)
        except OSError:
            return True  # cannot be seen at the moment; what is known stays
        try:
            if grew and not _mended(journal, source):
                return _same_frame(journal, source)
            # A synchroniser gives a file a new inode each time: only other bytes are another file.
            return prefix_crc(source, journal.offset) == journal.prefix_crc
        except OSError:
            return True
        finally:
            source.close()

    def _name_copies(self) -> None:
        for journal in self.folding.run.state.journals.values():
            names = self.copies.diverged.get(journal.uid)
            if names is not None and names != journal.diverged:
                journal.diverged, journal.touched = names, True

    def _may_have_more(self, journal: JournalState) -> bool:
        size = self.stats[journal.file].size
        return size > journal.offset or bool(journal.tail) or journal.stopped == UNREADABLE

    def _looked_at(self, listed: int) -> Known:
        folding = self.folding
        state = folding.run.state
        parent = state.fork.parent if state.fork else ""
        known = Known(folding.run.number or 0, listed, parent=parent)
        by_file = {journal.file: journal for journal in state.journals.values()}
        for name, stat in self.stats.items():
            journal = by_file.get(name)
            if journal is None:  # a copy, whose changes decide which one is read
                known.add(Look(name, -1, stat, 0, closed=True))
                continue
            retry = stat.mtime + SETTLE_NS if name in folding.waiting else 0
            if name in folding.failed:
                retry = self.now_ns()
            closed = journal.closed and journal.offset == stat.size
            known.add(Look(name, journal.number, stat, retry, closed=closed))
        return known

    def _owner(self) -> str:
        try:
            import pwd

            return pwd.getpwuid(self.folder.journal_dir.stat().st_uid).pw_name
        except (ImportError, KeyError, OSError):
            return ""


def _stat(path: str) -> Stat:
    try:
        return stat_of(os.stat(path, follow_symlinks=False))  # noqa: PTH116
    except OSError:
        return _NOWHERE


def _same_frame(journal: JournalState, source: Source) -> bool:
    # A writer never changes the frame that was folded last.
    if not journal.last_offset:
        return True
    found = source.pread(4, journal.last_offset)
    return int.from_bytes(found, "little") == journal.last_crc


def _mended(journal: JournalState, source: Source) -> bool:
    for offset, length in journal.gaps:
        frames: list[Any] = []
        scan(source.pread(min(length, MAX_PAYLOAD_BYTES), offset), salt_of(journal.uid), frames)
        if frames:
            return True
    return False
