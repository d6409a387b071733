"""Copying the journals of a run from a remote to this disk, before its owner resumes it.

A pull is a transfer in the other direction: whole frames are appended to the files here as
`seamark.remote.file` appends them in another root. So it may be cut short at any time, goes on
where it stopped, and several processes may pull one run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from seamark.journal.headers import writer_lives
from seamark.journal.reader import JournalReader
from seamark.journal.safe import locked, open_file
from seamark.journal.shipping import check_frames, check_gap
from seamark.remote.file import FileRemote
from seamark.remote.protocol import RemoteError, RunKey
from seamark.remote.sync import Patience

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder
    from seamark.remote.protocol import KeepsJournals

__all__ = ["pull_journals"]

_TRIES: Final = 2
"""Of each request: the start of a training waits for them."""


def pull_journals(
    remote: KeepsJournals, folder: RunFolder, progress: Callable[[int, int], None]
) -> None:
    """Append what a remote stores of a run's journals, and this disk lacks, to the files here.

    Args:
        remote: A place that has the run.
        folder: Folder of the run on this disk; made if there is none.
        progress: Called with the number of bytes that are here, and that are there.

    Raises:
        RemoteError: If the remote does not answer, or has other bytes than this disk.
        BatchError: If it answers with something that is no part of the journal.
        JournalError: If a journal on this disk cannot be read.
    """
    key, here, patience = (
        RunKey(folder.project, folder.run),
        FileRemote(folder.root),
        Patience(_TRIES),
    )
    there = patience.ask(partial(remote.journals, key))
    known = here.journals(key) if folder.exists() else {}
    left = {name: size for name, size in there.items() if known.get(name, 0) < size}
    done, total = 0, sum(left.values())
    for name in sorted(left):
        offset = _cut_to_frames(folder, name) if name in known else 0
        done += offset
        while (batch := patience.ask(partial(remote.read, key, name, offset))) is not None:
            if batch.offset != offset:
                msg = f"{name}: expected the bytes from {offset} on, got those from {batch.offset}"
                raise RemoteError(msg)
            if batch.is_gap:
                check_gap(name, offset, batch.length)
                sent = here.send_gap(key, name, offset, batch.length)
            else:
                _check(folder, name, offset, batch.data)
                sent = here.send(key, name, offset, batch.data)
            done += sent.offset - offset
            offset = sent.offset
            progress(done, total)


def _cut_to_frames(folder: RunFolder, name: str) -> int:
    """Return the end of the last whole frame of a journal, and remove what follows.

    A power cut may leave half a frame or zeros, which the remote has whole. What a process is
    writing is left alone: one that copies the same run holds the lock while it appends.
    """
    path, end = folder.journal_dir / name, 0
    with (
        os.fdopen(open_file(path), "rb") as file,
        locked(file.fileno()),
        JournalReader(path) as reader,
    ):
        for block in reader.blocks(unknown=True):
            end = block.end
        if 0 < end < reader.size and not writer_lives(path):
            os.truncate(path, end)
    return end


def _check(folder: RunFolder, name: str, offset: int, data: bytes) -> None:
    from seamark.journal.walk import walk  # NumPy is for those who pull

    check_frames(folder.run, name, offset, data, walk)
