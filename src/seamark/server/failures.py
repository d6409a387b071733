"""Error responses: a short code for programs, and a sentence for users."""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from seamark.errors import ArgumentError, PathError, QueryError, SeamarkError
from seamark.journal.shipping import BatchError, TooLargeError
from seamark.server.database import DatabaseUnreachable, TooSlow
from seamark.server.objects import ObjectsUnreachable
from seamark.store.database import Conflict

_log: Final = logging.getLogger("seamark.server")
_LOG_INTERVAL_S: Final = 60.0
_lock: Final = threading.Lock()
_logged_kinds: Final[dict[str, tuple[float, int]]] = {}
"""Monotonic time of the last log line of each kind, and the number of lines omitted since."""


def warn_rarely(kind: str, message: str, *arguments: object) -> None:
    """Log a warning unless one of the same kind was logged less than a minute ago.

    The next warning has the number of omitted ones. Kinds do not depend on contents of requests.
    """
    now = time.monotonic()
    with _lock:
        logged, left_out = _logged_kinds.get(kind, (now - _LOG_INTERVAL_S, 0))
        if now - logged < _LOG_INTERVAL_S:
            _logged_kinds[kind] = logged, left_out + 1
            return
        _logged_kinds[kind] = now, 0
    if left_out:
        message, arguments = message + " (and %d times since the last line)", (*arguments, left_out)
    _log.warning(message, *arguments)


_RETRY_S: Final = 2
_SLUGS: Final = {
    400: "bad-request",
    401: "token-needed",
    403: "forbidden",
    404: "no-address",
    405: "method-not-allowed",
    413: "too-large",
    429: "too-many",
    503: "busy",
}
FAILURES: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": words,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
    }
    for status, words in {
        401: "a token is required",
        403: "the role is too low",
        404: "the run does not exist or is not visible",
        413: "the request is too large",
        422: "an argument has an invalid value",
        429: "too many requests",
        503: "try again later",
    }.items()
}
"""Error responses for the API description."""
FAILURE: Final = {
    "description": "Reason why a request failed.",
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "A short code for programs."},
        "hint": {"type": "string", "description": "A sentence that suggests what to do."},
    },
    "required": ["error", "hint"],
}
"""Schema of an error response."""
_OVERLOADED: Final = {429, 503}
_BUSY: Final = 503
_ErrorTable = tuple[tuple[Any, int, str, str], ...]
_SEAMARK_ERRORS: Final[_ErrorTable] = (
    (DatabaseUnreachable, _BUSY, "database", "the database does not answer; try again later"),
    (
        ObjectsUnreachable,
        _BUSY,
        "objects",
        "the file storage of the server is not available; try again later",
    ),
    (TooSlow, 422, "too-slow", ""),
    (LookupError, 404, "not-found", ""),
    (QueryError, 422, "query", ""),
    ((PathError, ArgumentError, TypeError, ValueError), 422, "invalid", ""),
)
"""Status, code and message for our error classes; empty stands for the message of the error.
"""
_OTHER_ERRORS: Final[_ErrorTable] = (
    (
        (sa.exc.OperationalError, sa.exc.InterfaceError, sqlite3.OperationalError),
        _BUSY,
        "database",
        "the database does not answer; try again later",
    ),
    (Conflict, _BUSY, "conflict", "another request changed the same data; try again"),
    (
        (UnicodeError, OverflowError, RecursionError),
        422,
        "invalid",
        "the request has a text or a number that cannot be stored, or is nested too deeply",
    ),
)
_DISK_FULL_ERRORS: Final = {errno.ENOSPC, errno.EDQUOT}


class Refusal(HTTPException):
    """Error response with a short code for programs, such as ``"gap"``, and a `hint` for users.

    The hint is a sentence that suggests what to do; `more` has further members of the body.
    """

    def __init__(
        self,
        status: int,
        error: str,
        hint: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, hint, dict(headers or {}))
        self.error = error
        self.more = more


class GapError(Refusal):
    """Bytes before the batch are missing; ``known`` is the number of stored bytes."""

    def __init__(self, hint: str, known: int) -> None:
        super().__init__(409, "gap", hint, known=known)


