"""The words that people have for versions of artifacts.

``NAME:3`` is the third version, ``NAME:latest`` the one with the greatest number, ``NAME:best``
that of an alias, and ``NAME@sha256:<digest>`` (eight digits or more of it) always the same bytes.
``NAME`` alone means the latest. Before each there may be ``PROJECT/``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from seamark.errors import ArgumentError
from seamark.paths import check_artifact
from seamark.reading.names import LATEST

__all__ = ["ArtifactName", "check_alias", "label_of", "source_label"]

_WORD: Final = re.compile(
    r"(?:(?P<project>.+)/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)"
    r"(?:@sha256:(?P<digest>[0-9a-f]{8,64})|:(?P<version>[A-Za-z0-9][A-Za-z0-9._-]*))?"
)


class ArtifactName(NamedTuple):
    """Reference to an artifact, or to a version of it, parsed from a string.

    Attributes:
        project: Project path; None if it names none.
        name: Name of the artifact.
        digest: The digest, or how it begins; None if it names none.
        version: Number or alias; None if it names none.
    """

    project: str | None
    name: str
    digest: str | None
    version: str | None

    @classmethod
    def of(cls, word: str) -> ArtifactName | None:
        """Return the parsed reference; None if the string cannot name an artifact."""
        found = _WORD.fullmatch(word)
        return None if found is None else cls(*found.group("project", "name", "digest", "version"))

    @property
    def has_version(self) -> bool:
        """Whether it names a version, and not only an artifact."""
        return (self.digest or self.version) is not None


def check_alias(alias: object) -> str:
    """Return ``alias`` if a version can have it.

    Raises:
        PathError: If it is no name.
        ArgumentError: If it is a number or ``latest``, which mean something of their own.
    """
    name = check_artifact(alias, "alias")
    if name.isdecimal() or name == LATEST:
        msg = f"alias: expected a name that is no number and not {LATEST!r}, got {name!r}"
        raise ArgumentError(msg)
    return name


def label_of(place: str, digest: str, number: Any) -> str:
    """Return what people call a version: ``NAME:3``, or by its digest if it has no number."""
    name = place.rpartition("/")[2]
    return f"{name}@sha256:{digest[:12]}" if number is None else f"{name}:{number}"


def source_label(of: Mapping[str, Any]) -> str:
    """Return what people call an input or output, by what was recorded of it."""
    if "uri" in of:
        return str(of["uri"])
    home, name, number = of.get("project", ""), of.get("name", ""), of.get("version")
    if of["kind"] == "artifact":
        told = label_of(name, str(of.get("id", "")), number)
    elif of["kind"] == "model_version":
        told = f"{name}-{number}" if number is not None else f"{name}/{of.get('id', '')}"
    else:
        told = name if of["kind"] == "model" else str(of.get("id", ""))
    return "/".join(filter(None, (home, told)))
