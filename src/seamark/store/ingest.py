"""Folding of a run's journals into a store, and the hash of a run's content.

New bytes are read once: one pass updates the registers and packs points into row groups. A run is
saved in one transaction, or in several if a journal is very long.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa

from seamark.journal.folder import split_journal_name
from seamark.journal.frames import BLOCK_BYTES, walk
from seamark.journal.reader import SETTLE_NS, Block, JournalReader
from seamark.journal.safe import Source
from seamark.paths import kind_of
from seamark.store import schema
from seamark.store.cells import (
    FAMILY_NUMBERS,
    atom_columns,
    family_columns,
    run_columns,
    series_columns,
    statistic_columns,
)
from seamark.store.database import Conflict, Upsert, can_hold, insertion
from seamark.store.fold.decode import decode
from seamark.store.fold.fold import fold
from seamark.store.fold.payloads import Names
from seamark.store.fold.registers import (
    NEVER,
    AtomState,
    SeriesState,
    SetState,
    StatisticState,
    to_json,
)
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
from seamark.store.journals import Store, StoredRun, journal_row, names_before
from seamark.store.runs import Keys, delete_rows, load_run, new_run
from seamark.values._parameters import CONTENT, VERSION, content_hash, is_parameter


def derive_content(run: RunState) -> None:
    """Update ``sys/content_hash`` if its sources changed, replacing any recorded value."""
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
    if isinstance(state, AtomState):  # always true for atoms
        state.key = key  # NEVER, that is hidden, if there is nothing to hash
        state.type, state.value = ("null", None) if text is None else ("string", text)


UNREADABLE: Final = "unreadable"
_UID: Final = attrgetter("uid")
_NUMBER: Final = attrgetter("number")
_facts_of: Final = attrgetter("offset", "stopped", "tail", "gaps", "errors")
_SAVE_BYTES: Final = 64 << 20
"""Number of folded bytes after which data is saved, to limit the memory used for a long journal."""
_MAX_REWRITE_BYTES: Final = 4 << 20
"""Size up to which an incomplete group is rewritten with appended data, in bytes."""
_MAX_REFOLDS: Final = 5
_CRC_BLOCK_BYTES: Final = 1 << 22
"""Number of bytes read at a time to compute a CRC."""


class Folding:
    """Folding of one run into a store.

    Args:
        store: Store to write to.
        project: Project path.
        run: Run id.
        sources: Opens a journal by its file name.
        now_ns: Clock, nanoseconds since the Unix epoch.
        unknown: Whether the store is known to lack the run; if present, saving is a `Conflict`.
        heard: Returns, for a file name, when the last bytes of the journal arrived from another
            machine, in ns since the Unix epoch; omitted for files of this machine.

    Attributes:
        waiting: Files whose end may become readable without a change of their size.
        failed: Files that could not be opened, but may be later.
        groups: New row groups. ``dropped`` has journal and place of the replaced row groups.
        replaces_all: Whether all stored data of the run is replaced.
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
        self.groups: list[Group] = []
        self.dropped: list[tuple[int, int]] = []
        self._bytes = 0
        self.replaces_all = False
        stored = None
        if not unknown:
            with store.database.reading() as connection:
                stored = load_run(store, connection, project, run, for_fold=True)
        self.is_new = stored is None
        self.run = stored or new_run(project, run)

    @property
    def changed(self) -> bool:
        """Whether there is anything to save."""
        if self.is_new or self.replaces_all or self.groups or self.dropped or self.run.state.dirty:
            return True
        return any(journal.touched for journal in self.run.state.journals.values())

    def discard_state(self) -> None:
        """Discard the folded state, because a journal no longer begins with the same bytes."""
        self.replaces_all = not self.is_new
        self.run.state = RunState()

    def add_journals(self, journals: Mapping[bytes, str]) -> None:
        """Add new journals, headers first, so that points hidden by a header are never counted."""
        known = self.run.state.journals.values()
        uids, numbers = set(map(_UID, known)), map(_NUMBER, known)
        fresh = [one for one in journals.items() if one[0] not in uids]
        for number, (uid, name) in enumerate(fresh, max(numbers, default=-1) + 1):
            writer = self._unique_writer(split_journal_name(name)[0])
            header = None
            if len(fresh) > 1:  # points that one alone hides are counted: refold
                with contextlib.suppress(OSError), self._open_reader(name) as reader:
                    header = reader.header()
            self.run.state.add_journal(JournalState(writer, uid, file=name, number=number), header)

    def _unique_writer(self, writer: str) -> str:
        name, copies = writer, 1
        while name in self.run.state.journals:
            copies += 1
            name = f"{writer}~{copies}"
        return name

    def _open_reader(self, name: str, size: int = BLOCK_BYTES) -> JournalReader:
        return JournalReader(self._sources(name), now_ns=self._now_ns, walk=walk, block_bytes=size)

    # ------------------------------------------------------------------ folding

    def fold(self, wanted: Callable[[JournalState], bool] = lambda _: True) -> None:
        """Fold the journals that may have new data, one open file at a time."""
        tries = 0  # a second pass is enough unless a process writes meanwhile
        while not tries or (self.run.state.needs_refold and tries <= _MAX_REFOLDS):
            if tries:
                self.groups, self.dropped, self.replaces_all = [], [], self.run.number is not None
                self.run.state = self.run.state.restarted()
            for journal in self.run.state.journals.values():
                if tries or wanted(journal):
                    self._fold_journal(journal)
            tries += 1
        if self._heard is not None:
            self.run.state.apply_observations(SETTLE_NS)

    def _fold_journal(self, journal: JournalState) -> None:
        before = _facts_of(journal)
        if self._heard is not None:
            journal.heard = self._heard(journal.file)
        self.waiting.discard(journal.file)
        try:
            with self._open_reader(journal.file) as reader:
                if journal.stopped == UNREADABLE and not journal.offset:
                    journal.errors, journal.notes = 0, []  # the failure to read it
                self._fold_blocks(journal, reader)
        except OSError as error:
            if journal.stopped != UNREADABLE:
                journal.note(journal.offset, str(error))
            journal.stopped = UNREADABLE
            if error.errno is not None:  # an OSError without errno: the file is not a journal
                self.failed.add(journal.file)
        journal.touched = journal.touched or before != _facts_of(journal)
        if journal.stopped in ("incomplete", "bad") and journal.tail is None:
            self.waiting.add(journal.file)

    def _fold_blocks(self, journal: JournalState, reader: JournalReader) -> None:
        gaps, start = journal.gaps, journal.offset
        size = reader.size
        reader.block_bytes = min(BLOCK_BYTES, max(4096, size - start))
        gathering = None
        if size - journal.chunked > (CHUNK_BYTES if journal.chunked else SMALL_BYTES):
            gathering = self._start_gathering(journal, reader)
        for block in reader.blocks(start):
            journal.gaps = [*gaps, *map(list, reader.gaps)]
            crc = _extend_crc(journal, block, reader)
            decoded = fold(self.run.state, journal.writer, block)
            journal.prefix_crc = crc
            if gathering is not None:
                gathering.add(decoded, block, block.end)
            self._bytes += len(block.data)
            if self._bytes > _SAVE_BYTES and not self.run.state.needs_refold:
                if gathering is not None:
                    self._end_gathering(journal, gathering)
                self.save()
        journal.tail = list(reader.tail) if reader.tail else _final_gap(reader, journal.offset)
        journal.stopped = reader.stopped
        ended = journal.closed and journal.chunked < journal.offset > SMALL_BYTES
        if gathering is None and ended:
            gathering = self._start_gathering(journal, reader)
        if gathering is not None:
            self._end_gathering(journal, gathering)

    # ------------------------------------------------------------------ row groups

    def _start_gathering(self, journal: JournalState, reader: JournalReader) -> Gathering:
        place, number, stop = journal.chunked, self.run.number, journal.offset
        names = Names()
        if place and number is not None:
            database = self.store.database
            with database.reading() as connection:
                last = last_place(database, connection, number, journal.number)
                if (
                    last is not None
                    and last[1] < GROUP_ROWS
                    and place - last[0] < _MAX_REWRITE_BYTES
                ):
                    place = last[0]
                    self.dropped.append((journal.number, place))
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
        self.groups += gathering.done
        gathering.done = []
        journal.chunked, journal.touched = gathering.place, True

    # ------------------------------------------------------------------ saving

    def save(self, *, more: Callable[[sa.Connection], None] | None = None) -> None:
        """Save in a transaction; raise `Conflict` if another process saved the run meanwhile.

        ``more`` writes additional rows in the same transaction.
        """
        saving = Saving(self)
        with self.store.database.writing() as connection:
            saving.write(connection)
            if more is not None:
                more(connection)
        self.run.saved(saving.number)
        self.replaces_all = self.is_new = False
        self.groups, self.dropped, self._bytes = [], [], 0


