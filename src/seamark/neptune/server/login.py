"""Sign-in of Neptune's client."""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from seamark.neptune.server.answers import (
    DOCUMENTS,
    Routes,
    access_token,
    answer,
    document,
    identify,
    secret_in_access_token,
)
from seamark.server.failures import Refusal
from seamark.server.guard import expect_somebody, open_to_all

router: Final = Routes()
open_router: Final = APIRouter(include_in_schema=False)
_TOKEN_LIFETIME_S: Final = 24 * 3600
"""Time after which the client requests a new token, in seconds."""
_REALM: Final = "/api/auth"
_CHUNK: Final = 5 << 20


def base_of(request: Request) -> str:
    """Return the address at which the client reached the server."""
    return str(request.base_url).rstrip("/")


@open_router.get("/api/{name}/swagger.json")
def describe(request: Request, name: str) -> Response:
    """Return one of the Swagger documents, which are public."""
    request.state.guarded = True
    if name not in DOCUMENTS:
        raise Refusal(404, "no-address", "there is no such document")
    return Response(document(name), media_type="application/json")


@open_router.post(_REALM + "/protocol/openid-connect/token")
async def refresh(request: Request) -> Response:
    """Return a new token in exchange for the client's token."""
    body = (await request.body()).decode("utf-8", "replace")
    given = parse_qs(body).get("refresh_token", [""])[0]
    secret = secret_in_access_token(given)
    request.state.guarded = True
    try:
        who = await run_in_threadpool(identify, request, secret)
    except Refusal as error:
        if error.status_code != 401:  # noqa: PLR2004 - a status
            raise
        who = None
    if who is None or not who.name:
        return answer({"error": "invalid_grant"}, 400)
    token = _make_token(request, secret, who.name)
    return answer(
        {
            "access_token": token,
            "refresh_token": token,
            "expires_in": _TOKEN_LIFETIME_S,
            "token_type": "Bearer",
        }
    )


@router.answers("getClientConfig")
def config(request: Request) -> Response:
    """Return the configuration of the client."""
    open_to_all(request)
    base = base_of(request)
    return answer(
        {
            "apiUrl": base,
            "applicationUrl": base,
            "pyLibVersions": {"minCompatibleVersion": "0.9.0"},
            "sysNameSetByBackend": True,  # otherwise the client renames each opened run
            "multiPartUpload": {
                "enabled": True,
                "minChunkSize": _CHUNK,
                "maxChunkSize": _CHUNK,
                "maxChunkCount": 1_000_000,
                "maxSinglePartSize": _CHUNK,
            },
            "artifacts": {"enabled": True, "apiVersion": 2},
        }
    )


@router.answers("exchangeApiToken")
def exchange(request: Request) -> Response:
    """Return the access token for the client's further requests."""
    who = expect_somebody(request)
    token = _make_token(request, request.state.secret, who.name)
    return answer({"accessToken": token, "refreshToken": token, "username": who.name})


def _make_token(request: Request, secret: str, user: str) -> str:
    return access_token(
        secret, user, base_of(request) + _REALM, int(time.time()) + _TOKEN_LIFETIME_S
    )
