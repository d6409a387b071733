"""Choice among the copies of a journal, and the reader of one run of the index.

Of several files with the same uid, the one with the most valid bytes is read. Copies with other
contents are reported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from seamark.blobs.contents import FolderContents
from seamark.errors import JournalError
from seamark.journal.folder import RunFolder, split_journal_name
from seamark.journal.reader import JournalReader
from seamark.journal.source import FileSource, Source
from seamark.journal.walk import BLOCK_BYTES, walk
from seamark.process.interrupts import quietly
from seamark.store.read.run import RunReader

if TYPE_CHECKING:
    from seamark.index.looks import Look, Stat
    from seamark.store.read.series import Sources
    from seamark.store.runs import Store

__all__ = ["RunView", "choose", "open_journal"]


def open_journal(folder: RunFolder, name: str) -> Source:
    """Open a journal of a run; raises `JournalError`."""
    return FileSource(f"{folder.root}/{folder.project}/{folder.run}/journal/{name}")


@dataclass(slots=True)
class Copies:
    """Files of a folder by uid: the one to read, and those with other contents.

    For a uid that is not in ``diverged``, the known ones are still valid.
    """

    chosen: dict[bytes, str] = field(default_factory=dict)
    diverged: dict[bytes, list[str]] = field(default_factory=dict)


def choose(folder: RunFolder, stats: Mapping[str, Stat], before: Mapping[str, Look]) -> Copies:
    """Return which files of a folder are read, given their present and former statuses."""
    by_uid: dict[bytes, list[str]] = {}
    for name in stats:
        uid = split_journal_name(name)[1] or _stated_uid(folder, name)
        by_uid.setdefault(uid, []).append(name)
    found = Copies()
    for uid, names in by_uid.items():
        if len(names) == 1:
            found.chosen[uid], found.diverged[uid] = names[0], []
        elif (kept := _extended_file(names, stats, before)) is not None:
            found.chosen[uid] = kept
        else:
            found.chosen[uid], found.diverged[uid] = _compared(folder, names)
    return found


def _stated_uid(folder: RunFolder, name: str) -> bytes:
    """Return the uid in a file's first bytes, or one of its name if it is no journal."""
    with quietly(only=OSError), JournalReader(open_journal(folder, name)) as reader:
        if any(reader.uid):
            return reader.uid
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:16]


def _extended_file(
    names: Iterable[str], stats: Mapping[str, Stat], before: Mapping[str, Look]
) -> str | None:
    """Return the file read before, if only it changed, by growing."""
    chosen = None
    for name in names:
        look = before.get(name)
        if look is None:
            return None
        if look.journal >= 0:
            grew = look.stat.inode == stats[name].inode and look.stat.size < stats[name].size
            if chosen is not None or not (grew or look.stat == stats[name]):
                return None
            chosen = name
        elif look.stat != stats[name]:
            return None
    return chosen


def _compared(folder: RunFolder, names: Iterable[str]) -> tuple[str, list[str]]:
    def worth(name: str) -> tuple[int, bool, str]:
        return _valid_bytes(folder, name), split_journal_name(name)[1] is not None, name

    best, *others = sorted(names, key=worth, reverse=True)
    return best, sorted(name for name in others if not _is_duplicate(folder, best, name))


def _valid_bytes(folder: RunFolder, name: str) -> int:
    try:
        with _reader(folder, name) as reader:
            return sum(block.end - block.base for block in reader.blocks())
    except OSError:
        return -1


def _is_duplicate(folder: RunFolder, best: str, other: str) -> bool:
    try:
        with _reader(folder, best) as whole, _reader(folder, other) as part:
            for block in part.blocks():
                size = block.end - block.base
                if whole.bytes_at(size, block.base) != block.data[:size]:
                    return False
    except JournalError:  # no journal, or not to be opened: it says nothing
        return True
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
            sources_of(folder.project, folder.run),
            now_ns=now_ns,
            others=sources_of,
            guarded=guarded,
        )
