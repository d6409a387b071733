"""Distinction between the user's own code and code that is installed with Python."""

# ruff: noqa: PTH100, PTH118 - texts: every loaded module is compared with them

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Final

__all__ = ["is_installed"]

_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def is_installed(file: Path) -> bool:
    """Return whether a file came with Python, with a package, or with a virtual environment.

    Not everything below a prefix did: with that of Debian, ``/usr``, a container's ``/usr/src/app``
    is somebody's own.

    Args:
        file: Absolute path.
    """
    if not _INSTALLED.isdisjoint(file.parts):
        return True
    return any(file.is_relative_to(place) for place in _places())


@functools.lru_cache(maxsize=1)
def _places() -> tuple[str, ...]:
    """Return the folders in which Python and its packages lie, links resolved and not."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {sysconfig.get_path("scripts"), site.getusersitepackages()}
    if sys.prefix != sys.base_prefix:
        found.add(sys.prefix)  # of a virtual environment everything
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        found.update(os.path.join(prefix, name) for name in ("bin", "Scripts", "lib", "lib64"))
    known = {os.path.abspath(place) for place in found if place}
    return tuple(known | {os.path.realpath(place) for place in known})
