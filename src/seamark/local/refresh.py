"""One run on its way from its folder into the index."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from seamark.journal.folder import RunFolder, split_journal_name
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.local.copies import choose, open_journal
from seamark.local.looks import (
    Known,
    Look,
    Stat,
    forget_looks,
    listing,
    save_looks,
    stat_of,
)
from seamark.store.fold.decode import Names, decode
from seamark.store.fold.fold import fold
from seamark.store.fold.run_state import JournalState, RunState
from seamark.store.fold.walk import BLOCK_BYTES, walk
from seamark.store.groups import (
    CHUNK_BYTES,
    GROUP_ROWS,
    SMALL_BYTES,
    Gathering,
    Group,
    drop_groups,
    last_place,
    store_groups,
)
from seamark.store.runs import load_run, names_before, new_run, save_run

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.journal.source import Source
    from seamark.store.runs import Store

__all__ = ["RunFolding", "prefix_crc"]

UNREADABLE: Final = "unreadable"
_STEP_BYTES: Final = 64 << 20
"""After so many bytes what was folded is saved, so that memory does not grow with a journal."""
_NOWHERE: Final = Stat(0, 0, 0, 0)


class RunFolding:
    """One run being folded: its state, and what its files looked like.

    Args:
        store: Where it goes.
        folder: Of the run.
        known: What the index has of its files; None if it is new.
        now_ns: Clock, nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        store: Store,
        folder: RunFolder,
        known: Known | None,
        now_ns: Callable[[], int],
    ) -> None:
        self.store = store
        self.folder = folder
        self.now_ns = now_ns
        self.before = {look.file: look for look in known.looks} if known else {}
        self.listed_before = known.listed if known else 0
        self.known = Known(0, 0)
        self._groups: list[Group] = []
        self._dropped: list[tuple[int, int]] = []
        self._bytes = 0
        self._retry: dict[str, int] = {}

    def run(self) -> Known | None:
        """Fold whatever is new, and save it; return what is known of its files now.

        None stands for a run whose folder holds no journal any more.

        Raises:
            Conflict: If somebody else folded the same run in the meantime.
            OSError: If the folder cannot be read.
        """
        folder = str(self.folder.journal_dir)
        listed, names = listing(folder, self.now_ns())
        self.stats = {name: _stat(f"{folder}/{name}") for name in names}
        self.copies = choose(self.folder, self.stats, self.before)
        self.known.listed = listed
        with self.store.database.reading() as connection:
            stored = load_run(
                self.store, connection, self.folder.project, self.folder.run, for_fold=True
            )
        self.stored = stored or new_run(self.folder.project, self.folder.run)
        self.anew = stored is not None and not self._goes_on(self.stored.state)
        if self.anew:
            self.stored.state = RunState()
        self._take_up()
        self._name_copies()
        self._fold_all()
        while self.stored.state.needs_refold:
            self.anew, self._groups, self._dropped = self.stored.number is not None, [], []
            self.stored.state = self.stored.state.anew()
            self._fold_all()
        self._save()
        return self.known

    @property
    def state(self) -> RunState:
        """What is known of the run."""
        return self.stored.state

    # ------------------------------------------------------------------ its files

    def _goes_on(self, state: RunState) -> bool:
        """Tell whether the files still start with what was folded of them."""
        return all(self._continues(journal) for journal in state.journals.values())

    def _continues(self, journal: JournalState) -> bool:
        name = self.copies.chosen.get(journal.uid)
        if name is None:
            return False
        before, now = self.before.get(name), self.stats[name]
        if name != journal.file:
            journal.file, before = name, None
            journal.touched = True
        if before is not None and before.stat == now:
            return True
        if now.size < journal.offset:
            return False
        grew = before is not None and before.stat.inode == now.inode and before.stat.size < now.size
        try:
            with self._source(name) as source:
                if grew and not _mended(journal, source):
                    return _same_frame(journal, source)
                return prefix_crc(source, journal.offset) == journal.prefix_crc
        except OSError:
            return journal.stopped == UNREADABLE

    def _take_up(self) -> None:
        """Take up new journals; with the headers read beforehand, what they hide is not counted."""
        state = self.state
        known = {journal.uid for journal in state.journals.values()}
        fresh = [(uid, name) for uid, name in self.copies.chosen.items() if uid not in known]
        number = max((journal.number for journal in state.journals.values()), default=-1)
        for uid, name in fresh:
            number += 1
            writer = self._writer(split_journal_name(name)[0])
            journal = JournalState(writer, uid, file=name, number=number)
            header = None
            if len(self.copies.chosen) > 1:  # alone, it is folded before anything it may hide
                with contextlib.suppress(OSError), self._reader(name) as reader:
                    header = reader.header()
            state.add_journal(journal, header)

    def _name_copies(self) -> None:
        """Note the files that have the uid of a journal and say something else."""
        for journal in self.state.journals.values():
            names = self.copies.diverged.get(journal.uid)
            if names is not None and names != journal.diverged:
                journal.diverged, journal.touched = names, True

    def _writer(self, writer: str) -> str:
        """Return a name that no other journal of the run has."""
        name, copies = writer, 1
        while name in self.state.journals:
            copies += 1
            name = f"{writer}~{copies}"
        return name

    @contextlib.contextmanager
    def _source(self, name: str) -> Iterator[Source]:
        source = open_journal(self.folder, name)
        try:
            yield source
        finally:
            source.close()

    def _reader(self, name: str, size: int = BLOCK_BYTES) -> JournalReader:
        source = open_journal(self.folder, name)
        return JournalReader(source, now_ns=self.now_ns, walk=walk, block_bytes=size)

    # ------------------------------------------------------------------ folding

    def _fold_all(self) -> None:
        """Fold every journal, one open file at a time: a run may have a journal for every rank."""
        for journal in self.state.journals.values():
            now = self.stats[journal.file]
            self._retry[journal.file] = 0
            if now.size > journal.offset or journal.tail or journal.stopped == UNREADABLE:
                self._retry[journal.file] = self._fold_journal(journal, now)

    def _fold_journal(self, journal: JournalState, now: Stat) -> int:
        """Fold one journal; return when to look again although nothing changes (ns), or 0."""
        before = (journal.offset, journal.stopped, journal.tail, journal.gaps, journal.errors)
        try:
            size = min(BLOCK_BYTES, max(4096, now.size - journal.offset))
            with self._reader(journal.file, size) as reader:
                if journal.stopped == UNREADABLE and not journal.offset:
                    journal.restart()
                self._fold_blocks(journal, reader, now)
        except OSError as error:
            if journal.stopped != UNREADABLE:
                journal.note(journal.offset, str(error))
            journal.stopped, journal.touched = UNREADABLE, True
            # What is no journal stays none; what could not be read may be readable next time.
            return 0 if error.errno is None else self.now_ns()
        after = (journal.offset, journal.stopped, journal.tail, journal.gaps, journal.errors)
        journal.touched = journal.touched or before != after
        waiting = journal.stopped in ("incomplete", "bad") and journal.tail is None
        return now.mtime + SETTLE_NS if waiting else 0

    def _fold_blocks(self, journal: JournalState, reader: JournalReader, now: Stat) -> None:
        gaps, start = journal.gaps, journal.offset
        gathering = self._begin_gathering(journal, reader, now.size)
        for block in reader.blocks(start):
            journal.gaps = gaps + [list(gap) for gap in reader.gaps]
            checked = _crc_of(journal.prefix_crc, journal.offset, block, reader)
            decoded = fold(self.state, journal.writer, block)
            journal.prefix_crc = checked
            if gathering is not None:
                gathering.add(decoded, block, block.end)
            self._bytes += len(block.data)
            if self._bytes > _STEP_BYTES and not self.state.needs_refold:
                self._save_step(journal, gathering)
        journal.gaps = gaps + [list(gap) for gap in reader.gaps]
        journal.tail = list(reader.tail) if reader.tail else None
        journal.stopped = reader.stopped
        if gathering is None and journal.closed and journal.chunked < journal.offset:
            if journal.offset > SMALL_BYTES:
                gathering = self._gather_again(journal, reader, journal.offset)
        if gathering is not None:
            self._end_gathering(journal, gathering)

    # ------------------------------------------------------------------ row groups

    def _begin_gathering(
        self, journal: JournalState, reader: JournalReader, size: int
    ) -> Gathering | None:
        """Return where decoded rows go if they are enough for a group, else None."""
        rest = size - journal.chunked
        if rest <= (CHUNK_BYTES if journal.chunked else SMALL_BYTES):
            return None
        return self._gather_again(journal, reader, journal.offset)

    def _gather_again(self, journal: JournalState, reader: JournalReader, stop: int) -> Gathering:
        """Return the rows that were folded before and belong into the next group.

        A last group that is not full is made again, together with what was added.
        """
        place = journal.chunked
        number = self.stored.number
        if journal.chunked and number is not None:
            with self.store.database.reading() as connection:
                last = last_place(self.store.database, connection, number, journal.number)
            if last is not None and last[1] < GROUP_ROWS // 2:
                place = last[0]
                self._dropped.append((journal.number, place))
        gathering = Gathering(journal.number, place)
        if place < stop:
            names = Names()
            if place and number is not None:
                names = names_before(self.store, number, journal.number, place)
            for block in reader.blocks(place):
                gathering.add(decode(block, names, stop=stop), block, min(block.end, stop))
                if block.end >= stop:
                    break
        return gathering

    def _end_gathering(self, journal: JournalState, gathering: Gathering) -> None:
        gathering.end(journal.offset)
        self._groups += gathering.done
        gathering.done = []
        journal.chunked, journal.touched = gathering.place, True

    # ------------------------------------------------------------------ saving

    def _save_step(self, journal: JournalState, gathering: Gathering | None) -> None:
        """Save what was folded of a long journal so far."""
        if gathering is not None:
            self._end_gathering(journal, gathering)
        self._bytes = 0
        self._write(final=False)

    def _save(self) -> None:
        """Save the rest; nothing is written where nothing is new."""
        looks = list(self._looks())
        journals = self.state.journals.values()
        changed = self.anew or self._groups or self._dropped or self.stored.number is None
        if changed or self.state.dirty or any(journal.touched for journal in journals):
            self._write(final=True)
            return
        assert self.stored.number is not None  # noqa: S101 - else it is written
        self.known.number, self.known.looks = self.stored.number, looks
        self.known.settle()
        if looks != list(self.before.values()) or self.known.listed != self.listed_before:
            with self.store.database.writing() as connection:
                save_looks(self.store.database, connection, self.stored.number, self.known)

    def _write(self, *, final: bool) -> None:
        groups, dropped = self._groups, self._dropped
        paths = {path for group in groups for path in group.sheet.series}
        database = self.store.database

        def more(connection: sa.Connection, number: int) -> None:
            for journal, place in dropped:
                drop_groups(database, connection, number, journal, place)
            if groups:
                store_groups(database, connection, number, groups, self.store.numbers.ensure(paths))
            if final:
                self.known.number = number
                self.known.looks = list(self._looks())
                self.known.settle()
                save_looks(database, connection, number, self.known)
            else:
                forget_looks(database, connection, number)

        save_run(
            self.store, self.stored, anew=self.anew, owner=self._owner(), paths=paths, more=more
        )
        self.anew = False
        self._groups, self._dropped = [], []

    def _looks(self) -> Iterator[Look]:
        by_file = {journal.file: journal for journal in self.state.journals.values()}
        for name, stat in self.stats.items():
            journal = by_file.get(name)
            if journal is None:  # a copy, whose changes decide which one is read
                yield Look(name, -1, stat, 0, closed=True)
                continue
            closed = journal.closed and journal.offset == stat.size
            yield Look(name, journal.number, stat, self._retry.get(name, 0), closed=closed)

    def _owner(self) -> str:
        """Return whose run it is if its writer did not say: whose folder it is."""
        if any(journal.header.get("user") for journal in self.state.journals.values()):
            return ""
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


