"""Authentication of requests, and the rate limit on failed attempts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from seamark.errors import ArgumentError, SeamarkError
from seamark.server.access import NOBODY, Identity
from seamark.server.accounts.accounts import Accounts
from seamark.server.accounts.tables import Token, hash_of, is_token, prefix_of
from seamark.server.database import BoundedDict
from seamark.server.failures import Refusal, warn_rarely

_NS_PER_S: Final = 1_000_000_000


class Throttle:
    """Rate limit of failures by key: `burst` at once, then one each `every_s`; for `keys` keys."""

    def __init__(self, burst: int, every_s: float, keys: int, now_ns: Callable[[], int]) -> None:
        self._burst, self._every_ns = burst, int(every_s * _NS_PER_S)
        self._now_ns = now_ns
        self._ends_ns = BoundedDict[str, int](keys)  # end of the last failure's effect, by key
        self._lock = threading.Lock()

    def wait_s(self, key: str) -> float:
        """Return the time until the next permitted failure of a key, in seconds; 0 for none."""
        with self._lock:
            debt = self._ends_ns.get(key, 0) - self._now_ns()
        return max(0.0, (debt - (self._burst - 1) * self._every_ns) / _NS_PER_S)

    def failed(self, key: str) -> None:
        """Count a failure."""
        with self._lock:
            now = self._now_ns()
            most = now + self._burst * self._every_ns  # more failures do not extend the wait
            self._ends_ns[key] = min(most, max(now, self._ends_ns.get(key, 0)) + self._every_ns)


AUTH_GROUP: Final = "seamark.auth"
"""Group of entry points for authentication; a setting of the server selects one."""
Authenticator = Callable[[Mapping[str, str], str], Identity | str | None]
"""Function that maps headers (lower-case names) and client address to an identity, a user name, or
None (use the token)."""
_CACHE_S: Final = 2.0
_MAX_ENTRIES: Final = 10_000
_USE_INTERVAL_NS: Final = 300 * _NS_PER_S
"""Minimum age of the stored last use of a token for an update, in nanoseconds."""
_log: Final = logging.getLogger("seamark.server")


class Logins:
    """Authentication of requesters; thread-safe.

    Results are cached for two seconds, so a revocation takes effect within that time. `deciding` is
    a custom authentication, which is tried before tokens. The permitted failures are divided
    between the `processes` of a server, because a common count would need a write for each invalid
    request.
    """

    def __init__(
        self,
        accounts: Accounts,
        deciding: Authenticator | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
        processes: int = 1,
    ) -> None:
        self._accounts, self._deciding = accounts, deciding
        self._now_ns, self._steady_ns = now_ns, steady_ns
        self._lock = threading.Lock()
        self._known = BoundedDict[tuple[str, int], tuple[int, int | None, Identity]](_MAX_ENTRIES)
        each = max(1, processes)
        self._addresses = Throttle(max(1, 20 // each), 3 * each, _MAX_ENTRIES, steady_ns)
        self._prefixes = Throttle(max(1, 10 // each), 6 * each, _MAX_ENTRIES, steady_ns)
        self._next_note_ns = steady_ns()

    def identify(self, headers: Mapping[str, str], address: str) -> Identity:
        """Return the requester or `NOBODY`; refuse an invalid token (401, after many 429)."""
        if (found := self._identify_externally(headers, address)) is not None:
            return found
        secret = _secret(headers)
        if not secret:
            return NOBODY
        key = hash_of(secret), self._accounts.changes
        if (remembered := self._cached(key)) is not None:
            return remembered
        looked_up = self._look_up(secret, address)
        with self._lock:
            self._known[key] = looked_up
        return looked_up[2]

    def again(self, token: str, name: str) -> Identity:
        """Return an earlier requester with current rights; `NOBODY` if the token is not valid."""
        if not token:
            return (self._accounts.by_name(name) if name else None) or NOBODY
        found = self._accounts.by_prefix(token)
        return NOBODY if found is None or self._invalid_reason(*found) else found[1]

    def _cached(self, key: tuple[str, int]) -> Identity | None:
        with self._lock:
            found = self._known.get(key)
        if found is None or self._steady_ns() >= found[0]:
            return None
        return None if found[1] is not None and self._now_ns() >= found[1] else found[2]

    def _look_up(self, secret: str, address: str) -> tuple[int, int | None, Identity]:
        found = self._accounts.by_token(secret) if is_token(secret) else None
        why = "this token is unknown" if found is None else self._invalid_reason(*found)
        if found is None or why:
            self._refuse_guessing(secret, address)
            self._addresses.failed(address)
            self._prefixes.failed(prefix_of(secret))
            # The last word differs for unknown, revoked, expired and disabled tokens.
            warn_rarely(f"bad-token {why.split()[-1]}", "refused (401) from %s: %s", address, why)
            raise Refusal(401, "bad-token", why, headers={"WWW-Authenticate": "Bearer"})
        token, who = found
        self._note_use(token)
        return self._steady_ns() + int(_CACHE_S * _NS_PER_S), token.expires_ns, who

    def _invalid_reason(self, token: Token, who: Identity) -> str:
        if token.revoked_ns is not None:
            return f"the token {token.id}… was revoked"
        if token.expires_ns is not None and self._now_ns() >= token.expires_ns:
            return f"the token {token.id}… has expired"
        return f"the user of the token {token.id}… is disabled" if who == NOBODY else ""

    def _refuse_guessing(self, secret: str, address: str) -> None:
        # Only invalid tokens are delayed. A valid token passes despite failures of other clients
        # with the same address or prefix, so no client can lock out another one. A token cannot be
        # guessed: 208 bits are unknown.
        wait = max(self._addresses.wait_s(address), self._prefixes.wait_s(prefix_of(secret)))
        if wait > 0:
            raise Refusal(
                429,
                "too-many",
                "too many invalid tokens from this address; check the token, and try again later",
                headers={"Retry-After": str(int(wait) + 1)},
            )

    def _note_use(self, token: Token) -> None:
        if abs(self._now_ns() - (token.used_ns or 0)) < _USE_INTERVAL_NS:
            return
        if self._steady_ns() < self._next_note_ns:
            return
        try:
            self._accounts.used(token.id)
        except Exception as error:  # noqa: BLE001 - not essential
            # Each attempt may wait for a lock.
            self._next_note_ns = self._steady_ns() + _USE_INTERVAL_NS
            _log.warning("cannot record the last use of a token: %s", type(error).__name__)

    def _identify_externally(self, headers: Mapping[str, str], address: str) -> Identity | None:
        if self._deciding is None:
            return None
        plain = {name.lower(): value for name, value in headers.items()}
        found = self._deciding(plain, address)
        if not isinstance(found, str):
            return found
        who = self._accounts.by_name(found)
        if who is None:
            raise Refusal(
                401,
                "no-user",
                f"there is no user {found[:80]!r} on this server: ask an admin to add it",
            )
        return who


def load_authentication(name: str) -> Authenticator | None:
    """Load the named entry point of the group ``seamark.auth``; return None for no name."""
    if not name:
        return None
    from importlib.metadata import entry_points

    for point in entry_points(group=AUTH_GROUP, name=name):
        try:
            loaded: Authenticator = point.load()
        except Exception as error:
            raise SeamarkError(f"auth: cannot load {name!r} from {point.value}: {error}") from error
        return loaded
    known = sorted(point.name for point in entry_points(group=AUTH_GROUP)) or ["none"]
    raise ArgumentError(f"auth: no installed package provides {name!r}; found: {', '.join(known)}")


def _secret(headers: Mapping[str, str]) -> str:
    kind, _, rest = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return rest.strip()
    return headers.get("x-seamark-token", "").strip()
