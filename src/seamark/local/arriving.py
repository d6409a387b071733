"""Asking a root under which name a run may come; see `seamark.reading.arriving`."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Final

from seamark.journal.folder import PROJECT_LOG
from seamark.journal.safe import is_folder, locked, make_folder, open_folder
from seamark.local.index import Index
from seamark.reading.arriving import Arrival, settle

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.reading.arriving import Conflict

__all__ = ["arrive"]

_FILE: Final = ".arriving"
_MOST_BYTES: Final = 4 << 20
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)


def arrive(
    root: Path,
    project: str,
    run: str,
    name: str | None,
    conflict: Conflict,
    *,
    make_project: bool,
) -> Arrival:
    """Return what becomes of a run that is to come to a root; its name is taken if it goes.

    Args:
        root: The root.
        project: Project path.
        run: Run id.
        name: Its name; None if it has none.
        conflict: What to do if another run of the project has it.
        make_project: Whether a project that is not there is made.

    Raises:
        OSError: If the root cannot be written.
    """
    place = root / project
    if not is_folder(place) and not make_project:
        return Arrival("no project")
    if name is None:
        return Arrival("go")
    make_folder(place / PROJECT_LOG)
    above = open_folder(place / PROJECT_LOG)
    try:
        fd = os.open(_FILE, _FLAGS, 0o666, dir_fd=above)
    finally:
        os.close(above)
    with os.fdopen(fd, "r+b") as file, locked(fd):
        held = _read(file.read(_MOST_BYTES))
        with Index.open(root) as index:
            index.refresh(project)
            known = [one for one in index.names() if one.project == project]
        found = settle(held, known, run, name, conflict, time.time_ns())
        file.seek(0)
        file.write(json.dumps(held).encode())
        file.truncate()
        file.flush()
    return found


def _read(content: bytes) -> dict[str, list[object]]:
    try:
        held = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}
