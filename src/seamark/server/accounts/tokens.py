"""Form of tokens, and the parts of them that are stored."""

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
    """A token that was just made; its secret is never shown again.

    `hash` is the SHA-256 of the whole, hex: it has 256 random bits, so nothing slower is needed.
    """

    secret: str
    prefix: str
    hash: str


@dataclass(frozen=True, slots=True)
class Token:
    """Public data of a token, without its secret; times are in nanoseconds since the Unix epoch.

    `id` is its public prefix. `role` is the highest role that it grants, `project` what it is
    limited to with everything in it; None for no limit. `used_ns` is approximate. Revoking
    `made_with`, the limited token that created it, revokes it, too.
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
