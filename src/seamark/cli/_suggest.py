"""Messages about commands and options that do not exist, with suggestions."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

import click

__all__ = ["about_command", "about_option"]

_NEVER: Final = frozenset({"purge", "reindex", "trash", "untrash"})
"""What hides, deletes or takes long is never proposed: the next thing typed may be Return."""
_SYNONYMS: Final = {
    "chart": "plot",
    "check": "fsck",
    "cmp": "compare",
    "dashboard": "ui",
    "diff": "compare",
    "dir": "ls",
    "download": "export",
    "dump": "export",
    "follow": "watch",
    "info": "show",
    "label": "tag",
    "list": "ls",
    "live": "watch",
    "mv": "rename",
    "note": "describe",
    "push": "sync",
    "runs": "ls",
    "search": "ls",
    "serve": "ui",
    "tail": "watch",
    "top": "watch",
    "upload": "sync",
    "verify": "fsck",
    "view": "show",
    "web": "ui",
}
_DELETING: Final = frozenset({"delete", "del", "erase", "remove", "rm"})
_ALIKE: Final = 0.6


def about_command(name: str, known: Iterable[str]) -> str:
    """Return what is wrong with the name of a command, and what may be meant.

    Args:
        name: What was typed.
        known: The names of all commands.
    """
    typed = name.lower()
    if typed in _DELETING:
        return f"there is no command {name!r}; to move a run to the trash see: seamark trash --help"
    harmless = [one for one in known if one not in _NEVER]
    near = difflib.get_close_matches(typed, harmless, 1, _ALIKE)
    meant = _SYNONYMS.get(typed) or (near[0] if near else None)
    hint = f"; there are {', '.join(harmless)}, among others"
    if meant:
        hint = f"; did you mean {meant!r}?"
    return f"there is no command {name!r}{hint}"


def about_option(error: click.NoSuchOption) -> str:
    """Return what is wrong with an option, and the nearest that exists, else all of them."""
    context = error.ctx
    if context is None:
        return error.format_message()
    options = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    known = [max(one.opts, key=len) for one in options]
    words = {name.lstrip("-"): name for name in known}  # the dashes would make all of them alike
    near = difflib.get_close_matches(error.option_name.lstrip("-").lower(), words, 1, _ALIKE)
    hint = f"did you mean {words[near[0]]!r}?" if near else f"there are {', '.join(known)}"
    return f"there is no option {error.option_name!r}; {hint}"
