"""Journals of a run for the index: selection among copies, reader, and updates with new records.

If several files have the same uid, the file with the most valid bytes is read. Copies with
different contents are reported.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import sqlalchemy as sa

from seamark.blobs.contents import FolderContents
from seamark.errors import JournalError
from seamark.index.statuses import FileStatus, KnownRun, listing, save_statuses
from seamark.journal.folder import RunFolder, split_journal_name
from seamark.journal.frames import BLOCK_BYTES, walk
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.journal.safe import FileSource, Source
from seamark.process.interrupts import quietly
from seamark.store.fold.run_state import JournalState
from seamark.store.ingest import UNREADABLE, Folding, Saving, prefix_crc
from seamark.store.read.inherited import Sources
from seamark.store.read.run import RunReader
from seamark.store.runs import Store


def open_journal(folder: RunFolder, name: str) -> Source:
    """Open a journal of a run; raise `JournalError` if this fails."""
    return FileSource(f"{folder.root}/{folder.project}/{folder.run}/journal/{name}")


def choose(
    folder: RunFolder, files: Iterable[str]
) -> tuple[dict[bytes, str], dict[bytes, list[str]]]:
    """Return the files of a folder to read, and copies with different contents, both by uid."""
    by_uid: dict[bytes, list[str]] = {}
    for name in files:
        uid = split_journal_name(name)[1] or _read_uid(folder, name)
        by_uid.setdefault(uid, []).append(name)
    chosen: dict[bytes, str] = {}
    diverged: dict[bytes, list[str]] = {}
    for uid, names in by_uid.items():
        if len(names) == 1:
            chosen[uid], diverged[uid] = names[0], []
        else:
            chosen[uid], diverged[uid] = _compare_copies(folder, names)
    return chosen, diverged


def _read_uid(folder: RunFolder, name: str) -> bytes:
    """Return the uid in a file's header, or a hash of its name if it is not a journal."""
    with quietly(only=OSError), JournalReader(open_journal(folder, name)) as reader:
        if any(reader.uid):
            return reader.uid
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16]


def _compare_copies(folder: RunFolder, names: Iterable[str]) -> tuple[str, list[str]]:
    def rank(name: str) -> tuple[int, bool, str]:
        return _valid_bytes(folder, name), split_journal_name(name)[1] is not None, name

    best, *others = sorted(names, key=rank, reverse=True)
    return best, sorted(name for name in others if not _is_duplicate(folder, best, name))


def _valid_bytes(folder: RunFolder, name: str) -> int:
    with quietly(only=OSError), _reader(folder, name) as reader:
        return sum(block.end - block.base for block in reader.blocks())
    return -1


def _is_duplicate(folder: RunFolder, best: str, other: str) -> bool:
    with (  # not a journal, or it cannot be opened: no difference is known
        quietly(only=JournalError),
        _reader(folder, best) as whole,
        _reader(folder, other) as part,
    ):
        for block in part.blocks():
            size = block.end - block.base
            if whole.bytes_at(size, block.base) != block.data[:size]:
                return False
    return True


def _reader(folder: RunFolder, name: str) -> JournalReader:
    return JournalReader(open_journal(folder, name), walk=walk, block_bytes=BLOCK_BYTES)


class RunView(RunReader):
    """Reader of one run in its last folded state; obtained from `Index.view`."""

    def __init__(
        self,
        folder: RunFolder,
        store: Callable[[], Store],
        guarded: Callable[[Callable[[], Any]], Any],
        now_ns: Callable[[], int],
    ) -> None:
        self.folder = folder
        self.contents = FolderContents(folder)

        def sources_of(project: str, run: str) -> Sources:
            return partial(open_journal, RunFolder(folder.root, project, run))

        super().__init__(
            store,
            folder.project,
            folder.run,
            sources_of,
            now_ns=now_ns,
            guarded=guarded,
        )


log = logging.getLogger("seamark")


