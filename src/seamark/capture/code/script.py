"""Entry point and command-line arguments of this process."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from seamark.capture.secrets.masking import bare_url
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from seamark.capture.secrets import Secrets

__all__ = ["Script"]


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:  # somebody removed it
        let_pass(error)
        return Path(os.devnull)


@dataclass(frozen=True, slots=True)
class Script:
    """Entry point of this process: a script, module or notebook, with its arguments.

    Attributes:
        entrypoint: Path of a script (relative to the working directory if it lies below it), ``"-m
            package.module"``, ``"-c"``, the path of a notebook, or ``"<notebook>"``,
            ``"<interactive>"`` or ``"<stdin>"`` where there is no file.
        arguments: Command-line arguments after the entry point, as given.
        file: File that runs, or None; the file of the module for ``-m``.
        here: Working directory.
    """

    entrypoint: str
    arguments: tuple[str, ...]
    file: Path | None
    here: Path = field(default_factory=_working_directory)

    @classmethod
    def running(cls) -> Script:
        """Return how this process was started, spawned workers included."""
        main = sys.modules.get("__main__")
        file = _file_of(main)
        arguments = tuple(map(str, sys.argv[1:]))
        if notebook := _notebook(main):
            return cls(notebook, (), file)
        return cls(_entrypoint(main, file), arguments, file)

    def facts(self, secrets: Secrets) -> dict[str, Any]:
        """Return what is recorded of it, by path.

        Args:
            secrets: What is hidden in it.
        """
        return {
            "source_code/entrypoint": secrets.message(self.entrypoint),
            "source_code/arguments": secrets.arguments(self.arguments),
        }


def _entrypoint(main: ModuleType | None, file: Path | None) -> str:
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("", "__main__") and file is not None:
        return f"-m {spec.name.removesuffix('.__main__')}"
    if file is not None:
        return _short(file)
    first = sys.argv[0] if sys.argv else ""
    if first == "-c":
        return "-c"
    return "<interactive>" if hasattr(sys, "ps1") else "<stdin>"


def _notebook(main: ModuleType | None) -> str | None:
    """Return the notebook that runs, or None; front ends leave its path in one of two places."""
    if "ipykernel" not in sys.modules or _file_of(main) is not None:
        return None
    path = getattr(main, "__vsc_ipynb_file__", None) or os.environ.get("JPY_SESSION_NAME")
    if not isinstance(path, str) or not path:
        return "<notebook>"
    # A path would make one slash of the two in an address, in which no password is recognised.
    return bare_url(path) if "://" in path else _short(Path(path))


def _file_of(main: ModuleType | None) -> Path | None:
    name = getattr(main, "__file__", None)
    return Path(os.path.abspath(name)) if isinstance(name, str) and name else None  # noqa: PTH100 - keep links


def _short(file: Path) -> str:
    """Return a path relative to the working directory if it lies below it."""
    here = _working_directory()
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()
