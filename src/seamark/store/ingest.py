"""Folding of a run from its journals into a store, and the hash of its content.

New bytes are read once: the same pass updates the registers and packs points into row groups. A run
is saved in one transaction, a very long journal in several.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from seamark.journal.folder import split_journal_name
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.journal.walk import BLOCK_BYTES, walk
from seamark.paths import kind_of
from seamark.store.fold.decode import decode
from seamark.store.fold.fold import fold
from seamark.store.fold.payloads import Names
from seamark.store.fold.registers import NEVER, AtomState
from seamark.store.fold.run_state import JournalState, RunState
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
from seamark.store.journals import names_before
from seamark.store.runs import Saving, load_run, new_run
from seamark.values._parameters import CONTENT, VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    import sqlalchemy as sa

    from seamark.journal.reader import Block
    from seamark.journal.safe import Source
    from seamark.store.runs import Store

__all__ = ["UNREADABLE", "Folding", "prefix_crc"]


def derive_content(run: RunState) -> None:
    """Update ``sys/content_hash``, over any recorded value, if its sources changed."""
    if run.dirty.isdisjoint((CONTENT, VERSION)) and not any(map(is_parameter, run.dirty)):
        return
    run.need_all()
    found, key = {}, NEVER
    for path in run.attributes:
        if path != VERSION and not is_parameter(path):
            continue
        shown = run.surviving(path)
        if shown and isinstance(shown[0], AtomState):
            found[path] = (shown[0].type, shown[0].value)
            key = max(key, shown[0].key)
    text = content_hash(found)
    if text is None and CONTENT not in run.attributes:
        return
    state = run.family(CONTENT, "atom")
    if isinstance(state, AtomState):  # as it is for every atom
        state.key = key  # without anything to hash it shows nothing, as if it had never been there
        state.type, state.value = ("null", None) if text is None else ("string", text)


UNREADABLE: Final = "unreadable"
_STEP_BYTES: Final = 64 << 20
"""After this many bytes what was folded is saved, so that memory does not grow with a journal."""
_REMADE_BYTES: Final = 4 << 20
"""A group that is not full is made again with what was added, unless it is larger than this."""
_TRIES: Final = 5
_PART_BYTES: Final = 1 << 22
"""How much is read at a time only to be counted into a CRC."""


class Folding:
    """Folding of one run into a store.

    Args:
        store: Store to write to.
        project: Project path.
        run: Run id.
        sources: Opens a journal by its file name.
        now_ns: Clock, nanoseconds since the Unix epoch.
        unknown: Whether the store is known not to have it; if it has, saving is a `Conflict`.
        heard: Returns when the last bytes of a journal came from another machine, by its file name,
            ns since the Unix epoch; left out for files of this machine.

    Attributes:
        waiting: Files at whose end more may become readable without a change of their size.
        failed: Files that could not be opened now, though they may be another time.
    """

    def __init__(
        self,
        store: Store,
        project: str,
        run: str,
        sources: Callable[[str], Source],
        now_ns: Callable[[], int],
        *,
        unknown: bool = False,
        heard: Callable[[str], int] | None = None,
    ) -> None:
        self.store = store
        self.waiting: set[str] = set()
        self.failed: set[str] = set()
        self._sources = sources
        self._now_ns = now_ns
        self._heard = heard
        self._groups: list[Group] = []
        self._dropped: list[tuple[int, int]] = []
        self._bytes = 0
        self._anew = False
        stored = None
        if not unknown:
            with store.database.reading() as connection:
                stored = load_run(store, connection, project, run, for_fold=True)
        self.is_new = stored is None
        self.run = stored or new_run(project, run)

    @property
    def changed(self) -> bool:
        """Whether there is anything to save."""
        if self.is_new or self._anew or self._groups or self._dropped or self.run.state.dirty:
            return True
        return any(journal.touched for journal in self.run.state.journals.values())

    def begin_anew(self) -> None:
        """Discard the folded state, as a journal no longer begins with the same bytes."""
        self._anew = not self.is_new
        self.run.state = RunState()

    def take_up(self, journals: Mapping[bytes, str]) -> None:
        """Add new journals, headers first: points that these hide are never counted."""
        numbers = {journal.uid: journal.number for journal in self.run.state.journals.values()}
        fresh = {uid: name for uid, name in journals.items() if uid not in numbers}
        for number, (uid, name) in enumerate(fresh.items(), max(numbers.values(), default=-1) + 1):
            writer = self._writer(split_journal_name(name)[0])
            header = None
            if len(fresh) > 1:  # what a single one hides was counted, and is counted again
                with contextlib.suppress(OSError), self._reader(name) as reader:
                    header = reader.header()
            self.run.state.add_journal(JournalState(writer, uid, file=name, number=number), header)

    def _writer(self, writer: str) -> str:
        name, copies = writer, 1
        while name in self.run.state.journals:
            copies += 1
            name = f"{writer}~{copies}"
        return name

    def _reader(self, name: str, size: int = BLOCK_BYTES) -> JournalReader:
        return JournalReader(self._sources(name), now_ns=self._now_ns, walk=walk, block_bytes=size)

    # ------------------------------------------------------------------ folding

    def fold(self, wanted: Callable[[JournalState], bool] = lambda _: True) -> None:
        """Fold the journals that may have something new, one open at a time."""
        for journal in self.run.state.journals.values():
            if wanted(journal):
                self._fold_journal(journal)
        self._refold()
        self.run.state.take_observations(SETTLE_NS)

    def _refold(self) -> None:
        for _ in range(_TRIES):  # once is enough, unless somebody writes meanwhile
            if not self.run.state.needs_refold:
                return
            self._groups, self._dropped, self._anew = [], [], self.run.number is not None
            self.run.state = self.run.state.anew()
            for journal in self.run.state.journals.values():
                self._fold_journal(journal)

    def _fold_journal(self, journal: JournalState) -> None:
        before = _facts(journal)
        if self._heard is not None:
            journal.heard = self._heard(journal.file)
        self.waiting.discard(journal.file)
        try:
            with self._reader(journal.file) as reader:
                if journal.stopped == UNREADABLE and not journal.offset:
                    journal.errors, journal.notes = 0, []  # that it could not be read
                self._fold_blocks(journal, reader)
        except OSError as error:
            if journal.stopped != UNREADABLE:
                journal.note(journal.offset, str(error))
            journal.stopped = UNREADABLE
            if error.errno is not None:  # what is not a journal stays none
                self.failed.add(journal.file)
        journal.touched = journal.touched or before != _facts(journal)
        if journal.stopped in ("incomplete", "bad") and journal.tail is None:
            self.waiting.add(journal.file)

    def _fold_blocks(self, journal: JournalState, reader: JournalReader) -> None:
        gaps, start = journal.gaps, journal.offset
        size = reader.size
        reader.block_bytes = min(BLOCK_BYTES, max(4096, size - start))
        gathering = None
        if size - journal.chunked > (CHUNK_BYTES if journal.chunked else SMALL_BYTES):
            gathering = self._gather_again(journal, reader)
        for block in reader.blocks(start):
            journal.gaps = [*gaps, *map(list, reader.gaps)]
            crc = _crc_with(journal, block, reader)
            decoded = fold(self.run.state, journal.writer, block)
            journal.prefix_crc = crc
            if gathering is not None:
                gathering.add(decoded, block, block.end)
            self._bytes += len(block.data)
            if self._bytes > _STEP_BYTES and not self.run.state.needs_refold:
                if gathering is not None:
                    self._end_gathering(journal, gathering)
                self.save()
        journal.tail = list(reader.tail) if reader.tail else _end_of(reader, journal.offset)
        journal.stopped = reader.stopped
        ended = journal.closed and journal.chunked < journal.offset > SMALL_BYTES
        if gathering is None and ended:
            gathering = self._gather_again(journal, reader)
        if gathering is not None:
            self._end_gathering(journal, gathering)

    # ------------------------------------------------------------------ row groups

    def _gather_again(self, journal: JournalState, reader: JournalReader) -> Gathering:
        place, number, stop = journal.chunked, self.run.number, journal.offset
        names = Names()
        if place and number is not None:
            database = self.store.database
            with database.reading() as connection:
                last = last_place(database, connection, number, journal.number)
                if last is not None and last[1] < GROUP_ROWS and place - last[0] < _REMADE_BYTES:
                    place = last[0]
                    self._dropped.append((journal.number, place))
            if place:
                names = names_before(self.store, number, journal.number, place)
        gathering = Gathering(journal.number, place)
        if place < stop:
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

    def saving(
        self,
        *,
        owner: Callable[[], str] = str,
        more: Callable[[sa.Connection, int], None] | None = None,
    ) -> Saving:
        """Return the folded run, ready to be written.

        ``owner`` finds whose run it is if its writer did not say; ``more`` writes further rows in
        the same transaction, given the number of the run.
        """
        if kind_of(self.run.project, self.run.name) == "run":
            derive_content(self.run.state)
        groups, dropped, store = self._groups, self._dropped, self.store
        paths = {path for group in groups for path in group.batch.series}

        def write(connection: sa.Connection, number: int) -> None:
            for journal, place in dropped:
                drop_groups(store.database, connection, number, journal, place)
            if groups:
                numbers = store.numbers.ensure(paths)
                store_groups(store.database, connection, number, groups, numbers)
            if more is not None:
                more(connection, number)

        return Saving(store, self.run, anew=self._anew, owner=owner, paths=paths, more=write)

    def save(self, *, more: Callable[[sa.Connection, int], None] | None = None) -> None:
        """Save in a transaction; raise `Conflict` if another process folded this run meanwhile."""
        saving = self.saving(more=more)
        with self.store.database.writing() as connection:
            saving.write(connection)
        self.run.saved(saving.number)
        self._anew = self.is_new = False
        self._groups, self._dropped, self._bytes = [], [], 0


def _end_of(reader: JournalReader, start: int) -> list[int] | None:
    last = reader.gaps[-1] if reader.gaps else None
    return [start, sum(last) - start] if last is not None and last[0] >= start else None


def _facts(journal: JournalState) -> tuple[object, ...]:
    return journal.offset, journal.stopped, journal.tail, list(journal.gaps), journal.errors


def _crc_with(journal: JournalState, block: Block, reader: JournalReader) -> int:
    crc, at = journal.prefix_crc, journal.offset
    # In parts: a gap may be longer than what fits into memory.
    while at < block.base and (part := reader.bytes_at(min(_PART_BYTES, block.base - at), at)):
        crc, at = zlib.crc32(part, crc), at + len(part)
    return zlib.crc32(memoryview(block.data)[: block.end - block.base], crc)


def prefix_crc(source: Source, size: int) -> int:
    """Return the CRC32 of the first bytes of a journal."""
    crc = offset = 0
    while offset < size and (part := source.pread(min(_PART_BYTES, size - offset), offset)):
        crc, offset = zlib.crc32(part, crc), offset + len(part)
    return crc
