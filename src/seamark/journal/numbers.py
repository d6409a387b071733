"""Numbers that processes take without talking to each other: each is a file that one can make.

A file holds who has the number, from the moment it is there: it is written under another name
first, and linked. So whoever asks twice, or is another process that seals the same artifact, gets
the same number again.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from seamark.journal.safe import folder_below
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["MOST_NUMBER", "NUMBERS", "take_number"]

NUMBERS: Final = ".numbers"
"""The folder, in that of a model or of an artifact's name, in which each version has a file whose
name is its number."""
MOST_NUMBER: Final = 999_999_999
"""There is no greater one; a stranger's folder may say so."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_MOST: Final = 200
"""Bytes of what a file holds, and one more than an id or digest has."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK})
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def take_number(
    folder: RunFolder, who: str, known: Collection[int] = (), *, again: bool = False
) -> int:
    """Take the next free number (1-based) below a folder; nobody else gets the same one.

    A number that was given once is not given to anybody else, whatever becomes of who took it.

    Args:
        folder: Of the model or the artifact's name.
        who: Id or digest of the version, which the file holds.
        known: Numbers that are taken without a file here, as after folders were merged.
        again: Whether the version may have a number already, which it keeps.

    Raises:
        OSError: If the folder cannot be written, or a link is in its place.
    """
    folder.refuse_links()
    with folder_below(folder.path, (NUMBERS,)) as fd:
        names = os.listdir(fd)  # noqa: PTH208 - of a descriptor
        there = sorted(int(name) for name in names if _NUMBER.fullmatch(name))
        if again and (own := next((one for one in there if _says(fd, one, who)), 0)):
            return own
        taken = {*known, *there}
        number = max(taken, default=0) + 1
        if number > MOST_NUMBER:  # nobody counted that far
            number = 1
        while True:
            if number not in taken:
                if _make(fd, str(number), who):
                    return number
                if again and _says(fd, number, who):  # another process was faster
                    return number
            number += 1


def _make(folder: int, name: str, text: str) -> bool:
    """Make a file that was not there, with what it holds; return whether it is ours."""
    part = f".tmp-{secrets.token_hex(8)}"
    _write(folder, part, text)
    try:
        os.link(part, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:  # a file system without links; O_EXCL follows none
            _write(folder, name, text)
        except FileExistsError:
            return False
    finally:
        os.unlink(part, dir_fd=folder)
    return True


def _write(folder: int, name: str, text: str) -> None:
    fd = os.open(name, _NEW, 0o666, dir_fd=folder)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _says(folder: int, number: int, who: str) -> bool:
    """Return whether the file of a number holds somebody's id; nothing else is opened."""
    try:
        fd = os.open(str(number), _READ, dir_fd=folder)
    except OSError as error:
        let_pass(error)
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and os.read(fd, _MOST) == who.encode()
    finally:
        os.close(fd)
