"""Application of a server: its routes, and the gate for all requests and answers."""

from __future__ import annotations

import asyncio
import json
import logging
import pkgutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

import anyio.to_thread
import h11
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from seamark import __version__
from seamark.server import failures, reads, routes
from seamark.server.failures import Refusal, answer_of, later
from seamark.server.guard import asker, open_to_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from seamark.server.settings import Limits
    from seamark.server.state import Server

__all__ = ["BASE", "Gate", "description", "make_app", "new_app", "protocol_for", "routers"]


ALWAYS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""Default headers of an answer; a route may override them.

Other origins may not read an answer (there is no CORS), frame it or guess its type; caches must
revalidate each time, and shared caches store nothing.
"""
_log: Final = logging.getLogger("seamark.server")
_CLOSE: Final = {"Connection": "close"}
_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in ALWAYS.items()]
_FIRST_ERROR: Final = 400
_JOURNAL: Final = "/journals/"
_STREAMED: Final = (_JOURNAL, "/blobs/")
"""Parts of paths whose bodies routes read after authentication; other bodies are read first."""
_NEPTUNE: Final = {
    "/api/leaderboard/v1/operations": 64 << 20,
    "/api/leaderboard/v1/upload/": 9 << 20,
    "/api/artifacts/v1/": 8 << 20,
}
"""Prefixes of paths of Neptune's client that are read in the same way, with maximum body sizes in
bytes."""
_JSON_IDLES: Final = 2
"""Time limit for a JSON body, as a multiple of the maximum pause."""
_MIN_BYTES_PER_S: Final = 1024
"""Minimum speed of a body after that time, and of reading an answer, in bytes per second."""


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
            else:  # websockets are not supported
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
            return  # the client has disconnected
        except Exception as error:  # noqa: BLE001 - whatever it is, it is answered in one form
            await passage.fail(error)
        finally:
            self._at_once -= 1


class _Waiting:
    """Limits the number of requests whose bodies are still arriving.

    No client can occupy all places. Without a token, an address may have an eighth of the places,
    and all addresses together half. A token may have a quarter.
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
            return await self._receive()  # the only possible message is a disconnect
        idle_s = self._limits.idle_s
        steadily = self._began + _JSON_IDLES * idle_s + self._got / _MIN_BYTES_PER_S
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
            raise error  # closes the connection, so that the answer does not look complete
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
        # Otherwise a body of unknown length would be read to its end to reach the next request. A
        # declared length was checked before.
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


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with time limits for headers, and for clients that do not read.

    uvicorn does not limit the time before the first request, nor the time for reading an answer, so
    idle clients could hold connections for ever.
    """

    headers_s: ClassVar[float] = 30.0
    """Time limit for the headers of a request, and for an unread answer, in seconds."""
    _late: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the client."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None and self.conn.trailing_data[0]:  # the start of another request
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits of the connection."""
        self._stop()
        self._read_again()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read its answer."""
        super().pause_writing()
        self._read_again()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Stop the time limit for reading, as the client reads again."""
        self._read_again()
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._slow = self.loop.call_later(self.headers_s, self._look_at_reader)

    def _look_at_reader(self) -> None:
        self._slow = None
        read = self._unread - self.transport.get_write_buffer_size()
        if read < _MIN_BYTES_PER_S * self.headers_s:
            self.transport.abort()
        else:
            self._wait_for_reader()

    def _read_again(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.headers_s, self._give_up)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def protocol_for(seconds: float) -> type[PatientProtocol]:
    """Return the protocol with a time limit for headers, in seconds."""
    return type("Protocol", (PatientProtocol,), {"headers_s": seconds})


BASE: Final = "/api/v1"
_BESIDE: Final = ("seamark.neptune.server", "seamark.page.beside")
"""Packages of higher layers that add their own routes."""


def make_app(server: Server) -> FastAPI:
    """Return the application of a server; its shutdown closes the server."""
    app = new_app(server.settings.threads, server.close)
    app.state.server = server
    app.add_middleware(Gate, limits=server.settings.limits)
    for name in _BESIDE:  # their middleware around the gate sees its refusals, too
        import_module(name).mount(app)
    return app


def new_app(threads: int, close: Callable[[], object], names: Iterable[str] = ()) -> FastAPI:
    """Return an application with the routes of some modules (see `routers`), without middleware.

    It answers with up to ``threads`` threads, and calls ``close`` at shutdown.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        anyio.to_thread.current_default_thread_limiter().total_tokens = threads
        try:
            yield
        finally:
            await run_in_threadpool(close)

    app = FastAPI(
        title="Seamark",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would repeat an invented Host header
        openapi_url=None,  # served by the guarded route below
        docs_url=None,  # these pages load scripts from other hosts
        redoc_url=None,
    )
    failures.install(app)
    for router in (*routers(names), description()):
        app.include_router(router, prefix=BASE, dependencies=[Depends(asker)])
    return app


def routers(names: Iterable[str] = ()) -> Iterator[APIRouter]:
    """Yield the routers of the named modules in `seamark.server.routes` (default: all modules)."""
    kinds = ("router",) if names else ("router", "server_router")
    names = names or sorted(found.name for found in pkgutil.iter_modules(routes.__path__))
    # Import all modules first, as some add routes to a shared router.
    for module in [import_module(f"{routes.__name__}.{name}") for name in names]:
        for kind in kinds:
            if isinstance(router := getattr(module, kind, None), APIRouter):
                yield router


def description() -> APIRouter:
    """Return the router whose route describes the API of its application."""
    router = APIRouter(tags=["server"])

    @router.get("/openapi.json", include_in_schema=False)
    def describe(request: Request) -> Response:
        open_to_all(request)
        state = request.app.state
        # No lock: two threads would create the same description.
        if getattr(state, "description", None) is None:
            described = request.app.openapi()
            reads.describe(described)
            state.description = json.dumps(described, separators=(",", ":")).encode()
        return Response(state.description, media_type="application/json")

    return router
