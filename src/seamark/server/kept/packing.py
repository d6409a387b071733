"""Taking the compression off what was sent, with bounds on what comes out of it."""

from __future__ import annotations

import io
from typing import Final

import zstandard

from seamark.errors import SeamarkError
from seamark.journal.format import FILE_HEADER_BYTES, FRAME_HEADER_BYTES, MAX_PAYLOAD_BYTES
from seamark.journal.shipping import BATCH_BYTES, PLAIN_BYTES

__all__ = ["PackingError", "longest_body", "unpacked"]

_LONGEST_FRAME: Final = FILE_HEADER_BYTES + FRAME_HEADER_BYTES + MAX_PAYLOAD_BYTES
_OVERHEAD: Final = 64 << 10
"""What compression may add to bytes that cannot be compressed; much more than it does."""
_WINDOW_BYTES: Final = 32 << 20
"""How much memory a frame of zstd may ask for before anything is written."""
_PART_BYTES: Final = 1 << 20


class PackingError(SeamarkError, ValueError):
    """Error for a request body that is not compressed as declared, or is too large.

    Attributes:
        slug: Code of the error, for programs.
        status: HTTP status.
    """

    def __init__(self, message: str, slug: str = "bad-encoding", status: int = 422) -> None:
        super().__init__(message)
        self.slug = slug
        self.status = status


def longest_body() -> int:
    """Return how long a body may be, bytes: a batch, or one frame that cannot be compressed."""
    return max(BATCH_BYTES, _LONGEST_FRAME) + _OVERHEAD


def unpacked(body: bytes, packing: str) -> bytes:
    """Return what was sent, without its compression.

    Args:
        body: As it was sent.
        packing: As ``Content-Encoding`` names it: ``zstd`` or ``identity``.

    Raises:
        PackingError: If it is something else, is damaged, or comes to more than a batch may have.
    """
    if packing in ("", "identity"):
        data = body
    elif packing != "zstd":
        msg = f"Content-Encoding: expected zstd or none, got {packing!r:.40}"
        raise PackingError(msg, "bad-encoding", 415)
    elif not body:
        data = b""
    else:
        data = _inflated(body)
    if len(body) > BATCH_BYTES + _OVERHEAD and len(data) > _LONGEST_FRAME:
        msg = f"batch_bytes: at most {BATCH_BYTES} are accepted, got {len(body)}: send less at once"
        raise PackingError(msg, "too-large", 413)
    return data


def _inflated(body: bytes) -> bytes:
    """Decompress piece by piece: what a frame says of its size is somebody's word."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    plain = io.BytesIO()  # grows in place, where a list of parts would be held twice
    try:
        with decompressor.stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
            while part := reader.read(_PART_BYTES):
                if plain.tell() + len(part) > PLAIN_BYTES:
                    msg = f"plain_bytes: at most {PLAIN_BYTES} are accepted: send less at once"
                    raise PackingError(msg, "too-large", 413)
                plain.write(part)
    except zstandard.ZstdError as error:
        msg = f"the body is not zstd: {error}"
        raise PackingError(msg) from error
    return plain.getvalue()
