"""Interface to the completion of shells, and the scripts that enable it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from click.shell_completion import get_completion_class, shell_complete

if TYPE_CHECKING:
    import click

__all__ = ["COMPLETE", "SHELLS", "complete", "script"]

COMPLETE: Final = "_SEAMARK_COMPLETE"
"""The variable with which a shell asks for words instead of calling a command."""
SHELLS: Final = ("bash", "zsh", "fish")
_PROGRAM: Final = "seamark"


def complete(group: click.Group, instruction: str) -> int:
    """Answer a shell on standard output; return the exit code. Never raises and never complains.

    Args:
        group: All commands.
        instruction: What the shell asked for: ``"bash_complete"``.
    """
    with (
        contextlib.suppress(Exception),
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):
        code = shell_complete(group, {}, _PROGRAM, COMPLETE, instruction)
        sys.stdout.flush()
        return code
    return 1


def script(group: click.Group, shell: str) -> str:
    """Return what a shell reads so that it completes the words of this command."""
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - all of SHELLS have one
    made = kind(group, {}, _PROGRAM, COMPLETE)
    # Not source(): of bash that starts a bash, to see how old it is.
    return made.source_template % made.source_vars()
