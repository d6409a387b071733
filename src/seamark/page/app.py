"""Application of ``seamark ui``: the files of the page, and the routes of a server for each root.

The token protects the page: without it, a client gets only a greeting and the static files. It is
sent in a custom header, which pages of other sites cannot send, because that needs CORS permission,
which is never given. So there are no cookies, forms or origins to check. Without a token, the name
in ``Host`` must be one of this machine.

A notebook is saved with the output of its cells, including the address of a frame. That address
therefore contains a ticket instead of the token. A ticket opens the page once, within a minute:
``POST open`` with the token returns one, and ``GET open/TICKET`` redirects to the page.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any, Final

import sqlalchemy as sa
from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from seamark import __version__
from seamark.page.files import Marked, PageFiles
from seamark.page.folder import THREADS, TOKEN, Folder, is_token
from seamark.page.opening import fragment
from seamark.page.roots import Root
from seamark.page.watch import Watcher
from seamark.server import failures
from seamark.server.access import Looked
from seamark.server.app import BASE, Gate, new_app
from seamark.server.failures import Refusal, answer_of
from seamark.server.guard import public
from seamark.server.settings import Limits
from seamark.store.database import DamageError

_ROUTES: Final = ("contents", "curves", "edits", "reads", "tables", "views")
"""Modules of `seamark.server.routes` that are also served for folders: reads and edits."""
_ROOT_PATH: Final = re.compile(r"/r(0|[1-9][0-9]{0,3})(/api/v1(?:/.*)?)", re.DOTALL)
_PUBLIC_PATH: Final = re.compile(
    r"/|/api/v1/?|/static/.*|/open/.*|/r[0-9]+/api/v1/linked/.*", re.DOTALL
)
"""Paths that need no token; the last one serves only content with an address signed here."""
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/@]+))(?::[0-9]{1,5})?")
_TICKET_S: Final = 60.0
"""Lifetime of a ticket that opens the page, in seconds."""
_MAX_TICKETS: Final = 100


def make_page(
    roots: Sequence[Root],
    *,
    token: str | None,
    instance: str,
    watch: Watcher,
    hosts: Collection[str] = (),
    embed: bool = False,
    now_ns: Callable[[], int] = time.time_ns,
) -> ASGIApp:
    """Create the application that serves folders of runs.

    Args:
        roots: Folders; the routes of the first are below ``r0/api/v1/``, and so on.
        token: Token required in the header ``X-Seamark-Token``; None for no token, which is for
            loopback addresses only.
        instance: Id of this page, under which a browser stores the token.
        watch: Reader of the folders.
        hosts: Names allowed in ``Host`` besides those of this machine, for a page without a token.
        embed: Whether pages of this machine may embed this one in a frame.
        now_ns: Clock, nanoseconds since the Unix epoch.
    """
    folders = [
        Folder(root.path, watch.lookers[place], place, token, now_ns)
        for place, root in enumerate(roots)
    ]
    files = PageFiles(embed=embed)

    def close() -> None:
        for folder in folders:
            folder.close()

    app = new_app(THREADS, close, _ROUTES)
    for kind in (DamageError, sa.exc.DatabaseError):
        app.add_exception_handler(kind, _handle_damage)
    files.mount(app, public)

    @app.get(f"{BASE}/", include_in_schema=False)
    def greet(request: Request) -> dict[str, Any]:
        public(request)
        known = is_token(request.headers.get(TOKEN, ""), token)
        return {
            "product": "seamark",
            "version": __version__,
            "instance": instance,
            "login": "none" if token is None else "token",
            "page": True,
            "features": ["attempts", "groups", "names"],
            "time_ns": now_ns(),
            "roots": [
                _facts_of(place, root, folder, watch.looked(place), known=known)
                for place, (root, folder) in enumerate(zip(roots, folders, strict=True))
            ],
        }

    tickets = _Tickets(token)
    app.add_api_route("/open", tickets.give, methods=["POST"], include_in_schema=False)
    app.add_api_route("/open/{ticket}", tickets.take, methods=["GET"], include_in_schema=False)
    inner = Gate(_Access(app, folders, token, hosts, watch), Limits())
    return Marked(inner, files, now_ns)


async def _handle_damage(request: Request, error: Exception) -> Response:
    serving = getattr(request.state, "serving", None)
    if isinstance(serving, Folder) and serving.heal(error):
        return answer_of(
            failures.later(
                "database", "the index was damaged and is being rebuilt; repeat the request"
            )
        )
    return answer_of(error)


def _facts_of(
    place: int, root: Root, folder: Folder, looked: Looked, *, known: bool
) -> dict[str, Any]:
    why = folder.read_only
    facts = {
        "name": root.name,
        "path": "",
        "api": f"r{place}{BASE}/",
        "read_only": bool(why),
        "why": "",
    }
    if known:
        cursor = folder.changing.cursor(folder.now_ns())
        facts |= {"path": str(root.path), "why": why, "cursor": cursor, **asdict(looked)}
    return facts


class _Tickets:
    def __init__(self, token: str | None) -> None:
        self._token = token
        self._ends: dict[str, float] = {}

    async def give(self, request: Request) -> dict[str, str]:
        public(request)
        now = time.monotonic()
        ends = [(one, end) for one, end in self._ends.items() if end > now]
        ticket = secrets.token_urlsafe(32)
        self._ends = {**dict(ends[1 - _MAX_TICKETS :]), ticket: now + _TICKET_S}
        return {"path": f"open/{ticket}"}

    async def take(self, request: Request, ticket: str) -> Response:
        public(request)
        good = self._ends.pop(ticket, 0.0) > time.monotonic()
        where = "../" + (fragment(self._token) if good else "")
        return Response(status_code=303, headers={"Location": where, "Cache-Control": "no-store"})


class _Access:
    # Notifies `watch` that the page is viewed, but only for requests with the token, if there is
    # one: untrusted requests cause no reads of folders.

    def __init__(
        self,
        app: ASGIApp,
        folders: Sequence[Folder],
        token: str | None,
        hosts: Collection[str],
        watch: Watcher,
    ) -> None:
        self._app, self._folders, self._token, self._watch = app, folders, token, watch
        self._hosts = {one.lower().rstrip(".") for one in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope = self._route(scope)
            except Refusal as error:
                await answer_of(error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _route(self, scope: Scope) -> Scope:
        path = scope["path"]
        given = _header(scope, TOKEN.encode())
        known = is_token(given, self._token)
        if self._token is None:
            self._expect_host(_header(scope, b"host"))
            if "/api/" in path and _header(scope, b"sec-fetch-site") == "cross-site":
                # It could not read the response, but could start endless searches, for example as
                # images.
                raise Refusal(
                    403, "forbidden", "requests from pages of other sites are not allowed"
                )
        elif not known and not _PUBLIC_PATH.fullmatch(path):
            slug = "bad-token" if given else "token-needed"
            raise Refusal(
                401,
                slug,
                "the token of this page is required: `seamark ui --print-token` prints it",
            )
        if known and "/api/" in path:
            self._watch.note_request()
        found = _ROOT_PATH.fullmatch(path)
        if found is None:
            if path.startswith(BASE) and path != f"{BASE}/":
                raise Refusal(
                    404,
                    "no-address",
                    "the address must name a root, such as r0/api/v1/ for the first",
                )
            return scope
        place = int(found[1])
        if place >= len(self._folders) or found[2] in (BASE, f"{BASE}/"):
            raise Refusal(404, "no-address", "nothing is at this address")
        state = scope.setdefault("state", {})
        state["serving"] = self._folders[place]
        return {**scope, "path": found[2], "raw_path": found[2].encode("utf-8", "replace")}

    def _expect_host(self, given: str) -> None:
        # Without a token, another site could resolve its own name to this address (DNS rebinding)
        # and read responses as if it were this page.
        found = _HOST.fullmatch(given.strip())
        name = "" if found is None else (found[1] or found[2]).lower().rstrip(".")
        if name in self._hosts or name == "localhost" or name.endswith(".localhost"):
            return
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(name).is_loopback:
                return
        raise Refusal(
            400,
            "host",
            "without a token, use a name of this machine, such as localhost",
        )


def _header(scope: Scope, name: bytes) -> str:
    # A repeated header counts as missing.
    found = [value for key, value in scope["headers"] if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""
