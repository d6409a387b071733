"""Application of a server: its routes behind the gate, and the connections that it accepts."""

from __future__ import annotations

import asyncio
import json
import pkgutil
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Final

import anyio.to_thread
import h11
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from uvicorn.protocols.http.h11_impl import H11Protocol

from seamark import __version__
from seamark.server import failures, reads, routes
from seamark.server.gate import Gate
from seamark.server.guard import asker, open_to_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.server.state import Server


__all__ = ["BASE", "description", "make_app", "new_app", "protocol_for", "routers"]

_SLOWEST: Final = 1024
"""How slowly an answer may be read while the server waits, bytes a second."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with time limits for headers, and for clients that do not read.

    uvicorn does not limit the time before the first request, nor the time for reading an answer, so
    idle clients could hold connections for ever.
    """

    headers_s: ClassVar[float] = 30.0
    """How long the headers of a request may take to arrive, and an answer rest unread, seconds."""
    _late: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the client."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None and self.conn.trailing_data[0]:  # the beginning of a next request
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the connection."""
        self._stop()
        self._read_again()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the time limit for a client that does not read its answer."""
        super().pause_writing()
        self._read_again()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """Stop the time limit: the client reads again."""
        self._read_again()
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._slow = self.loop.call_later(self.headers_s, self._look_at_reader)

    def _look_at_reader(self) -> None:
        self._slow = None
        read = self._unread - self.transport.get_write_buffer_size()
        if read < _SLOWEST * self.headers_s:
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
    """Return the protocol with the time that headers may take, seconds."""
    return type("Protocol", (PatientProtocol,), {"headers_s": seconds})


BASE: Final = "/api/v1"


_BESIDE: Final = ("seamark.neptune.server", "seamark.page.beside")
"""Answered at addresses of their own, by packages of higher layers, which build on it."""


def make_app(server: Server) -> FastAPI:
    """Return the application that answers for a server, which is closed when it ends."""
    app = new_app(server.settings.threads, server.close)
    app.state.server = server
    app.add_middleware(Gate, limits=server.settings.limits)
    for name in _BESIDE:  # what they put around the gate sees its refusals, too
        import_module(name).mount(app)
    return app


def new_app(threads: int, close: Callable[[], object], names: Iterable[str] = ()) -> FastAPI:
    """Return an application with the routes of some modules (see `routers`) and nothing around.

    It answers with so many ``threads``, and calls ``close`` when it ends.
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
        redirect_slashes=False,  # a redirect would repeat the Host that a client has made up
        openapi_url=None,  # ours below passes the guard, as everything does
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    failures.install(app)
    for router in (*routers(names), description()):
        app.include_router(router, prefix=BASE, dependencies=[Depends(asker)])
    return app


def routers(names: Iterable[str] = ()) -> Iterator[APIRouter]:
    """Yield the routers of some modules of `seamark.server.routes`, or all those of a server."""
    kinds = ("router",) if names else ("router", "server_router")
    names = names or sorted(found.name for found in pkgutil.iter_modules(routes.__path__))
    # All modules first: some of them add routes to a router that they share.
    for module in [import_module(f"{routes.__name__}.{name}") for name in names]:
        for kind in kinds:
            if isinstance(router := getattr(module, kind, None), APIRouter):
                yield router


def description() -> APIRouter:
    """Return the route that describes all others of its application."""
    router = APIRouter(tags=["server"])

    @router.get("/openapi.json", include_in_schema=False)
    def describe(request: Request) -> Response:
        open_to_all(request)
        state = request.app.state
        if getattr(state, "description", None) is None:  # two threads would make the same
            described = request.app.openapi()
            reads.describe(described)
            state.description = json.dumps(described, separators=(",", ":")).encode()
        return Response(state.description, media_type="application/json")

    return router
