"""Interfaces between routes and providers of runs: roles, runs and signed addresses of contents.

A browser cannot add a header when it saves, plays or embeds a file, and a token must not be in an
address, which is stored and passed on. Therefore a user with a token requests a signed address of
one content. The whole content is served for a minute, parts of it (for videos) for hours.

The content, the end of validity and the user are in the address itself, so any process with the key
can answer. The route that opens the content still checks whether that user may read it.

`seamark.server.state.Server` provides runs from the server's databases,
`seamark.page.folder.Folder` from the index of local folders; both use the same routes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from seamark.reading.catalog import Changes
    from seamark.reading.reader import Answer
    from seamark.server.views import Views
    from seamark.store.read.inherited import Sources
    from seamark.store.read.run import RunReader
    from seamark.store.runs import Store


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

    `token` is the public prefix of the token. `roles` maps project paths to roles, which also apply
    to sub-projects; ``""`` stands for all projects. `workspaces` has the first parts of project
    paths; the requester may read projects in them that are visible to the workspace.
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
    """Readable project paths, including sub-projects; `excluded` has the exceptions."""

    everything: bool = False
    projects: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


class Access(Protocol):
    """Authorization policy; `seamark.server.accounts` implements it on the database."""

    def role(self, who: Identity, project: str) -> Role | None:
        """Return the role of a user in a project; None if its existence is hidden from the user."""

    def readable(self, who: Identity) -> Readable:
        """Return the projects that a user may read."""


WHOLE_S: Final = 60
"""Period in which an address serves the whole content, in seconds."""
PARTS_S: Final = 12 * 3600
"""Additional period in which an address serves parts of the content, in seconds."""
_NS_PER_S: Final = 10**9
_KIND: Final = b"seamark link 2\0"
"""Prefix of the signed text; it differs between kinds of addresses."""
_MAX_CHARACTERS: Final = 12 << 10


class Link(NamedTuple):
    """Target of a signed address, and the user who requested it (empty: anonymous).

    `digest` is a SHA-256, hex; `token` is the public prefix of the requester's token. With
    `preview`, the content is shown in a frame that cannot access the page.
    """

    project: str
    run: str
    digest: str
    name: str
    preview: bool
    token: str = ""
    user: str = ""


class Links:
    """Signer and verifier of addresses; `base` is the path of the API relative to the page."""

    def __init__(self, key: bytes, now_ns: Callable[[], int], base: str = "api/v1/") -> None:
        self._key, self._now_ns, self.base = key, now_ns, base

    def sign(self, link: Link) -> str:
        """Return the signed text for the address of a content."""
        until = self._now_ns() // _NS_PER_S + WHOLE_S
        payload = json.dumps([*link, until], separators=(",", ":")).encode()
        return f"{_encoded(payload)}.{_encoded(self._mac(payload))}"

    def open(self, signed: str, *, part: bool = False) -> Link | None:
        """Return the link in a signed text, for a `part` or all; None if expired or forged."""
        if len(signed) > _MAX_CHARACTERS or not signed.isascii():
            return None
        words, _, mac = signed.partition(".")
        try:
            payload, given = _decoded(words), _decoded(mac)
        except (ValueError, binascii.Error):
            return None
        if not hmac.compare_digest(self._mac(payload), given):
            return None
        *link, until = json.loads(payload)
        ends = until + PARTS_S if part else until
        return Link(*link) if self._now_ns() <= ends * _NS_PER_S else None

    def _mac(self, payload: bytes) -> bytes:
        return hmac.new(self._key, _KIND + payload, hashlib.sha256).digest()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class Content(Protocol):
    """Stored content."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes between two offsets in parts of at most a megabyte."""


class Identifies(Protocol):
    """Authentication of requesters."""

    def identify(self, headers: Mapping[str, str], address: str) -> Identity:
        """Return the identity of a requester; `NOBODY` without a token, 401 for an invalid one."""

    def again(self, token: str, name: str) -> Identity:
        """Return an earlier requester by token prefix or name; `NOBODY` if not valid any more."""


class Writes(Protocol):
    """Writer of additional records to runs, such as edits."""

    def record(self, project: str, run: str, ops: Iterable[Mapping[str, Any]]) -> int:
        """Append journal operations to a run; return the position at which they can be read."""


@dataclass(frozen=True, slots=True)
class Looked:
    """Progress of reading one root; a server has always read everything.

    `looked_ns` is the start of the last complete read, ns since the Unix epoch, or 0. `left` is the
    number of runs still to read in the current read, `left_s` the estimated remaining time; 0 if
    unknown. `runs` is the number of runs outside the trash, `unread` the number of folders that
    cannot be read; the first are listed with the reason.
    """

    looked_ns: int = 0
    left: int = 0
    left_s: float = 0.0
    runs: int = 0
    running: int = 0
    trouble: str = ""
    unread: int = 0
    unread_first: Sequence[Sequence[str]] = ()


class Changing(Protocol):
    """Interface that reports changes of runs."""

    def tag(self, now_ns: int) -> str:
        """Return a tag that changes whenever readable data changes; cheap to compute."""

    def name(self) -> str:
        """Return the name of the current store; cursors of other stores are not valid in it."""

    def cursor(self, now_ns: int) -> str:
        """Return the cursor after all changes up to now."""

    def since(
        self, cursor: str, project: str, may_read: Callable[[str], bool], now_ns: int
    ) -> Answer[Changes]:
        """Return the changes since a cursor; ``next`` is the new cursor if there are more.

        An unknown cursor starts from the beginning. Sub-projects of the project are included; an
        empty project stands for all projects.
        """

    def looked(self, now_ns: int) -> Looked:
        """Return the time of the last scan for new data, and the amount of unread data."""


class Serving(Protocol):
    """Provider of the runs, in ``app.state.server`` or ``request.state.serving``."""

    now_ns: Callable[[], int]

    @property
    def accounts(self) -> Access:
        """Roles of users in projects."""

    @property
    def logins(self) -> Identifies:
        """Authentication of requests."""

    @property
    def writer(self) -> Writes:
        """Writer of the provider's own records."""

    @property
    def changing(self) -> Changing:
        """Changes of the runs."""

    @property
    def views(self) -> Views:
        """Saved views of projects."""

    @property
    def links(self) -> Links:
        """Signed addresses of contents."""

    @property
    def read_only(self) -> str:
        """Reason why edits are not possible; empty if they are."""

    def store(self) -> Store:
        """Return the live folded store."""

    def sources(self, project: str, run: str) -> Sources:
        """Return the source that opens the journals of a run."""

    def reader(self, project: str, run: str) -> RunReader:
        """Return the reader of a run; the caller has checked that the requester may read it."""

    def prioritize(self, refs: Iterable[tuple[str, str]]) -> None:
        """Fold runs earlier because their curves were requested; return at once."""

    def behind(self, wanted: Mapping[tuple[str, str], int]) -> int:
        """Wait briefly until runs can be read up to given positions; return the missing bytes."""

    def missing_contents(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return the missing ones of the given contents, by SHA-256 (hex), sorted."""

    def content(self, project: str, run: str, digest: str) -> Content | None:
        """Return a content by its SHA-256 (hex); None if it is missing."""
