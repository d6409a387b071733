"""Files and folders whose bytes are taken and not stored yet."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seamark.blobs.records import Target, file_record, tree_bytes
from seamark.blobs.store import put_bytes
from seamark.blobs.take import ChangedError, HeldFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seamark.blobs.store import Stamp
    from seamark.journal.folder import RunFolder

__all__ = ["Pending"]


@dataclass(eq=False)
class Pending:
    """A file or folder on its way into the store.

    Attributes:
        place: The folder in ``.staging/`` of a folder, None for a file.
        strict: Whether bytes that were written since they were taken are worth nothing (a
            checkpoint); otherwise they are kept as they are, and marked (a log that grows).
        files: What was taken, by name within the folder; a file by itself is ``""``.
        targets: Where it is recorded; empty if all were deleted in the meantime.
        closed: Whether it is stored or left to others; no target can be added then.
    """

    place: Path | None
    strict: bool
    files: dict[str, HeldFile] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    closed: bool = False
    _members: dict[str, list[Any]] = field(default_factory=dict)
    _changed: bool = False

    @property
    def only(self) -> HeldFile | None:
        """The single file, None for a folder."""
        return self.files.get("") if self.place is None else None

    @property
    def key(self) -> tuple[str, Stamp] | None:
        """Key that identifies a single file when it is taken again; None if it has none."""
        only = self.only
        return None if only is None or not only.settled else (only.source, only.stamp)

    @property
    def is_stored(self) -> bool:
        """Whether every file was stored or found to be lost."""
        return self.files.keys() == self._members.keys()

    def record(self, name: str, ext: str) -> dict[str, Any]:
        """Return the FILE record that says that the bytes are taken."""
        stamps = [file.stamp for file in self.files.values()]
        newest = max((stamp.mtime_ns for stamp in stamps), default=None)
        size, only = sum(stamp.size for stamp in stamps), self.only
        if only is None:
            staged = self.place.name if self.place is not None else None
            members = {key: [file.stamp.size, None] for key, file in self.files.items()}
            return file_record(
                name, ext, size, mtime_ns=newest, staged=staged, dir=True, members=members
            )
        return file_record(
            name,
            ext,
            size,
            mtime_ns=newest,
            inode=only.stamp.inode,
            staged=only.staged.name if only.staged is not None else None,
            source=only.source if only.fd is not None else None,
        )

    def store(self, folder: RunFolder, changed: Callable[[HeldFile], None]) -> dict[str, Any]:
        """Make blobs of what was not stored before, and return what is known for the FILE record.

        Args:
            folder: The run.
            changed: Called with every file that was rewritten before it was copied.

        Raises:
            OSError: If the disk refuses.
        """
        for name, file in self.files.items():
            if name not in self._members:
                self._members[name] = self._store_one(folder, file, changed)
        found: dict[str, Any] = {"changed": True} if self._changed else {}
        if self.place is None:
            found["size"], sha256 = self._members[""]
        else:
            members = dict(self._members)
            found["members"], found["size"] = members, sum(size for size, _ in members.values())
            whole = all(sha256 for _, sha256 in members.values())
            sha256 = put_bytes(folder, tree_bytes(members)) if whole else None
        return found | ({"sha256": sha256} if sha256 else {"lost": "changed"})

    def _store_one(
        self, folder: RunFolder, file: HeldFile, changed: Callable[[HeldFile], None]
    ) -> list[Any]:
        """Return size and digest of a file; the digest is None if the bytes are lost."""
        try:
            sha256, size = file.store(folder)
        except ChangedError:
            self._changed = True
            try:
                if not self.strict:
                    sha256, size = file.store(folder, changed=True)
                    return [size, sha256]
            except ChangedError:  # gone
                pass
            changed(file)
            return [file.stamp.size, None]
        return [size, sha256]

    def release(self) -> None:
        """Let go of everything that was taken."""
        for file in self.files.values():
            file.release()
        if self.place is not None:
            shutil.rmtree(self.place, ignore_errors=True)

    def close(self) -> None:
        """Close the descriptors; what is staged stays, to be completed later."""
        self.closed = True
        for file in self.files.values():
            file.close()
