"""Routes for uploads and downloads of files, file sets and images."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from seamark.blobs.contents import download_name
from seamark.errors import ArgumentError, PathError
from seamark.interchange.operations import RefusedError
from seamark.journal.safe import parts_of
from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import RunId, find_container, log_of, read_of
from seamark.neptune.server.login import base_of
from seamark.neptune.server.operations import BatchOperations, keep_content
from seamark.neptune.server.projects import container_id
from seamark.neptune.server.reading import as_time, missing
from seamark.neptune.server.series import At, begin_upload, find_upload
from seamark.paths import check_writable
from seamark.server.access import Role
from seamark.server.failures import Refusal
from seamark.server.guard import expect_somebody, received, server_of

if TYPE_CHECKING:
    from seamark.neptune.server.log import Batch
    from seamark.neptune.server.projects import Container
    from seamark.neptune.server.reading import ContainerReader
    from seamark.server.blobs.blobs import Blob
    from seamark.server.state import Server


router: Final = Routes()
_MAX_INFLATED: Final = 64 << 20
"""Maximum size after decompression, in bytes; the client packs at most 5 MiB."""
_ZIP: Final = "/api/leaderboard/v1/download/zip"
_IMAGE_EXTENSIONS: Final = frozenset({"png", "jpeg", "gif", "bmp", "webp"})
_SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
}

Into = Annotated[str, Query(alias="experimentIdentifier", max_length=8192)]
Ext = Annotated[str, Query(max_length=255)]
Id = Annotated[str, Query(alias="uploadId", max_length=100)]
Total = Annotated[int, Query(alias="totalLength", ge=0, lt=1 << 62)]


# ---------------------------------------------------------------------- uploads


def _sub_path(
    request: Request, given: Annotated[str, Query(alias="subPath", max_length=4096)] = ""
) -> str | None:
    # Only operations on file sets have one.
    if "/upload/member" not in request.url.path:
        return None
    return _checked_path(given)


Sub = Annotated[str | None, Depends(_sub_path)]


async def _receive(
    request: Request,
    identifier: str,
    path: str,
    work: Callable[[Container, bytes], dict[str, Any] | None],
) -> Response:
    container = await run_in_threadpool(find_container, request, identifier, Role.CONTRIBUTOR)
    server = server_of(request)

    def worked(body: bytes) -> Response:
        try:
            return answer(work(container, body) or {"errors": []})
        except (PathError, RefusedError) as error:
            return answer({"errors": [{"errorDescription": f"{path[:200]}: {error}"}]})

    with server.intake.counting_bytes() as arriving:
        body = await received(request, arriving)
        return await run_in_threadpool(worked, body)


def _change(
    request: Request, container: Container, path: str, change: Callable[[BatchOperations], None]
) -> None:
    check_writable(path)

    def fill(batch: Batch) -> None:
        change(BatchOperations(server_of(request), container, batch))

    log_of(request, container).write(fill)


def _file_record(path: str, ext: str, size: int, digest: str) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    shown = f"{name}.{ext}" if ext else name
    return {"name": shown, "ext": ext, "size": size, "sha256": digest}


def _member_record(server: Server, name: str, size: int, digest: str) -> dict[str, Any]:
    found = _file_record(name, "", size, digest)
    ext = found["name"].rpartition(".")[2] if "." in found["name"] else ""
    return found | {"ext": ext, "mtime_ns": server.now_ns()}


def _ext(given: str) -> str:
    return re.sub(r"[^\w+-]", "", given)[:40]


def _checked_path(sub: str) -> str:
    return "/".join(parts_of(sub, "subPath"))


def _put(
    request: Request,
    container: Container,
    path: str,
    sub: str | None,
    ext: str,
    size: int,
    digest: str,
) -> None:
    if sub is None:
        record = {"op": "file", "file": _file_record(path, _ext(ext), size, digest)}
        _change(request, container, path, lambda to: to.put(path, "file", record))
    else:
        member = {sub: _member_record(server_of(request), sub, size, digest)}
        _change(request, container, path, lambda to: to.put_members(path, member))


def _destination(path: str, sub: str | None) -> str:
    return f"file {path}" if sub is None else f"member {path} {sub}"


@router.answers("fileAtomUpload")
@router.answers("fileSetFileUpload")
async def put(request: Request, identifier: Into, path: At, sub: Sub, ext: Ext = "") -> Response:
    """Store a file, or a file of a set."""

    def work(container: Container, body: bytes) -> None:
        digest = keep_content(server_of(request), container, body)
        _put(request, container, path, sub, ext, len(body), digest)

    return await _receive(request, identifier, path, work)


@router.answers("fileAtomMultipartUploadStart")
@router.answers("fileSetFileMultipartUploadStart")
def begin(
    request: Request, identifier: Into, path: At, size: Total, sub: Sub, ext: Ext = ""
) -> Response:
    """Begin the upload of a large file; only this request has the file extension."""
    what = _destination(path, sub)
    container = find_container(request, identifier, Role.CONTRIBUTOR)
    server = server_of(request)
    if size > server.blobs.limits.blob_bytes:
        raise Refusal(
            413,
            "too-large",
            f"this server accepts files of up to {server.blobs.limits.blob_bytes:,} bytes",
        )
    server.quota.expect(container.project, size)
    name = begin_upload(server, container, what, size).name
    return answer({"uploadId": f"{name}.{_ext(ext)}".rstrip("."), "errors": []})


@router.answers("fileAtomMultipartUploadPart")
@router.answers("fileSetFileMultipartUploadPart")
async def put_part(request: Request, identifier: Into, path: At, given: Id, sub: Sub) -> Response:
    """Store a part of a large file."""
    name, what = given.partition(".")[0], _destination(path, sub)

    def work(container: Container, body: bytes) -> None:
        upload = find_upload(server_of(request), container, what, name)
        if not upload.is_stored:
            upload.put(request.headers.get("x-range", ""), body)

    return await _receive(request, identifier, path, work)


@router.answers("fileAtomMultipartUploadFinish")
@router.answers("fileSetFileMultipartUploadFinish")
async def finish(request: Request, identifier: Into, path: At, given: Id, sub: Sub) -> Response:
    """Finish the upload of a large file."""
    name, _, ext = given.partition(".")
    what = _destination(path, sub)

    def work(container: Container, _: bytes) -> None:
        server = server_of(request)
        upload = find_upload(server, container, what, name)
        if upload.is_stored:
            return
        try:
            digest = upload.keep(server, container)
        except (ArgumentError, FileNotFoundError):
            if upload.is_stored:  # stored by an earlier copy of this request
                return
            raise
        _put(request, container, path, sub, ext, upload.size, digest)
        upload.drop()

    return await _receive(request, identifier, path, work)


@router.answers("uploadFileSetAttributeTar")
async def put_tar(
    request: Request,
    identifier: RunId,
    path: At,
    reset: Annotated[str, Query(max_length=10)] = "False",
) -> Response:
    """Store several small files of a set at once."""

    def work(container: Container, body: bytes) -> None:
        server, members = server_of(request), {}
        for name, data in _unpack(body):
            digest = keep_content(server, container, data)
            members[name] = _member_record(server, name, len(data), digest)
        again = reset.lower() == "true"
        _change(request, container, path, lambda to: to.put_members(path, members, reset=again))

    return await _receive(request, identifier, path, work)


def _unpack(body: bytes) -> Iterator[tuple[str, bytes]]:
    if not body:
        return
    unpacking = zlib.decompressobj(31)
    try:
        plain = unpacking.decompress(body, _MAX_INFLATED)
        if unpacking.unconsumed_tail:
            raise ArgumentError(f"an archive may have up to {_MAX_INFLATED:,} bytes")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as package:
            for each in package:
                if each.isreg() and (file := package.extractfile(each)) is not None:
                    yield _checked_path(each.name), file.read()
    except (zlib.error, tarfile.TarError, EOFError) as error:
        raise ArgumentError(f"expected an archive of files (tar.gz): {error}") from error


# ---------------------------------------------------------------------- downloads


@router.answers("downloadAttribute")
def get_file(request: Request, identifier: RunId, path: At) -> Response:
    """Return the content of a file."""
    read = read_of(request, identifier)
    file = read.value_of(path, "file")
    blob = _blob(read, file)
    if blob is None:
        raise missing(path)
    return _file_response(blob.read(), download_name(file, path), blob.size)


def _blob(read: ContainerReader, file: Any) -> Blob | None:
    digest = (file or {}).get("sha256")
    if not digest or file.get("dir"):
        return None
    return read.server.blobs.find(read.container.project, digest)


def _file_response(
    parts: Iterator[bytes], name: str, size: int | None, kind: str = "application/octet-stream"
) -> Response:
    plain = re.sub(r"[^A-Za-z0-9._ +-]", "_", name)
    headers = _SAFE | {"Content-Disposition": f'attachment; filename="{plain}"'}
    if size is not None:
        headers["Content-Length"] = str(size)
    return StreamingResponse(parts, 200, headers, kind)


@router.answers("getImageSeriesValue")
def get_image(
    request: Request, identifier: RunId, path: At, index: Annotated[int, Query(ge=0)]
) -> Response:
    """Return one image of a series, by its index."""
    read = read_of(request, identifier)
    read.value_of(path, "file_series")
    points = read.reader.files(path)
    blob = _blob(read, points[index].file) if index < len(points) else None
    if blob is None:
        raise missing(path)
    ext = str(points[index].file.get("ext") or "")
    kind = f"image/{ext}" if ext in _IMAGE_EXTENSIONS else "application/octet-stream"
    return _file_response(blob.read(), f"{index}.{ext}", blob.size, kind)


@router.answers("lsFileSetAttribute")
def list_files(
    request: Request,
    identifier: RunId,
    path: At,
    folder: Annotated[str, Query(alias="path", max_length=4096)] = "",
) -> Response:
    """Return the direct entries of a folder in a file set."""
    members = read_of(request, identifier).value_of(path, "file_set")
    begin = folder.strip("/").removeprefix("./")
    begin = f"{begin}/" if begin not in ("", ".") else ""
    files: list[dict[str, Any]] = []
    folders: dict[str, tuple[int, int]] = {}
    for name, file in sorted(members.items()):
        if not name.startswith(begin):
            continue
        first, _, rest = name.removeprefix(begin).partition("/")
        size, mtime = file.get("size") or 0, int(file.get("mtime_ns") or 0)
        if rest:
            known = folders.get(first, (0, 0))
            folders[first] = (known[0] + size, max(known[1], mtime))
        else:
            files.append(_entry(first, size, mtime, "file"))
    if begin and not files and not folders:
        raise missing(f"{path}/{folder}")
    shown = [_entry(name, *known, "directory") for name, known in folders.items()]
    return answer([*shown, *files])


def _entry(name: str, size: int, mtime_ns: int, kind: str) -> dict[str, Any]:
    mtime = as_time(datetime.fromtimestamp(mtime_ns / 1e9, timezone.utc))
    return {"name": name, "size": size, "mtime": mtime, "fileType": kind}


@router.answers("prepareForDownloadFileSetAttributeZip")
def prepare(request: Request, identifier: RunId, path: At) -> Response:
    """Return the id of a file set's archive; no preparation is needed."""
    read = read_of(request, identifier)
    read.value_of(path, "file_set")
    return answer({"id": f"{container_id(read.container)}/{path}"})