def _final_gap(reader: JournalReader, start: int) -> list[int] | None:
    last = reader.gaps[-1] if reader.gaps else None
    return [start, sum(last) - start] if last is not None and last[0] >= start else None


def _extend_crc(journal: JournalState, block: Block, reader: JournalReader) -> int:
    crc = _crc_of(reader.bytes_at, journal.offset, block.base, journal.prefix_crc)
    return zlib.crc32(memoryview(block.data)[: block.end - block.base], crc)


def prefix_crc(source: Source, size: int) -> int:
    """Return the CRC32 of the first bytes of a journal."""
    return _crc_of(source.pread, 0, size, 0)


def _crc_of(read: Callable[[int, int], bytes], at: int, end: int, crc: int) -> int:
    # In parts, because a gap may be larger than the memory.
    while at < end and (part := read(min(_CRC_BLOCK_BYTES, end - at), at)):
        crc, at = zlib.crc32(part, crc), at + len(part)
    return crc


# ---------------------------------------------------------------------- saving


def _upsert(table: sa.Table) -> Upsert:
    columns = tuple(column.name for column in table.columns)
    keys = tuple(column.name for column in table.primary_key)
    return Upsert(table, columns, keys, overwrite=True)


_run: Final = schema.run.c
_UPSERT_ATTRIBUTE: Final = _upsert(schema.attribute)
_UPSERT_SERIES: Final = _upsert(schema.series)
_UPSERT_JOURNAL: Final = _upsert(schema.journal)
_UPSERT_PATH: Final = _upsert(schema.journal_path)
_UPSERT_SCHEMA: Final = _upsert(schema.journal_schema)
_INSERT_ELEMENT: Final = insertion(schema.element)
_DELETE_ELEMENT: Final = sa.delete(schema.element).where(
    schema.element.c.run == sa.bindparam("run"), schema.element.c.path == sa.bindparam("path")
)
_STATEMENTS: Final = (
    _UPSERT_JOURNAL,
    _UPSERT_PATH,
    _UPSERT_SCHEMA,
    _UPSERT_ATTRIBUTE,
    _UPSERT_SERIES,
    _DELETE_ELEMENT,
    _INSERT_ELEMENT,
)
"""Statements, in the order in which they are run."""
_COLUMNS: Final = tuple(
    column.name for column in schema.run.columns if column.name not in ("id", "project", "name")
)
_INSERT_RUN: Final = Upsert(
    schema.run, ("project", "name", *_COLUMNS), ("project", "name"), returned=_run.id
)
_UPDATE_RUN: Final = (
    sa.update(schema.run)
    .values({name: sa.bindparam(name) for name in _COLUMNS})
    .where(_run.id == sa.bindparam("run"), _run.version == sa.bindparam("before"))
)
_NO_KEY: Final = (None, None, None)


