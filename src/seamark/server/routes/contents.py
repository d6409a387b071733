"""Routes for contents of files: downloads with a token or a signed address, and uploads."""

from __future__ import annotations

import re
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi import Body as BodyOf
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from seamark.server.access import Content, Link, Role
from seamark.server.blobs.blobs import Progress
from seamark.server.failures import FAILURES, Refusal
from seamark.server.guard import (
    Body,
    asker,
    expect,
    public,
    received,
    role_guard,
    server_of,
    serving_of,
)
from seamark.server.kept.intake import check_run
from seamark.server.kept.plan import purged_refusal
from seamark.server.purging import is_purged

router: Final = APIRouter()
server_router: Final = APIRouter(tags=["files"])

_VIEWER_GUARD: Final = [Depends(role_guard(Role.VIEWER))]  # before any validation of the request
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_BINARY: Final = "application/octet-stream"
_TEXT: Final = "text/plain; charset=utf-8"
_SAFE_TYPES: Final = {
    **dict.fromkeys(("csv", "log", "md", "py", "toml", "txt", "yaml", "yml"), _TEXT),
    "gif": "image/gif",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "png": "image/png",
    "wav": "audio/wav",
    "webm": "video/webm",
    "webp": "image/webp",
}
"""Content types by extension. None can execute code in a browser: no HTML, SVG, PDF or scripts."""
_PREVIEW_TYPES: Final = {
    "htm": "text/html; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Content types used only in a preview, which is sandboxed."""
_IMAGE_MAGIC: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
)
"""First bytes of images that a browser may show directly."""
_MAGIC_BYTES: Final = 16
_MAX_CONTENTS: Final = 1000
"""Maximum number of contents per request."""
_Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_SAFE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "private, max-age=31536000, immutable",
}
"""Headers that prevent active content of uploaded files on the page's origin."""
_PREVIEW_POLICY: Final = "sandbox allow-scripts; default-src 'unsafe-inline' data: blob:"
"""Headers that give a recorded file a separate origin without access to other data."""


@router.get(
    "/runs/{project:path}/{run}/blobs/{digest}",
    response_class=Response,
    dependencies=_VIEWER_GUARD,
    tags=["files"],
)
def fetch(
    request: Request,
    project: str,
    run: str,
    digest: str,
    name: Annotated[str, Query(max_length=255, description="File name of the download.")] = "",
) -> Response:
    """Return a content, or the part given by ``Range``; always as a download."""
    content = _content(request, project, run, digest)
    headers = _SAFE_HEADERS | {"Content-Disposition": _disposition("attachment", name or digest)}
    return _content_response(request, digest, content, headers, _type_of(name))


class _ContentsBody(Body):
    """Contents to check, by SHA-256 (hex)."""

    sha256: Annotated[list[_Digest], Field(max_length=_MAX_CONTENTS)]


@router.post(
    "/runs/{project:path}/{run}/contents",
    operation_id="findContents",
    dependencies=_VIEWER_GUARD,
    responses=FAILURES,
    tags=["files"],
)
def contents(request: Request, project: str, run: str, body: _ContentsBody) -> dict[str, list[str]]:
    """Return the missing ones of some contents, for a check before downloads."""
    return {"absent": serving_of(request).missing_contents(project, run, body.sha256)}


class _LinkBody(Body):
    """Content (SHA-256, hex) for a link; the extension of its name determines the type."""

    project: Annotated[str, Field(max_length=4096)]
    run: Annotated[str, Field(max_length=4096)]
    sha256: _Digest
    name: Annotated[str, Field(max_length=255)] = ""
    preview: bool = False


@router.post("/link", operation_id="linkContent", responses=FAILURES, tags=["runs"])
def link(request: Request, body: _LinkBody) -> dict[str, str]:
    """Return an address of a content that needs no token; it is valid for 60 seconds.

    Parts of the content (``Range``) are served for 12 more hours, so that videos and downloads can
    continue. The address ends with the requester's token. It is relative to the page, and only
    returned to requesters who may read the run.
    """
    who = expect(request, body.project, Role.VIEWER)
    _content(request, body.project, body.run, body.sha256)
    links = serving_of(request).links
    wanted = Link(body.project, body.run, body.sha256, body.name, body.preview, who.token, who.name)
    last = re.split(r"[/\\]", body.name)[-1].strip(". ") or body.sha256
    return {"url": f"{links.base}linked/{links.sign(wanted)}/{quote(last, safe='')}"}


@router.get("/linked/{signed}/{name}", response_class=Response, tags=["files"])
def linked(request: Request, signed: str, name: str) -> Response:
    """Return the content of a signed address, or the part given by ``Range``.

    PNG, JPEG and WebP are shown directly, a preview in a frame; other files are downloads.
    """
    del name  # for the downloading user
    public(request)
    links = serving_of(request).links
    found = links.open(signed, part=True)
    if found is not None and _part_of(request, found.digest) is None:
        found = links.open(signed)
    if found is None or not _may_still_read(request, found):
        raise Refusal(404, "no-link", "the link is invalid or has expired: open the file again")
    content = _content(request, found.project, found.run, found.digest)
    kind, how = _type_of(found.name), "attachment"
    headers = _SAFE_HEADERS | {"Cache-Control": "private, no-store"}
    if found.preview:
        headers["Content-Security-Policy"] = _PREVIEW_POLICY
        kind, how = _PREVIEW_TYPES.get(_extension(found.name), kind), "inline"
    elif image := _image_of(content):
        kind, how = image, "inline"
    headers["Content-Disposition"] = _disposition(how, found.name or found.digest)
    return _content_response(request, found.digest, content, headers, kind)


