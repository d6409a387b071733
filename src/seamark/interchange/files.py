"""Files that a source names: only those that lie where they may, and never through a link."""

from __future__ import annotations

import contextlib
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.errors import ArgumentError
from seamark.journal.safe import is_folder, open_file, parts_of

if TYPE_CHECKING:
    from seamark.interchange.draft import Draft
    from seamark.interchange.found import Notes

__all__ = ["Places", "extension_of", "keep_zip", "open_below", "walk_below"]

REFUSED: Final = "files outside of the folders that may be read, or behind links: refused"
MISSING: Final = "files that are not there"

_SMALL: Final = 4 << 20
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"%PDF-", "pdf"),
    (b"PK\x03\x04", "zip"),
    (b"\x1f\x8b", "gz"),
    (b"<!doctype html", "html"),
    (b"<html", "html"),
    (b"<svg", "svg"),
)


def extension_of(name: str, head: bytes = b"") -> str:
    """Return the extension of a file, of its name or else of what it begins with; no dot."""
    if ext := os.path.splitext(name)[1].removeprefix("."):
        return ext
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    lowered = head.lower()
    return next((ext for magic, ext in _MAGIC if lowered.startswith(magic.lower())), "")


@contextlib.contextmanager
def open_below(base: Path, name: str) -> Iterator[BinaryIO]:
    """Open a regular file below a folder; its name comes from the source.

    Raises:
        ArgumentError: If the name leads out of the folder.
        OSError: If there is no such file, or a link is on the way.
    """
    parts = parts_of(name, "file")
    with os.fdopen(open_file(base.joinpath(*parts), len(parts)), "rb") as file:
        yield file


def walk_below(base: Path, name: str) -> Iterator[str]:
    """Yield the names, below a folder, of what lies in a folder that is below it.

    No link to a folder is followed.

    Raises:
        ArgumentError: If the name leads out of the folder.
    """
    parts = parts_of(name, "folder")
    here = base
    for part in parts:
        here /= part
        if not is_folder(here):
            return
    for folder, folders, names in os.walk(here):
        folders.sort()
        inside = os.path.relpath(folder, base).replace(os.sep, "/")
        for each in sorted(names):
            yield f"{inside}/{each}"


class Places:
    """The folders from which files may be taken that a source names by absolute paths.

    Args:
        folders: Absolute.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [Path(os.path.abspath(folder)) for folder in folders]

    def below(self, path: str) -> tuple[Path, str] | None:
        """Return the folder that an absolute path is in, and its name in there; None if in none."""
        clean = os.path.normpath(path)
        for folder in self.folders:
            if clean.startswith(f"{folder}/"):
                return folder, os.path.relpath(clean, folder).replace(os.sep, "/")
        return None

    def is_around(self, path: str) -> bool:
        """Return whether an absolute path is one of the folders, or in one."""
        clean = os.path.normpath(path)
        return any(clean == str(each) or clean.startswith(f"{each}/") for each in self.folders)


def keep_zip(
    file: BinaryIO, draft: Draft, path: str, notes: Notes
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and FILE record of what is in an archive.

    Args:
        file: The archive.
        draft: Keeps the contents.
        path: Of the file set, for notes.
        notes: Names that lead out of the set are refused and counted.

    Raises:
        zipfile.BadZipFile: If it is none, or damaged.
    """
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.filename.endswith("/"):  # a folder; the service wrote one called "/"
                continue
            is_link = stat.S_ISLNK(info.external_attr >> 16)
            try:
                parts_of(info.filename, "member")
            except ArgumentError:
                is_link = True
            if is_link or info.flag_bits & 1:
                notes.add(REFUSED, f"{path}: {info.filename!r:.80}")
                continue
            yield info.filename, _member(archive, info, draft)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, draft: Draft) -> dict[str, Any]:
    name = info.filename.rpartition("/")[2]
    ext = extension_of(name)
    with archive.open(info) as member:
        if info.file_size <= _SMALL:
            return draft.keep_bytes(member.read(), name, ext)
        with draft.scratch() as file:
            while block := member.read(1 << 20):
                file.write(block)
            file.flush()
            return draft.keep(file, name, ext)