class Saving:
    """Changes to one run, prepared outside the transaction that writes them.

    It holds rows instead of the state from which they were made, so that the changes to many runs
    can be saved in one transaction. ``owner`` returns the owner of the run if no header names one.
    """

    def __init__(self, folding: Folding, owner: Callable[[], str] = str) -> None:
        store, run, state = folding.store, folding.run, folding.run.state
        self.number = run.number
        self._store, self._replaces_all = store, folding.replaces_all
        self._groups, self._dropped = folding.groups, folding.dropped
        self._ref, self._version = (run.project, run.name), run.version
        if (kind := kind_of(run.project, run.name)) == "run":
            derive_content(state)
        journals = [one for one in state.journals.values() if self._replaces_all or one.touched]
        wanted = set(state.dirty)
        for group in self._groups:
            wanted.update(group.batch.series)
        for journal in journals:
            for _, _, path in journal.names.new_paths:
                wanted.add(path)
        self._numbers = store.numbers.ensure(wanted)
        keys = Keys(state.journals.values())
        self._columns = _make_run_row(run, keys)
        self._columns["kind"] = kind
        self._columns["owner"] = self._columns["owner"] or owner()
        self._rows = _make_rows(state, journals, self._numbers, keys)

    def write(self, connection: sa.Connection) -> None:
        """Write all changes, or raise `Conflict` if another process saved the run meanwhile."""
        store, database = self._store, self._store.database
        if self.number is None:
            project, name = self._ref
            found = database.rows(
                connection, _INSERT_RUN, project=project, name=name, **self._columns
            )
            if not found:
                raise Conflict
            self.number = int(found[0][0])
        else:
            where = {"run": self.number, "before": self._version}
            if not database.run(connection, _UPDATE_RUN, **where, **self._columns):
                raise Conflict
            if self._replaces_all:
                delete_rows(store, connection, self.number)
        for statement in _STATEMENTS:
            if rows := self._rows.get(statement):
                database.run_many(connection, statement, map((self.number,).__add__, rows))
        for journal, place in self._dropped:
            drop_groups(database, connection, self.number, journal, place)
        if self._groups:
            store_groups(database, connection, self.number, self._groups, self._numbers)


