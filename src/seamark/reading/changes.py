"""Changes of runs since an earlier request."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChangedRun", "Changes"]


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """A run that changed.

    Attributes:
        project: Project path.
        run: Run id, or ``.project``.
        state: Its state now; None for one that is gone.
        gone: Whether it is there no more.
        paths: What holds something that was recorded since, by the clock of who recorded it, up to
            a minute before included; sorted. It says where to look first: what came late is not
            among it. Empty if nothing was recorded lately, so that any path may have changed.
    """

    project: str
    run: str
    state: str | None
    gone: bool
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Changes:
    """Answer to a request for the changes since a cursor.

    Attributes:
        cursor: Cursor for the next request.
        reset: Whether everything may have changed, because the cursor was not valid or belongs to
            an index that was since rebuilt. No runs are listed then.
        runs: The runs that changed, those that changed last at the end.
        looked_ns: Time of the last check for new records, nanoseconds since the Unix epoch.
    """

    cursor: str
    reset: bool
    runs: list[ChangedRun]
    looked_ns: int
