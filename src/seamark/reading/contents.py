"""Interface to the files of one run, wherever they are stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Contents"]


class Contents(Protocol):
    """The files and very long texts of one run, found by what was recorded of them.

    `seamark.blobs.contents.FolderContents` has those of a run folder, and
    `seamark.remote.http.contents.RemoteContents` those that a server keeps.
    """

    @property
    def kind(self) -> str:
        """Kind of location that `where` names: ``"folder"`` or ``"server"``."""
        ...

    @property
    def where(self) -> str:
        """Location of the run: its folder, or its address."""
        ...

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a very long text.

        Args:
            record: Its ``sha256`` and ``size``.

        Raises:
            FileMissingError: If it is not there, not what was recorded, or too large for memory.
        """
        ...

    def read(self, file: Mapping[str, Any], path: str, *, references: bool = False) -> bytes:
        """Return the bytes of a recorded file.

        Args:
            file: FILE record, of no folder.
            path: Attribute path, for messages.
            references: Open what the record refers to, wherever that is.

        Raises:
            FileMissingError: If the bytes are not there, or a reference is not opened.
        """
        ...

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
        ...

    def begin_of(self, sha256: str, size: int, most: int) -> bytes:
        """Return the first bytes of a content that the run keeps itself.

        Args:
            sha256: Its digest, hex.
            size: Of all of it, in bytes.
            most: At most so many.

        Raises:
            OSError: If it is not there.
            ValueError: If the digest is none.
        """
        ...

    def finish(self, files: Collection[Mapping[str, Any]]) -> bool:
        """Complete what a process that died left half done; return whether there may be more now.

        Args:
            files: The FILE records that are of interest.
        """
        ...

    def whereabouts(self, record: Mapping[str, Any]) -> str:
        """Return where the content of a FILE record is.

        ``kept`` (with the run), ``reference`` (where it was recorded), ``gone`` or ``changed`` (a
        reference to something that is no longer the same), ``pending`` (bytes taken, not stored
        yet), or ``missing`` (should be kept and is not).
        """
        ...

    def referred(self, record: Mapping[str, Any]) -> str:
        """Return where a FILE record leads now; empty if it is no reference."""
        ...

    def stored_at(self, sha256: str) -> str:
        """Return where a content is kept, as a person would look for it."""
        ...

    def shorter(self, name: str) -> str:
        """Return the name of a file, relative to the run if it lies in its folder."""
        ...
