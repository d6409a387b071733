"""The page on a team's server: the same files, over the routes that the server has anyway.

Who asks shows the token of their account, which the page keeps and sends as clients do.
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
        app: What `seamark.server.app.make_app` made.
    """
    server: Server = app.state.server
    files = PageFiles()

    files.mount(app, _expect_browser)

    @app.get("/{project:path}/e/{run}", include_in_schema=False)
    def run_of(request: Request, project: str, run: str) -> Response:
        # This is where Neptune's client says that a run is. Nobody was asked for a token yet, so
        # that nothing is looked up: a run that is not there leads to a view that says so.
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
