"""Default root: the nearest ``.seamark`` folder from the working directory upwards.

The search ends before a folder of another user, who might have put a root there on purpose.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from seamark.errors import ArgumentError
from seamark.journal.safe import is_folder
from seamark.process.interrupts import quietly

__all__ = ["ROOT_NAME", "cache_folder", "name_of", "nearest_root", "root_inside", "root_near"]

ROOT_NAME: Final = ".seamark"
"""What the folder of all runs is called where nobody names another one."""


def cache_folder() -> Path:
    """Return the folder, perhaps missing, for caches: in ``XDG_CACHE_HOME`` or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "seamark"


def nearest_root(*, used: bool = True) -> Path:
    """Return the nearest ``.seamark`` folder from the working directory upwards, absolute.

    The first folders that are looked in no more: the one above the home directory, one on another
    file system, and one that belongs to another user; from a working directory of another user
    nothing above it is looked in. Where there is none, it is ``.seamark`` in the working directory.

    Raises:
        ArgumentError: If it is ``used`` and another user's, or the working directory is gone.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 - pathlib's is no other
    except OSError as error:
        msg = "root: the working directory is gone; name a folder (root=..., SEAMARK_DIR or --root)"
        raise ArgumentError(msg) from error
    for folder in _upwards(here):
        root = os.path.join(folder, ROOT_NAME)  # noqa: PTH118
        if os.path.isdir(root):  # noqa: PTH112 - the root itself may be a link
            if used:
                _expect_own(root)
            return Path(root)
    return Path(here, ROOT_NAME)


def root_inside(folder: Path) -> Path | None:
    """Return the ``.seamark`` folder in a folder that was named as root; None without one."""
    inside = folder / ROOT_NAME
    return inside if is_folder(inside) else None


def root_near(folder: Path) -> Path | None:
    """Return a root above or beside a folder that may have been meant; else None."""
    there = next((one for one in (folder, *folder.parents) if one.is_dir()), folder)
    for one in map(Path, _upwards(str(there))):
        if one.name == ROOT_NAME and one != folder:
            return one
        if is_folder(one / ROOT_NAME) and one / ROOT_NAME != folder:
            return one / ROOT_NAME
    return None


def _upwards(start: str) -> Iterator[str]:
    yield start
    home, me = os.path.realpath(os.path.expanduser("~")), _user()  # noqa: PTH111
    folder, device = start, None
    with quietly(only=OSError):  # what cannot be looked at is a border too
        while True:
            above = os.path.dirname(folder)  # noqa: PTH120
            for one in (folder, above):
                found = os.stat(one)  # noqa: PTH116
                device = found.st_dev if device is None else device
                if found.st_dev != device or me not in (None, found.st_uid):
                    return
            if folder in (home, above):
                return
            yield above
            folder = above


def _user() -> int | None:
    """Return the id of this process's user; None where files have no owner."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _expect_own(root: str) -> None:
    """Refuse, with ArgumentError, a root that was not named and that another user made."""
    me = _user()
    for found in (os.lstat(root), os.stat(root)):  # noqa: PTH116
        if me not in (None, found.st_uid):
            msg = (
                f"root: {root} belongs to {name_of(found.st_uid)}, not to {name_of(me)}, and is "
                "not used unless it is named: --root in the command, root= in Python, or "
                "SEAMARK_DIR"
            )
            raise ArgumentError(msg)


def name_of(user: int | None) -> str:
    """Return the text that describes a user: ``alice (uid 1000)``."""
    with quietly(only=(KeyError, ImportError)):
        import pwd

        return f"{pwd.getpwuid(user or 0).pw_name} (uid {user})"
    return f"uid {user}"
