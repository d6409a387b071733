"""Writing recorded files back to disk, for whoever downloads them."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO

from seamark.content._names import local_path
from seamark.errors import ArgumentError, FileMissingError
from seamark.journal.blobs import open_blob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.journal.folder import RunFolder

__all__ = ["open_file", "write_file"]


def open_file(folder: RunFolder, file: Mapping[str, Any], path: str) -> BinaryIO:
    """Open the bytes of a recorded file: its blob, or the file that it refers to.

    Args:
        folder: The run.
        file: FILE record.
        path: Attribute path, for messages.

    Raises:
        FileMissingError: If there are no bytes: still pending, lost, removed, or on another system.
    """
    if "ref" in file:
        here = local_path(file["ref"])
        if here is not None and os.path.isfile(here):
            return Path(here).open("rb")
        msg = f"{path}: the file that it refers to is not here: {file['ref']}"
        raise FileMissingError(msg)
    sha256 = file.get("sha256")
    if sha256 is None:
        why = {
            "changed": "was rewritten before it could be copied",
            "gone": "was removed before it could be copied",
            "not stored": "could not be stored",
        }.get(str(file.get("lost")), "is still on its way")
        msg = f"{path}: the file {file.get('name', '')!r} {why}"
        raise FileMissingError(msg)
    return open_blob(folder, sha256)


def write_file(
    folder: RunFolder,
    file: Mapping[str, Any],
    target: Path,
    path: str,
    *,
    as_file: bool = False,
) -> Path:
    """Write a recorded file, or folder, to disk and return where.

    Args:
        folder: The run.
        file: FILE record.
        target: An existing folder, in which the file gets its own name, or the name to give it.
        path: Attribute path, for messages.
        as_file: ``target`` is the name, whatever is there.

    Raises:
        FileMissingError: If the bytes are not there.
        ArgumentError: If a member of a recorded folder would lie outside of ``target``.
    """
    if not as_file and target.is_dir():
        name = os.path.basename(str(file.get("name") or path.rpartition("/")[2]))
        target = target / (name if name not in {"", ".", ".."} else "file")
    if not file.get("dir"):
        with open_file(folder, file, path) as source:
            _write(source, target)
        return target
    for name, (size, sha256) in file.get("members", {}).items():
        inner = PurePosixPath(name)
        if inner.is_absolute() or ".." in inner.parts:
            msg = f"{path}: expected members inside the folder, got {name!r}"
            raise ArgumentError(msg)
        member: dict[str, Any] = {"name": inner.name, "size": size, "sha256": sha256}
        if "ref" in file:
            member["ref"] = os.path.join(file["ref"], *inner.parts)
        elif sha256 is None and "lost" in file:
            member["lost"] = file["lost"]
        with open_file(folder, member, f"{path}: {name}") as source:
            _write(source, target.joinpath(*inner.parts))
    return target


def _write(source: BinaryIO, target: Path) -> None:
    """Copy to a temporary name first, so that nothing is half-written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
