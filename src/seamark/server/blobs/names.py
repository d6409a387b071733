"""Names of the objects that hold contents; each says what its object is.

::

    blobs/<project>/.sha256/<digest>.<size>.<upload>.one-<n>       a content in one part
    blobs/<project>/.sha256/<digest>.<size>.<upload>.<offset>-<n>  a part
    blobs/<project>/.sha256/<digest>.<size>.<upload>.whole-<n>     JSON: the parts of a content

``<n>`` is random: two who write the same never write the same object.
"""

from __future__ import annotations

import re
import secrets
from typing import Final, NamedTuple

__all__ = ["ONE", "PREFIX", "WHOLE", "BlobObject", "is_digest", "new_object", "parse"]

PREFIX: Final = "blobs/"
ONE: Final = "one"
WHOLE: Final = "whole"
_FOLDER: Final = ".sha256"
_NAME: Final = re.compile(
    r"blobs/(?P<project>.+)/\.sha256/"
    r"(?P<digest>[0-9a-f]{64})\.(?P<size>\d{1,19})\.(?P<upload>[0-9a-f]{16})\."
    r"(?P<what>one|whole|\d{1,19})-(?P<attempt>[0-9a-f]{8})"
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def is_digest(text: object) -> bool:
    """Return whether something is a SHA-256 in lower-case hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


class BlobObject(NamedTuple):
    """Fields of the name of an object.

    Attributes:
        project: Project path.
        digest: SHA-256 of the content.
        size: Size of the content, bytes.
        upload: Distinguishes one upload of a content from another.
        what: ``one``, ``whole``, or the offset of a part.
        attempt: Distinguishes this object from others with the same bytes.
    """

    project: str
    digest: str
    size: int
    upload: str
    what: str
    attempt: str

    @property
    def name(self) -> str:
        """The name."""
        return (
            f"{PREFIX}{self.project}/{_FOLDER}/"
            f"{self.digest}.{self.size}.{self.upload}.{self.what}-{self.attempt}"
        )


def new_object(project: str, digest: str, size: int, upload: str, what: str | int) -> BlobObject:
    """Return an object that does not exist yet; see `BlobObject`."""
    return BlobObject(project, digest, size, upload, str(what), secrets.token_hex(4))


def parse(name: str) -> BlobObject | None:
    """Return what a name says; None if it is of no object of this kind."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    size, rest = int(found["size"]), found.group("upload", "what", "attempt")
    return BlobObject(found["project"], found["digest"], size, *rest)
