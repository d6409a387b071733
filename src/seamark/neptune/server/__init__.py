"""Routes of a team server for the unmodified PyPI package ``neptune``.

Received data becomes records in a journal of the run (`seamark.neptune.server.log`). Reads use the
folded store. The server calls `mount`; nothing here is imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def mount(app: FastAPI) -> None:
    """Add the routes to the application of a server; each authenticates the requester first.

    Args:
        app: Application made by `seamark.server.app.make_app`.
    """
    from fastapi import Depends

    from seamark.neptune.server import (
        artifacts,
        containers,
        files,
        login,
        management,
        series,
        table,
    )
    from seamark.neptune.server.answers import asker
    from seamark.neptune.server.log import Logs

    app.state.neptune_logs = Logs(app.state.server)
    app.include_router(login.open_router)
    for each in (login, containers, series, files, artifacts, table, management):
        app.include_router(each.router, dependencies=[Depends(asker)])
