"""Patterns with ``*`` and ``?`` as `fnmatch` has them, without what it keeps of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

__all__ = ["matcher"]


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a text matches a pattern, as `fnmatch.fnmatchcase` does.

    That one keeps the last 32,768 patterns, which for a server are a stranger's, and may be long.
    """
    match = re.compile(translate(pattern)).match
    return lambda text: match(text) is not None
