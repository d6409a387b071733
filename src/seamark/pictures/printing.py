"""Printing what a person asked to see, wherever standard output goes."""

from __future__ import annotations

import sys

__all__ = ["show"]


def show(text: str) -> None:
    """Print text; what standard output cannot encode is escaped, as nobody expects this to raise.

    Names are a person's own: of paths, of functions, of classes.
    """
    try:
        print(text)  # noqa: T201 - what it is for
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(text.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201
