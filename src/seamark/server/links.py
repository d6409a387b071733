"""Addresses of single contents that need no token: for downloads, films and previews.

A browser sends no header of ours with what it saves, plays or shows in a frame, and a token has no
place in an address, which is kept and passed on. So who has a token asks for a signed address of
one content, which is good for a minute to begin with. What was begun goes on: who plays a film asks
for another part of it with every step that they take.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["BEGIN_S", "Link", "Links"]

BEGIN_S: Final = 60
"""How long an address is good to begin with, seconds."""
_GO_ON_NS: Final = 12 * 3600 * 10**9
_BEGUN: Final = 4096
_MOST_CHARACTERS: Final = 12 << 10


class Link(NamedTuple):
    """What an address leads to.

    Attributes:
        project: Project path.
        run: Run id.
        digest: SHA-256 of the content, hex.
        name: What the file is called.
        preview: Whether it is shown, in a frame where nothing of the page can be reached.
    """

    project: str
    run: str
    digest: str
    name: str
    preview: bool


class Links:
    """Signs addresses, and reads those that it signed; safe to use from threads.

    Args:
        key: Random bytes, which nobody else knows.
        now_ns: Nanoseconds since the Unix epoch.
        base: Where the API is, relative to the page: ``"api/v1/"``.
    """

    def __init__(self, key: bytes, now_ns: Callable[[], int], base: str = "api/v1/") -> None:
        self._key, self._now_ns, self.base = key, now_ns, base
        self._lock = threading.Lock()
        self._begun: OrderedDict[str, int] = OrderedDict()

    def sign(self, link: Link) -> str:
        """Return a text for the address of a content."""
        until = self._now_ns() // 10**9 + BEGIN_S
        said = json.dumps([*link, until], separators=(",", ":")).encode()
        return f"{_text(said)}.{_text(self._mac(said))}"

    def open(self, signed: str) -> Link | None:
        """Return what a text leads to; None if it was not signed here, or is too old to begin."""
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
        return Link(*link) if self._may_go_on(words, until) else None

    def _may_go_on(self, words: str, until: int) -> bool:
        now_ns = self._now_ns()
        with self._lock:
            begun = self._begun.get(words)
            if begun is None:
                if now_ns > until * 10**9:
                    return False
                self._begun[words] = now_ns
                while len(self._begun) > _BEGUN:
                    self._begun.popitem(last=False)
                return True
            return now_ns - begun <= _GO_ON_NS

    def _mac(self, said: bytes) -> bytes:
        return hmac.new(self._key, said, hashlib.sha256).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
