"""Records that a server itself adds to a run: edits of people, and the trash."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.server.folding.kept import Kept
    from seamark.store.runs import Store

__all__ = ["ServerWriter", "Taken", "Takes"]


class Taken(NamedTuple):
    """What was kept of a batch.

    Attributes:
        offset: How many bytes of the journal are kept now.
        position: How many bytes of all journals of the run are kept now.
    """

    offset: int
    position: int


class Takes(Protocol):
    """Takes bytes of journals for good, as the route for them does."""

    def __call__(self, project: str, run: str, journal: str, offset: int, data: bytes) -> Taken:
        """Keep whole frames of a journal from an offset on; returns once they are durable."""
        ...


class ServerWriter:
    """Turns operations into frames of a journal of the server's own in each run.

    It owns nothing: state, error and running time of the run stay as they are.

    Args:
        instance: Id of the server.
        kept: What is kept.
        take: Keeps what is written here.
        store: Returns the store that is live.
        now_ns: Clock, nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        instance: str,
        kept: Kept,
        take: Takes,
        store: Callable[[], Store],
        now_ns: Callable[[], int],
    ) -> None:
        self._instance, self._kept, self._take = instance, kept, take
        self._store, self._now_ns = store, now_ns

    def record(self, project: str, run: str, ops: Iterable[Mapping[str, Any]]) -> int:
        """Append operations to a run, behind all that it holds.

        Args:
            project: Project path.
            run: Run id, which is known here.
            ops: As in the journal: ``{"op": "assign", ...}`` and the like.

        Returns:
            The position at which they can be read.

        Raises:
            RunNotFoundError: If no journal of the run is kept.
            ArgumentError: If one is longer than a record may be.
        """
        raise NotImplementedError
