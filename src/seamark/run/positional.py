"""The positional argument of `init_run`: the project, or Neptune's ``with_id``."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from seamark.errors import SeamarkError
from seamark.journal.folder import is_run_id
from seamark.opening.machine import is_run
from seamark.options.settings import Settings
from seamark.process.interrupts import quietly
from seamark.process.rank import current_rank

__all__ = ["parse_positional_argument"]

log = logging.getLogger("seamark")

_LIKE_NEPTUNES: Final = re.compile(r"[A-Z][A-Z0-9]*-[1-9][0-9]*")
"""Ids of runs as Neptune makes them: the project's key and a number."""
_READ_ONCE: Final = frozenset({"groups", "secrets", "source_files", "tags"})
"""Options that may be generators, and do not say where a run is."""


def parse_positional_argument(first: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run with the one that was given without a name under its own.

    Beside ``project=`` it is ``with_id``, as in Neptune. Alone it is ``with_id`` if it looks like
    an id, a run has that id, and no project on this disk has that name; else it is the project.

    Args:
        first: The argument without a name; None if there was none.
        given: The others, all with a name.
    """
    if first is None:
        return dict(given)
    named = given.get("with_id") is not None or given.get("custom_run_id") is not None
    is_neptunes = isinstance(first, str) and _LIKE_NEPTUNES.fullmatch(first) is not None
    is_id = is_neptunes or (isinstance(first, str) and is_run_id(first))
    if not named and (given.get("project") is not None or (is_id and _is_run(first, given))):
        return {**given, "with_id": first}
    if not named and is_neptunes and not current_rank().rank:
        log.warning(
            "seamark: init_run(%r) means the project of that name; write with_id=%r, and project=, "
            "if a run is meant",
            *(first, first),
        )
    return {**given, "project": first}


def _is_run(first: str, given: Mapping[str, Any]) -> bool:
    """Return whether a run has this id, and no project this name."""
    with quietly(only=SeamarkError):  # it is said where all of them are used
        others = {name: given[name] for name in given.keys() - _READ_ONCE}
        options = Settings.of(**{**others, "with_id": first})
        return options.mode not in ("disabled", "debug") and is_run(options, first)
    return False
