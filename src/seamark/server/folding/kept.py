"""Interface of the stored journals for folding; `seamark.server.kept.journals` implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.journal.source import Source

__all__ = ["Kept", "KeptJournal", "KeptRun"]


class KeptRun(NamedTuple):
    """A run, and how much of it is kept.

    Attributes:
        project: Project path.
        run: Run id, or ``.project``.
        position: How many bytes of all its journals are kept, gaps included.
    """

    project: str
    run: str
    position: int


class KeptJournal(NamedTuple):
    """Size of a stored journal, and the time when its last bytes arrived.

    Attributes:
        size: Size in bytes, gaps included.
        heard_ns: Time when its last bytes arrived, by the server's clock, ns since the Unix epoch.
    """

    size: int
    heard_ns: int


class Kept(Protocol):
    """The journals that a server keeps, as its fold workers read them; safe to use from threads."""

    def check(self) -> None:
        """See that what is kept can be read.

        Raises:
            ObjectsUnreachable: If the place of the objects is away.
        """
        ...

    def unfolded(self, most: int) -> list[KeptRun]:
        """Return runs that were not `noted` as far as they are kept, those that wait longest first.

        It is asked several times a second: one look into an index.
        """
        ...

    def note(self, project: str, run: str, position: int) -> None:
        """Note that a run is folded up to a position; nothing happens if more is kept by now.

        Only a hint of where to look next: what is folded is in the store.
        """
        ...

    def late(self, before_ns: int, most: int) -> list[KeptRun]:
        """Return those of `unfolded` that have waited since before a moment, longest first.

        The moment is of the clock by which `KeptJournal.heard_ns` is told.
        """
        ...

    def wait_again(self, runs: Sequence[tuple[str, str]]) -> None:
        """Mark runs as `unfolded` again, because what was noted of them is wrong."""
        ...

    def runs(self) -> Iterator[KeptRun]:
        """Yield all runs, ordered by project and run id."""
        ...

    def journals(self, project: str, run: str) -> Mapping[str, KeptJournal]:
        """Return what is kept of a run now, by file name; empty for a run that is not there."""
        ...

    def source(self, project: str, run: str, journal: str) -> Source:
        """Open a journal.

        Gaps are bytes that are no frames. `Source.quiet_since_ns` is None: only whole frames and
        declared gaps come, so that what is there is final.

        Raises:
            OSError: If an object cannot be read now.
        """
        ...

    def forget(self, project: str, run: str) -> None:
        """Remove every row of a run for good, so that its bytes are collected."""
        ...

    def tend(self, stop: Callable[[], bool]) -> None:
        """Compact objects and collect those that nobody needs, a little each time.

        Args:
            stop: Returns whether it must end soon.
        """
        ...
