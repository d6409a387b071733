"""Runs of which a part lies only elsewhere: told by the journals that were begun without it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from seamark.journal.headers import headers

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["is_whole", "known_lengths", "lengths", "missing_journals"]


def lengths(folder: RunFolder) -> dict[str, int]:
    """Return {writer id: bytes} of every journal of a run that lies here."""
    found: dict[str, int] = {}
    for journal in folder.journals():
        with contextlib.suppress(OSError):  # taken away just now
            size = journal.path.stat().st_size
            found[journal.writer] = max(size, found.get(journal.writer, 0))
    return found


def known_lengths(folder: RunFolder, there: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return {writer id: bytes} of every journal that is known, whether it lies here or not.

    Args:
        folder: The run.
        there: What a remote keeps of it, if that was asked.
    """
    return _with_named(lengths(folder), folder, there)


def missing_journals(folder: RunFolder, there: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return {writer id: bytes} of the journals that are known and are not, or not whole, here."""
    here = lengths(folder)
    known = _with_named(here, folder, there)
    return {writer: length for writer, length in known.items() if here.get(writer, 0) < length}


def _with_named(
    here: Mapping[str, int], folder: RunFolder, there: Mapping[str, int] | None
) -> dict[str, int]:
    """Add the journals that a remote keeps, and those that the journals here name."""
    found = dict(here)
    named = (header.get("elsewhere") or {} for header in headers(folder)) if here else ()
    for lengths_there in (there or {}, *named):
        for writer, length in lengths_there.items():
            found[writer] = max(length, found.get(writer, 0))
    return found


def is_whole(folder: RunFolder) -> bool:
    """Return whether all of a run lies here, as far as its journals say."""
    return not missing_journals(folder)
