"""Login to a server: verification and storage of a token."""

from __future__ import annotations

import getpass
import sys
from dataclasses import dataclass, field
from typing import Any

from seamark.errors import ArgumentError
from seamark.remote.http.address import forget_token, keep_token, known_server, stored_servers
from seamark.remote.http.connection import Connection
from seamark.remote.protocol import RemoteError


@dataclass(frozen=True, slots=True)
class User:
    """User to whom a token belongs on a server.

    Attributes:
        server: Address of the server.
        name: Name of the user.
        admin: Whether the user is an administrator of the server.
        roles: Role by project path.
    """

    server: str
    name: str
    admin: bool = False
    roles: dict[str, str] = field(default_factory=dict)


def login(url: str | None = None, token: str | None = None, timeout: float = 30.0) -> User:
    """Verify a token with a server, and store it for the current user of this machine.

    It is stored in ``~/.config/seamark/credentials.json``, which only the current user can read,
    and is sent to this address only.

    Args:
        url: Address of the server, such as ``"https://seamark.lab"``; by default the server in
            SEAMARK_REMOTE, else the only server with a stored token.
        token: Token made by ``seamark token create``; by default, the terminal prompts for it
            without echo.
        timeout: Time limit for the answer of the server, in seconds.

    Returns:
        The user to whom the token belongs.

    Raises:
        ArgumentError: If the address or the token is invalid. Also if the address is left out and
            not exactly one server is known, or the token is left out and there is no terminal.
        RemoteError: If the server cannot be reached or rejects the token.
        OSError: If the token cannot be stored.
    """
    if url is None:
        url = known_server("name one with url=, or in SEAMARK_REMOTE")
    token = (_ask_for_token(url) if token is None else token).strip()
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise ArgumentError("token: expected one word, as `seamark token create` prints it")
    connection = Connection(url, token, answer_s=timeout)
    try:
        answer: Any = connection.ask("GET", "accounts/me").record()
    finally:
        connection.close()
    name, roles = answer.get("name"), answer.get("roles")
    if not isinstance(name, str) or not name or not isinstance(roles, dict):
        raise RemoteError(
            f"{connection.address} returned no user for this token: is it a Seamark server?"
        )
    address = str(connection.address)
    keep_token(address, token)
    return User(
        address, name, answer.get("admin") is True, {str(k): str(v) for k, v in roles.items()}
    )


def _ask_for_token(url: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():  # as in notebooks and jobs
        raise ArgumentError(
            f"login: expected token= for {url}, got none, and there is no terminal for a prompt; "
            "if SEAMARK_API_TOKEN is set, no login is needed"
        )
    try:
        return getpass.getpass(f"Token for {url}: ")
    except EOFError:
        return ""


def logout(url: str | None = None) -> list[str]:
    """Delete the stored token of one server or of all servers; the token stays valid.

    Args:
        url: Address of the server; by default all servers.

    Returns:
        Addresses of the servers whose token was deleted.

    Raises:
        ArgumentError: If the address is invalid.
        OSError: If the file cannot be written.
    """
    from seamark.remote.http.connection import Address

    addresses = stored_servers() if url is None else [str(Address.of(url))]
    return [address for address in addresses if forget_token(address)]
