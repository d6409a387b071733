"""Routes for names of new runs, and for journals as bytes."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from seamark.errors import FileMissingError, PathError
from seamark.journal.reader import JournalReader
from seamark.journal.shipping import BatchError, check_journal_name, next_batch
from seamark.paths import check_name, check_place, check_project, home_of, kind_of
from seamark.reading.names import Arrival, settle, settle_artifact
from seamark.server.access import Role
from seamark.server.accounts.tables import READ_FACT, WRITE_FACT, lock_account
from seamark.server.answering import compressed
from seamark.server.failures import FAILURES, Refusal
from seamark.server.guard import Body, expect, received, role_guard, server_of
from seamark.server.kept.layout import unpacked
from seamark.store.database import retry
from seamark.store.read.names import run_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from seamark.reading.names import RunName
    from seamark.remote.protocol import Sent
    from seamark.server.state import Server


def _decide_locked(
    server: Server,
    key: str,
    among: tuple[str, str],
    decide: Callable[[dict[str, Any], list[RunName]], Arrival],
) -> Arrival:
    # One decision at a time in all workers. Names taken so far are stored under `key`.
    store, account, (place, kind) = server.store(), server.databases.account, among

    def resolve() -> Arrival:
        with account.writing() as connection:
            lock_account(connection)
            rows = account.rows(connection, READ_FACT, at=key)
            held = json.loads(rows[0][0]) if rows else {}
            # After the lock, so that earlier decisions are visible.
            with store.database.reading() as reading:
                known = run_names(store, reading, lambda one: one == place, kind)
            found = decide(held, known)
            account.run(connection, WRITE_FACT, key=key, value=json.dumps(held))
            return found

    return retry(resolve)


router = APIRouter()
_Short = Annotated[str, Field(min_length=1, max_length=1024)]
_MAX_VERSIONS: Final = 10_000


class _NameBody(Body):
    """New run, and the policy for the case that another run has its name."""

    project: _Short
    run: _Short
    name: Annotated[str, Field(max_length=16 << 10)] | None = None
    conflict: Literal["new", "skip", "error", "replace"] = "new"
    make_project: bool = True
    versions: Annotated[list[_Short], Field(max_length=_MAX_VERSIONS)] = []


@router.post("/arrivals", tags=["runs"], operation_id="arrive", responses=FAILURES)
def resolve_name(request: Request, body: _NameBody) -> Arrival:
    """Resolve the name of a new run, or of a new version of an artifact.

    The name is reserved if possible. ``versions`` are those of the artifact at its source.
    """
    project, run, name, server = body.project, body.run, body.name, server_of(request)
    try:
        if is_artifact := kind_of(project, run) == "artifact":
            check_place(project, run)
        else:
            project, run = check_project(project), check_name(run, "run id")
    except PathError as error:
        raise Refusal(422, "not-a-name", str(error)) from error
    home = home_of(project)
    expect(request, home, Role.CONTRIBUTOR)
    if not body.make_project and not server.has_project(home):
        return Arrival("no project")
    if is_artifact:
        versions = (run, *body.versions)
        return _decide_locked(
            server,
            f"arriving-artifacts:{home}",
            (project, "artifact"),
            lambda held, known: settle_artifact(
                held, known, versions, project, body.conflict, server.now_ns()
            ),
        )
    if name is None:
        return Arrival("go")
    return _decide_locked(
        server,
        f"arriving:{project}",
        (project, "run"),
        lambda held, known: settle(held, known, run, name, body.conflict, server.now_ns()),
    )


_JOURNALS_PATH: Final = "/runs/{project:path}/{run}/journals"
_MAX_INT64: Final = (1 << 63) - 1
_MEDIA_TYPE: Final = "application/octet-stream"
_BINARY_CONTENT: Final[dict[str, Any]] = {
    _MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}
}
_unpacking_slots: Final = threading.BoundedSemaphore(4)
"""Maximum number of batches decompressed and checked at a time; each may reach 64 MiB."""


@router.get(_JOURNALS_PATH, tags=["journals"])
def known(request: Request, project: str, run: str) -> dict[str, Any]:
    """Return the number of stored bytes of each journal of a run, by file name."""
    expect(request, project, Role.CONTRIBUTOR)
    journals, position = server_of(request).intake.known(project, run)
    return {"journals": journals, "position": position}


@router.get(
    _JOURNALS_PATH + "/{journal}",
    tags=["journals"],
    dependencies=[Depends(role_guard(Role.CONTRIBUTOR))],
    response_class=Response,
    responses={200: {"content": _BINARY_CONTENT}, 204: {"description": "No frames follow."}},
)
def read(
    request: Request,
    project: str,
    run: str,
    journal: str,
    offset: Annotated[
        int, Query(ge=0, le=_MAX_INT64, description="Offset from which to read, in bytes.")
    ],
) -> Response:
    """Return whole frames of a journal after an offset: about 4 MiB, or none (204).

    ``Seamark-Offset`` is the offset of the first returned byte. ``Seamark-Gap`` replaces bytes that
    will never be sent, and is their number.
    """
    try:
        check_journal_name(journal)
        source = server_of(request).kept.source(project, run, journal)
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
    _JOURNALS_PATH + "/{journal}",
    tags=["journals"],
    dependencies=[Depends(role_guard(Role.CONTRIBUTOR))],
    openapi_extra={"requestBody": {"content": _BINARY_CONTENT}},
)
async def put(
    request: Request,
    project: str,
    run: str,
    journal: str,
    offset: Annotated[
        int, Query(ge=0, le=_MAX_INT64, description="Offset of the batch in the file, in bytes.")
    ],
    gap: Annotated[
        int, Query(ge=0, le=_MAX_INT64, description="Number of bytes that will never be sent.")
    ] = 0,
) -> dict[str, Any]:
    """Store whole frames of a journal, or a declared gap (without a body).

    The body is compressed with zstd (``Content-Encoding: zstd``), or plain. The data is durable
    once the response is sent.
    """
    intake = server_of(request).intake
    packing = request.headers.get("content-encoding", "identity").strip().lower()

    def submit(body: bytes) -> Future[Sent]:
        if gap and body:
            raise BatchError("a declared gap has no body")
        with _unpacking_slots:
            data = unpacked(body, packing)
            return intake.submit(project, run, journal, offset, data, gap=gap)

    with intake.counting_bytes() as arriving:
        body = await received(request, arriving)
        waiting = await run_in_threadpool(submit, body)
        del body
    kept = await asyncio.wrap_future(waiting)
    return {"offset": kept.offset, "position": kept.position, "wait_s": kept.wait_s}