def later(error: str, hint: str, seconds: float = _RETRY_S, status: int = 503) -> Refusal:
    """Return a refusal that asks the client to retry after some seconds."""
    return Refusal(status, error, hint, headers={"Retry-After": str(max(1, round(seconds)))})


def refusal_of(error: BaseException) -> Refusal:
    """Return the refusal for an error; log unexpected errors; clear the frames of the traceback."""
    refusal = _refusal_of(error)
    if refusal.status_code in _OVERLOADED:
        # Skipped if a longer line of this kind was just logged.
        hint = _printable(refusal.detail)
        warn_rarely(refusal.error, "refused (%d): %s", refusal.status_code, hint)
    _clear_frames(error)
    return refusal


def _refusal_of(error: BaseException) -> Refusal:
    # Local import: it takes half a second, and processes that fold import this module, too.
    from fastapi.exceptions import RequestValidationError

    if isinstance(error, Refusal):
        return error
    if isinstance(error, HTTPException):
        slug = _SLUGS.get(error.status_code, "refused")
        return Refusal(error.status_code, slug, _http_message(error), headers=error.headers)
    if isinstance(error, RequestValidationError):
        return Refusal(422, "invalid", _validation_message(error))
    if isinstance(error, BatchError):  # its attributes are the exceeded limit
        status = 413 if isinstance(error, TooLargeError) else 422
        return Refusal(status, error.slug, str(error), **vars(error))
    if isinstance(error, OSError) and error.errno in _DISK_FULL_ERRORS:
        warn_rarely("disk-full", "the disk is full: %s", error)
        return later("disk-full", "the disk of the server is full; try again later", 30)
    for kinds, status, slug, hint in (
        _SEAMARK_ERRORS if isinstance(error, SeamarkError) else _OTHER_ERRORS
    ):
        if isinstance(error, kinds):
            if status != _BUSY:
                return Refusal(status, slug, hint or str(error))
            # Its text may contain the address of the database, and values of the request in the
            # text of SQLAlchemy and in further lines.
            warn_rarely(slug, "%s", str(getattr(error, "orig", error)).strip().split("\n")[0])
            return later(slug, hint)
    return _internal_error(error)


def _internal_error(error: BaseException) -> Refusal:
    _log.error("%s in the server", type(error).__name__, exc_info=error)
    return Refusal(500, "internal", "internal error; the log of the server has the reason")


def answer_of(error: BaseException) -> JSONResponse:
    """Return the response for an error."""
    refusal = refusal_of(error)
    body = {"error": refusal.error, "hint": _printable(refusal.detail), **refusal.more}
    return JSONResponse(body, refusal.status_code, refusal.headers)


def _clear_frames(error: BaseException | None) -> None:
    # Otherwise local variables of finished calls, such as bodies of many megabytes, would stay in
    # memory until the garbage collection, as futures and tracebacks refer to each other.
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def install(app: FastAPI) -> None:
    """Install error handlers, so that an application answers all errors in one format."""
    from fastapi.exceptions import RequestValidationError

    async def answer(request: Request, error: Exception) -> Response:
        del request
        return answer_of(error)

    for kind in (
        HTTPException,
        RequestValidationError,
        SeamarkError,
        Conflict,
        sa.exc.SQLAlchemyError,
        UnicodeError,
        OverflowError,
        OSError,
    ):
        app.add_exception_handler(kind, answer)


def _http_message(error: HTTPException) -> str:
    if error.status_code == 404:  # noqa: PLR2004 - an HTTP status
        return "unknown address; GET /api/v1/openapi.json lists all addresses"
    if error.status_code == 405:  # noqa: PLR2004 - an HTTP status
        return "this address does not support the method; see /api/v1/openapi.json"
    return str(error.detail)


def _validation_message(error: RequestValidationError) -> str:
    for each in error.errors():
        location = ".".join(str(part) for part in each.get("loc", ()))
        return f"{location[:200]}: {each.get('msg', 'invalid value')}"
    return "the request is invalid"


def _printable(text: object) -> str:
    return str(text).encode("utf-8", "replace").decode()
