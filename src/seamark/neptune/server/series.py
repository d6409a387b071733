"""Series for Neptune's client, and temporary files for uploads in parts."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import Query, Request, Response

from seamark.errors import ArgumentError
from seamark.neptune.server.answers import Routes, answer
from seamark.neptune.server.containers import Asked, read_of
from seamark.neptune.server.operations import PART_BYTES
from seamark.neptune.server.reading import Read, number, shown_step
from seamark.server.failures import Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seamark.neptune.server.projects import Container
    from seamark.reading.points import Points
    from seamark.server.state import Server

__all__ = ["At", "begin_upload", "find_upload"]


router: Final = Routes()
_MOST: Final = 10_000
_KINDS: Final = {
    "Float": ("float", "int"),
    "Int": ("int",),
    "Bool": ("bool",),
    "String": ("string", "experimentState"),
    "Datetime": ("datetime",),
    "StringSet": ("stringSet",),
    "File": ("file",),
    "Artifact": ("artifact",),
    "FloatSeries": ("floatSeries",),
    "StringSeries": ("stringSeries",),
}
At = Annotated[str, Query(alias="attribute", max_length=8192)]
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=0)]


def missing(path: str) -> Refusal:
    """Return the answer for a path without a value of the requested kind."""
    return Refusal(404, "no-attribute", f"nothing of that kind is at {path[:200]!r}")


def _single(name: str, kinds: tuple[str, ...]) -> None:
    def get(request: Request, identifier: Asked, path: At) -> Response:
        found = read_of(request, identifier).as_attribute(path)
        if found is None or found["type"] not in kinds:
            raise missing(path)
        return answer(found[f"{found['type']}Properties"])

    router.answers(f"get{name}Attribute")(get)


for _name, _kinds in _KINDS.items():
    _single(_name, _kinds)


def _family(read: Read, path: str, family: str) -> int:
    found = read.attribute(path)
    if found is None or found.family != family:
        raise missing(path)
    return int(found.value.count)


@router.answers("getFloatSeriesValues")
def floats(
    request: Request, identifier: Asked, path: At, limit: Limit = 1000, offset: Offset = 0
) -> Response:
    """Return points of a series of numbers, by step."""
    read = read_of(request, identifier)
    _family(read, path, "float_series")
    points: Points = read.reader.points(path)
    part = points[offset : offset + min(limit, _MOST)]
    steps, values, times = (column.tolist() for column in (part.step, part.value, part.time_ns))
    found = [
        {"timestampMillis": time // 1_000_000, "step": number(step), "value": value}
        for step, value, time in zip(steps, values, times, strict=True)
    ]
    return answer({"totalItemCount": len(points), "values": found})


@router.answers("getStringSeriesValues")
def strings(
    request: Request, identifier: Asked, path: At, limit: Limit = 1000, offset: Offset = 0
) -> Response:
    """Return texts of a series, by step."""
    read = read_of(request, identifier)
    _family(read, path, "string_series")
    points = read.reader.texts(path)
    found = [
        {
            "timestampMillis": point.time_ns // 1_000_000,
            "step": shown_step(point.step),
            "value": point.text if isinstance(point.text, str) else read.text(point.text),
        }
        for point in points[offset : offset + min(limit, _MOST)]
    ]
    return answer({"totalItemCount": len(points), "values": found})


@router.answers("getImageSeriesValues")
def images(request: Request, identifier: Asked, path: At) -> Response:
    """Return the number of pictures in a series."""
    read = read_of(request, identifier)
    return answer({"totalItemCount": _family(read, path, "file_series"), "values": []})


@router.answers("getFloatSeriesValuesCSV")
def csv(request: Request, identifier: Asked, path: At) -> Response:
    """Return all points of a series of numbers: step, time in milliseconds, value."""
    read = read_of(request, identifier)
    _family(read, path, "float_series")
    points: Points = read.reader.points(path)
    columns = (points.step, points.time_ns, points.value)
    lines = [
        f"{number(step)},{time // 1_000_000},{value!r}"
        for step, time, value in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return Response("\n".join([*lines, ""]), media_type="text/csv")


_FOLDER: Final = "neptune-uploads"
_LEFT_S: Final = 24 * 3600
"""What nobody went on with for so long is removed."""
_NAME: Final = re.compile(r"[0-9a-f]{32}-([0-9a-f]{16})-(\d{1,18})")
_RANGE: Final = re.compile(r"bytes=(\d{1,18})-(\d{1,18})/(\d{1,18})")


class Upload:
    """File of `size` bytes that one client uploads in parts, each to any process of a server."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size, self.name = path, size, path.name
        self._parts = path.with_suffix(".parts")

    @property
    def is_stored(self) -> bool:
        """Whether it was kept; the answer to the client may have been lost."""
        return self.path.with_suffix(".done").is_file()

    def put(self, given: str, data: bytes) -> None:
        """Take a part; the same again changes nothing.

        `given` says which bytes they are, ``bytes=0-9/100``; `ArgumentError` if they are not.
        """
        found = _RANGE.fullmatch(given.strip())
        start, last, whole = map(int, found.groups()) if found else (0, -2, -1)
        if whole != self.size or last - start + 1 != len(data) or last >= self.size:
            msg = "Length of stream does not match given range"  # the client begins again for it
            raise ArgumentError(msg)
        descriptor = os.open(self.path, os.O_WRONLY)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, start)
                view, start = view[written:], start + written
        finally:
            os.close(descriptor)
        with self._parts.open("a") as parts:
            parts.write(f"{start - len(data)} {start}\n")

    def keep(self, server: Server, container: Container) -> str:
        """Keep the whole for good, and return its SHA-256 (hex)."""
        if not self._is_whole():
            msg = "Length of stream does not match given range"
            raise ArgumentError(msg)
        digest = hashlib.sha256()
        for part in self._read():
            digest.update(part)
        name, (project, run), offset = digest.hexdigest(), container, 0
        for part in self._read():
            server.blobs.put(project, run, name, self.size, offset, part)
            offset += len(part)
        return name

    def drop(self) -> None:
        """Remove the received bytes; the fact that they were stored is remembered for a day."""
        self._parts.touch()
        self._parts.replace(self.path.with_suffix(".done"))
        self.path.unlink(missing_ok=True)

    def _is_whole(self) -> bool:
        end = 0
        with contextlib.suppress(OSError, ValueError):
            lines = self._parts.read_text().splitlines()
            for start, stop in sorted(tuple(map(int, line.split())) for line in lines):
                if start > end:
                    return False
                end = max(end, stop)
        return end == self.size

    def _read(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            while part := file.read(PART_BYTES):
                yield part


def begin_upload(server: Server, container: Container, what: str, size: int) -> Upload:
    """Begin an upload of a number of bytes; `what` has its destination in the run."""
    folder = server.settings.folder / _FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_old(folder)
    path = folder / f"{secrets.token_hex(16)}-{_mark(container, what)}-{size}"
    with path.open("xb") as file:
        file.truncate(size)
    return Upload(path, size)


def find_upload(server: Server, container: Container, what: str, name: str) -> Upload:
    """Return the upload that `begin_upload` began for this place; it may be stored already."""
    found = _NAME.fullmatch(name)
    if found is not None and found[1] == _mark(container, what):
        upload = Upload(server.settings.folder / _FOLDER / name, int(found[2]))
        if upload.is_stored or upload.path.is_file():
            return upload
    raise Refusal(404, "no-upload", "this upload is not known here; begin it again")


def _mark(container: Container, what: str) -> str:
    return hashlib.sha256("\0".join([*container, what]).encode()).hexdigest()[:16]


def _remove_old(folder: Path) -> None:
    before = time.time() - _LEFT_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
