"""Process of the server that answers requests or folds journals, and its application.

Only `seamark.server.run` starts this process. It sends the settings as one line of standard input,
which stays open: end of file means that the supervisor has exited.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import pkgutil
import queue
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final

import anyio.to_thread
import h11
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool
from uvicorn.protocols.http.h11_impl import H11Protocol

from seamark import __version__
from seamark.errors import SeamarkError
from seamark.server import failures, reads, routes
from seamark.server.database import DatabaseUnreachable
from seamark.server.gate import Gate
from seamark.server.guard import asker, open_to_all
from seamark.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from seamark.server.state import Server

__all__ = [
    "ANSWERS",
    "BASE",
    "EXIT_FOR_GOOD",
    "make_app",
    "new_app",
    "protocol_for",
    "routers",
]


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


EXIT_FOR_GOOD: Final = 78
"""Starting the same again would be of no use."""
EXIT_LATER: Final = 75
ANSWERS: Final = b"a"
"""What a process that answers tells the supervisor once it does."""
_KEEP_ALIVE_S: Final = 75
_STOP_S: Final = 60
_LOG: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: list[str]) -> int:
    """Run one process, ``answer SOCKET READY`` or ``fold READY`` (descriptors); return its code."""
    logging.basicConfig(format=_LOG, level=logging.INFO)
    for name in ("uvicorn.error", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    settings = Settings.from_json(sys.stdin.readline())
    what, *descriptors = arguments
    try:
        if what == "answer":
            _answer(settings, *map(int, descriptors))
        else:
            _fold(settings, *map(int, descriptors))
    except DatabaseUnreachable as error:
        _print_error(error)
        return EXIT_LATER
    except SeamarkError as error:
        _print_error(error)
        return EXIT_FOR_GOOD
    return 0


def _is_news(record: logging.LogRecord) -> bool:
    return "upgrade request" not in str(record.msg) and "WebSocket" not in str(record.msg)


def _answer(settings: Settings, listening: int, ready: int) -> None:
    import uvicorn

    from seamark.server.state import open_server

    config = uvicorn.Config(
        make_app(open_server(settings)),
        loop="asyncio",
        http=protocol_for(settings.limits.idle_s),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_STOP_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        h11_max_incomplete_event_size=settings.limits.header_bytes + settings.limits.target_bytes,
    )

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            # What is there now stays: nobody who asks waits until it has been looked through.
            gc.collect()
            gc.freeze()
            _announce(ready, ANSWERS)

    server = Announced(config)
    _when_left_alone(lambda: setattr(server, "should_exit", True))
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        # uvicorn hands the signal that ended it on to the process, which has ended well.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        server.run([socket.socket(fileno=listening)])


def _fold(settings: Settings, ready: int) -> None:
    from seamark.server.folding.main import main as fold

    stop = _set_by_signals()
    _when_left_alone(stop.set)
    _announce(ready, b"f")
    fold(settings, stop)


def _set_by_signals() -> threading.Event:
    # A handler runs between any two steps of the main thread, which may be waiting for the event
    # and hold its lock: whoever set it there would wait for themselves for ever. So the handler
    # puts something into a queue, which may be done anywhere, and a thread sets the event.
    stop = threading.Event()
    told: queue.SimpleQueue[int] = queue.SimpleQueue()

    def wait_for_stop() -> None:
        told.get()
        stop.set()

    threading.Thread(target=wait_for_stop, name="seamark-signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: told.put(number))
    return stop


def _when_left_alone(do: Callable[[], Any]) -> None:
    def watch() -> None:
        while os.read(0, 4096):
            pass
        do()

    threading.Thread(target=watch, name="seamark-supervisor", daemon=True).start()


def _announce(ready: int, what: bytes) -> None:
    with contextlib.suppress(OSError):
        os.write(ready, what)
        os.close(ready)


def _print_error(error: Exception) -> None:
    sys.stderr.write(f"seamark server: {error}\n")
