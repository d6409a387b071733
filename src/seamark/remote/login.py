"""Login to a server: a token is tried and then stored."""

from __future__ import annotations

import getpass
import sys
from dataclasses import dataclass, field
from typing import Any

from seamark.errors import ArgumentError
from seamark.remote.http.address import forget_token, keep_token, known_servers, stored_servers
from seamark.remote.http.connection import Connection
from seamark.remote.protocol import RemoteError

__all__ = ["User", "login", "logout"]


@dataclass(frozen=True, slots=True)
class User:
    """User that a server recognises by a token.

    Attributes:
        server: Address of the server.
        name: Name of the user.
        admin: Whether the user may do everything on the server.
        roles: Role by project path.
    """

    server: str
    name: str
    admin: bool = False
    roles: dict[str, str] = field(default_factory=dict)


def login(url: str | None = None, token: str | None = None, timeout: float = 30.0) -> User:
    """Try a token at a server, and keep it for this user of this machine if it is good.

    It is kept in ``~/.config/seamark/credentials.json``, which nobody else can read, and is shown
    to this one address only.

    Args:
        url: Address of the server, such as ``"https://seamark.lab"``; by default the one that
            SEAMARK_REMOTE names, else the one that a token was kept for.
        token: Of ``seamark token create``; without it, it is asked for at the terminal, and not
            shown.
        timeout: How long the server may take to answer, seconds.

    Returns:
        Who the server takes the token for.

    Raises:
        ArgumentError: If the address or the token cannot be used; also if one of them is left out,
            and no or several servers are known, or there is no terminal.
        RemoteError: If the server cannot be reached or does not know the token.
        OSError: If the token cannot be kept.
    """
    url = _known_server() if url is None else url
    token = (_ask_for_token(url) if token is None else token).strip()
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        msg = "token: expected one word, as `seamark token create` prints it"
        raise ArgumentError(msg)
    connection = Connection(url, token, answer_s=timeout)
    try:
        told: Any = connection.ask("GET", "accounts/me").record()
    finally:
        connection.close()
    name, roles = told.get("name"), told.get("roles")
    if not isinstance(name, str) or not name or not isinstance(roles, dict):
        msg = f"{connection.address} did not name the owner of this token: is it a Seamark server?"
        raise RemoteError(msg)
    address = str(connection.address)
    keep_token(address, token)
    return User(
        address, name, told.get("admin") is True, {str(k): str(v) for k, v in roles.items()}
    )


def _known_server() -> str:
    found = known_servers()
    if len(found) != 1:
        got = f"got several: {', '.join(found)}" if found else "got none"
        msg = f"login: expected url=, or one server in SEAMARK_REMOTE, {got}"
        raise ArgumentError(msg)
    return found[0]


def _ask_for_token(url: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():  # of a notebook and of a job, too
        msg = (
            f"login: expected token= for {url}, got none, and there is no terminal to ask at: "
            "where SEAMARK_API_TOKEN is set, nobody has to log in"
        )
        raise ArgumentError(msg)
    try:
        return getpass.getpass(f"Token for {url}: ")
    except EOFError:
        return ""


def logout(url: str | None = None) -> list[str]:
    """Forget the token of a server, or of all of them; the token itself stays good.

    Args:
        url: Address of the server; by default all.

    Returns:
        Addresses whose token was forgotten.

    Raises:
        ArgumentError: If the address cannot be used.
        OSError: If the file cannot be written.
    """
    from seamark.remote.http.connection import Address

    addresses = stored_servers() if url is None else [str(Address.of(url))]
    return [address for address in addresses if forget_token(address)]
