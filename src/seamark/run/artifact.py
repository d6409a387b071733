"""Objects of an artifact, and records of files as artifacts.

The name of an object must be valid for a download to any disk: it stays inside the folder, differs
from all other names by more than case, and contains no device name of Windows.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from seamark.blobs.names import extension_of, local_path, matches, reference
from seamark.blobs.pending import file_record
from seamark.blobs.store import digest_of, open_source
from seamark.errors import ArgumentError, FileMissingError
from seamark.journal.safe import parts_of
from seamark.paths import is_device
from seamark.values import escape
from seamark.values._numbers import argument_error

OBJECTS: Final = "objects"
"""Path of the objects of an artifact: a file set."""
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://.)?.")
_STRANGE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\\]")


@dataclass(frozen=True, slots=True)
class ArtifactObject:
    """A file or reference in an artifact.

    Attributes:
        path: Its name within the artifact, with ``/``.
        size: Bytes; None for a reference.
        sha256: Digest of its bytes, hex; None for a reference.
        uri: Target of a reference; None for a file.
    """

    path: str
    size: int | None = None
    sha256: str | None = None
    uri: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the values that are not None, by name."""
        told = {"path": self.path, "size": self.size, "sha256": self.sha256, "uri": self.uri}
        return {key: value for key, value in told.items() if value is not None}

    @property
    def record(self) -> dict[str, Any]:
        """Its FILE record."""
        name = self.path.rpartition("/")[2]
        ext = extension_of(name)
        return file_record(name, ext, self.size, sha256=self.sha256, ref=self.uri)


def objects_in(members: Mapping[str, Mapping[str, Any]]) -> list[ArtifactObject]:
    """Return the objects that a file set holds, sorted by name."""
    return [
        ArtifactObject(name, one.get("size"), one.get("sha256"), one.get("ref"))
        for name, one in sorted(members.items())
    ]


def digest_of_objects(objects: Iterable[ArtifactObject]) -> str:
    """Return the SHA-256 that identifies an artifact, of its names and contents alone."""
    listed = sorted(
        [one.path, one.uri] if one.uri is not None else [one.path, one.size, one.sha256]
        for one in objects
    )
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


class Objects:
    """Objects of a draft, whose names do not collide on any disk."""

    def __init__(self) -> None:
        self._found: dict[str, ArtifactObject] = {}
        self._folded: dict[str, str] = {}
        """Files and folders in use, by case-folded path: some file systems ignore case."""

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[ArtifactObject]:
        return iter(one for _, one in sorted(self._found.items()))

    def expect(self, names: Iterable[str]) -> dict[str, str]:
        """Check that objects can have these names side by side."""
        places: dict[str, str] = {}
        for name in names:
            _check_parts(name)
            if name in self._found:
                continue
            parts = name.split("/")
            for end in range(1, len(parts) + 1):
                mark = "/" if end < len(parts) else ""
                path = "/".join(parts[:end])
                there = self._folded.get(path.casefold()) or places.get(path.casefold())
                places[path.casefold()] = path + mark
                if there is None or (mark and there == path + mark):
                    continue
                if there.rstrip("/") != path:
                    msg = (
                        f"destination: {name!r:.200} and {there!r:.200} differ only in case, "
                        "which some file systems ignore"
                    )
                else:
                    msg = f"destination: {name!r:.200}: the artifact already has {there!r:.200}"
                raise ArgumentError(msg)
        return places

    def put(self, objects: Sequence[ArtifactObject]) -> None:
        """Add all objects or none; an existing one with the same content is kept."""
        places = self.expect(one.path for one in objects)
        for one in objects:
            if self._found.get(one.path, one) != one:
                raise ArgumentError(
                    f"destination: the artifact already has another object {one.path!r:.200}"
                )
        self._folded |= places
        for one in objects:
            self._found.setdefault(one.path, one)


def _check_parts(name: str) -> None:
    parts = parts_of(name, "destination")
    for part in parts:
        if part[-1] in ". " or is_device(part) or _STRANGE.search(part):
            raise ArgumentError(
                "destination: expected names valid on all file systems (no backslash, no "
                "control character, no trailing dot or space, no device such as 'aux'), "
                f"got {part!r:.80} in {name!r:.200}"
            )


def destination_of(own: str, destination: str | None) -> str:
    """Return the name of an object or of a folder of objects.

    A ``destination`` that ends with ``/`` is the target folder; None means its ``own`` name.
    """
    if destination is None:
        name = own
    elif not isinstance(destination, str):
        raise argument_error(destination, "destination", "a name or None")
    else:
        name = destination + own if destination.endswith("/") else destination
    _check_parts(name)
    return name


def uri_of(given: object) -> tuple[str, str]:
    """Return a URI without user and password, and the last part of its path."""
    if not isinstance(given, str) or not _URI.match(given):
        hint = "; add_file copies a file" if isinstance(given, (str, os.PathLike)) else ""
        raise ArgumentError(
            f"uri: expected a URI such as 's3://bucket/key', got {given!r:.200}{hint}"
        )
    try:
        split = urlsplit(given)
    except ValueError as error:
        raise ArgumentError(
            f"uri: expected a URI such as 's3://bucket/key', got {given!r:.200}: {error}"
        ) from None
    return reference(given), split.path.rstrip("/").rpartition("/")[2] or split.netloc


def artifact_op(
    path: str,
    kind: str,
    targets: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    destination: str | None = None,
    previous: Mapping[str, Any] | None = None,
    hide: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Return the op that records files as the artifact at a path, besides those of ``previous``.

    A file is listed by its name, the files of a folder by their paths within it, and those of a
    pattern by their paths below the part before its first wildcard, each as ``{"path", "size"
    (bytes), "sha256", "mtime_ns", "ref", "inode"}``, where ``ref`` is its location. A URL becomes a
    reference and is not opened. ``hide`` removes secrets from an address.
    """
    several = [targets] if isinstance(targets, (str, os.PathLike)) else list(targets)
    found: dict[str, dict[str, Any]] = {}
    references: list[str] = []
    before = destination.strip("/") + "/" if destination and destination.strip("/") else ""
    for target in several:
        here = local_path(target)
        if here is None:
            references.append(hide(reference(str(target))))
            continue
        for name, source in matches(here).items():
            listed = escape(before + name)
            found[listed] = _file(listed, source)
    files = list(found.values())
    if previous is not None:
        files += [file for file in previous.get("files", ()) if file["path"] not in found]
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


def _file(name: str, source: str) -> dict[str, Any]:
    try:
        fd = open_source(source)
    except FileNotFoundError as error:
        raise FileMissingError(f"expected an existing file, got {source!r}") from error
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
    """Return the SHA-256 of an artifact: of its names and contents, but not of times."""
    listed = sorted([str(file["path"]), file["size"], file["sha256"]] for file in files)
    text = json.dumps([listed, sorted(references)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
