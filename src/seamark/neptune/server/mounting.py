"""All routes for the client, in the application of a server."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from fastapi import Depends

from seamark.neptune.server.answers import asker
from seamark.neptune.server.log import Logs
from seamark.neptune.server.signing_in import open_router

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["add_routes"]

_MODULES: Final = (
    "signing_in",
    "containers",
    "trash",
    "series",
    "files",
    "tracked",
    "table",
    "management",
)


def add_routes(app: FastAPI) -> None:
    """Add them; who asks is found out before any of them."""
    app.state.neptune_logs = Logs(app.state.server)
    app.include_router(open_router)
    for name in _MODULES:
        module = import_module(f"seamark.neptune.server.{name}")
        app.include_router(module.router, dependencies=[Depends(asker)])
