"""The page on a team server: the same files, using the existing routes of the server.

A user enters the token of their account, which the page stores and sends as clients do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from seamark.errors import PathError
from seamark.page.files import Marked, PageFiles
from seamark.paths import check_name, check_project
from seamark.server.guard import public

if TYPE_CHECKING:
    from seamark.server.state import Server


def mount(app: FastAPI) -> None:
    """Add the page to the application of a server.

    Args:
        app: Application created by `seamark.server.app.make_app`.
    """
    server: Server = app.state.server
    files = PageFiles()

    files.mount(app, _expect_browser)

    @app.get("/{project:path}/e/{run}", include_in_schema=False)
    def run_of(request: Request, project: str, run: str) -> Response:
        # Neptune's client prints this address of a run. No token was requested yet, so nothing is
        # looked up: a missing run redirects to a view with an error message.
        _expect_browser(request)
        try:
            view = {"project": check_project(project), "run": check_name(run, "run id")}
        except PathError:
            raise HTTPException(404) from None
        up = "../" * (project.count("/") + 2)
        return Response(status_code=303, headers={"Location": f"{up}?{urlencode(view)}"})

    app.add_middleware(Marked, files=files, now_ns=server.now_ns)


def _expect_browser(request: Request) -> None:
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    public(request)
