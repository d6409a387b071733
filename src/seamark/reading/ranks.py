"""Status of the ranks of a run, as returned by reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Process = tuple[str, ...]
"""Identity of a process."""


def owning_processes(headers: Iterable[Mapping[str, Any]]) -> set[Process]:
    """Return the processes that own the run according to any journal.

    A process owns a run once it trains in it; an earlier journal of it may lack that mark.
    """
    return {process_of(header) for header in headers if header.get("owner") is True}


def process_of(header: Mapping[str, Any]) -> Process:
    """Return the identity of a process from a journal header."""
    # As text: a header is untrusted, and may hold values that cannot be hashed.
    return tuple(repr(header.get(key)) for key in ("host", "boot", "pid", "start"))


@dataclass(frozen=True, slots=True)
class RankStatus:
    """Status of one rank, judged by its newest process.

    Times are nanoseconds since the Unix epoch; 0 for a missing rank.

    Attributes:
        rank: 0-based rank.
        writers: Writer ids of the process's journals, the newest first.
        state: ``"running"``; ``"hangs"`` (alive, but no record or no heartbeat for a long time);
            ``"waits"`` (the same, while a hanging rank is behind it); ``"missing"`` (never recorded
            anything); ``"completed"``, ``"failed"``, ``"interrupted"``, ``"suspended"``, as
            reported by the rank; ``"killed"`` (the process ended without a reason); ``"lost"`` (no
            heartbeat for 90 s, and the process cannot be checked from this machine).
        why: Reported cause of the end, such as ``"ValueError: boom"`` or ``"SIGTERM"``; for a
            killed or lost rank the cause known to its host, such as ``"out of memory"`` (see
            `seamark.process.liveness.CRASH_REASONS`); empty if unknown.
        last_t: Time of the last record or heartbeat (every 30 s).
        row_t: Time of the last recorded point of a series; None if there is none.
        end_t: Time of the end; None if it is running or the time is unknown.
    """

    rank: int
    host: str | None
    pid: int | None
    writers: tuple[str, ...]
    state: str
    why: str
    first_t: int
    last_t: int
    row_t: int | None
    end_t: int | None

    def idle_ns(self, now_ns: int) -> int:
        """Return the time since the last point of a series, in nanoseconds."""
        return max(0, now_ns - (self.row_t or self.first_t))
