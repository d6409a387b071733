"""Routes for journals as bytes: sizes, appending and reading."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from seamark.errors import FileMissingError
from seamark.journal.reader import JournalReader
from seamark.journal.shipping import (
    BATCH_BYTES,
    BatchError,
    TooLargeError,
    check_journal_name,
    next_batch,
)
from seamark.server.access import Role
from seamark.server.answering import compressed
from seamark.server.failures import Refusal
from seamark.server.guard import expect, needs, server_of
from seamark.server.kept.parts import longest_body, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from seamark.server.kept.plan import Receipt

__all__ = ["router"]

router = APIRouter(tags=["journals"])

_OF_RUN: Final = "/runs/{project:path}/{run}/journals"
_MAX_WHOLE: Final = (1 << 63) - 1
_MEDIA_TYPE: Final = "application/octet-stream"
_BYTES: Final[dict[str, Any]] = {_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}
_UNPACKING: Final = threading.BoundedSemaphore(4)
"""How many batches are unpacked and checked at a time: each may come to 64 MiB."""


@router.get(_OF_RUN)
def known(request: Request, project: str, run: str) -> dict[str, Any]:
    """Return how many bytes of each journal of a run are kept, by file name."""
    expect(request, project, Role.CONTRIBUTOR)
    journals, position = server_of(request).intake.known(project, run)
    return {"journals": journals, "position": position}


@router.get(
    _OF_RUN + "/{journal}",
    dependencies=[Depends(needs(Role.CONTRIBUTOR))],
    response_class=Response,
    responses={200: {"content": _BYTES}, 204: {"description": "No frames follow."}},
)
def read(
    request: Request,
    project: str,
    run: str,
    journal: str,
    offset: Annotated[int, Query(ge=0, le=_MAX_WHOLE, description="Bytes that are known.")],
) -> Response:
    """Return the whole frames of a journal that follow an offset: about 4 MiB, or none (204).

    ``Seamark-Offset`` is the offset of the first byte that is returned. ``Seamark-Gap`` is returned
    in the place of bytes that will never be frames: it is their number.
    """
    try:
        check_journal_name(journal)
        source = server_of(request).kept.source(project, run, journal)
    except BatchError as error:
        raise _batch_refusal(error) from error
    except FileMissingError as error:
        raise Refusal(404, "not-found", str(error)) from error
    with JournalReader(source) as reader:
        batch = next_batch(reader, offset)
    if batch is None:
        return Response(status_code=204)
    headers = {"Seamark-Offset": str(batch.offset)}
    if batch.is_gap:
        headers["Seamark-Gap"] = str(batch.length)
    body, encoding = compressed(batch.data, request.headers.get("accept-encoding", ""))
    if encoding:
        headers["Content-Encoding"] = encoding
    return Response(body, headers=headers, media_type=_MEDIA_TYPE)


@router.put(
    _OF_RUN + "/{journal}",
    dependencies=[Depends(needs(Role.CONTRIBUTOR))],
    openapi_extra={"requestBody": {"content": _BYTES}},
)
async def put(
    request: Request,
    project: str,
    run: str,
    journal: str,
    offset: Annotated[int, Query(ge=0, le=_MAX_WHOLE, description="Of the batch in the file.")],
    gap: Annotated[
        int, Query(ge=0, le=_MAX_WHOLE, description="How many bytes will never be frames.")
    ] = 0,
) -> dict[str, Any]:
    """Keep whole frames of a journal, or a declared gap (then without a body).

    The body is compressed with zstd (``Content-Encoding: zstd``), or plain. What is answered is
    kept for good.
    """
    intake = server_of(request).intake
    packing = request.headers.get("content-encoding", "identity").strip().lower()

    def submit(body: bytes) -> Future[Receipt]:
        if gap and body:
            msg = "a declared gap has no body"
            raise BatchError(msg)
        with _UNPACKING:
            data = unpacked(body, packing)
            return intake.submit(project, run, journal, offset, data, gap=gap)

    try:
        with intake.counting_bytes() as arriving:
            body = await _body(request, arriving)
            waiting = await run_in_threadpool(submit, body)
            del body
        kept = await asyncio.wrap_future(waiting)
    except BatchError as error:
        raise _batch_refusal(error) from error
    return {"offset": kept.offset, "position": kept.position, "wait_s": kept.wait_s}


async def _body(request: Request, arriving: Callable[[int], None]) -> bytes:
    most, parts, size = longest_body(), [], 0
    stated = request.headers.get("content-length", "")
    if stated.isdigit() and len(stated) < 20 and int(stated) > most:  # noqa: PLR2004 - digits
        raise _too_long(int(stated))
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise _too_long(size)
            arriving(len(part))
            parts.append(part)
    except ClientDisconnect as error:  # nobody reads the answer
        raise Refusal(400, "bad-request", "the request was cut short; send it again") from error
    return b"".join(parts)


def _too_long(size: int) -> Refusal:
    hint = f"batch_bytes: at most {BATCH_BYTES} are accepted, got {size}: send it in smaller parts"
    return Refusal(
        413,
        "too-large",
        hint,
        headers={"Connection": "close"},
        limit="batch_bytes",
        allowed=BATCH_BYTES,
    )


def _batch_refusal(error: BatchError) -> Refusal:
    if isinstance(error, TooLargeError):
        return Refusal(413, error.slug, str(error), limit=error.limit, allowed=error.allowed)
    return Refusal(422, error.slug, str(error))
