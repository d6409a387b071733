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
from typing import TYPE_CHECKING, Any, ClassVar, Final

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
_CLOSE_HEADER: Final = {"Connection": "close"}
_HEADERS: Final = [(name.lower().encode(), value.encode()) for name, value in ALWAYS.items()]
_FIRST_ERROR: Final = 400
_JOURNAL_PATH: Final = "/journals/"
_STREAMED_PATHS: Final = (_JOURNAL_PATH, "/blobs/")
"""Parts of paths whose bodies routes read after authentication; other bodies are read first."""
_NEPTUNE_BYTES: Final = {
    "/api/leaderboard/v1/operations": 64 << 20,
    "/api/leaderboard/v1/upload/": 9 << 20,
    "/api/artifacts/v1/": 8 << 20,
}
"""Prefixes of paths of Neptune's client that are read in the same way, with maximum body sizes in
bytes."""
_MAX_IDLES: Final = 2
"""Time limit for a JSON body, as a multiple of the maximum pause."""
_MIN_BYTES_PER_S: Final = 1024
"""Minimum speed of a body after that time, and of reading an answer, in bytes per second."""


class Gate:
    """Limits the cost of requests, and blocks answers of routes that checked no access."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits
        self._at_once = 0
        self._arrivals = _ArrivalLimit(limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:  # websockets are not supported
                await send({"type": "websocket.close", "code": 1000})
            return
        exchange = _Exchange(scope, receive, send, self._limits, self._arrivals)
        self._at_once += 1
        try:
            exchange.check(self._at_once)
            await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            return  # the client has disconnected
        except Exception as error:  # noqa: BLE001 - all errors have one format
            await exchange.fail(error)
        finally:
            self._at_once -= 1


class _ArrivalLimit:
    """Limits the number of requests whose bodies are still arriving.

    No client can occupy all places. Without a token, an address may have an eighth of the places,
    and all addresses together half. A token may have a quarter.
    """

    def __init__(self, places: int) -> None:
        self._by_address: Counter[str] = Counter()
        self._by_token: Counter[str] = Counter()
        self._half_places = max(1, places // 2)

    @contextmanager
    def place(self, *, token: str, address: str) -> Iterator[None]:
        has_token = bool(token)
        waiting, who = (self._by_token, token) if has_token else (self._by_address, address)
        most = max(1, self._half_places // (2 if has_token else 4))
        if waiting[who] >= most or (not has_token and waiting.total() >= self._half_places):
            sender = f"with the token {token}…" if has_token else "from this address"
            raise Refusal(
                503,
                "busy",
                f"too many incomplete requests {sender}; send the request again",
                headers={**_CLOSE_HEADER, "Retry-After": "5"},
            )
        waiting[who] += 1
        try:
            yield
        finally:
            waiting[who] -= 1
            if not waiting[who]:
                del waiting[who]


class _Exchange:
    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limits: Limits,
        waiting: _ArrivalLimit,
    ) -> None:
        self._scope, self._receive, self._send, self._limits = scope, receive, send, limits
        self._arrivals = waiting
        self._state: dict[str, Any] = scope.setdefault("state", {})
        self._max_bytes, seconds = (
            limits.json_bytes,
            min(limits.request_s, _MAX_IDLES * limits.idle_s),
        )
        if scope["method"] == "PUT" and any(each in scope["path"] for each in _STREAMED_PATHS):
            self._max_bytes, seconds = limits.batch_bytes, limits.request_s
            if _JOURNAL_PATH in scope["path"]:
                self._max_bytes = max(self._max_bytes, limits.frame_bytes)
        for begin, most in _NEPTUNE_BYTES.items():
            if scope["method"] == "POST" and scope["path"].startswith(begin):
                self._max_bytes, seconds = most, limits.request_s
        self._received = 0
        self._complete = False
        self._started_s = time.monotonic()
        self._deadline_s = self._started_s + seconds
        self._response_started = False
        self._dropped = False

    def check(self, at_once: int) -> None:
        limits = self._limits
        if at_once > limits.at_once:
            raise later("busy", "the server is overloaded; send the request again", seconds=5)
        target = len(self._scope.get("raw_path") or b"") + len(self._scope["query_string"])
        if target > limits.target_bytes:
            hint = f"the address has {target} bytes, at most {limits.target_bytes} are accepted"
            raise Refusal(414, "too-large", hint, headers=_CLOSE_HEADER)
        headers = sum(len(name) + len(value) for name, value in self._scope["headers"])
        if headers > limits.header_bytes:
            hint = f"the headers have {headers} bytes, at most {limits.header_bytes} are accepted"
            raise Refusal(431, "too-large", hint, headers=_CLOSE_HEADER)
        for name, value in self._scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value[:20]) > self._max_bytes:
                raise self._too_large()

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # the only possible message is a disconnect
        idle_s = self._limits.idle_s
        speed_limit = self._started_s + _MAX_IDLES * idle_s + self._received / _MIN_BYTES_PER_S
        left = min(idle_s, min(self._deadline_s, speed_limit) - time.monotonic())
        try:
            with self._arriving():
                message = await asyncio.wait_for(self._receive(), max(0.0, left))
        except asyncio.TimeoutError:
            self._complete = True
            raise Refusal(
                408,
                "too-slow",
                "the request did not arrive completely in time; send it again",
                headers=_CLOSE_HEADER,
            ) from None
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self._received > self._max_bytes:
                self._complete = True
                raise self._too_large()
        return message

    @contextmanager
    def _arriving(self) -> Iterator[None]:
        client, who = self._scope.get("client"), self._state.get("identity")
        token = who.token or who.name if self._state.get("guarded") and who else ""
        try:
            with self._arrivals.place(token=token, address=client[0] if client else ""):
                yield
        except Refusal:
            self._complete = True
            raise

    async def send(self, message: Message) -> None:
        if self._dropped:
            return
        if message["type"] == "http.response.start":
            if message["status"] < _FIRST_ERROR and not self._state.get("guarded"):
                self._dropped = True
                _log.error("%s %s is not guarded", self._scope["method"], self._scope["path"])
                await self._answer(
                    Refusal(500, "internal", "internal error; the log of the server has the reason")
                )
                return
            self._response_started = True
            given = {name.lower() for name, _ in message.get("headers", [])}
            rest = [(name, value) for name, value in _HEADERS if name not in given]
            rest += self._closing_headers()
            message = {**message, "headers": [*message.get("headers", []), *rest]}
        await self._send(message)

    async def fail(self, error: Exception) -> None:
        if self._response_started:
            _log.error("%s while sending a response", type(error).__name__, exc_info=error)
            raise error  # closes the connection, so that the answer does not look complete
        await self._answer(error)

    async def _answer(self, error: Exception) -> None:
        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                rest = [*_HEADERS, *self._closing_headers()]
                message = {**message, "headers": [*message["headers"], *rest]}
            await self._send(message)

        self._response_started = True
        await answer_of(error)(self._scope, self._receive, send)

    def _closing_headers(self) -> list[tuple[bytes, bytes]]:
        # Otherwise a body of unknown length would be read to its end to reach the next request. A
        # declared length was checked before.
        chunked = any(name == b"transfer-encoding" for name, _ in self._scope["headers"])
        return [(b"connection", b"close")] if chunked and not self._complete else []

    def _too_large(self) -> Refusal:
        return Refusal(
            413,
            "too-large",
            f"the body is too large: at most {self._max_bytes} bytes are accepted",
            headers=_CLOSE_HEADER,
            limit=self._max_bytes,
        )


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with time limits for headers, and for clients that do not read.

    uvicorn does not limit the time before the first request, nor the time for reading an answer, so
    idle clients could hold connections for ever.
    """

    headers_s: ClassVar[float] = 30.0
    """Time limit for the headers of a request, and for an unread answer, in seconds."""
    _headers_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None
    _unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self._start_headers_timer()

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the client."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_headers_timer()
        elif self._headers_timer is None and self.conn.trailing_data[0]:  # start of a request
            self._start_headers_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits of the connection."""
        self._stop_headers_timer()
        self._stop_reader_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read its answer."""
        super().pause_writing()
        self._stop_reader_timer()
        self._start_reader_timer()

    def resume_writing(self) -> None:
        """Stop the time limit for reading, as the client reads again."""
        self._stop_reader_timer()
        super().resume_writing()

    def _start_reader_timer(self) -> None:
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._reader_timer = self.loop.call_later(self.headers_s, self._check_reader)

    def _check_reader(self) -> None:
        self._reader_timer = None
        read = self._unread_bytes - self.transport.get_write_buffer_size()
        if read < _MIN_BYTES_PER_S * self.headers_s:
            self.transport.abort()
        else:
            self._start_reader_timer()

    def _stop_reader_timer(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _start_headers_timer(self) -> None:
        self._headers_timer = self.loop.call_later(self.headers_s, self._close_idle)

    def _stop_headers_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None

    def _close_idle(self) -> None:
        self._headers_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


def protocol_for(seconds: float) -> type[PatientProtocol]:
    """Return the protocol with a time limit for headers, in seconds."""
    return type("Protocol", (PatientProtocol,), {"headers_s": seconds})


BASE: Final = "/api/v1"
_EXTENSIONS: Final = ("seamark.neptune.server", "seamark.page.server")
"""Packages of higher layers that add their own routes."""


def make_app(server: Server) -> FastAPI:
    """Return the application of a server; its shutdown closes the server."""
    app = new_app(server.settings.threads, server.close)
    app.state.server = server
    app.add_middleware(Gate, limits=server.settings.limits)
    for name in _EXTENSIONS:  # their middleware around the gate sees its refusals, too
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
    """Return the router with the description of an application's API."""
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
