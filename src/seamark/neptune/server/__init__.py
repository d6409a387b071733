"""Routes of a team server for the unmodified PyPI package ``neptune``.

Received data becomes records in a journal of the run (`seamark.neptune.server.log`). Reads use the
folded store. The server calls `mount`; nothing here is imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def mount(app: FastAPI) -> None:
    """Add the routes to the application of a server.

    Args:
        app: Application made by `seamark.server.app.make_app`.
    """
    from seamark.neptune.server.signing_in import add_routes

    add_routes(app)
