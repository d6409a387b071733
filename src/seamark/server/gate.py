"""What every request passes before a route sees it, and every answer before it is sent."""

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
from seamark.server.headers import ALWAYS

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from seamark.server.settings import Limits

__all__ = ["Gate"]

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


class Gate:
    """Bounds what a request may cost, and lets no answer out that nobody guarded.

    Args:
        app: What answers.
        limits: What one request may cost.
    """

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._at_once = 0
        self._strangers: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:  # a websocket: there are none
                await send({"type": "websocket.close", "code": 1000})
            return
        passage = _Passage(scope, receive, send, self._limits, self._strangers)
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


class _Passage:
    """One request and its answer."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: Limits,
        strangers: Counter[str],
    ) -> None:
        self._scope, self._receive, self._send, self._limits = scope, receive, send, limits
        self._strangers = strangers
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
        self._end = time.monotonic() + seconds
        self._started = False
        self._dropped = False

    @staticmethod
    def refuse_busy() -> NoReturn:
        """Say that there is too much to do."""
        hint = "the server has too much to do; send the request again"
        error = "busy"
        raise later(error, hint, 5)

    def check(self) -> None:
        """Refuse what is too long before any of it is read."""
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
        """Pass on a part of the request; refuse what comes too slowly or is too much."""
        if self._whole:
            return await self._receive()  # only that the client went away can come
        left = min(self._limits.idle_s, self._end - time.monotonic())
        try:
            with self._among_strangers():
                message = await asyncio.wait_for(self._receive(), max(0.0, left))
        except asyncio.TimeoutError:
            self._whole = True
            hint = "the rest of the request did not arrive in time; send it again"
            raise Refusal(408, "too-slow", hint, headers=_CLOSE) from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._got > self._most:
                self._whole = True
                raise self._too_large()
        return message

    @contextmanager
    def _among_strangers(self) -> Iterator[None]:
        """Wait for a part of what somebody sends who was not asked yet who they are.

        Who waits so takes a place that others need: one address has some of them, and all together
        half, so that requests with a token are answered whatever nobody sends slowly.

        Raises:
            Refusal: 503 if too many wait.
        """
        if self._state.get("guarded"):
            yield
            return
        client, waiting = self._scope.get("client"), self._strangers
        address = client[0] if client else ""
        most = max(1, self._limits.at_once // 2)
        if waiting.total() >= most or waiting[address] >= max(1, most // 4):
            self._whole = True
            hint = "too many requests from there have not arrived whole; send it again"
            raise Refusal(503, "busy", hint, headers={**_CLOSE, "Retry-After": "5"})
        waiting[address] += 1
        try:
            yield
        finally:
            waiting[address] -= 1
            if not waiting[address]:
                del waiting[address]

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer; none that is a success and that nobody guarded."""
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
            message = {**message, "headers": [*message.get("headers", []), *rest]}
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        """Answer an error that nobody answered, if there is still a way to."""
        if self._started:
            _log.error("%s in the middle of an answer", type(error).__name__, exc_info=error)
            raise error  # the connection is cut, so that the answer does not look whole
        await self._answer(error)

    async def _answer(self, error: Exception) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await self._send(message)

        self._started = True
        await answer_of(error)(self._scope, self._receive, send)

    def _too_large(self) -> Refusal:
        hint = f"the body is too large: at most {self._most} bytes are taken at a time"
        return Refusal(413, "too-large", hint, headers=_CLOSE, limit=self._most)
