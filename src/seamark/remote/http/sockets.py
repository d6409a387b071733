"""Connections whose time limit for sending is not the one for connecting."""

from __future__ import annotations

import socket
from typing import Final

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection

__all__ = ["HttpPool", "HttpsPool"]

STALLED_S: Final = 30.0
"""How long the other side may take nothing of what is sent to it, in seconds."""


class _Http(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _patient(self.sock)


class _Https(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _patient(self.sock)


def _patient(sock: socket.socket | None) -> None:
    if sock is not None:  # else a limit of 5 s would count for each piece on a slow link
        sock.settimeout(STALLED_S)


class HttpPool(HTTPConnectionPool):
    """Connections over http."""

    ConnectionCls = _Http


class HttpsPool(HTTPSConnectionPool):
    """Connections over https."""

    ConnectionCls = _Https
