"""ASGI application in front of the page, which reports activity and admits notebooks by ticket.

A notebook is saved with the output of its cells, including the address of a frame, and may be
mailed or published. The address of a frame therefore has no token but a ticket, which opens the
page once, within a minute: ``POST open`` returns one to a caller who has the token, and
``GET open/TICKET`` redirects to the page.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from seamark.page.opening import fragment

if TYPE_CHECKING:
    from seamark.page.watch import Watcher

__all__ = ["TICKET_S", "Entry"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TICKET_S: Final = 60.0
"""How long a ticket opens the page, seconds."""
_MOST: Final = 100
_PLAIN: Final = [
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
]


class Entry:
    """An application before that of the page.

    Args:
        app: The page.
        watcher: Is told that somebody looks: who has the token, if there is one. What strangers ask
            costs no look at the folders.
        token: Of the page; None if it wants none.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive, Send], Awaitable[None]],
        watcher: Watcher,
        token: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._watcher, self._token, self._clock = app, watcher, token, clock
        self._tickets: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            path = scope["path"]
            if "/api/" in path and (self._token is None or self._is_shown(scope)):
                self._watcher.asked()
            if path == "/open" and scope["method"] == "POST":
                return await self._give(scope, send)
            if path.startswith("/open/") and scope["method"] == "GET":
                return await self._take(path.removeprefix("/open/"), send)
        return await self._app(scope, receive, send)

    async def _give(self, scope: Scope, send: Send) -> None:
        if not self._is_shown(scope):
            told = {"error": "no token", "hint": "seamark ui --print-token"}
            return await _answer(send, 401, told)
        now = self._clock()
        self._tickets = {one: end for one, end in self._tickets.items() if end > now}
        while len(self._tickets) >= _MOST:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = now + TICKET_S
        return await _answer(send, 200, {"path": f"open/{ticket}"})

    def _is_shown(self, scope: Scope) -> bool:
        """Return whether a request shows the token; False where there is none."""
        shown = dict(scope["headers"]).get(b"x-seamark-token", b"")
        return self._token is not None and secrets.compare_digest(shown, self._token.encode())

    async def _take(self, ticket: str, send: Send) -> None:
        """Lead to the page: with the token, or where it asks for one."""
        good = self._tickets.pop(ticket, 0.0) > self._clock()
        where = "../" + (fragment(self._token) if good else "")
        headers = [*_PLAIN, (b"location", where.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def _answer(send: Send, status: int, told: dict[str, Any]) -> None:
    body = json.dumps(told).encode()
    headers = [
        *_PLAIN,
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
