"""Resolution of uploads: files, folders, patterns and modules."""

# ruff: noqa: PTH100, PTH111, PTH113, PTH119, PTH120 - names of files are texts here, and may be anything

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from seamark.blobs import members_of
from seamark.errors import ArgumentError, FileMissingError
from seamark.values import shown

if TYPE_CHECKING:
    from seamark.blobs import Takes
    from seamark.capture.code.ignored import Ignored

__all__ = ["Source", "files_to_upload"]

log = logging.getLogger("seamark")

Source = str | os.PathLike[str] | ModuleType

_RULES: Final = ".gitignore"
_OF_GIT: Final = ".git"
_COMPILED: Final = "__pycache__"
_RULE_TIME_S: Final = 10.0
"""How long reading and matching of rules may take; whoever wrote them may be a stranger."""


def files_to_upload(
    value: Source | Iterable[Source], ignore: str | None, max_bytes: int | None
) -> dict[str, Path]:
    """Return the files that are meant, with their names in a file set.

    Args:
        value: Paths, folders, patterns, modules: one or several.
        ignore: Name of files with rules like those of a ``.gitignore``; None: nothing is ignored.
        max_bytes: How much they may be together; None: any amount.

    Raises:
        ArgumentError: If they are more than that, if rules take too long, or if another argument
            has a value that cannot be used.
        FileMissingError: If a path or module stands for no file; of a pattern, a warning says so.
    """
    _check(ignore, max_bytes)
    found: dict[str, Path] = {}
    several = [value] if isinstance(value, (str, os.PathLike, ModuleType)) else list(value)
    for one in several:
        if isinstance(one, ModuleType):
            found |= _files_of_module(one, ignore)
            continue
        try:
            found |= members_of(one, _rules(ignore, os.fspath(one)))
        except FileMissingError:
            if not glob.has_magic(os.fspath(one)):
                raise
            log.warning("seamark: upload_files: no file matches the pattern %r", os.fspath(one))
    if max_bytes is not None:
        _check_size(found, max_bytes)
    return found


def _check(ignore: object, max_bytes: object) -> None:
    is_name = isinstance(ignore, str) and ignore == os.path.basename(ignore) and bool(ignore)
    if ignore is not None and not is_name:
        msg = (
            "ignore: expected the name of files with rules, such as '.gitignore', or None, "
            f"got {shown(ignore)}"
        )
        raise ArgumentError(msg)
    is_count = isinstance(max_bytes, int) and not isinstance(max_bytes, bool) and max_bytes >= 0
    if max_bytes is not None and not is_count:
        msg = f"max_bytes: expected a number of bytes or None, got {shown(max_bytes)}"
        raise ArgumentError(msg)


def _check_size(found: dict[str, Path], max_bytes: int) -> None:
    sizes = {name: path.stat().st_size for name, path in found.items()}
    if (total := sum(sizes.values())) > max_bytes:
        largest = max(sizes, key=lambda name: sizes[name])
        msg = (
            f"upload_files: expected at most {max_bytes:,} bytes (max_bytes), got {total:,} in "
            f"{len(sizes):,} files, of which {largest!r} has {sizes[largest]:,}; nothing is stored"
        )
        raise ArgumentError(msg)


def _rules(name: str | None, target: str) -> Takes | None:
    """Return what tells whether a file or folder below a target is taken; None takes everything."""
    if name is None:
        return None
    from seamark.capture.code.ignored import Ignored, RulesTooSlowError, RuleTime

    allowed = RuleTime(_RULE_TIME_S)
    rules: list[Ignored] = []

    def takes(path: str, *, is_folder: bool) -> bool:
        if name == _RULES and is_folder and os.path.basename(path) == _OF_GIT:
            return False
        try:
            if not rules:
                place = os.path.abspath(os.path.expanduser(target))
                rules.append(Ignored(place, allowed, name))
            return rules[0].takes(path, is_folder=is_folder)
        except RulesTooSlowError:
            msg = f"upload_files: the rules of {name} files below {target!r} take too long"
            raise ArgumentError(msg) from None

    return takes


def _files_of_module(module: ModuleType, ignore: str | None) -> dict[str, Path]:
    """Return the files of a module or package, by names that begin with that of the package.

    Those that lie in the working directory go by their paths in it, as all files do.
    """
    folders = list(getattr(module, "__path__", ()))
    file = getattr(module, "__file__", None)
    if not folders and not (isinstance(file, str) and os.path.isfile(file)):
        msg = f"upload_files: expected a module that lies in files, got {module.__name__!r}"
        raise FileMissingError(msg)
    if not folders:
        return members_of(str(file))
    found: dict[str, Path] = {}
    for folder in folders:
        asked = _rules(ignore, folder)

        def takes(path: str, *, is_folder: bool, asked: Takes | None = asked) -> bool:
            if is_folder and os.path.basename(path) == _COMPILED:
                return False
            return asked is None or asked(path, is_folder=is_folder)

        above = os.path.dirname(folder)
        for path in members_of(folder, takes).values():
            inside = os.path.relpath(path).replace(os.sep, "/")
            outside = inside == ".." or inside.startswith("../")
            found[os.path.relpath(path, above).replace(os.sep, "/") if outside else inside] = path
    return found
