"""The files of a run whose folder can be looked into: what is kept of them, and where they are."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seamark.blobs.inside import find_inside, is_below
from seamark.blobs.read import is_pending, read_file, read_text, write_file
from seamark.blobs.recover import finish_staged
from seamark.blobs.references import are_recorded_by_user
from seamark.blobs.store import blob_path, has_blob, open_blob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seamark.journal.folder import RunFolder

__all__ = ["FolderContents"]


class FolderContents:
    """The files of a run below a root; see `seamark.reading.contents.Contents`.

    Args:
        folder: Where the run lies.
    """

    kind = "folder"

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        """The run folder."""
        return str(self._folder.path)

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a very long text; see `seamark.blobs.read.read_text`."""
        return read_text(self._folder, record)

    def read(self, file: Mapping[str, Any], path: str, *, references: bool = False) -> bytes:
        """Return the bytes of a recorded file; see `seamark.blobs.read.read_file`."""
        return read_file(self._folder, file, path, references=references)

    def write(
        self,
        file: Mapping[str, Any],
        target: Path,
        path: str,
        *,
        name: str | None = None,
        references: bool = False,
        verify: bool = False,
    ) -> Path:
        """Write a recorded file, or folder, to disk; see `seamark.blobs.read.write_file`."""
        return write_file(
            self._folder, file, target, path, name=name, references=references, verify=verify
        )

    def begin_of(self, sha256: str, size: int, most: int) -> bytes:
        """Return the first bytes of a content that the run keeps itself."""
        with open_blob(self._folder, sha256, size) as blob:
            return blob.read(most)

    def finish(self, files: Collection[Mapping[str, Any]]) -> bool:
        """Store what a process that died had taken of files, in a folder of this user."""
        if not any(map(is_pending, files)) or not _is_own(self._folder.path):
            return False
        with contextlib.suppress(OSError):  # a root that is read-only stays as it is
            finish_staged(self._folder)
        return True

    def whereabouts(self, record: Mapping[str, Any]) -> str:
        """Return where the content of a FILE record is; see `Contents.whereabouts`.

        What it refers to is looked at only in the run folder, or if you recorded it on this host.
        """
        if reference := record.get("ref"):
            if (found := find_inside(self._folder, record)) is not None:
                moved = not is_below(self._folder, str(reference))
                return "reference" if _is_same(found.status, record, moved=moved) else "changed"
            ours = _is_recorded_by_user(self._folder)
            return _reference_state(str(reference), record) if ours else "reference"
        if record.get("pending"):
            return "pending"
        if digest := record.get("sha256"):
            return "kept" if has_blob(self._folder, str(digest)) else "missing"
        return "kept"

    def referred(self, record: Mapping[str, Any]) -> str:
        """Return where a FILE record leads now; empty if it is no reference.

        Into the run folder as it is now, if it was recorded there, wherever the folder has been
        moved or copied since.
        """
        reference = str(record.get("ref") or "")
        if reference and not is_below(self._folder, reference):
            found = find_inside(self._folder, record)
            return reference if found is None else str(found.path)
        return reference

    def stored_at(self, sha256: str) -> str:
        """Return the file that holds a content."""
        return str(blob_path(self._folder, sha256))

    def shorter(self, name: str) -> str:
        """Return the name of a file, relative to the run's folder if it lies in there."""
        return name.removeprefix(f"{self._folder.path.absolute()}/")


@functools.lru_cache(maxsize=16)
def _is_recorded_by_user(folder: RunFolder) -> bool:
    """Cache `are_recorded_by_user`: whether the references of a run may be followed."""
    return are_recorded_by_user(folder)


def _reference_state(reference: str, record: Mapping[str, Any]) -> str:
    if "://" in reference:
        return "reference"
    try:
        found = Path(reference).stat()
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except (OSError, ValueError):
        return "reference"
    return "reference" if _is_same(found, record, moved=False) else "changed"


def _is_same(found: os.stat_result, record: Mapping[str, Any], *, moved: bool) -> bool:
    """Return whether what a reference leads to looks like what was recorded.

    Args:
        found: Its status.
        record: FILE record.
        moved: The run folder is a copy or was moved; copies have times of their own.
    """
    return bool(record.get("dir")) or (
        found.st_size == record.get("size", found.st_size)
        and (moved or found.st_mtime_ns == record.get("mtime_ns", found.st_mtime_ns))
    )


def _is_own(folder: Path) -> bool:
    """Return whether a folder is this user's; one of somebody else is left as it is."""
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False
