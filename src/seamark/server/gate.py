"""Checks of every request before it reaches a route, and of every answer before it is sent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from starlette.requests import ClientDisconnect

from seamark.server.failures import Refusal, answer_of, later

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from seamark.server.settings import Limits

__all__ = ["Gate"]


ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""What an answer has unless its route said otherwise.

No other page may read an answer (there is no CORS), show it in a frame or guess its type; a cache
asks each time, and keeps nothing for others.
"""
_log: Final = logging.getLogger("seamark.server")
_CLOSE: Final = {"Connection": "close"}
_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in ALWAYS.items()]
_FIRST_ERROR: Final = 400
_JOURNAL: Final = "/journals/"
_STREAMED: Final = (_JOURNAL, "/blobs/")
"""What is sent there is read by routes that have asked who sends it; all other bodies are JSON, and
read before anybody is asked."""
_NEPTUNE: Final = {
    "/api/leaderboard/v1/operations": 64 << 20,
    "/api/leaderboard/v1/upload/": 9 << 20,
    "/api/artifacts/v1/": 8 << 20,
}
"""What Neptune's client sends there is read as above, and how long it may be, bytes."""
_JSON_IDLES: Final = 2
"""How many times the longest silence a body of JSON may take to arrive."""
_SLOWEST: Final = 1024
"""How slowly a body may arrive after that time, bytes a second."""


class Gate:
    """Limits the cost of requests, and blocks answers of routes that checked no access."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._at_once = 0
        self._waiting = _Waiting(limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:  # a websocket: there are none
                await send({"type": "websocket.close", "code": 1000})
            return
        passage = _Passage(scope, receive, send, self._limits, self._waiting)
        self._at_once += 1
        try:
            if self._at_once > self._limits.at_once:
                passage.refuse_busy()
            passage.check()
            await self._app(scope, passage.receive, passage.send)
        except ClientDisconnect:
            return  # nobody is listening
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered in one form
            await passage.fail(error)
        finally:
            self._at_once -= 1


class _Waiting:
    """The requests whose bodies are on their way, each of which takes a place that others need.

    Nobody can have all of them: who has shown no token is counted by address, of which one has an
    eighth of the places and all together half; who has, by token, of which one has a quarter.
    """

    def __init__(self, places: int) -> None:
        self._strangers: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._half = max(1, places // 2)

    @contextmanager
    def place(self, *, token: str, address: str) -> Iterator[None]:
        known = bool(token)
        waiting, who = (self._tokens, token) if known else (self._strangers, address)
        most = max(1, self._half // (2 if known else 4))
        if waiting[who] >= most or (not known and waiting.total() >= self._half):
            whose = f"with the token {token}…" if known else "from there"
            raise Refusal(
                503,
                "busy",
                f"too many requests {whose} have not arrived whole; send it again",
                headers={**_CLOSE, "Retry-After": "5"},
            )
        waiting[who] += 1
        try:
            yield
        finally:
            waiting[who] -= 1
            if not waiting[who]:
                del waiting[who]


class _Passage:
    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: Limits,
        waiting: _Waiting,
    ) -> None:
        self._scope, self._receive, self._send, self._limits = scope, receive, send, limits
        self._waiting = waiting
        self._state: dict[str, Any] = scope.setdefault("state", {})
        self._most, seconds = limits.json_bytes, min(limits.request_s, _JSON_IDLES * limits.idle_s)
        if scope["method"] == "PUT" and any(each in scope["path"] for each in _STREAMED):
            self._most, seconds = limits.batch_bytes, limits.request_s
            if _JOURNAL in scope["path"]:
                self._most = max(self._most, limits.frame_bytes)
        for begin, most in _NEPTUNE.items():
            if scope["method"] == "POST" and scope["path"].startswith(begin):
                self._most, seconds = most, limits.request_s
        self._got = 0
        self._whole = False
        self._began = time.monotonic()
        self._end = self._began + seconds
        self._started = False
        self._dropped = False

    @staticmethod
    def refuse_busy() -> NoReturn:
        raise later(
            error="busy", hint="the server has too much to do; send the request again", seconds=5
        )

    def check(self) -> None:
        limits = self._limits
        target = len(self._scope.get("raw_path") or b"") + len(self._scope["query_string"])
        if target > limits.target_bytes:
            hint = f"the address has {target} bytes; at most {limits.target_bytes} are taken"
            raise Refusal(414, "too-large", hint, headers=_CLOSE)
        headers = sum(len(name) + len(value) for name, value in self._scope["headers"])
        if headers > limits.header_bytes:
            hint = f"the headers have {headers} bytes; at most {limits.header_bytes} are taken"
            raise Refusal(431, "too-large", hint, headers=_CLOSE)
        for name, value in self._scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:20]) > self._most:
                raise self._too_large()

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()  # only that the client went away can come
        idle_s = self._limits.idle_s
        steadily = self._began + _JSON_IDLES * idle_s + self._got / _SLOWEST
        left = min(idle_s, min(self._end, steadily) - time.monotonic())
        try:
            with self._place():
                message = await asyncio.wait_for(self._receive(), max(0.0, left))
        except asyncio.TimeoutError:
            self._whole = True
            raise Refusal(
                408,
                "too-slow",
                "the rest of the request did not arrive in time; send it again",
                headers=_CLOSE,
            ) from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._got > self._most:
                self._whole = True
                raise self._too_large()
        return message

    @contextmanager
    def _place(self) -> Iterator[None]:
        client, who = self._scope.get("client"), self._state.get("identity")
        token = who.token or who.name if self._state.get("guarded") and who else ""
        try:
            with self._waiting.place(token=token, address=client[0] if client else ""):
                yield
        except Refusal:
            self._whole = True
            raise

    async def send(self, message: Message) -> None:
        if self._dropped:
            return
        if message["type"] == "http.response.start":
            if message["status"] < _FIRST_ERROR and not self._state.get("guarded"):
                self._dropped = True
                _log.error("%s %s has no guard", self._scope["method"], self._scope["path"])
                await self._answer(
                    Refusal(500, "internal", "the server made a mistake; its log has the reason")
                )
                return
            self._started = True
            given = {name.lower() for name, _ in message.get("headers", [])}
            rest = [(name, value) for name, value in _HEADERS if name not in given]
            rest += self._end_of_connection()
            message = {**message, "headers": [*message.get("headers", []), *rest]}
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        if self._started:
            _log.error("%s in the middle of an answer", type(error).__name__, exc_info=error)
            raise error  # the connection is cut, so that the answer does not look whole
        await self._answer(error)

    async def _answer(self, error: Exception) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                rest = [*_HEADERS, *self._end_of_connection()]
                message = {**message, "headers": [*message["headers"], *rest]}
            await self._send(message)

        self._started = True
        await answer_of(error)(self._scope, self._receive, send)

    def _end_of_connection(self) -> list[tuple[bytes, bytes]]:
        # Otherwise all of a body without a stated length would be read to reach the next request.
        # One that states its length was checked before.
        chunked = any(name == b"transfer-encoding" for name, _ in self._scope["headers"])
        return [(b"connection", b"close")] if chunked and not self._whole else []

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            "too-large",
            f"the body is too large: at most {self._most} bytes are taken at a time",
            headers=_CLOSE,
            limit=self._most,
        )
