"""Code that a run executes: entry point, files, packages, repository."""

# ruff: noqa: PTH100, PTH118 - strings, because they are compared with every loaded module

from __future__ import annotations

import functools
import os
import site
import stat
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from seamark.capture.secrets import Secrets
from seamark.capture.secrets.masking import bare_url
from seamark.process.interrupts import let_pass, quietly


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:  # it was deleted
        let_pass(error)
        return Path(os.devnull)


@dataclass(frozen=True, slots=True)
class Script:
    """Entry point of this process: a script, module or notebook, with its arguments.

    Attributes:
        entrypoint: Path of a script (relative to the working directory if it is below it), ``"-m
            package.module"``, ``"-c"``, the path of a notebook, or, without a file,
            ``"<notebook>"``, ``"<interactive>"`` or ``"<stdin>"``.
        file: Executed file, or None; the file of the module for ``-m``.
        here: Working directory.
    """

    entrypoint: str
    arguments: tuple[str, ...]
    file: Path | None
    here: Path = field(default_factory=_working_directory)

    @classmethod
    def running(cls) -> Script:
        """Return the entry point of this process, also in spawned workers."""
        main = sys.modules.get("__main__")
        file = _file_of(main)
        arguments = tuple(map(str, sys.argv[1:]))
        if notebook := _notebook(main):
            return cls(notebook, (), file)
        return cls(_entrypoint(main, file), arguments, file)

    def facts(self, secrets: Secrets) -> dict[str, Any]:
        """Return the recorded facts by path, secrets masked."""
        return {
            "source_code/entrypoint": secrets.message(self.entrypoint),
            "source_code/arguments": secrets.arguments(self.arguments),
        }


def _entrypoint(main: ModuleType | None, file: Path | None) -> str:
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name not in ("", "__main__") and file is not None:
        return f"-m {spec.name.removesuffix('.__main__')}"
    if file is not None:
        return _relative_name(file)
    first = sys.argv[0] if sys.argv else ""
    if first == "-c":
        return "-c"
    return "<interactive>" if hasattr(sys, "ps1") else "<stdin>"


def _notebook(main: ModuleType | None) -> str | None:
    # Front ends store the path of the notebook in one of two places.
    if "ipykernel" not in sys.modules or _file_of(main) is not None:
        return None
    path = getattr(main, "__vsc_ipynb_file__", None) or os.environ.get("JPY_SESSION_NAME")
    if not isinstance(path, str) or not path:
        return "<notebook>"
    # `Path` would merge the two slashes of a URL, and a password would not be recognized.
    return bare_url(path) if "://" in path else _relative_name(Path(path))


def _file_of(main: ModuleType | None) -> Path | None:
    name = getattr(main, "__file__", None)
    return Path(os.path.abspath(name)) if isinstance(name, str) and name else None


def repository_top(folder: str) -> str | None:
    """Return the top folder of the repository that contains a folder, or None."""
    while not os.path.exists(os.path.join(folder, ".git")):  # noqa: PTH110
        folder, below = os.path.dirname(folder), folder  # noqa: PTH120
        if folder == below:
            return None
    return folder


def _relative_name(file: Path) -> str:
    here = _working_directory()
    return (file.relative_to(here) if file.is_relative_to(here) else file).as_posix()


_PACKAGE_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


def is_installed(file: Path) -> bool:
    """Return whether a file (absolute) belongs to Python, a package or a virtual environment.

    Not every file below a prefix does: with Debian's prefix ``/usr``, a container's
    ``/usr/src/app`` is the user's code.
    """
    if not _PACKAGE_FOLDERS.isdisjoint(file.parts):
        return True
    return any(file.is_relative_to(place) for place in _installed_folders())


@functools.lru_cache(maxsize=1)
def _installed_folders() -> tuple[str, ...]:
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {sysconfig.get_path("scripts"), site.getusersitepackages()}
    if sys.prefix != sys.base_prefix:
        found.add(sys.prefix)  # the whole virtual environment
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        found.update(os.path.join(prefix, name) for name in ("bin", "Scripts", "lib", "lib64"))
    known = {os.path.abspath(place) for place in found if place}
    return tuple(known | {os.path.realpath(place) for place in known})


_OPEN_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


def read_beginning(
    file: str | os.PathLike[str], at_most: int, *, follow: bool = False
) -> bytes | None:
    """Return the first bytes of a regular file; None for others, or if it cannot be read.

    Never waits for a pipe, and never raises for any kind of file. A link is read only with
    ``follow``. Reading ends after ``at_most`` bytes.
    """
    with quietly(only=(OSError, ValueError)):
        fd = os.open(file, _OPEN_FLAGS if follow else _OPEN_FLAGS | _NO_LINK)
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                with os.fdopen(fd, "rb", closefd=False) as opened:
                    return opened.read(at_most)
        finally:
            os.close(fd)
    return None