@router.answers("getDownloadPrepareRequest")
def prepared(request: Request, id: Annotated[str, Query(max_length=32768)]) -> Response:  # noqa: A002 - theirs
    """Return the address of the archive."""
    expect_somebody(request)
    return answer({"id": id, "downloadUrl": f"{base_of(request)}{_ZIP}?{urlencode({'id': id})}"})


@router.get(_ZIP, include_in_schema=False)
def get_zip(request: Request, id: Annotated[str, Query(max_length=32768)]) -> Response:  # noqa: A002 - theirs
    """Return a file set as one archive."""
    identifier, _, path = id.partition("/")
    read = read_of(request, identifier)
    members = read.value_of(path, "file_set")
    name = path.rpartition("/")[2] + ".zip"
    return _file_response(_zip(read, members), name, None, "application/zip")


class _Sink(io.RawIOBase):
    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def drain(self) -> bytes:
        found = b"".join(self._parts)
        self._parts = []
        return found


def _zip(read: ContainerReader, members: Mapping[str, Any]) -> Iterator[bytes]:
    sink = _Sink()
    folders = {"/"}
    for name in members:
        parts = name.split("/")[:-1]
        folders |= {"/".join(parts[:end]) + "/" for end in range(1, len(parts) + 1)}
    with zipfile.ZipFile(cast("Any", sink), "w", zipfile.ZIP_STORED) as archive:
        for folder in sorted(folders):
            archive.writestr(zipfile.ZipInfo(folder), b"")
        for name, file in sorted(members.items()):
            blob = _blob(read, file)
            if blob is None:
                continue
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as entry:
                for part in blob.read():
                    entry.write(part)
                    yield sink.drain()
    yield sink.drain()
