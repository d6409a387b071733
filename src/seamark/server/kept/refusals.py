"""Errors for refused batches, each with a code for programs and a message for people."""

from __future__ import annotations

from seamark.server.refusals import QuotaExceeded, Rejected

__all__ = [
    "BatchRefused",
    "DivergedError",
    "FullError",
    "GapError",
    "PurgedError",
    "QuotaExceeded",
    "Rejected",
    "ReservedError",
    "TooManyError",
]


class BatchRefused(Rejected):
    """A batch was not taken; the message says what to do."""


class GapError(BatchRefused):
    """Bytes before it are missing; ``known`` says how many are kept."""

    slug = "gap"
    status = 409


class DivergedError(BatchRefused):
    """Other bytes are kept in its place; ``known`` says how many are kept."""

    slug = "diverged"
    status = 409


class PurgedError(BatchRefused):
    """The run was purged here, and must not come back."""

    slug = "purged"
    status = 410


class ReservedError(BatchRefused):
    """The journal is one that the server writes itself."""

    slug = "reserved"


class TooManyError(BatchRefused):
    """The run has as many journals as a run may have."""

    slug = "too-large"
    status = 413


class FullError(BatchRefused):
    """The server has too much to do, or cannot write now; the same may be sent again."""

    slug = "busy"
    status = 503
    wait_s = 5.0
