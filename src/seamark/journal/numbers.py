"""Numbers that processes take without talking to each other: versions, and revisions of runs.

A number that was given once is not given to anybody else, whatever becomes of who took it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from seamark.journal.reservations import Reservations
from seamark.process.liveness import process_facts

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.folder import RunFolder

__all__ = ["MOST_NUMBER", "NUMBERS", "REVISIONS", "take_number", "take_revision"]

NUMBERS: Final = ".numbers"
"""The folder, in that of a model or of an artifact's name, in which each version has a file whose
name is its number."""
REVISIONS: Final = ".twins"
"""The folder, in that of a project, in which revision n of a hash has the file ``<hash>.<n>``."""
MOST_NUMBER: Final = 999_999_999
"""There is no greater one; a stranger's folder may say so."""

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


def take_number(
    folder: RunFolder, who: str, known: Collection[int] = (), *, again: bool = False
) -> int:
    """Take the next free number (1-based) below a folder; nobody else gets the same one.

    Args:
        folder: Of the model or the artifact's name.
        who: Id or digest of the version, which the file holds.
        known: Numbers that are taken without a file here, as after folders were merged.
        again: Whether the version may have a number already, which it keeps.

    Raises:
        OSError: If the folder cannot be written, or a link is in its place.
    """

    def is_own(number: int) -> bool:
        found = numbers.read(str(number)) if again else None
        return found is not None and found.holder == who.encode()

    folder.refuse_links()
    numbers = Reservations(folder.path, NUMBERS)
    reserved = sorted(int(name) for name in numbers.names() if _NUMBER.fullmatch(name))
    own = next(filter(is_own, reserved), 0)
    return own or _next_number(numbers, "", who, {*known, *reserved}, is_own)


def take_revision(project: Path, text: str, run: str) -> int:
    """Take the next revision (1-based) of the runs that were given the same at their start.

    Args:
        project: Folder of the project.
        text: Hash of what they were given.
        run: Id of the run, which the file holds with the facts of this process.

    Raises:
        OSError: If nothing can be written there, or a link is in the place of the folder.
    """
    revisions = Reservations(project, REVISIONS)
    holder = json.dumps({"run": run, **process_facts(), "t": time.time_ns()})
    prefix = f"{text}."
    given = (name.removeprefix(prefix) for name in revisions.names() if name.startswith(prefix))
    taken = {int(one) for one in given if _NUMBER.fullmatch(one)}
    return _next_number(revisions, prefix, holder, taken)


def _next_number(
    reservations: Reservations,
    prefix: str,
    holder: str,
    taken: Collection[int],
    is_own: Callable[[int], bool] = lambda _: False,
) -> int:
    """Reserve the first free number after those that are taken.

    Args:
        reservations: The reservations of one kind.
        prefix: Beginning of their names; the number follows.
        holder: Content of the reservation.
        taken: Numbers that are taken.
        is_own: Tells whether another process reserved a number for the same holder meanwhile.
    """
    number = max(taken, default=0) + 1
    if number > MOST_NUMBER:  # nobody counted that far
        number = 1
    while number in taken or not reservations.reserve(f"{prefix}{number}", holder):
        if is_own(number):
            return number
        number += 1
    return number