def _crc_of(crc: int, offset: int, block: Any, reader: JournalReader) -> int:
    """Return the CRC of everything up to a block's end, given that of what was folded before."""
    if block.base > offset:
        crc = zlib.crc32(reader.bytes_at(block.base - offset, offset), crc)
    start = max(0, offset - block.base)
    return zlib.crc32(memoryview(block.data)[start : block.end - block.base], crc)


def prefix_crc(source: Source, size: int) -> int:
    """Return the CRC32 of the first bytes of a journal."""
    crc = offset = 0
    while offset < size and (part := source.pread(min(1 << 22, size - offset), offset)):
        crc = zlib.crc32(part, crc)
        offset += len(part)
    return crc


def _same_frame(journal: JournalState, source: Source) -> bool:
    """Tell whether the frame that was folded last is still there, which a writer never changes."""
    if not journal.last_offset:
        return True
    found = source.pread(4, journal.last_offset)
    return int.from_bytes(found, "little") == journal.last_crc


def _mended(journal: JournalState, source: Source) -> bool:
    """Tell whether there is a frame now where there was none when it was folded."""
    from seamark.journal._format import salt_of
    from seamark.journal.reader import scan

    for offset, length in journal.gaps:
        frames: list[Any] = []
        scan(source.pread(min(length, 1 << 24), offset), salt_of(journal.uid), frames)
        if frames:
            return True
    return False
