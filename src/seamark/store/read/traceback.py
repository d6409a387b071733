"""Choice of the recorded traceback that belongs to the end of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from seamark.reading.ranks import owning_processes, process_of

if TYPE_CHECKING:
    from seamark.store.fold.run_state import RunState

__all__ = ["traceback_of"]


def traceback_of(run: RunState, paths: Iterable[str]) -> str | None:
    """Return the path of the traceback that belongs to the run's end; None if there is none.

    Other ranks have others, and so have older attempts and processes that do not own the run.

    Args:
        run: As folded.
        paths: What it shows.
    """
    owners = owning_processes(one.header for one in run.journals.values())
    journals = {f"monitoring/{one.writer}/traceback": one for one in run.journals.values()}
    speakers = [one for one in journals.values() if one.uid == run.state[0][1]]

    def order(path: str) -> float:
        """Return when its process began; -1 for a process that did not set the run's state."""
        one = journals.get(path)
        if one is None or not speakers:
            return 0  # a namespace that somebody chose
        rank, attempt = one.header.get("rank"), one.attempt
        same = (rank, attempt) == (speakers[0].header.get("rank"), speakers[0].attempt)
        speaks = rank or process_of(one.header) in owners
        return float(one.first_t or 0) if same and speaks else -1

    found = sorted(
        path for path in paths if path.startswith("monitoring/") and path.endswith("/traceback")
    )
    best = max(found, key=order, default=None)
    return None if best is None or order(best) < 0 else best
