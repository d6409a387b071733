"""Revisions of runs that are the same experiment, numbered by files that are created only once.

Revision n of a hash is the file ``<project>/.twins/<hash>.<n>``, which names the run that was begun
so. A number that was given once is not given again. What lies there may be a stranger's.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Final

from seamark.journal.safe import folder_below, make_once, open_folder
from seamark.process.liveness import process_facts

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TWINS", "make_twin", "newest_revision"]

TWINS: Final = ".twins"
"""The folder, in that of a project, in which runs are numbered that are the same."""

_NAME: Final = re.compile(r"([0-9a-f]{32})\.([1-9][0-9]{0,8})")


def newest_revision(project: Path, text: str) -> int:
    """Return the largest revision of a hash that was given; 0 if there is none.

    Args:
        project: Folder of the project.
        text: The hash.

    Raises:
        OSError: If they cannot be listed, or a link is in the place of the folder.
    """
    try:
        fd = open_folder(project / TWINS, above=1)
    except FileNotFoundError:
        return 0
    try:
        names = os.listdir(fd)  # noqa: PTH208 - of a descriptor
    finally:
        os.close(fd)
    found = (_NAME.fullmatch(name) for name in names)
    return max((int(one[2]) for one in found if one and one[1] == text), default=0)


def make_twin(project: Path, text: str, number: int, run: str) -> bool:
    """Take a revision; return whether nobody else had.

    Raises:
        OSError: If nothing can be written there, or a link is in the place of the folder.
    """
    told = {"run": run, **process_facts(), "t": time.time_ns()}
    with folder_below(project, (TWINS,)) as fd:
        return make_once(f"{text}.{number}", json.dumps(told), fd)
