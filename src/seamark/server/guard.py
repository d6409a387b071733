"""Checks of the identity and role of a requester; every route must call one.

A request is *guarded* once one of `expect`, `expect_admin` and `open_to_all` was called for it. A
successful response to an unguarded request is never sent (`seamark.server.app`). So a route without
a check fails in its first test, and not in production.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import Depends, Request
from fastapi.security import APIKeyHeader, HTTPBearer
from pydantic import BaseModel, ConfigDict

from seamark.errors import PathError
from seamark.paths import check_scope
from seamark.server.access import NOBODY, Identity, Role
from seamark.server.failures import Refusal

if TYPE_CHECKING:
    from seamark.server.access import Serving
    from seamark.server.state import Server


_bearer = HTTPBearer(auto_error=False, description="A token of `seamark token create`.")
_token_header = APIKeyHeader(
    name="X-Seamark-Token",
    auto_error=False,
    description="The same token, if a proxy uses the other header.",
)
_TOKEN_NEEDED = "a token is required (Authorization: Bearer ...)"  # noqa: S105 - a message


class Body(BaseModel):
    """Body of a request; unknown members are refused."""

    model_config = ConfigDict(extra="forbid")


def server_of(request: Request) -> Server:
    """Return the server that handles a request."""
    return cast("Server", request.app.state.server)


def serving_of(request: Request) -> Serving:
    """Return the provider of the runs of a request: the server, or one of the page's folders."""
    found = getattr(request.state, "serving", None)
    return cast("Serving", request.app.state.server if found is None else found)


def asker(
    request: Request,
    bearer: Annotated[object, Depends(_bearer)] = None,
    header: Annotated[object, Depends(_token_header)] = None,
) -> Identity:
    """Return the identity behind the token of a request; `NOBODY` without a token.

    Only the first call for a request reads the database. An unknown, expired or revoked token is
    refused with 401, and with 429 after many invalid tokens.
    """
    del bearer, header  # parameters of the API description; the headers are read below
    known = getattr(request.state, "identity", None)
    if known is None:
        known = serving_of(request).logins.identify(request.headers, address_of(request))
        request.state.identity = known
    return cast("Identity", known)


def expect(request: Request, project: str, role: Role) -> Identity:
    """Require at least a role in a project; return the identity of the requester.

    May read the database: call it from a thread (a plain ``def`` route, or ``run_in_threadpool``).

    Raises:
        Refusal: 401 if a token is needed, 404 if the project's existence is hidden from the
            requester (or its name is invalid), 403 if the role is too low.
    """
    who = open_to_all(request)
    try:
        check_scope(project)
    except PathError as error:
        raise _unknown_project(project) from error
    found = serving_of(request).accounts.role(who, project)
    if found is not None and found >= role:
        return who
    if who == NOBODY:
        expect_somebody(request)
    if found is None:
        raise _unknown_project(project)
    raise Refusal(
        403,
        "role-too-small",
        (
            f"the role {role.name.lower()} is required in {project}, "
            f"and this token has {found.name.lower()}"
        ),
    )


def expect_admin(request: Request) -> Identity:
    """Require an admin of the whole server; refuse other requesters with 401 or 403."""
    who = expect_somebody(request)
    if not who.admin:
        raise Refusal(403, "admins-only", "only an admin of the server may do this")
    return who


def expect_somebody(request: Request) -> Identity:
    """Require a token; for routes that return only data of the token's user."""
    who = open_to_all(request)
    if who == NOBODY:
        raise Refusal(401, "token-needed", _TOKEN_NEEDED, headers={"WWW-Authenticate": "Bearer"})
    return who


def open_to_all(request: Request) -> Identity:
    """Allow all requesters; for answers without data that the requester may not read.

    Tables of many projects are filtered by ``server.accounts.readable(identity)``.
    """
    who = asker(request)
    request.state.guarded = True
    return who


def public(request: Request) -> None:
    """Allow all requests without authentication; for static answers such as scripts."""
    request.state.guarded = True


def role_guard(role: Role) -> Callable[..., Identity]:
    """Return a dependency that guards a route with ``{project:path}`` in its address.

    For ``async`` routes: dependencies run in a thread, so reading the database does not block other
    requests.
    """

    def guard(request: Request, project: str) -> Identity:
        return expect(request, project, role)

    return guard


async def received(request: Request, count: Callable[[int], None]) -> bytes:
    """Return the body of a request; `count` is called with the size of each part, in bytes.

    The size of a body is limited by `seamark.server.app.Gate`.
    """
    parts = []
    async for part in request.stream():
        count(len(part))
        parts.append(part)
    return b"".join(parts)


def _unknown_project(project: str) -> Refusal:
    return Refusal(
        404,
        "no-project",
        f"project {project[:200]!r} does not exist, or this token may not read it",
    )


def address_of(request: Request) -> str:
    """Return the client address of a request; empty if unknown."""
    return request.client.host if request.client else ""


def note(request: Request, who: Identity, action: str, subject: str, **detail: Any) -> None:
    """Log the action of a request; see `Accounts.note`."""
    server_of(request).accounts.note(who, action, subject, address=address_of(request), **detail)
