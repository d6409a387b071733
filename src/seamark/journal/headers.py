"""HEADER records of a run's journals; each is read once, because it never changes."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from seamark.errors import JournalError
from seamark.journal.folder import RunFolder
from seamark.journal.format import Kind
from seamark.journal.reader import SETTLE_NS, JournalReader
from seamark.journal.safe import FileSource
from seamark.process.interrupts import quietly
from seamark.process.liveness import process_alive, process_facts


@functools.lru_cache(maxsize=4096)
def header_of(path: Path) -> Mapping[str, Any]:
    """Return the HEADER of a journal; JournalError if it is unreadable or not yet written."""
    with JournalReader(path) as reader:
        found = reader.header()
    if not found:  # it may be written later; the cache does not store exceptions
        raise JournalError(None, f"journal {str(path)!r} has no header")
    return found


def headers(folder: RunFolder) -> Iterator[Mapping[str, Any]]:
    """Yield the HEADER of every readable journal of a run."""
    for journal in folder.journals():
        with quietly(only=OSError):
            yield header_of(journal.path)


def first_record_ns(folder: RunFolder) -> int:
    """Return the time of the first record of a run, ns since the Unix epoch; 0 if there is none."""
    found = []
    for journal in folder.journals():
        with quietly(only=OSError), JournalReader(journal.path) as reader:
            found += [frame.t for frame in itertools.islice(reader.frames(), 1)]
    return min(found, default=0)


def may_grow(reader: JournalReader) -> bool:
    """Return whether a process may still append to a journal or complete its records.

    A stopped process, or one on a sleeping laptop, writes no heartbeats but is alive. So the
    process itself is checked if possible.
    """
    last = reader.last_frame()
    if last is not None and last.kind == Kind.CLOSE:
        return False
    return process_alive(reader.header()) is True or not reader.is_finished()


def is_local_journal(path: Path, *, boot: bool = False) -> bool:
    """Return whether this user recorded a journal on this host, according to its file.

    Its header must name this host, and the file must belong to this user or root. This is weak
    evidence, because a user owns the files of an unpacked archive and host names can be guessed;
    callers need more. With ``boot``, the header must also name this user and the boot of the host,
    which cannot be guessed elsewhere, and the file must belong to this user.
    """
    me, user = process_facts(), os.geteuid()
    wanted = ("host", "boot", "user") if boot else ("host",)
    with quietly(only=OSError), JournalReader(source := FileSource(path)) as reader:
        header, owner = reader.header(), source.owner()
        if all(me[fact] is not None and header.get(fact) == me[fact] for fact in wanted):
            return owner == user or (owner == 0 and not boot)
    return False


def writer_lives(path: Path) -> bool:
    """Return whether a journal's process is alive; for another host, judge by its last frame."""
    alive = process_alive(header_of(path))
    if alive is not None:
        return alive
    with JournalReader(path) as reader:
        last = reader.last_frame()
    return last is not None and last.kind != Kind.CLOSE and last.t > time.time_ns() - SETTLE_NS
