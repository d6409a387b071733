"""Series for Neptune's client, and temporary files of uploads in parts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import time
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Query, Request, Response

from seamark.blobs.store import digest_of
from seamark.errors import ArgumentError
from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import RunId, read_of
from seamark.neptune.server.operations import PART_BYTES
from seamark.neptune.server.reading import missing, number, shown_step
from seamark.server.failures import Refusal

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.neptune.server.projects import Container
    from seamark.reading.points import Points
    from seamark.server.state import Server


router: Final = Routes()
_MAX_POINTS: Final = 10_000
_KINDS: Final = (
    *("float", "int", "bool", "string", "datetime", "stringSet", "file", "artifact"),
    *("floatSeries", "stringSeries"),
)
_LIKE: Final = {"float": "int", "string": "experimentState"}
"""Type that is also returned where another one is requested."""
At = Annotated[str, Query(alias="attribute", max_length=8192)]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=0)]


def _add_single_route(kind: str) -> None:
    def get(request: Request, identifier: RunId, path: At) -> Response:
        found = read_of(request, identifier).as_attribute(path)
        if found is None or found["type"] not in (kind, _LIKE.get(kind)):
            raise missing(path)
        return answer(found[f"{found['type']}Properties"])

    router.answers(f"get{kind[0].upper()}{kind[1:]}Attribute")(get)


for _kind in _KINDS:
    _add_single_route(_kind)


@router.answers("getFloatSeriesValues")
def floats(
    request: Request, identifier: RunId, path: At, limit: Limit = 1000, offset: Offset = 0
) -> Response:
    """Return points of a float series, by step."""
    read = read_of(request, identifier)
    read.value_of(path, "float_series")
    points: Points = read.reader.points(path)
    part = points[offset : offset + min(limit, _MAX_POINTS)]
    steps, values, times = (column.tolist() for column in (part.step, part.value, part.time_ns))
    found = [
        {"timestampMillis": time // 1_000_000, "step": number(step), "value": value}
        for step, value, time in zip(steps, values, times, strict=True)
    ]
    return answer({"totalItemCount": len(points), "values": found})


@router.answers("getStringSeriesValues")
def strings(
    request: Request, identifier: RunId, path: At, limit: Limit = 1000, offset: Offset = 0
) -> Response:
    """Return points of a text series, by step."""
    read = read_of(request, identifier)
    read.value_of(path, "string_series")
    points = read.reader.texts(path)
    found = [
        {
            "timestampMillis": point.time_ns // 1_000_000,
            "step": shown_step(point.step),
            "value": point.text if isinstance(point.text, str) else read.text(point.text),
        }
        for point in points[offset : offset + min(limit, _MAX_POINTS)]
    ]
    return answer({"totalItemCount": len(points), "values": found})


@router.answers("getImageSeriesValues")
def images(request: Request, identifier: RunId, path: At) -> Response:
    """Return the number of images in a series."""
    found = read_of(request, identifier).value_of(path, "file_series")
    return answer({"totalItemCount": found.count, "values": []})


@router.answers("getFloatSeriesValuesCSV")
def csv(request: Request, identifier: RunId, path: At) -> Response:
    """Return all points of a float series as CSV: step, time in milliseconds, value."""
    read = read_of(request, identifier)
    read.value_of(path, "float_series")
    points: Points = read.reader.points(path)
    columns = (points.step, points.time_ns, points.value)
    lines = [
        f"{number(step)},{time // 1_000_000},{value!r}"
        for step, time, value in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Response("\n".join([*lines, ""]), media_type="text/csv")


_FOLDER: Final = "neptune-uploads"
_MAX_UPLOAD_AGE_S: Final = 24 * 3600
"""Age at which an unfinished upload is removed, in seconds."""
_NAME: Final = re.compile(r"[0-9a-f]{32}-([0-9a-f]{16})-(\d{1,18})")
_WRONG_RANGE: Final = "Length of stream does not match given range"
"""Message on which the client restarts the upload."""
_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{1,18})/(\d{1,18})")


class Upload:
    """File of `size` bytes, uploaded in consecutive parts, each to any process of a server."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size, self.name = path, size, path.name
        self._done_mark = path.with_name(f"{path.name}.done")

    @property
    def is_stored(self) -> bool:
        """Whether the file is stored; the answer to the client may have been lost."""
        return self._done_mark.is_file()

    def put(self, given: str, data: bytes) -> None:
        """Store a part; storing the same part again changes nothing.

        `given` is its byte range, as ``bytes=0-9/100``; `ArgumentError` if it does not fit.
        """
        found = _RANGE.fullmatch(given.strip())
        start, last, whole = map(int, found.groups()) if found else (0, -2, -1)
        if whole != self.size or last - start + 1 != len(data) or last >= self.size:
            raise ArgumentError(_WRONG_RANGE)
        with self.path.open("r+b") as file:
            if start > file.seek(0, os.SEEK_END):
                raise ArgumentError(_WRONG_RANGE)
            file.seek(start)
            file.write(data)

    def keep(self, server: Server, container: Container) -> str:
        """Store the whole file durably and return its SHA-256 (hex)."""
        with self.path.open("rb") as file:
            digest, size = digest_of(file.fileno())
            if size != self.size:
                raise ArgumentError(_WRONG_RANGE)
            file.seek(0)
            for start in range(0, size, PART_BYTES) or (0,):
                server.blobs.put(*container, digest, size, start, file.read(PART_BYTES))
        return digest

    def drop(self) -> None:
        """Remove the received parts; `is_stored` remains true for a day."""
        self._done_mark.touch()
        self.path.unlink(missing_ok=True)


def begin_upload(server: Server, container: Container, what: str, size: int) -> Upload:
    """Begin an upload of `size` bytes; `what` identifies its destination in the run."""
    folder = server.settings.folder / _FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_old_uploads(folder)
    path = folder / f"{secrets.token_hex(16)}-{_target_digest(container, what)}-{size}"
    path.touch()
    return Upload(path, size)


def find_upload(server: Server, container: Container, what: str, name: str) -> Upload:
    """Return the upload begun by `begin_upload`; it may be stored already."""
    if (found := _NAME.fullmatch(name)) is not None:
        upload = Upload(server.settings.folder / _FOLDER / name, int(found[2]))
        # In this order: another request may be finishing it, see `Upload.drop`.
        is_here = upload.path.is_file() or upload.is_stored
        if is_here and found[1] == _target_digest(container, what):
            return upload
    raise Refusal(404, "no-upload", "unknown upload; start it again")


def _target_digest(container: Container, what: str) -> str:
    return hashlib.sha256("\0".join([*container, what]).encode()).hexdigest()[:16]


def _remove_old_uploads(folder: Path) -> None:
    before = time.time() - _MAX_UPLOAD_AGE_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
