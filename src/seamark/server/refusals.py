"""Errors for refused data, each with a code for programs and a message for people."""

from __future__ import annotations

from typing import Any

from seamark.errors import SeamarkError

__all__ = ["QuotaExceeded", "Rejected"]


class Rejected(SeamarkError):  # noqa: N818 - says what is so
    """Something that was sent is not kept; the message says what to do.

    Attributes:
        slug: Code of the error, for programs.
        status: HTTP status.
        more: Further members of the answer.
        wait_s: After how many seconds it may be sent again; None: never as it is.
    """

    slug = "refused"
    status = 422
    wait_s: float | None = None

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message)
        self.more = more

    @property
    def known(self) -> int | None:
        """Number of bytes that are stored already, if that is the reason; else None."""
        return self.more.get("known")


class QuotaExceeded(Rejected):
    """The workspace has used up what it may keep here.

    It is no 413: smaller parts are of no use. Shippers say it once, and try again from time to
    time, as there may be room by then.
    """

    slug = "quota"
    status = 403
