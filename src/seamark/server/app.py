"""The application: all routes there are, behind the gate."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from seamark import __version__
from seamark.server import failures, reads, routes
from seamark.server.gate import Gate
from seamark.server.guard import asker, open_to_all

if TYPE_CHECKING:
    from seamark.server.state import Server

__all__ = ["BASE", "description", "make_app", "routers"]

BASE: Final = "/api/v1"
_BESIDE: Final = ("seamark.neptune.server", "seamark.page.beside")
"""Answered at addresses of their own, by packages of higher layers, which build on it."""


def make_app(server: Server) -> FastAPI:
    """Return the application that answers for a server.

    Args:
        server: What it stands on; closed when the application ends.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        del app
        anyio.to_thread.current_default_thread_limiter().total_tokens = server.settings.threads
        try:
            yield
        finally:
            await run_in_threadpool(server.close)

    app = FastAPI(
        title="Seamark",
        version=__version__,
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would repeat the Host that a client has made up
        openapi_url=None,  # ours below passes the guard, as everything does
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.server = server
    failures.install(app)
    for router in routers():
        app.include_router(router, prefix=BASE, dependencies=[Depends(asker)])
    app.include_router(description(), prefix=BASE, dependencies=[Depends(asker)])
    app.add_middleware(Gate, limits=server.settings.limits)
    for name in _BESIDE:  # what they put around the gate sees its refusals, too
        import_module(name).mount(app)
    return app


def routers(names: Iterable[str] = ()) -> Iterator[APIRouter]:
    """Yield the routers of some modules of `seamark.server.routes`, or of all, by name."""
    names = names or sorted(found.name for found in pkgutil.iter_modules(routes.__path__))
    # All modules first: some of them add routes to a router that they share.
    for module in [import_module(f"{routes.__name__}.{name}") for name in names]:
        if isinstance(router := getattr(module, "router", None), APIRouter):
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
