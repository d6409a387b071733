"""Suggestions for paths and words that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

__all__ = ["hint_for", "nearest_path"]

_MOST_COMPARED: Final = 5000
"""Of more paths the others are not looked at: whoever made a mistake is not to wait for it."""
_LONGEST: Final = 256


def hint_for(word: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return ``"; did you mean 'x'?"`` for the known word that looks most like one; else the other.

    Args:
        word: What was given.
        known: What there is.
        otherwise: What is said if none looks like it.
    """
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else otherwise


def nearest_path(path: str, known: Iterable[str]) -> str | None:
    """Return the path that looks most like one that is not there; None if none does.

    One that ends like it comes first, as ``val/loss`` for ``loss``, then one below it, then one of
    similar spelling.

    Args:
        path: What was asked for; it may be a pattern.
        known: Paths that are there.
    """
    paths = [one for one in islice(known, _MOST_COMPARED) if len(one) <= _LONGEST]
    if not path or len(path) > _LONGEST:
        return None
    wanted = path.lower()
    ending = [one for one in paths if f"/{one.lower()}".endswith(f"/{wanted}")]
    if found := sorted(ending, key=len) or [one for one in paths if one.startswith(f"{path}/")]:
        return found[0]
    return next(iter(difflib.get_close_matches(path, paths, 1)), None)
