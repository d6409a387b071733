"""Status of a rank of a run, as reads return it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Process", "RankStatus", "owning_processes", "process_of"]

Process = tuple[str, ...]
"""Identity of a process."""


def owning_processes(headers: Iterable[Mapping[str, Any]]) -> set[Process]:
    """Return the processes that own the run in some journal.

    A process that opens a run owns it from when it trains in it, and its earlier journal says no.
    """
    return {process_of(header) for header in headers if header.get("owner") is True}


def process_of(header: Mapping[str, Any]) -> Process:
    """Return the identity of a process, from a header."""
    # As text: a header may come from a stranger, and hold what cannot be compared.
    return tuple(repr(header.get(key)) for key in ("host", "boot", "pid", "start"))


@dataclass(frozen=True, slots=True)
class RankStatus:
    """Status of one rank, judged by its newest process.

    Times are nanoseconds since the Unix epoch; 0 for a rank that is missing.

    Attributes:
        rank: 0-based.
        writers: Writer ids of the journals of the process, the newest first.
        state: ``"running"``; ``"hangs"`` (alive, and no record or no heartbeat for long);
            ``"waits"`` (the same, while another rank that hangs is behind it); ``"missing"`` (the
            run has such a rank, which never recorded anything); ``"completed"``, ``"failed"``,
            ``"interrupted"``, ``"suspended"``, as it reported itself; ``"killed"`` (its process
            ended without reporting why); ``"lost"`` (no heartbeat for 90 s, and nobody can look at
            the process from here).
        why: Reported reason of its end: ``"ValueError: boom"``, ``"SIGTERM"``; of a killed or lost
            rank the reason that its host knows: ``"out of memory"`` (see
            `seamark.process.liveness.CRASH_REASONS`); or empty.
        last_t: Time of its last record or heartbeat (every 30 s).
        row_t: Time when it last recorded a point of a series; None if it never did.
        end_t: Time when it ended, as far as that is known; None while it runs.
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