def _may_still_read(request: Request, link: Link) -> bool:
    # Readable for the user who requested the address, or for one who authenticates otherwise.
    # Behind a proxy with single sign-on each request is authenticated, perhaps for a user without
    # an account here.
    serving = serving_of(request)
    for who in (serving.logins.again(link.token, link.user), asker(request)):
        role = serving.accounts.role(who, link.project)
        if role is not None and role >= Role.VIEWER:
            return True
    return False


def _content(request: Request, project: str, run: str, digest: str) -> Content:
    content = serving_of(request).content(project, run, digest)
    if content is None:
        raise Refusal(
            404,
            "no-content",
            f"project {project!r} has no content {digest}: it was not sent, or not yet",
        )
    return content


def _content_response(
    request: Request, digest: str, content: Content, headers: dict[str, str], kind: str
) -> Response:
    headers = headers | {"Accept-Ranges": "bytes", "ETag": f'"{digest}"'}
    if request.headers.get("if-none-match") in (f'"{digest}"', "*"):
        return Response(status_code=304, headers=headers)
    if part := _part_of(request, digest):
        return _part_response(content, *part, headers, kind)
    headers["Content-Length"] = str(content.size)
    return StreamingResponse(content.read(0, content.size), 200, headers, kind)


def _part_of(request: Request, digest: str) -> tuple[str, str] | None:
    # None, for the whole content, if the request has no range, several ranges, or the range of an
    # outdated content (If-Range).
    found = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if found is None or not any(found.groups()):
        return None
    named = request.headers.get("if-range") in (None, f'"{digest}"')
    return (found[1], found[2]) if named else None


def _part_response(
    content: Content, first: str, last: str, headers: dict[str, str], kind: str
) -> Response:
    start = int(first) if first else max(0, content.size - int(last))
    end = min(content.size, int(last) + 1) if first and last else content.size
    if start >= end:
        headers["Content-Range"] = f"bytes */{content.size}"
        return Response(status_code=416, headers=headers)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{content.size}"
    headers["Content-Length"] = str(end - start)
    return StreamingResponse(content.read(start, end), 206, headers, kind)


def _image_of(content: Content) -> str:
    # Only images that cannot contain scripts are recognized.
    begin = b"".join(content.read(0, _MAGIC_BYTES))
    return next((kind for pattern, kind in _IMAGE_MAGIC if pattern.match(begin)), "")


def _extension(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _type_of(name: str) -> str:
    return _SAFE_TYPES.get(_extension(name), _BINARY)


def _disposition(how: str, name: str) -> str:
    base = re.split(r"[/\\]", name)[-1].strip() or "file"
    plain = re.sub(r"[^A-Za-z0-9._ -]", "_", base)
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(base, safe='')}"


# ---------------------------------------------------------------------- uploads


_BLOBS_PATH: Final = "/runs/{project:path}/{run}/blobs"
# Before any validation of the request.
_CONTRIBUTOR_GUARD: Final = [Depends(role_guard(Role.CONTRIBUTOR))]
_MAX_INT64: Final = (1 << 63) - 1


@server_router.post(_BLOBS_PATH, dependencies=_CONTRIBUTOR_GUARD)
def ask(
    request: Request,
    project: str,
    run: str,
    digests: Annotated[list[str], BodyOf(embed=True, description="SHA-256 of contents, hex.")],
) -> dict[str, list[str]]:
    """Return the contents that the project lacks; the others are kept for at least a day."""
    _check_not_purged(request, project, run)
    return {"missing": server_of(request).blobs.missing(project, run, digests)}


@server_router.put(_BLOBS_PATH + "/{digest}", dependencies=_CONTRIBUTOR_GUARD)
async def put(
    request: Request,
    project: str,
    run: str,
    digest: str,
    offset: Annotated[int, Query(ge=0, le=_MAX_INT64, description="Offset of the part, in bytes.")],
    size: Annotated[int, Query(ge=0, le=_MAX_INT64, description="Size of the content, in bytes.")],
) -> Progress:
    """Store a part of a content; the digest is compared once all parts are stored."""

    def take(data: bytes) -> Progress:
        _check_not_purged(request, project, run)
        return server_of(request).blobs.put(project, run, digest, size, offset, data)

    with server_of(request).intake.counting_bytes() as arriving:
        data = await received(request, arriving)
        return await run_in_threadpool(take, data)


@server_router.get(_BLOBS_PATH + "/{digest}/upload", dependencies=_CONTRIBUTOR_GUARD)
def progress(
    request: Request,
    project: str,
    run: str,
    digest: str,
    size: Annotated[int | None, Query(ge=0, le=_MAX_INT64)] = None,
) -> Progress:
    """Return the number of stored bytes of a content, at which an upload continues."""
    del run
    return server_of(request).blobs.progress(project, digest, size)


def _check_not_purged(request: Request, project: str, run: str) -> None:
    check_run(project, run)
    if is_purged(server_of(request).databases.account, project, run):
        raise purged_refusal(project, run)
