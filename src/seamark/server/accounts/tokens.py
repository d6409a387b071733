"""Tokens: how they look, and what is kept of them."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, NamedTuple

from seamark.server.access import Role

__all__ = ["NewToken", "Token", "hash_of", "is_token", "new_token", "prefix_of"]

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


@dataclass(frozen=True, slots=True)
class Token:
    """Public data of a token, without its secret.

    Attributes:
        id: Its public prefix.
        user: User that it belongs to.
        label: Purpose of the token.
        role: Highest role that it grants, or None for the roles of its user.
        project: Project that it is limited to, with everything in it, or None.
        created_ns: Time of creation; like all times, nanoseconds since the Unix epoch.
        created_by: User who created it.
        expires_ns: Time at which it expires, or None.
        revoked_ns: When it was revoked, or None.
        used_ns: About when it was last used, or None.
        made_with: The limited token that created it, or None; revoking that one revokes it.
    """

    id: str
    user: str
    label: str
    role: Role | None
    project: str | None
    created_ns: int
    created_by: str
    expires_ns: int | None
    revoked_ns: int | None
    used_ns: int | None
    made_with: str | None = None

    def shown(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        role = self.role.name.lower() if self.role else None
        return {**asdict(self), "role": role}

    @classmethod
    def of(cls, row: Any) -> Token:
        """Return the token of a row of its table."""
        values = {field.name: getattr(row, field.name) for field in fields(cls)}
        role = None if row.role is None else Role(row.role)
        return cls(**values | {"role": role})


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
