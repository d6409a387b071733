"""Interfaces between routes and the provider of runs, and signed addresses of contents.

A browser sends no header of ours with what it saves, plays or shows in a frame, and a token has no
place in an address, which is kept and passed on. So who has a token asks for a signed address of
one content. The whole of it is given for a minute; parts of it, for playing a film, for hours.

The content, the end and who asked stand in the address itself, so that every process that has the
key answers it alike. Whether who asked may still read the content is for whoever opens it to find
out: an address opens nothing that its maker may not.

A server has them in its databases (`seamark.server.state.Server`), a page of local folders in the
index of each (`seamark.page.folder.Folder`); both use the same routes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.reading.catalog import Changes
    from seamark.reading.reader import Answer
    from seamark.server.access import Access, Identity
    from seamark.store.read.run import RunReader
    from seamark.store.read.series import Sources
    from seamark.store.runs import Store

__all__ = ["Changing", "Content", "Identifies", "Link", "Links", "LookedAt", "Serving", "Writes"]


BEGIN_S: Final = 60
"""How long an address gives the whole content, seconds."""
GO_ON_S: Final = 12 * 3600
"""How much longer it gives parts of it, seconds."""
_SECOND: Final = 10**9
_KIND: Final = b"seamark link 2\0"
"""Before what is signed; another one where something else stands in an address."""
_MOST_CHARACTERS: Final = 12 << 10


class Link(NamedTuple):
    """Target of a signed address, and the user who requested it; empty for an anonymous one.

    `digest` is a SHA-256, hex; `token` the public prefix of the token that asked. With `preview`,
    the content is shown in a frame where nothing of the page can be reached.
    """

    project: str
    run: str
    digest: str
    name: str
    preview: bool
    token: str = ""
    user: str = ""


class Links:
    """Signs addresses, and reads them; `base` is where the API is, relative to the page."""

    def __init__(self, key: bytes, now_ns: Callable[[], int], base: str = "api/v1/") -> None:
        self._key, self._now_ns, self.base = key, now_ns, base

    def sign(self, link: Link) -> str:
        """Return a text for the address of a content."""
        until = self._now_ns() // _SECOND + BEGIN_S
        said = json.dumps([*link, until], separators=(",", ":")).encode()
        return f"{_text(said)}.{_text(self._mac(said))}"

    def open(self, signed: str, *, part: bool = False) -> Link | None:
        """Return what a text leads to, or a `part` of it; None if it is too old or forged."""
        if len(signed) > _MOST_CHARACTERS or not signed.isascii():
            return None
        words, _, mac = signed.partition(".")
        try:
            said, given = _bytes(words), _bytes(mac)
        except (ValueError, binascii.Error):
            return None
        if not hmac.compare_digest(self._mac(said), given):
            return None
        *link, until = json.loads(said)
        ends = until + GO_ON_S if part else until
        return Link(*link) if self._now_ns() <= ends * _SECOND else None

    def _mac(self, said: bytes) -> bytes:
        return hmac.new(self._key, _KIND + said, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class Content(Protocol):
    """A content that is there."""

    @property
    def size(self) -> int:
        """In bytes."""

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield its bytes from one offset to another, a megabyte at most at a time."""


class Identifies(Protocol):
    """Finds who asks."""

    def identify(self, headers: Mapping[str, str], address: str) -> Identity:
        """Return who asks; `NOBODY` if they do not say, and 401 for what is no token."""

    def again(self, token: str, name: str) -> Identity:
        """Return who asked before, by prefix of a token or name, or `NOBODY` if that ended."""


class Writes(Protocol):
    """Adds records to runs, as edits are."""

    def record(self, project: str, run: str, ops: Iterable[Mapping[str, Any]]) -> int:
        """Append operations of the journal to a run; return where they can be read."""


class LookedAt(NamedTuple):
    """Progress of reading: when it last looked for new data, ns since the Unix epoch (0: never).

    `left` counts runs to be read for the first time, `unread` folders that cannot be read.
    """

    looked_ns: int
    left: int = 0
    unread: int = 0


class Changing(Protocol):
    """Interface that reports whether anything changed."""

    def tag(self, now_ns: int) -> str:
        """Return what changes whenever anything does that can be read, at little cost."""

    def name(self) -> str:
        """Return the name of the store that is read now: in another one, all begins anew."""

    def cursor(self, now_ns: int) -> str:
        """Return up to where somebody who reads now has seen what changed."""

    def since(
        self, cursor: str, project: str, may_read: Callable[[str], bool], now_ns: int
    ) -> Answer[Changes]:
        """Return what changed since a cursor; ``next`` is the new one if there is more already.

        A cursor that was not returned before begins anew. Sub-projects of the project are included;
        an empty one stands for all.
        """

    def looked(self, now_ns: int) -> LookedAt:
        """Return when it was last looked for what is new, and what is not read."""


class Serving(Protocol):
    """Whoever has the runs; found by routes in ``app.state.server``, or that of the request."""

    now_ns: Callable[[], int]

    @property
    def accounts(self) -> Access:
        """Roles of users in projects."""

    @property
    def logins(self) -> Identifies:
        """Authentication of requests."""

    @property
    def writer(self) -> Writes:
        """Adds records of its own."""

    @property
    def changing(self) -> Changing:
        """Changes of the runs."""

    @property
    def links(self) -> Links:
        """Addresses of single contents."""

    @property
    def read_only(self) -> str:
        """Reason why nothing can be edited; empty if edits are possible."""

    def store(self) -> Store:
        """Return the folded store that is live."""

    def sources(self, project: str, run: str) -> Sources:
        """Return what opens the journals of a run."""

    def reader(self, project: str, run: str) -> RunReader:
        """Return the reader of a run, which somebody has to have been let in to."""

    def prioritize(self, refs: Iterable[tuple[str, str]]) -> None:
        """Take note that the curves of runs were asked for; nothing of it waits."""

    def behind(self, wanted: Mapping[tuple[str, str], int]) -> int:
        """Wait shortly until runs can be read up to some positions; return the missing bytes."""

    def missing_contents(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return those contents, by their SHA-256 (hex), that are not there, sorted."""

    def content(self, project: str, run: str, digest: str) -> Content | None:
        """Return a content by its SHA-256 (hex); None if it is not there."""
