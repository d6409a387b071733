"""Addresses of single contents that need no token: for downloads, films and previews.

A browser sends no header of ours with what it saves, plays or shows in a frame, and a token has no
place in an address, which is kept and passed on. So who has a token asks for a signed address of
one content. The whole of it is given for a minute; parts of it, which who plays a film asks for
with every step that they take, for hours.

All that is known of an address stands in it: which content it leads to, until when, and who asked
for it. So every process that has the key answers it alike, none has to remember any, and nobody's
films end because somebody else opened many. Whether who asked for it may still read the content is
for whoever opens it to find out: an address opens nothing that its maker may not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["BEGIN_S", "GO_ON_S", "Link", "Links"]

BEGIN_S: Final = 60
"""How long an address gives the whole content, seconds."""
GO_ON_S: Final = 12 * 3600
"""How much longer it gives parts of it, seconds."""
_SECOND: Final = 10**9
_KIND: Final = b"seamark link 2\0"
"""Before what is signed; another one where something else stands in an address."""
_MOST_CHARACTERS: Final = 12 << 10


class Link(NamedTuple):
    """Target of a signed address, and the user who requested it.

    Attributes:
        project: Project path.
        run: Run id.
        digest: SHA-256 of the content, hex.
        name: File name.
        preview: Whether it is shown, in a frame where nothing of the page can be reached.
        token: Public prefix of the token that asked for the address; empty for none.
        user: User who requested it; empty for an anonymous one.
    """

    project: str
    run: str
    digest: str
    name: str
    preview: bool
    token: str = ""
    user: str = ""


class Links:
    """Signs addresses, and reads those that were signed with the same key.

    Args:
        key: Random bytes, which nobody else knows.
        now_ns: Nanoseconds since the Unix epoch.
        base: Where the API is, relative to the page: ``"api/v1/"``.
    """

    def __init__(self, key: bytes, now_ns: Callable[[], int], base: str = "api/v1/") -> None:
        self._key, self._now_ns, self.base = key, now_ns, base

    def sign(self, link: Link) -> str:
        """Return a text for the address of a content."""
        until = self._now_ns() // _SECOND + BEGIN_S
        said = json.dumps([*link, until], separators=(",", ":")).encode()
        return f"{_text(said)}.{_text(self._mac(said))}"

    def open(self, signed: str, *, part: bool = False) -> Link | None:
        """Return what a text leads to; None if it was not signed with this key, or is too old.

        Args:
            signed: The text.
            part: Whether only a part of the content is asked for.
        """
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
