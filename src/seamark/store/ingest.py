"""One run on its way from its files into the index."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING, Final

from seamark.journal.folder import RunFolder, split_journal_name
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.store import schema
from seamark.store.fold import fold
from seamark.store.records import load_run, save_run
from seamark.store.run_state import JournalState, RunState

if TYPE_CHECKING:
    from seamark.store.index import Index, Known

__all__ = ["I63", "TABLES_OF_RUN", "RunFolding"]

UNREADABLE: Final = "unreadable"
I63: Final = (1 << 63) - 1
"""Inodes may use the bit that databases do not have."""
TABLES_OF_RUN: Final = ("attribute", "series", "element", "chunk", "journal", "journal_text")
"""Tables whose rows belong to one run."""
_RACY_NS: Final = 2 * 10**9
"""A folder that changed so recently may change again without its time changing, nanoseconds."""

log = logging.getLogger("seamark")


class RunFolding:
    """One run being folded: its state, and what its files looked like."""

    def __init__(self, index: Index, folder: RunFolder, known: Known | None) -> None:
        self.index = index
        self.folder = folder
        self.number = None if known is None else known.number
        self.anew = False
        self.looks: dict[str, tuple[int, int, int, int]] = {}
        self.state = RunState()
        if known is not None:
            try:
                self.state = load_run(index.connection, index.numbers, known.number)
            except (ValueError, TypeError, KeyError, LookupError, AttributeError) as error:
                log.debug(
                    "seamark: %s/%s is damaged in the index: %s", folder.project, folder.run, error
                )
                self.anew = True

    def run(self) -> None:
        """Fold whatever is new."""
        folder = str(self.folder.journal_dir)
        now = self.index.now_ns()
        listed, names = _listing(folder)
        self.listed = listed if now - listed > _RACY_NS else 0
        known = {journal.file: journal for journal in self.state.journals.values()}
        stats = {name: _stat(f"{folder}/{name}") for name in names}
        if any(
            name not in stats or not _continues(journal, f"{folder}/{name}", stats[name])
            for name, journal in known.items()
        ):
            self.anew = True
        if self.anew:
            self.state, known = RunState(), {}
        fresh = [name for name in names if name not in known]
        for number, name in enumerate(fresh, len(known)):
            self._add(number, name, alone=len(names) == 1)
        self._fold_files(folder, stats)
        while self.state.needs_refold:
            self.state.reset_series()
            self._fold_files(folder, stats)

    def _add(self, number: int, name: str, *, alone: bool) -> None:
        """Take up a new journal; with its header read beforehand, what it hides is not counted."""
        writer, uid = split_journal_name(name)
        journal = JournalState(self._writer(writer), uid or bytes(16), file=name, number=number)
        header = None
        if uid is None or not alone:  # alone, it is folded before anything that it may hide
            with contextlib.suppress(OSError), self._reader(name) as reader:
                journal.uid, header = reader.uid, reader.header()
        self.state.add_journal(journal, header)

    def _reader(self, name: str) -> JournalReader:
        return JournalReader(f"{self.folder.journal_dir}/{name}", now_ns=self.index.now_ns)

    def _writer(self, writer: str) -> str:
        """Return a name that no other journal of the run has; two are equal only among copies."""
        name, copies = writer, 1
        while name in self.state.journals:
            copies += 1
            name = f"{writer}~{copies}"
        return name

    def _fold_files(self, folder: str, stats: dict[str, tuple[int, int, int]]) -> None:
        """Fold every journal, one open file at a time: a run may have a journal for every rank."""
        for journal in self.state.journals.values():
            size, mtime, inode = stats[journal.file]
            retry = 0
            if size > journal.offset or journal.tail or journal.stopped == UNREADABLE:
                retry = self._fold_file(journal, mtime)
            self.looks[journal.writer] = (size, mtime, inode, retry)

    def _fold_file(self, journal: JournalState, mtime: int) -> int:
        """Fold one journal; return when to look again although nothing changes (ns), or 0."""
        try:
            with self._reader(journal.file) as reader:
                if journal.stopped == UNREADABLE and not journal.offset:
                    journal.restart()
                    journal.uid = reader.uid
                self._fold_blocks(journal, reader)
        except OSError as error:
            if journal.stopped != UNREADABLE:
                journal.note(journal.offset, str(error))
            journal.stopped = UNREADABLE
            # What is no journal stays none; what could not be read may be readable next time.
            return 0 if error.errno is None else self.index.now_ns()
        waiting = journal.stopped in ("incomplete", "bad") and journal.tail is None
        return mtime + SETTLE_NS if waiting else 0

    def _fold_blocks(self, journal: JournalState, reader: JournalReader) -> None:
        gaps = journal.gaps
        for block in reader.blocks(journal.offset):
            journal.gaps = gaps + [list(gap) for gap in reader.gaps]
            fold(self.state, journal.writer, block)
        journal.gaps = gaps + [list(gap) for gap in reader.gaps]
        journal.tail = list(reader.tail) if reader.tail else None
        journal.stopped = reader.stopped

    def save(self) -> None:
        """Write the state in one transaction.

        Raises:
            Conflict: If somebody else folded the same run in the meantime.
        """
        index, connection = self.index, self.index.connection
        try:
            with schema.transaction(connection):
                if self.anew and self.number is not None:
                    for table in TABLES_OF_RUN:
                        statement = f"DELETE FROM {table} WHERE run = ?"  # noqa: S608 - ours
                        connection.exec_driver_sql(statement, (self.number,))
                place = (self.number, self.folder.project, self.folder.run)
                extra = {"listed": self.listed, "owner": self._owner()}
                save_run(connection, index.numbers, place, self.state, self.looks, extra)
        except BaseException:
            index.numbers.forget()
            raise

    def _owner(self) -> str:
        """Return whose run it is: what the writer said, else whose folder it is."""
        if any(journal.header.get("user") for journal in self.state.journals.values()):
            return ""
        try:
            import pwd

            return pwd.getpwuid(self.folder.journal_dir.stat().st_uid).pw_name
        except (ImportError, KeyError, OSError):
            return ""


def _listing(folder: str) -> tuple[int, list[str]]:
    """Return mtime (ns) and the journals of a folder, without temporaries (``.name``)."""
    try:
        listed = os.stat(folder).st_mtime_ns  # noqa: PTH116
        return listed, sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return 0, []


def _stat(path: str) -> tuple[int, int, int]:
    """Return size, mtime (ns) and inode."""
    try:
        stat = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0, 0
    return stat.st_size, stat.st_mtime_ns, stat.st_ino & I63


def _continues(journal: JournalState, path: str, stat: tuple[int, int, int]) -> bool:
    """Tell whether a file still starts with what was folded of it."""
    if stat[0] < journal.offset:
        return False
    if not journal.last_offset:
        return True
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(journal.last_offset)
            return int.from_bytes(file.read(4), "little") == journal.last_crc
    except OSError:
        return False
