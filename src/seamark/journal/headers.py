"""The HEADER records of a run's journals, which say who wrote them.

A rank that starts asks several times what is there. With hundreds of ranks, opening hundreds of
journals each time is what its first record would wait for, so a header is read once: a journal has
an id of its own in its name, and its header never changes.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.errors import JournalError
from seamark.journal._format import Kind
from seamark.journal.process import process_alive
from seamark.journal.reader import SETTLE_NS, JournalReader

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["header_of", "headers", "writer_lives"]


@functools.lru_cache(maxsize=4096)
def header_of(path: Path) -> Mapping[str, Any]:
    """Return the HEADER of a journal.

    Raises:
        JournalError: If it cannot be read, or is not there yet.
    """
    with JournalReader(path) as reader:
        found = reader.header()
    if not found:  # perhaps later; what is raised is not remembered
        msg = f"journal {str(path)!r} has no header"
        raise JournalError(None, msg)
    return found


def headers(folder: RunFolder) -> Iterator[Mapping[str, Any]]:
    """Yield the HEADER of every journal of a run that can be read."""
    for journal in folder.journals():
        with contextlib.suppress(OSError):
            yield header_of(journal.path)


def writer_lives(path: Path) -> bool:
    """Tell whether the process that wrote a journal lives; of another host its last frame tells.

    Raises:
        JournalError: If the journal cannot be read, or has no header yet.
    """
    alive = process_alive(header_of(path))
    if alive is not None:
        return alive
    with JournalReader(path) as reader:
        last = reader.last_frame()
    return last is not None and last.kind != Kind.CLOSE and last.t > time.time_ns() - SETTLE_NS
