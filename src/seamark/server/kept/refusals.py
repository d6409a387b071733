"""Why a batch of a journal is not taken, in a word for programs and a sentence for people."""

from __future__ import annotations

from typing import Any

from seamark.errors import SeamarkError

__all__ = [
    "BatchRefused",
    "DivergedError",
    "FullError",
    "GapError",
    "PurgedError",
    "TooManyError",
]


class BatchRefused(SeamarkError):  # noqa: N818 - says what is so
    """A batch was not taken; the message says what to do.

    Attributes:
        slug: The same in a word, for programs.
        status: Of HTTP.
        more: Further members of the answer.
        wait_s: After how many seconds it may be sent again; None: never as it is.
    """

    slug = "refused"
    status = 422
    wait_s: float | None = None

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message)
        self.more = more


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


class TooManyError(BatchRefused):
    """The run has as many journals as a run may have."""

    slug = "too-large"
    status = 413


class FullError(BatchRefused):
    """The server has too much to do, or cannot write now; the same may be sent again."""

    slug = "busy"
    status = 503
    wait_s = 5.0
