"""Greeting of a server: versions, limits and time, without authentication."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from seamark import __version__
from seamark.server.guard import open_to_all, server_of
from seamark.server.settings import API_VERSION, JOURNAL_VERSION

router = APIRouter(tags=["server"])


@router.get("/")
def greet(request: Request) -> dict[str, Any]:
    """Return versions, limits and the time of the server; needs no token.

    ``time_ns`` is in nanoseconds since the Unix epoch.
    """
    open_to_all(request)
    server = server_of(request)
    return {
        "seamark": __version__,
        "instance": server.instance,
        "api": API_VERSION,
        "journal": list(JOURNAL_VERSION),
        "time_ns": server.now_ns(),
        "limits": asdict(server.settings.limits),
        "login": "account",
        "product": "seamark",
        "version": __version__,
        "page": True,
        "features": ["attempts", "groups", "names"],
        "roots": [{"name": "", "path": "", "api": "api/v1/", "read_only": False, "why": ""}],
    }
