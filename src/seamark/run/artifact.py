"""Artifacts: which files a run worked with, by size, time and digest, without their bytes."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from seamark.blobs.names import local_path, matches, reference
from seamark.blobs.store import digest_of, open_source
from seamark.errors import FileMissingError
from seamark.values import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["artifact_hash", "artifact_op", "track"]


def artifact_op(
    path: str,
    kind: str,
    targets: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    destination: str | None = None,
    previous: Mapping[str, Any] | None = None,
    hide: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Return the op that records files as the artifact at an attribute path.

    Args:
        path: Attribute path.
        kind: ``tracked``, ``input`` or ``output``.
        targets: One or several files, folders, patterns and URLs; see `track`.
        destination: Folder within the artifact below which the files are listed.
        previous: Record of the artifact, whose files stay unless one of the same name comes.
        hide: As in `track`.

    Raises:
        FileMissingError: If a target matches nothing.
        OSError: If a file cannot be read.
    """
    files, references = track(targets, destination=destination, hide=hide)
    if previous is not None:
        names = {file["path"] for file in files}
        files += [file for file in previous.get("files", ()) if file["path"] not in names]
        references += previous.get("references", ())
    files.sort(key=lambda file: str(file["path"]))
    references = sorted(set(references))
    return {
        "op": "artifact",
        "path": path,
        "kind": kind,
        "files": files,
        "references": references,
        "hash": artifact_hash(files, references),
    }


def track(
    targets: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    destination: str | None = None,
    hide: Callable[[str], str] = str,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the files and the references that targets stand for.

    Args:
        targets: One or several. A file is listed by its name, the files of a folder by their path
            in it, those of a pattern by their path below the part before its first wildcard. A URL
            is a reference, and not touched.
        destination: Folder within the artifact to put before the names of files.
        hide: Returns what is recorded of an address: no secrets.

    Returns:
        Files as ``{"path", "size" (bytes), "sha256", "mtime_ns", "ref", "inode"}``, where ``ref``
        is where the file lies, and URLs.

    Raises:
        FileMissingError: If a target matches nothing.
        OSError: If a file cannot be read.
    """
    several = [targets] if isinstance(targets, (str, os.PathLike)) else list(targets)
    files: dict[str, dict[str, Any]] = {}
    references: list[str] = []
    before = destination.strip("/") + "/" if destination and destination.strip("/") else ""
    for target in several:
        here = local_path(target)
        if here is None:
            references.append(hide(reference(str(target))))
            continue
        for name, source in matches(here).items():
            listed = escape(before + name)
            files[listed] = _file(listed, source)
    return list(files.values()), references


def _file(name: str, source: str) -> dict[str, Any]:
    try:
        fd = open_source(source)
    except FileNotFoundError as error:
        msg = f"expected an existing file, got {source!r}"
        raise FileMissingError(msg) from error
    try:
        sha256, size = digest_of(fd)
        found = os.fstat(fd)
    finally:
        os.close(fd)
    return {
        "path": name,
        "size": size,
        "sha256": sha256,
        "mtime_ns": found.st_mtime_ns,
        "ref": escape(source),
        "inode": found.st_ino,
    }


def artifact_hash(files: Iterable[Mapping[str, Any]], references: Iterable[str]) -> str:
    """Return the SHA-256 that stands for an artifact: of names and contents, not of times."""
    listed = sorted([str(file["path"]), file["size"], file["sha256"]] for file in files)
    text = json.dumps([listed, sorted(references)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
