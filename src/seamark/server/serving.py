"""What the routes that read, edit and give contents use of whoever has the runs.

A server has them in its databases (`seamark.server.state.Server`), a page of one's own folders in
the index of each (`seamark.page.folder.Folder`). The routes are the same, so that a page needs no
second set of them, and nothing is answered differently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.reading.changes import ChangedRun
    from seamark.server.access import Access, Identity
    from seamark.server.links import Links
    from seamark.store.query.snapshots import Snapshots
    from seamark.store.read.run import RunReader
    from seamark.store.read.series import Sources
    from seamark.store.runs import Store

__all__ = ["Changing", "Content", "Identifies", "LookedAt", "News", "Serving", "Writes"]


class Content(Protocol):
    """A content that is there."""

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield its bytes from one offset to another, a megabyte at most at a time.

        Raises:
            OSError: If it is gone by now.
        """
        ...


class Identifies(Protocol):
    """Finds who asks."""

    def identify(self, headers: Mapping[str, str], address: str) -> Identity:
        """Return who asks; `NOBODY` if they do not say.

        Args:
            headers: Of the request.
            address: Of the client.

        Raises:
            Refusal: 401 if the token is none.
        """
        ...

    def again(self, token: str, name: str) -> Identity:
        """Return who somebody is now who asked before; `NOBODY` if that opens nothing any more.

        Args:
            token: Public prefix of the token that they showed; empty for none.
            name: Theirs.
        """
        ...


class Writes(Protocol):
    """Adds records to runs, as edits are."""

    def record(self, project: str, run: str, ops: Iterable[Mapping[str, Any]]) -> int:
        """Append operations to a run, behind all that it holds.

        Args:
            project: Project path.
            run: Run id, which is known here.
            ops: As in the journal: ``{"op": "assign", ...}`` and the like.

        Returns:
            The position at which they can be read.
        """
        ...


class News(NamedTuple):
    """What changed since somebody looked.

    Attributes:
        cursor: To ask with next.
        reset: Whether everything may have changed.
        more: Whether there is more already.
        runs: Which changed.
    """

    cursor: str
    reset: bool
    more: bool
    runs: list[ChangedRun]


class LookedAt(NamedTuple):
    """How far what there is has been read.

    Attributes:
        looked_ns: When it was last looked for what is new, nanoseconds since the Unix epoch; 0 if
            that has never been.
        left: How many runs are still to be read for the first time.
        unread: How many folders cannot be looked into.
    """

    looked_ns: int
    left: int = 0
    unread: int = 0


class Changing(Protocol):
    """What tells whether anything changed."""

    def tag(self, now_ns: int) -> str:
        """Return what changes whenever anything does that can be read, at little cost."""
        ...

    def name(self) -> str:
        """Return the name of the store that is read now: in another one, all begins anew."""
        ...

    def cursor(self, now_ns: int) -> str:
        """Return up to where somebody who reads now has seen what changed."""
        ...

    def since(
        self, cursor: str, project: str, may_read: Callable[[str], bool], now_ns: int
    ) -> News:
        """Return what changed since a cursor.

        Args:
            cursor: As it was returned before; anything else begins anew.
            project: Only in this project and its sub-projects; empty for all.
            may_read: Tells whether what is in a project may be told.
            now_ns: Nanoseconds since the Unix epoch.
        """
        ...

    def looked(self, now_ns: int) -> LookedAt:
        """Return when it was last looked for what is new, and what is not read."""
        ...


class Serving(Protocol):
    """Whoever has the runs; found by routes in ``app.state.server``, or that of the request.

    Attributes:
        now_ns: Nanoseconds since the Unix epoch.
    """

    now_ns: Callable[[], int]

    @property
    def accounts(self) -> Access:
        """Who may do what."""
        ...

    @property
    def logins(self) -> Identifies:
        """Who asks."""
        ...

    @property
    def snapshots(self) -> Snapshots:
        """The tables whose pages somebody turns."""
        ...

    @property
    def writer(self) -> Writes:
        """Adds records of its own."""
        ...

    @property
    def changing(self) -> Changing:
        """What changed."""
        ...

    @property
    def links(self) -> Links:
        """Addresses of single contents."""
        ...

    @property
    def read_only(self) -> str:
        """Why nothing can be edited; empty if it can."""
        ...

    def store(self) -> Store:
        """Return the folded store that is live."""
        ...

    def sources(self, project: str, run: str) -> Sources:
        """Return what opens the journals of a run."""
        ...

    def reader(self, project: str, run: str) -> RunReader:
        """Return the reader of a run, which somebody has to have been let in to."""
        ...

    def drawn(self, refs: Iterable[tuple[str, str]]) -> None:
        """Take note that the curves of runs were asked for; nothing of it waits."""
        ...

    def behind(self, wanted: Mapping[tuple[str, str], int]) -> int:
        """Wait until runs can be read up to some positions; not for long.

        Returns:
            How many bytes are missing; 0 if none.
        """
        ...

    def lacking(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return those contents, by their SHA-256 (hex), that are not there, sorted."""
        ...

    def content(self, project: str, run: str, digest: str) -> Content | None:
        """Return a content by its SHA-256 (hex); None if it is not there."""
        ...
