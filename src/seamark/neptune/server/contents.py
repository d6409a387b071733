"""Bytes that the client sends, kept as contents of files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from seamark.neptune.server.names import Container
    from seamark.server.state import Server

__all__ = ["PART_BYTES", "keep_content", "kind_of_image"]

PART_BYTES: Final = 8 << 20
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
)


def keep_content(server: Server, container: Container, data: bytes) -> str:
    """Keep bytes for good, and return their SHA-256 (hex).

    Raises:
        BlobRefused: If they are too many, or the workspace has no room for them.
    """
    digest = hashlib.sha256(data).hexdigest()
    project, run = container
    for start in range(0, len(data), PART_BYTES) or (0,):
        part = data[start : start + PART_BYTES]
        server.blobs.put(project, run, digest, len(data), start, part)
    return digest


def kind_of_image(data: bytes) -> str:
    """Return the extension of a picture, by how it begins."""
    for begin, ext in _IMAGES:
        if data.startswith(begin):
            return ext
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return "png"
