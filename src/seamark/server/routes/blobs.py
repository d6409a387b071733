"""Routes for uploads of contents: which ones are missing, and transfer in parts.

`seamark.server.routes.contents` has the downloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import needs, server_of
from seamark.server.kept.intake import check_run
from seamark.server.purging import is_purged

if TYPE_CHECKING:
    from seamark.server.blobs.blobs import Progress

__all__ = ["router"]

router = APIRouter(tags=["files"])

_OF_RUN: Final = "/runs/{project:path}/{run}/blobs"
# Before anything of the request is looked at.
_WRITES: Final = [Depends(needs(Role.CONTRIBUTOR))]
_MAX_WHOLE: Final = (1 << 63) - 1


@router.post(_OF_RUN, dependencies=_WRITES)
def ask(
    request: Request,
    project: str,
    run: str,
    digests: Annotated[list[str], Body(embed=True, description="SHA-256 of contents, hex.")],
) -> dict[str, list[str]]:
    """Return those contents that the project does not have; the others stay for a day at least."""
    _check_not_purged(request, project, run)
    return {"missing": server_of(request).blobs.missing(project, run, digests)}


@router.put(_OF_RUN + "/{digest}", dependencies=_WRITES)
async def put(
    request: Request,
    project: str,
    run: str,
    digest: str,
    offset: Annotated[int, Query(ge=0, le=_MAX_WHOLE, description="Of the part, bytes.")],
    size: Annotated[int, Query(ge=0, le=_MAX_WHOLE, description="Of the whole, bytes.")],
) -> dict[str, Any]:
    """Take a part of a content; the digest is compared once all parts are there."""
    parts: list[bytes] = []

    def take() -> Progress:
        _check_not_purged(request, project, run)
        return server_of(request).blobs.put(project, run, digest, size, offset, b"".join(parts))

    with server_of(request).intake.counting_bytes() as arriving:
        async for part in request.stream():
            arriving(len(part))
            parts.append(part)
        return _as_json(await run_in_threadpool(take))


@router.get(_OF_RUN + "/{digest}/upload", dependencies=_WRITES)
def progress(
    request: Request,
    project: str,
    run: str,
    digest: str,
    size: Annotated[int | None, Query(ge=0, le=_MAX_WHOLE)] = None,
) -> dict[str, Any]:
    """Return how much of a content has arrived: where to go on with it."""
    del run
    return _as_json(server_of(request).blobs.progress(project, digest, size))


def _check_not_purged(request: Request, project: str, run: str) -> None:
    check_run(project, run)
    if is_purged(server_of(request).databases.account, project, run):
        raise Refusal(410, "purged", f"run {run!r} of {project!r} was purged here")


def _as_json(found: Progress) -> dict[str, Any]:
    return {"offset": found.offset, "complete": found.complete}
