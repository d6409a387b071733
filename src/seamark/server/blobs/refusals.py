"""Errors for refused contents, each with a code for programs and a message for people."""

from __future__ import annotations

from seamark.server.refusals import QuotaExceeded, Rejected

__all__ = ["BlobRefused", "DigestWrong", "OffsetGap", "QuotaExceeded", "TooLarge"]


class BlobRefused(Rejected):
    """A content, or a part of one, was not taken; the message says what to do."""


class TooLarge(BlobRefused):
    """A content, or one part of it, is larger than what this server takes."""

    slug = "too-large"
    status = 413


class DigestWrong(BlobRefused):
    """The uploaded bytes have another SHA-256; none of them were stored."""

    slug = "digest"


class OffsetGap(BlobRefused):
    """Bytes are missing before the part that was sent; ``known`` says how many are there."""

    slug = "gap"
    status = 409
