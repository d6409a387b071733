"""Tokens: how they look, and what is kept of them."""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final, NamedTuple

__all__ = ["PREFIX_CHARS", "NewToken", "hash_of", "is_token", "new_token", "prefix_of"]

_BEGIN: Final = "seamark_"
"""Lets people and scanners of secrets see what it is."""
PREFIX_CHARS: Final = len(_BEGIN) + 8
_FORM: Final = re.compile(r"seamark_[A-Za-z0-9_-]{43}")


class NewToken(NamedTuple):
    """A token that was just made, and is never shown again.

    Attributes:
        secret: The whole.
        prefix: Its beginning, which names it from then on.
        hash: SHA-256 of the whole, hex; all that is kept of it. It has 256 random bits, so that
            nothing slower is needed.
    """

    secret: str
    prefix: str
    hash: str


def new_token() -> NewToken:
    """Make a token of 256 random bits."""
    secret = _BEGIN + secrets.token_urlsafe(32)
    return NewToken(secret, prefix_of(secret), hash_of(secret))


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token."""
    return _FORM.fullmatch(text) is not None


def prefix_of(secret: str) -> str:
    """Return the beginning of a token, which may be shown: 208 of its bits remain."""
    return secret[:PREFIX_CHARS]


def hash_of(secret: str) -> str:
    """Return the SHA-256 of a token, hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
