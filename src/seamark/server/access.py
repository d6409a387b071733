"""Interfaces between routes and what answers them: roles, runs, and signed addresses of contents.

A browser cannot add a header when it saves, plays or embeds a file, and a token must not be in an
address, which is stored and passed on. Therefore a user with a token requests a signed address of
one content. The whole content is served for a minute, parts of it (for videos) for hours.

The content, the end of validity and the user are in the address itself, so any process with the key
can answer. Whoever opens the content still checks whether that user may read it.

`seamark.server.state.Server` provides runs from the server's databases,
`seamark.page.folder.Folder` from the index of local folders; both use the same routes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.reading.catalog import Changes
    from seamark.reading.reader import Answer
    from seamark.server.views import Views
    from seamark.store.read.run import RunReader
    from seamark.store.read.series import Sources
    from seamark.store.runs import Store

__all__ = [
    "NOBODY",
    "Access",
    "Changing",
    "Content",
    "Identifies",
    "Identity",
    "Link",
    "Links",
    "LookedAt",
    "Readable",
    "Role",
    "Serving",
    "Writes",
]


class Role(IntEnum):
    """Role in a project; each role includes the permissions of the lower ones."""

    VIEWER = 1
    """Read."""
    CONTRIBUTOR = 2
    """Record, edit, and move to the trash."""
    OWNER = 3
    """Purge, and manage roles."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a requester, with its roles as limited by its token.

    `token` is the public prefix of the token. `roles` are by project path, each for what is in it,
    too; ``""`` stands for all projects. `workspaces` are first parts of project paths, in which it
    reads what is visible to a workspace.
    """

    name: str = ""
    token: str = ""
    admin: bool = False
    roles: Mapping[str, Role] = field(default_factory=dict)
    workspaces: frozenset[str] = frozenset()


NOBODY = Identity()
"""Principal of an unauthenticated request."""


@dataclass(frozen=True, slots=True)
class Readable:
    """Project paths that may be read, sub-projects included; `but` has the exceptions."""

    everything: bool = False
    projects: frozenset[str] = frozenset()
    but: frozenset[str] = frozenset()


class Access(Protocol):
    """Authorization policy; `seamark.server.accounts` implements it with the database."""

    def role(self, who: Identity, project: str) -> Role | None:
        """Return a user's role in a project; None if they may not know that it exists."""

    def readable(self, who: Identity) -> Readable:
        """Return the projects that a user may read."""


BEGIN_S: Final = 60
"""Time for which an address serves the whole content, in seconds."""
GO_ON_S: Final = 12 * 3600
"""Additional time for which it serves parts of the content, in seconds."""
_SECOND: Final = 10**9
_KIND: Final = b"seamark link 2\0"
"""Prefix of the signed text; it differs between kinds of addresses."""
_MOST_CHARACTERS: Final = 12 << 10


class Link(NamedTuple):
    """Target of a signed address, and the user who requested it (empty: anonymous).

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
        """Return the link in a signed text, for a `part` or all; None if expired or forged."""
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
    """Finds the identity of a requester."""

    def identify(self, headers: Mapping[str, str], address: str) -> Identity:
        """Return the identity of a requester; `NOBODY` without a token, 401 for an invalid one."""

    def again(self, token: str, name: str) -> Identity:
        """Return an earlier requester by token prefix or name; `NOBODY` if no longer valid."""


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
        """Return a tag that changes with anything that can be read; cheap to compute."""

    def name(self) -> str:
        """Return the name of the store that is read now: in another one, all begins anew."""

    def cursor(self, now_ns: int) -> str:
        """Return the cursor of a reader who has seen all changes up to now."""

    def since(
        self, cursor: str, project: str, may_read: Callable[[str], bool], now_ns: int
    ) -> Answer[Changes]:
        """Return the changes since a cursor; ``next`` is the new cursor if there are more.

        A cursor that was not returned before begins anew. Sub-projects of the project are included;
        an empty one stands for all.
        """

    def looked(self, now_ns: int) -> LookedAt:
        """Return the time of the last search for new data, and the data that is not read."""


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
    def views(self) -> Views:
        """Saved views of projects."""

    @property
    def links(self) -> Links:
        """Addresses of single contents."""

    @property
    def read_only(self) -> str:
        """Reason why nothing can be edited; empty if edits are possible."""

    def store(self) -> Store:
        """Return the folded store that is live."""

    def sources(self, project: str, run: str) -> Sources:
        """Return the source that opens the journals of a run."""

    def reader(self, project: str, run: str) -> RunReader:
        """Return the reader of a run; the caller has checked that the requester may read it."""

    def prioritize(self, refs: Iterable[tuple[str, str]]) -> None:
        """Take note that the curves of runs were asked for; nothing of it waits."""

    def behind(self, wanted: Mapping[tuple[str, str], int]) -> int:
        """Wait shortly until runs can be read up to some positions; return the missing bytes."""

    def missing_contents(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return those contents, by their SHA-256 (hex), that are not there, sorted."""

    def content(self, project: str, run: str, digest: str) -> Content | None:
        """Return a content by its SHA-256 (hex); None if it is not there."""