def _make_run_row(run: StoredRun, keys: Keys) -> dict[str, Any]:
    state, pack = run.state, keys.pack
    registers = {
        "deletes": dict(zip(state.deletes, map(pack, state.deletes.values()), strict=True)),
        "clears": dict(zip(state.clears, map(pack, state.clears.values()), strict=True)),
        "changed": {
            path: [[pack(key), kind, value] for key, (kind, value) in sorted(entries.items())]
            for path, entries in state.changed.items()
        },
        "state": [pack(state.state[0]), state.state[1]],
        "started": state.started,
    }
    columns = run_columns(state)
    fork = state.fork if state.fork is not None and can_hold(state.fork.parent) else None
    columns["forked_from"], columns["forked_at"] = fork or (None, None)
    columns |= {"registers": to_json(registers), "version": run.version + 1}
    return columns


def _make_rows(
    run: RunState, journals: Iterable[JournalState], numbers: Mapping[str, int], keys: Keys
) -> dict[Any, list[tuple[Any, ...]]]:
    rows: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for journal in journals:
        rows[_UPSERT_JOURNAL].append(journal_row(journal))
        for one, place, path in journal.names.new_paths:
            rows[_UPSERT_PATH].append((journal.number, one, place, numbers[path]))
        for one, place, paths in journal.names.new_schemas:
            packed = struct.pack(f"<{len(paths)}I", *paths)
            rows[_UPSERT_SCHEMA].append((journal.number, one, place, packed))
    _add_attributes(rows, run, numbers, keys)
    return rows


def _add_attributes(
    rows: dict[Any, list[tuple[Any, ...]]], run: RunState, numbers: Mapping[str, int], keys: Keys
) -> None:
    for path in sorted(run.dirty, key=numbers.__getitem__):
        number, families = numbers[path], run.attributes[path]
        alone = len(families) == 1 and not run.deletes  # the most frequent case
        first = next(iter(families.values() if alone else run.surviving(path)), None)
        for family, state in families.items():
            at = (number, FAMILY_NUMBERS[family])
            key: tuple[int | None, ...] = _NO_KEY
            if state.key is not NEVER:
                t, uid, place = state.key
                key = (t, keys.numbers[uid], place)
            is_shown = state is first and state.key is not NEVER
            if isinstance(state, AtomState):
                kind, value = state.type, state.value
                is_text = kind in ("string", "json")  # the most frequent types
                columns = (None, None, None, value) if is_text else atom_columns(kind, value)
                kept = to_json(value) if kind == "text" else None
            else:
                kind, columns = family, family_columns(run, path, state)
                kept = state.dump(keys.pack)
            rows[_UPSERT_ATTRIBUTE].append((*at, int(is_shown), kind, *columns, *key, kept))
            if isinstance(state, SeriesState):
                rows[_UPSERT_SERIES].append((*at, *series_columns(state)))
            elif isinstance(state, StatisticState):
                rows[_UPSERT_SERIES].append((*at, *statistic_columns(run, path, state)))
            elif isinstance(state, SetState):
                rows[_DELETE_ELEMENT].append((number,))
                elements = sorted(state.visible(run.emptied(path))) if is_shown else []
                rows[_INSERT_ELEMENT] += [(number, *element) for element in enumerate(elements)]
