"""Admission of requests of the client, and refusals in the form that it understands."""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from seamark.neptune.server.documents import BY_NAME
from seamark.server.failures import Refusal, refusal_of
from seamark.server.guard import server_of

if TYPE_CHECKING:
    from seamark.server.access import Identity

__all__ = ["ContainerNotFound", "Routes", "answer", "asker", "secret_in_api_token", "short"]

_log: Final = logging.getLogger("seamark.server")
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])
_SECRET: Final = "key"  # noqa: S105 - a name
_MOST_SAID: Final = 2000
"""Characters."""
_TYPES: Final = {
    "no-run": "EXPERIMENT_NOT_FOUND",
    "quota": "PROJECT_LIMITS_EXCEEDED",
    "too-large": "PROJECT_LIMITS_EXCEEDED",
}


class ContainerNotFound(Refusal):
    """A container that is not there, or may not be seen."""

    def __init__(self, identifier: str) -> None:
        super().__init__(404, "no-run", f"{identifier[:200]!r} is not here, or may not be seen")


class _Route(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientDisconnect:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one form
                return refused(error)

        return handle


class Routes(APIRouter):
    """A router whose routes are operations of the documents."""

    def __init__(self) -> None:
        super().__init__(route_class=_Route)

    def answers(self, name: str) -> Callable[[_Endpoint], _Endpoint]:
        """Return a decorator that has a function answer an operation.

        Args:
            name: Of the operation, as in `seamark.neptune.server.documents`.
        """
        operation = BY_NAME[name]

        def add(endpoint: _Endpoint) -> _Endpoint:
            self.add_api_route(
                operation.path, endpoint, methods=[operation.method], include_in_schema=False
            )
            return endpoint

        return add


def answer(value: Any = None) -> Response:
    """Return what is answered. NaN is written as such: the client reads it."""
    body = b"" if value is None else json.dumps(value, separators=(",", ":")).encode()
    return Response(body, media_type="application/json")


def refused(error: Exception) -> Response:
    """Return an error as the client reads it.

    It asks again for a minute after a 500, and what is wrong here stays so: 400 says it at once.
    It takes 422 as a limit that was exceeded.
    """
    refusal = refusal_of(error)
    status, error_type = refusal.status_code, _TYPES.get(refusal.error, "")
    if error_type == "PROJECT_LIMITS_EXCEEDED":
        status = 422
    elif status in (405, 414, 422, 431, 500):
        status = 400
    elif status == 410:  # noqa: PLR2004 - purged
        status, error_type = 404, "EXPERIMENT_NOT_FOUND"
    error_type = refusal.more.get("errorType") or error_type
    body = {
        **{name: short(more) for name, more in refusal.more.items()},
        "code": status,
        "errorType": error_type or refusal.error.upper().replace("-", "_"),
        "title": short(str(refusal.detail)),
    }
    headers = dict(refusal.headers or {})
    if status == 403:  # noqa: PLR2004 - the client drops the text of these, and logs the header
        headers["X-Server-Error"] = ascii(body["title"])[1:-1][:_MOST_SAID]
    return JSONResponse(body, status, headers)


def short(value: Any) -> Any:
    """Return what is said of a mistake: it may repeat what was given, however long that was."""
    if not isinstance(value, str):
        return value
    return value[:_MOST_SAID].encode("utf-8", "replace").decode()


# ---------------------------------------------------------------------- who asks


def asker(request: Request) -> Identity:
    """Return who asks; the client shows a token of ours inside of what it takes for its own.

    Raises:
        Refusal: 401 if the token is unknown, expired or revoked; 429 after many such.
    """
    headers = dict(request.headers)
    secret = _secret_of(request)
    headers.pop("authorization", None)
    if secret:
        headers["authorization"] = f"Bearer {secret}"
    address = request.client.host if request.client else ""
    found = server_of(request).logins.identify(headers, address)
    request.state.identity = found
    request.state.secret = secret
    return found


def _secret_of(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return secret_in_access_token(token.strip())
    return secret_in_api_token(request.headers.get("x-neptune-api-token", ""))


def secret_in_api_token(token: str) -> str:
    """Return the token of ours in what ``NEPTUNE_API_TOKEN`` holds; what is none as it is."""
    try:
        found = json.loads(base64.b64decode(token + "=" * (-len(token) % 4)))
        return str(found["api_key"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return token


def access_token(secret: str, user: str, issuer: str, ends_s: int) -> str:
    """Return a token of ours in the form of those that the client expects (a JWT).

    The client reads from it when to ask for the next one, and where. It is as secret as what is in
    it, and what counts here is only that: it ends when the token of ours does.

    Args:
        secret: The token.
        user: Whose it is.
        issuer: Address below which another one is asked for.
        ends_s: When to do that, seconds since the Unix epoch.
    """
    claims = {"exp": ends_s, "azp": "neptune-cli", "iss": issuer, "sub": user, _SECRET: secret}
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    return ".".join([*(_base64(json.dumps(part).encode()) for part in parts), _base64(b"seamark")])


def secret_in_access_token(token: str) -> str:
    """Return the token of ours in one of `access_token`; what is none as it is."""
    parts = token.split(".")
    try:
        return str(
            json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))[_SECRET]
        )
    except (binascii.Error, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return token


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
