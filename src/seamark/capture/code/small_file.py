"""Reading a file of which nothing is known but its name: it may be anybody's, and anything."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final

from seamark.process.interrupts import quietly

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["beginning_of"]

_PART: Final = 1 << 18
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


def beginning_of(
    file: str | os.PathLike[str],
    at_most: int,
    *,
    follow: bool = False,
    enough: Callable[[bytearray], bool] = lambda _: False,
) -> bytes | None:
    """Return what a regular file begins with; None if it is none, or cannot be read.

    Never waits for a pipe, and never raises for what is there.

    Args:
        file: Its path.
        at_most: How many bytes.
        follow: Whether it may be a link.
        enough: Whether what was read so far will do.
    """
    content: bytes | None = None
    with quietly(only=(OSError, ValueError)):
        fd = os.open(file, _FLAGS if follow else _FLAGS | _NO_LINK)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                found = bytearray()
                while len(found) < at_most and not enough(found):
                    part = os.read(fd, min(_PART, at_most - len(found)))
                    if not part:
                        break
                    found += part
                content = bytes(found)
        finally:
            os.close(fd)
    return content
