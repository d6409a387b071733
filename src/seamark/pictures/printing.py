"""Printing what a person asked to see, wherever standard output goes."""

from __future__ import annotations

import os
import sys
from typing import TextIO

__all__ = ["is_dumb", "obeys_escapes", "show"]


def is_dumb() -> bool:
    """Return whether ``TERM`` says that the terminal knows no escapes, such as an editor's."""
    return os.environ.get("TERM", "").lower() in {"dumb", "unknown"}


def obeys_escapes(stream: TextIO) -> bool:
    """Return whether a line written to a stream can be taken back, as progress is."""
    return stream.isatty() and not is_dumb()


def show(text: str) -> None:
    """Print text; what standard output cannot encode is escaped, as nobody expects this to raise.

    Names are a person's own: of paths, of functions, of classes.
    """
    try:
        print(text)  # noqa: T201 - what it is for
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(text.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201
