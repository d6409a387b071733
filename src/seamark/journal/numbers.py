"""Numbers that processes take without talking to each other: each is a file that one can make."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from seamark.journal.safe import folder_below

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["MOST_NUMBER", "NUMBERS", "take_number"]

NUMBERS: Final = ".numbers"
"""The folder, in that of a model, in which each version has a file whose name is its number."""
MOST_NUMBER: Final = 999_999_999
"""There is no greater one; a stranger's folder may say so."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def take_number(folder: RunFolder, who: str, known: Collection[int] = ()) -> int:
    """Take the next free number (1-based) below a folder; nobody else gets the same one.

    A number that was given once is not given again, whatever becomes of who took it. What the files
    hold is for people; nothing reads it.

    Args:
        folder: Of the model.
        who: Id of the version, which the file holds.
        known: Numbers that are taken without a file here, as after folders were merged.

    Raises:
        OSError: If the folder cannot be written, or a link is in its place.
    """
    folder.refuse_links()
    with folder_below(folder.path, (NUMBERS,)) as fd:
        names = os.listdir(fd)  # noqa: PTH208 - of a descriptor
        taken = {*known, *(int(name) for name in names if _NUMBER.fullmatch(name))}
        number = max(taken, default=0) + 1
        if number > MOST_NUMBER:  # nobody counted that far
            number = 1
        while True:
            if number not in taken and _make(fd, str(number), who):
                return number
            number += 1


def _make(folder: int, name: str, text: str) -> bool:
    """Make a file that was not there; return whether it is ours. O_EXCL follows no link."""
    try:
        fd = os.open(name, _NEW, 0o666, dir_fd=folder)
    except FileExistsError:
        return False
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
    return True
