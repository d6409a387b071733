"""Routes of a team server for the unmodified PyPI package ``neptune``.

What arrives becomes records in a journal of the run (`seamark.neptune.server.log`), and what is
read comes from the folded store. `mount` is called by the server; nothing here is imported before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["mount"]


def mount(app: FastAPI) -> None:
    """Add the routes to the application of a server.

    Args:
        app: What `seamark.server.app.make_app` made.
    """
    from seamark.neptune.server.signing_in import add_routes

    add_routes(app)
