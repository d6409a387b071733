"""Runs that are the same experiment, numbered by files of which only one process can make each.

Revision n of a hash is the file ``<project>/.twins/<hash>.<n>``, which names the run that was begun
so. A number that was given once is not given again. What lies there may be a stranger's.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.errors import PathError
from seamark.journal.claims import has_lapsed
from seamark.journal.safe import folder_below, make_once, open_file, open_folder
from seamark.paths import check_name
from seamark.process.interrupts import let_pass
from seamark.process.liveness import process_facts

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TWINS", "Twin", "make_twin", "twins_of"]

TWINS: Final = ".twins"
"""The folder, in that of a project, in which runs are numbered that are the same."""

_NAME: Final = re.compile(r"([0-9a-f]{32})\.([1-9][0-9]{0,8})")
_MOST_BYTES: Final = 64 << 10


class Twin(NamedTuple):
    """A revision that was given.

    Attributes:
        number: 1-based.
        run: Id of the run; empty where the file does not say, as while it is being written.
        is_coming: Whether who took it may still be about to make the run.
    """

    number: int
    run: str
    is_coming: bool


def twins_of(project: Path, text: str) -> list[Twin]:
    """Return the revisions of a hash, the first one first.

    Args:
        project: Folder of the project.
        text: The hash.

    Raises:
        OSError: If they cannot be listed, or a link is in the place of the folder.
    """
    try:
        fd = open_folder(project / TWINS, above=1)
    except FileNotFoundError:
        return []
    try:
        names = os.listdir(fd)  # noqa: PTH208 - of a descriptor
    finally:
        os.close(fd)
    found = (_NAME.fullmatch(name) for name in names)
    numbers = sorted(int(one[2]) for one in found if one and one[1] == text)
    return [_read(project, text, number) for number in numbers]


def make_twin(project: Path, text: str, number: int, run: str) -> bool:
    """Take a number; return whether nobody else had.

    Raises:
        OSError: If nothing can be written there, or a link is in the place of the folder.
    """
    told = {"run": run, **process_facts(), "t": time.time_ns()}
    with folder_below(project, (TWINS,)) as fd:
        return make_once(f"{text}.{number}", json.dumps(told), fd)


def _read(project: Path, text: str, number: int) -> Twin:
    facts: Mapping[str, Any] = {}
    made_ns = 0
    try:
        fd = open_file(project / TWINS / f"{text}.{number}")
        try:
            made_ns = os.fstat(fd).st_mtime_ns
            found = json.loads(os.read(fd, _MOST_BYTES))
        finally:
            os.close(fd)
        facts = found if isinstance(found, dict) else {}
    except (OSError, ValueError, RecursionError) as error:
        let_pass(error)
    run, told = facts.get("run"), facts.get("t")
    try:
        run = check_name(run, "run")
    except PathError:
        run = ""
    begun = told if isinstance(told, int) else made_ns
    return Twin(number, run, not has_lapsed(facts, begun, time.time_ns()))
