"""Address of a server, and the tokens for servers stored on this machine.

Tokens are stored in ``$XDG_CONFIG_HOME/seamark/credentials.json`` (``~/.config`` if that is not
set), which only its owner can read::

    {"servers": {"https://seamark.lab": {"token": "..."}}}
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from seamark.errors import ArgumentError
from seamark.journal.safe import replace_file
from seamark.process.interrupts import quietly

API: Final = "/api/v1/"
"""Path of the API below the address of a server."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server; `prefix` is the path before `API`, without a trailing slash."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def of(cls, uri: str, *, insecure: bool = False) -> Address:
        """Parse the address of a server; the path of the API may follow it.

        `insecure` allows ``http`` to other machines.

        Raises:
            ArgumentError: If it is neither ``https`` nor an ``http`` address of this machine.
        """
        try:
            parts = urlsplit(uri.strip())
            scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        except ValueError as error:
            raise ArgumentError(
                f"remote: expected the address of a server, got {shown(uri)!r}: {error}"
            ) from None
        if scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", uri.strip()):
            raise ArgumentError(
                f"remote: expected an address such as 'https://seamark.lab', got {shown(uri)!r}"
            )
        if parts.username is not None or parts.password is not None:
            raise ArgumentError(
                f"remote: expected an address without a user or a token in it, got {shown(uri)!r}; "
                f"use SEAMARK_API_TOKEN or `seamark login {scheme}://{host}`"
            )
        if parts.query or parts.fragment:
            raise ArgumentError(
                f"remote: expected an address without '?' and '#', got {shown(uri)!r}"
            )
        if scheme == "http" and not insecure and not is_loopback(host):
            raise ArgumentError(
                f"remote: expected https, got {shown(uri)!r}: http sends the token and all data "
                "unencrypted; only a server on this machine may use http"
            )
        return cls(
            scheme,
            host,
            port or (443 if scheme == "https" else 80),
            parts.path.rstrip("/").removesuffix(API.rstrip("/")).rstrip("/"),
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}{self.prefix}"


def shown(uri: str) -> str:
    """Return a URI for messages, without a possible password."""
    return re.sub(r"//[^/@]*@", "//***@", uri)[:200]


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address means this machine, without a DNS lookup."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in ("localhost", "localhost.")


def bind_words(host: str, port: int, error: OSError, taken: str) -> str:
    """Return the message for a port that cannot be bound; ``taken`` is used if it is in use."""
    if error.errno == errno.EADDRINUSE:
        return f"--port {port}: {taken}"
    if error.errno == errno.EACCES:
        return f"--port {port}: this user may not listen there: choose one from 1024 up"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host}: this machine does not have that address"
    return f"cannot listen at {host} port {port}: {error.strerror}"


def credentials_file() -> Path:
    """Return the path of the file with the stored tokens; the file may not exist."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    return Path(base) / "seamark" / "credentials.json"


def token_of(address: str) -> str | None:
    """Return the token for a server; None if there is none. Never raises.

    ``SEAMARK_API_TOKEN`` takes precedence over the token stored for this ``str(Address)``.
    """
    if given := os.environ.get("SEAMARK_API_TOKEN", "").strip():
        return given
    with quietly(only=OSError):
        entry = _read_servers().get(address)
        token = entry.get("token") if isinstance(entry, dict) else None
        return token if isinstance(token, str) and token else None
    return None


def stored_servers() -> list[str]:
    """Return the addresses of the servers with a stored token, sorted."""
    with quietly(only=OSError):
        return sorted(_read_servers())
    return []


def known_server(how: str) -> str:
    """Return the only server in ``SEAMARK_REMOTE``, else the only one with a stored token.

    Raises `ArgumentError` if there is not exactly one; `how` says how to name another one.
    """
    given = [each.strip() for each in os.environ.get("SEAMARK_REMOTE", "").split(",")]
    found = [one for one in given if one.startswith(("https://", "http://"))] or stored_servers()
    if len(found) != 1:
        names = ", ".join(map(shown, found))
        what = f"several servers are known ({names})" if found else "no server is known"
        raise ArgumentError(f"{what}: {how}")
    return found[0]


def keep_token(address: str, token: str) -> None:
    """Store the token of a server under its address, in the form of ``str(Address)``."""
    _write_servers({**_read_servers(), address: {"token": token}})


def forget_token(address: str) -> bool:
    """Delete the stored token of a server; return whether there was one."""
    servers = _read_servers()
    found = servers.pop(address, None) is not None
    if found:
        _write_servers(servers)
    return found


def _read_servers() -> dict[str, Any]:
    with quietly(only=(FileNotFoundError, NotADirectoryError, ValueError)):
        file = credentials_file()
        if stat.S_ISREG(file.stat().st_mode):
            content = json.loads(file.read_bytes())
            servers = content.get("servers") if isinstance(content, dict) else None
            return servers if isinstance(servers, dict) else {}
    return {}


def _write_servers(servers: dict[str, Any]) -> None:
    file = credentials_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(file, json.dumps({"servers": servers}, indent=1), 0o600)
