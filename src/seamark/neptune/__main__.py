"""``python -m seamark.neptune train.py``: run a script with Seamark as ``neptune``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

_USAGE: Final = """\
usage: python -m seamark.neptune [-m MODULE | SCRIPT] [ARGUMENT ...]

Run a script or a module as Python does. `import neptune`, by it or by a package that it uses, gives
Seamark, also in the processes that it starts. Python's options -E, -I and -S cannot be used.
"""
_CHILDREN: Final = Path(__file__).with_name("children")
"""Folder for ``PYTHONPATH``; Python executes its ``sitecustomize`` at process start."""


def main(arguments: list[str]) -> None:
    """Replace this process by one that runs the script or module in the arguments."""
    if arguments[:1] in (["-h"], ["--help"]):
        sys.stdout.write(_USAGE)
        return
    named = arguments[1:] if arguments[:1] == ["-m"] else arguments
    is_option = named is arguments and "".join(named[:1]).startswith("-")
    if not named or is_option or sys.flags.ignore_environment or sys.flags.no_site:
        sys.stderr.write(_USAGE)
        sys.exit(2)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_CHILDREN), before)))
    os.execv(sys.executable, [sys.executable, *_options(len(arguments)), *arguments])  # noqa: S606 - the same interpreter


def _options(count: int) -> list[str]:
    # Python's own options precede "-m seamark.neptune"; the last one may be joined to "-m".
    before = sys.orig_argv[1 : len(sys.orig_argv) - count]
    if not before:  # called by a program, not with "python -m"
        return []
    *options, name = before
    if name == "seamark.neptune":
        joined = options.pop().removesuffix("m")
        options += [joined] if joined != "-" else []
    return options


if __name__ == "__main__":
    main(sys.argv[1:])
