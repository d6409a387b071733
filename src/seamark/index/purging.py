"""Permanent deletion of runs from disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from seamark.journal.folder import RunFolder
from seamark.journal.headers import may_grow
from seamark.journal.reader import JournalReader
from seamark.journal.reservations import Claims
from seamark.journal.safe import closing_fd, open_folder, remove_entry, touch
from seamark.process.interrupts import quietly

PURGING: Final = ".purging"
"""Suffix of the hidden name of a run folder that is being deleted."""


def is_live(folder: RunFolder) -> bool:
    """Return whether a process may still write to this run."""
    for file in folder.journals():
        with quietly(only=OSError), JournalReader(file.path) as reader:
            if may_grow(reader):
                return True
    return False


def remove(folder: RunFolder) -> None:
    """Delete a run folder and leave a mark that the run was purged.

    The mark is created first, and the folder is hidden before it is emptied. Readers therefore see
    the whole run or nothing, and the next purge completes an interrupted one. Raises OSError if
    this fails, or if a parent folder is a link.
    """
    folder.refuse_links(inside=False)
    touch(folder.purged_mark)
    hidden = folder.path.with_name(f".{folder.run}{PURGING}")
    if os.path.lexists(hidden):
        delete_hidden(hidden)
    folder.path.rename(hidden)
    delete_hidden(hidden)
    with quietly(only=OSError):  # claims are obsolete; its revision is not reused
        Claims(folder.root, folder.project).forget(folder.run)


def delete_hidden(hidden: Path) -> None:
    """Delete a hidden folder; if it is a link, delete only the link."""
    with closing_fd(open_folder(hidden.parent, above=0)) as fd:
        remove_entry(fd, hidden.name)
