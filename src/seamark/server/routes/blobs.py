"""Contents of files: asking for what is missing, sending in parts, and fetching."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import needs, server_of
from seamark.server.kept.intake import check_run

if TYPE_CHECKING:
    from seamark.server.blobs import Blob, Blobs, Progress

__all__ = ["router"]

router = APIRouter(tags=["files"])

_OF_RUN: Final = "/runs/{project:path}/{run}/blobs"
# Before anything of the request is looked at.
_READS: Final = [Depends(needs(Role.VIEWER))]
_WRITES: Final = [Depends(needs(Role.CONTRIBUTOR))]
_MAX_WHOLE: Final = (1 << 63) - 1
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_SHOWN: Final = {
    "csv": "text/plain; charset=utf-8",
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "log": "text/plain; charset=utf-8",
    "md": "text/plain; charset=utf-8",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "png": "image/png",
    "py": "text/plain; charset=utf-8",
    "toml": "text/plain; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
    "yaml": "text/plain; charset=utf-8",
    "yml": "text/plain; charset=utf-8",
}
"""Types that are told, by extension. None of them can run anything in a browser: no HTML, no SVG,
no PDF, no script."""
_UNKNOWN: Final = "application/octet-stream"
_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, max-age=31536000, immutable",
}
"""What was uploaded is never active content on the page's own origin."""


@router.post(_OF_RUN, dependencies=_WRITES)
def ask(
    request: Request,
    project: str,
    run: str,
    digests: Annotated[list[str], Body(embed=True, description="SHA-256 of contents, hex.")],
) -> dict[str, list[str]]:
    """Return those contents that the project does not have; the others stay for a day at least."""
    _expect_kept(request, project, run)
    return {"missing": _blobs(request).missing(project, run, digests)}


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
        _expect_kept(request, project, run)
        data = b"".join(parts)
        return _blobs(request).put(project, run, digest, size, offset, data)

    with server_of(request).intake.arriving() as arriving:
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
    return _as_json(_blobs(request).progress(project, digest, size))


@router.get(_OF_RUN + "/{digest}", response_class=Response, dependencies=_READS)
def fetch(
    request: Request,
    project: str,
    run: str,
    digest: str,
    name: Annotated[str, Query(max_length=255, description="What to call the download.")] = "",
) -> Response:
    """Return a content, or the part that a ``Range`` names; always as a download."""
    del run
    blob = _blobs(request).find(project, digest)
    if blob is None:
        hint = f"project {project!r} has no content {digest}: it was not sent, or not yet"
        raise Refusal(404, "no-content", hint)
    headers = _SAFE | {
        "Accept-Ranges": "bytes",
        "Content-Disposition": _disposition(name or digest),
        "ETag": f'"{digest}"',
    }
    if request.headers.get("if-none-match") in (f'"{digest}"', "*"):
        return Response(status_code=304, headers=headers)
    given = request.headers.get("range")
    if given and request.headers.get("if-range") in (None, f'"{digest}"'):
        return _part(blob, given, headers, _type_of(name))
    headers["Content-Length"] = str(blob.size)
    return StreamingResponse(blob.read(), 200, headers, _type_of(name))


def _expect_kept(request: Request, project: str, run: str) -> None:
    """Refuse what belongs to a run that was purged, or to what is the name of none.

    Raises:
        PathError: If it can be no run.
        Refusal: 410 if it was purged.
    """
    check_run(project, run)
    if server_of(request).accounts.is_purged(project, run):
        raise Refusal(410, "purged", f"run {run!r} of {project!r} was purged here")


def _part(blob: Blob, given: str, headers: dict[str, str], kind: str) -> Response:
    """Return the bytes that a range names; all of them where it names several or is none."""
    found = _RANGE.fullmatch(given.strip())
    if found is None or not any(found.groups()):
        headers["Content-Length"] = str(blob.size)
        return StreamingResponse(blob.read(), 200, headers, kind)
    first, last = found.groups()
    start = int(first) if first else max(0, blob.size - int(last))
    end = min(blob.size, int(last) + 1) if first and last else blob.size
    if start >= end:
        headers["Content-Range"] = f"bytes */{blob.size}"
        return Response(status_code=416, headers=headers)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{blob.size}"
    headers["Content-Length"] = str(end - start)
    return StreamingResponse(_read(blob, start, end), 206, headers, kind)


def _read(blob: Blob, start: int, end: int) -> Iterator[bytes]:
    return blob.read(start, end)


def _type_of(name: str) -> str:
    return _SHOWN.get(name.rpartition(".")[2].lower(), _UNKNOWN)


def _disposition(name: str) -> str:
    """Return the header that makes a download of it, whatever is in the name."""
    base = re.split(r"[/\\]", name)[-1].strip() or "file"
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", base)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(base, safe='')}"


def _blobs(request: Request) -> Blobs:
    found: Blobs = server_of(request).blobs
    return found


def _as_json(found: Progress) -> dict[str, Any]:
    return {"offset": found.offset, "complete": found.complete}
