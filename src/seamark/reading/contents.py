"""Contents of files, and names of artifact versions.

``NAME:3`` is the third version, ``NAME:latest`` the one with the greatest number, and ``NAME:best``
the one with the alias ``best``. ``NAME@sha256:<digest>`` (at least eight digits) always names the
same contents. ``NAME`` alone means the latest version. ``PROJECT/`` may precede each form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from seamark.errors import ArgumentError
from seamark.paths import check_artifact
from seamark.reading.names import LATEST


class Contents(Protocol):
    """Access to the files and very long texts of one run by their records.

    `seamark.blobs.contents.FolderContents` implements it for a run folder, and
    `seamark.remote.http.run.RemoteContents` for a run on a server.
    """

    @property
    def kind(self) -> str:
        """Kind of location that `where` names: ``"folder"`` or ``"server"``."""

    @property
    def where(self) -> str:
        """Location of the run: its folder, or its address."""

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a very long text, given ``sha256`` and ``size``; raises `FileMissingError`."""

    def read(self, file: Mapping[str, Any], path: str, *, references: bool = False) -> bytes:
        """Return the bytes of a FILE record that is not a folder; ``path`` is for messages.

        Raises `FileMissingError` if they are missing, or for a reference without ``references``.
        """

    def write(
        self,
        file: Mapping[str, Any],
        target: Path,
        path: str,
        *,
        name: str | None = None,
        references: bool = False,
        verify: bool = False,
    ) -> Path:
        """Write a recorded file or folder to disk; see `seamark.blobs.contents.write_parts`."""

    def begin_of(self, sha256: str, size: int, most: int) -> bytes:
        """Return up to ``most`` leading bytes of stored content; raises OSError, ValueError."""

    def finish(self, files: Collection[Mapping[str, Any]]) -> bool:
        """Complete FILE records left by a dead process; return whether there may be new ones."""

    def whereabouts(self, record: Mapping[str, Any]) -> str:
        """Return the status of the content of a FILE record.

        ``kept`` (stored with the run), ``reference`` (at its original location), ``gone`` or
        ``changed`` (a reference), ``pending`` (not stored yet), or ``missing`` (should be stored
        and is not).
        """

    def referred(self, record: Mapping[str, Any]) -> str:
        """Return the current target of a FILE record; empty if it is not a reference."""

    def stored_at(self, sha256: str) -> str:
        """Return the location of stored content, for display."""

    def shorter(self, name: str) -> str:
        """Return the name of a file, relative to the run if it is in the run folder."""


_WORD: Final = re.compile(
    r"(?:(?P<project>.+)/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)"
    r"(?:@sha256:(?P<digest>[0-9a-f]{8,64})|:(?P<version>[A-Za-z0-9][A-Za-z0-9._-]*))?"
)


class ArtifactName(NamedTuple):
    """Reference to an artifact, or to a version of it, parsed from a string.

    ``digest`` may be a prefix of a digest; ``version`` is a number or an alias.
    """

    project: str | None
    name: str
    digest: str | None
    version: str | None

    @classmethod
    def of(cls, word: str) -> ArtifactName | None:
        """Parse a reference; return None if the string cannot name an artifact."""
        found = _WORD.fullmatch(word)
        return None if found is None else cls(*found.group("project", "name", "digest", "version"))

    @property
    def has_version(self) -> bool:
        """Whether the reference names a version, not only an artifact."""
        return (self.digest or self.version) is not None


def check_alias(alias: object) -> str:
    """Return ``alias`` if it is valid for a version; raise `PathError` if it is not a name.

    Raises `ArgumentError` for a number or ``latest``, which are reserved.
    """
    name = check_artifact(alias, "alias")
    if name.isdecimal() or name == LATEST:
        raise ArgumentError(
            f"alias: expected a name other than a number or {LATEST!r}, got {name!r}"
        )
    return name


def label_of(place: str, digest: str, number: Any) -> str:
    """Return the label of a version: ``NAME:3``, or its digest if it has no number."""
    name = place.rpartition("/")[2]
    return f"{name}@sha256:{digest[:12]}" if number is None else f"{name}:{number}"


def source_label(of: Mapping[str, Any]) -> str:
    """Return the label of an input or output, from its record."""
    if "uri" in of:
        return str(of["uri"])
    home, name, number = of.get("project", ""), of.get("name", ""), of.get("version")
    if of["kind"] == "artifact":
        label = label_of(name, str(of.get("id", "")), number)
    elif of["kind"] == "model_version":
        label = f"{name}-{number}" if number is not None else f"{name}/{of.get('id', '')}"
    else:
        label = name if of["kind"] == "model" else str(of.get("id", ""))
    return "/".join(filter(None, (home, label)))
