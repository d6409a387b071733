"""Runs and artifacts named by their place: a folder or a URI."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from seamark.errors import ArgumentError, PathError, RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.paths import check_name, check_place

__all__ = ["folder_at", "folder_named", "path_of", "placed"]

_SERVER: Final = re.compile(r"(https?://[^/?#\s]+)/([^?#\s]+)", re.IGNORECASE)


def placed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a run; a place in ``with_id`` becomes root, project and id.

    Args:
        given: The arguments of `init_run`.

    Raises:
        ArgumentError: If the place contradicts another argument.
        RunNotFoundError: If no run lies there.
    """
    word = given.get("with_id")
    if isinstance(word, str) and (found := _SERVER.fullmatch(word)) is not None:
        if given.get("remote") is not None:
            msg = f"with_id and remote: expected one place, got {word!r:.200} and a remote"
            raise ArgumentError(msg)
        return {**given, "remote": found[1], "with_id": found[2].strip("/")}
    folder = folder_named(word, given.get("root"), "run", "a run")
    if folder is None:
        return dict(given)
    return {**given, "root": folder.root, "project": folder.project, "with_id": folder.run}


def folder_named(word: Any, root: Any, kind: str, words: str) -> RunFolder | None:
    """Return the folder that ``with_id`` refers to; None if it is a name or an id.

    Args:
        word: The argument ``with_id``.
        root: The argument ``root``.
        kind: Expected kind, as of `seamark.paths.kind_of`.
        words: The same, for messages.

    Raises:
        ArgumentError: If it lies below another root.
        RunNotFoundError: If nothing of the kind lies there.
    """
    if not isinstance(word, str | os.PathLike) or (path := path_of(word)) is None:
        return None
    folder = folder_at(path)
    if folder is None or folder.kind != kind:
        msg = f"with_id: expected the folder of {words}, got {os.fspath(word)!r:.200}"
        raise RunNotFoundError(msg)
    if root is not None and os.path.abspath(root) != str(folder.root):  # noqa: PTH100 - keep links
        msg = f"with_id and root: expected one place, got {str(folder.root)!r} and {root!r:.200}"
        raise ArgumentError(msg)
    return folder


def path_of(word: str | os.PathLike[str]) -> Path | None:
    """Return the path in a text or path; None for a name or an id.

    A text is a path where it begins with ``file://``, or has a slash and is a folder.

    Raises:
        ArgumentError: If a ``file://`` URI names no folder of this machine.
    """
    if isinstance(word, str) and word.lower().startswith("file://"):
        from seamark.remote.file import root_of

        return root_of(word)
    path = Path(os.path.abspath(word))  # noqa: PTH100 - resolve() would follow links
    return path if isinstance(word, os.PathLike) or ("/" in word and path.is_dir()) else None


def folder_at(path: Path) -> RunFolder | None:
    """Return the run, model or version of a folder; None if there is none.

    Its journals name the project in which it was recorded, and so its root.
    """
    if not (path / "journal").is_dir():
        return None
    for header in headers(RunFolder(path.parent, ".", path.name)):
        project, run = header.get("project"), header.get("run")
        try:
            run = path.name if run is None else run  # the draft of an artifact had no id
            check_place(project, run)
            parts = (*str(project).split("/"), check_name(run, "run id"))
        except PathError:
            continue
        if path.parts[-len(parts) :] == parts:
            return RunFolder(path.parents[len(parts) - 1], str(project), str(run))
    return None