class Refresh:
    """Update of a run with the new records in its folder, folded and ready to be written.

    ``known`` has the statuses of the files in the index, None for a new run. ``stats`` has the
    statuses before folding, by name, and ``now`` those to be written. ``folding`` holds the run.

    Raises:
        Conflict: If another process saved the same run meanwhile.
        OSError: If the folder of the journals cannot be read; FileNotFoundError or
            NotADirectoryError if it does not exist.
    """

    def __init__(
        self, store: Store, folder: RunFolder, known: KnownRun | None, now_ns: Callable[[], int]
    ) -> None:
        self._store = store
        self.folder = folder
        self.now_ns = now_ns
        self.before = {look.file: look for look in known.statuses} if known else {}
        listed, self.stats = listing(str(folder.journal_dir), now_ns())
        self.chosen, self._diverged = choose(folder, self.stats)
        self.folding = folding = Folding(
            store,
            folder.project,
            folder.run,
            partial(open_journal, folder),
            now_ns,
            unknown=known is None,
        )
        if not all(map(self._is_continued, folding.run.state.journals.values())):
            folding.discard_state()
        folding.add_journals(self.chosen)
        folding.fold(self._may_have_more)
        self.now = self._make_statuses(listed)
        self._is_current = known is not None and (known.listed, known.statuses) == (
            listed,
            self.now.statuses,
        )
        self._saving: Saving | None = None
        if folding.changed:
            self._saving = Saving(folding, self._owner)

    def write(self, connection: sa.Connection) -> None:
        """Write the update, or raise `Conflict` without writing anything."""
        if self._saving is not None:
            self._saving.write(connection)
            self.now.number = self._saving.number or 0
        if self._saving is not None or not self._is_current:
            save_statuses(self._store.database, connection, self.now.number, self.now)

    def saved(self) -> None:
        """Cache the run after the transaction."""
        if self._saving is not None:
            self.folding.run.saved(self.now.number)
            self._store.last = self.folding.run

    # ------------------------------------------------------------------ its files

    def _is_continued(self, journal: JournalState) -> bool:
        if journal.uid not in self.chosen:
            return False
        name = self.chosen[journal.uid]
        before, now = self.before.get(name), self.stats[name]
        if name != journal.file:
            journal.file, journal.touched, before = name, True, None
        if before is not None and before.stat == now:
            return True
        if now.size < journal.offset:
            return False
        grew = before is not None and before.stat.inode == now.inode and before.stat.size < now.size
        with (  # temporarily unreadable: keep the folded data
            quietly(only=OSError),
            contextlib.closing(open_journal(self.folder, name)) as source,
        ):
            if grew and not journal.gaps:  # without gaps, whose bytes may have been repaired
                return _same_frame(journal, source)
            # Synchronization programs replace files, so a new inode does not mean different
            # contents.
            return prefix_crc(source, journal.offset) == journal.prefix_crc
        return True

    def _may_have_more(self, journal: JournalState) -> bool:
        size = self.stats[journal.file].size
        return size > journal.offset or bool(journal.tail) or journal.stopped == UNREADABLE

    def _make_statuses(self, listed: int) -> KnownRun:
        folding = self.folding
        state = folding.run.state
        parent = state.fork.parent if state.fork else ""
        known = KnownRun(folding.run.number or 0, listed, parent=parent)
        by_file = {}
        for journal in state.journals.values():
            by_file[journal.file] = journal
            names = self._diverged[journal.uid]
            if names != journal.diverged:
                journal.diverged, journal.touched = names, True
        for name, stat in self.stats.items():
            found = by_file.get(name)
            if found is None:  # a copy: if it changes, the selection may change
                known.add(FileStatus(name, -1, stat, 0, closed=True))
                continue
            retry = stat.mtime + SETTLE_NS if name in folding.waiting else 0
            if name in folding.failed:
                retry = self.now_ns()
            closed = found.closed and found.offset == stat.size
            known.add(FileStatus(name, found.number, stat, retry, closed=closed))
        return known

    def _owner(self) -> str:
        import pwd

        with quietly(only=(KeyError, OSError)):
            return pwd.getpwuid(self.folder.journal_dir.stat().st_uid).pw_name
        return ""


def _same_frame(journal: JournalState, source: Source) -> bool:
    # A writer never changes the last folded frame.
    if not journal.last_offset:
        return True
    found = source.pread(4, journal.last_offset)
    return int.from_bytes(found, "little") == journal.last_crc
