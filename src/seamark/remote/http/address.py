"""Addresses of servers."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from seamark.errors import ArgumentError

__all__ = ["API", "Address", "is_loopback", "shown"]

API: Final = "/api/v1/"
"""Where a server answers, below its address."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a server.

    Attributes:
        scheme: ``"https"`` or ``"http"``.
        host: Name or IP address, without brackets.
        port: Port number.
        prefix: Path below which the server answers, without a trailing slash; mostly empty.
    """

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def of(cls, uri: str) -> Address:
        """Return the address that a URI names; where the API is below it may stand behind it.

        Raises:
            ArgumentError: If it is not one of ``https``, or of ``http`` on this machine.
        """
        try:
            parts = urlsplit(uri.strip())
            scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        except ValueError as error:
            msg = f"remote: expected the address of a server, got {shown(uri)!r}: {error}"
            raise ArgumentError(msg) from None
        if scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", uri.strip()):
            msg = f"remote: expected an address such as 'https://seamark.lab', got {shown(uri)!r}"
            raise ArgumentError(msg)
        if parts.username is not None or parts.password is not None:
            msg = (
                f"remote: expected an address without a user or a token in it, got {shown(uri)!r}; "
                f"use SEAMARK_API_TOKEN or `seamark login {scheme}://{host}`"
            )
            raise ArgumentError(msg)
        if parts.query or parts.fragment:
            msg = f"remote: expected an address without '?' and '#', got {shown(uri)!r}"
            raise ArgumentError(msg)
        if scheme == "http" and not is_loopback(host):
            msg = (
                f"remote: expected https, got {shown(uri)!r}: over http anybody on the way reads "
                "the token and what is recorded; only a server on this machine may be asked so"
            )
            raise ArgumentError(msg)
        prefix = parts.path.rstrip("/").removesuffix(API.rstrip("/")).rstrip("/")
        return cls(scheme, host, port or (443 if scheme == "https" else 80), prefix)

    def __str__(self) -> str:
        """Return it as a person writes it: without the usual port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{host}{'' if usual else f':{self.port}'}{self.prefix}"


def shown(uri: str) -> str:
    """Return a URI as messages may show it: without what may be a password."""
    return re.sub(r"//[^/@]*@", "//***@", uri)[:200]


def is_loopback(host: str) -> bool:
    """Return whether a name or number of a host is this machine, whatever a name server says."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in ("localhost", "localhost.")
