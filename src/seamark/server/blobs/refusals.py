"""Why a content is not taken, in a word for programs and a sentence for people."""

from __future__ import annotations

from seamark.errors import SeamarkError

__all__ = ["BlobRefused", "DigestWrong", "OffsetGap", "QuotaExceeded", "TooLarge"]


class BlobRefused(SeamarkError):  # noqa: N818 - says what is so
    """A content, or a part of one, was not taken; the message says what to do.

    Attributes:
        slug: The same in a word, for programs.
        status: Of HTTP.
    """

    slug = "refused"
    status = 422


class TooLarge(BlobRefused):
    """A content, or one part of it, is larger than what this server takes."""

    slug = "too-large"
    status = 413


class QuotaExceeded(BlobRefused):
    """The project has used up what it may keep."""

    slug = "quota"
    status = 413


class DigestWrong(BlobRefused):
    """What arrived has another SHA-256; nothing of it was kept."""

    slug = "digest"


class OffsetGap(BlobRefused):
    """Bytes are missing before the part that was sent.

    Attributes:
        known: How many bytes are there.
    """

    slug = "gap"
    status = 409

    def __init__(self, message: str, known: int) -> None:
        super().__init__(message)
        self.known = known
