"""What the lane's thread does: store what is held, and digest what is referred to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from seamark.content._hold import ChangedError, Hold
from seamark.journal.blobs import (
    Stamp,
    adopt,
    copy_blob,
    digest_of,
    open_source,
    put_bytes,
    sync_blob,
)

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.content._lane import ContentLane
    from seamark.journal.folder import RunFolder

__all__ = ["BytesJob", "DigestJob", "StoreJob", "SyncJob", "Target", "store_hold", "tree_bytes"]


def tree_bytes(members: dict[str, list[Any]]) -> bytes:
    """Return the list of a folder's files as bytes; their SHA-256 is that of the folder.

    Args:
        members: ``{relative name: [size in bytes, SHA-256]}``.
    """
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def store_hold(folder: RunFolder, hold: Hold) -> tuple[str, int]:
    """Make a blob of a file that is held, and return SHA-256 and size in bytes.

    Raises:
        ChangedError: If it was rewritten before it was copied, or is gone.
        OSError: If the disk refuses.
    """
    try:
        if hold.private and hold.staged is not None:
            return adopt(folder, hold.staged)
        fd = hold.open()
    except FileNotFoundError as error:  # somebody removed .staging
        raise ChangedError(hold.source) from error
    try:
        hold.check(fd)
        return copy_blob(folder, fd, lambda: hold.check(fd))
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a content is recorded.

    Attributes:
        path: Attribute path.
        token: Ties the record that it was taken to the one that it is stored.
        name: Member of a file set, or None for a file.
        file: The FILE record without a digest.
    """

    path: str
    token: str
    name: str | None
    file: dict[str, Any]

    def op(self, file: dict[str, Any]) -> dict[str, Any]:
        """Return the op that completes this target."""
        if self.name is None:
            return {"op": "digest", "path": self.path, "token": self.token, "file": file}
        return {"op": "files", "path": self.path, "members": {self.name: file | {"token": self.token}}}


@dataclass(eq=False)
class StoreJob:
    """Make blobs of a file or folder that is held.

    Attributes:
        lane: Where it is recorded.
        holds: The files held, by name within the folder; a file by itself is ``""``.
        targets: Where it is recorded; empty if all were deleted meanwhile.
        place: The folder in ``.staging/`` of a folder, None for a file.
        done: Whether it is stored and recorded; nothing can be added then.
    """

    lane: ContentLane
    holds: dict[str, Hold]
    targets: list[Target]
    place: Path | None = None
    done: bool = False

    @property
    def key(self) -> tuple[str, Stamp] | None:
        """What a single file is recognised by, None for a folder."""
        only = self.holds.get("") if self.place is None else None
        return None if only is None or not only.settled else (only.source, only.stamp)

    def run(self) -> None:
        """Store, record, let go."""
        if not self.targets:
            self.lane.withdraw(self)
            self.release()
            return
        members: dict[str, list[Any]] = {}
        lost = False
        for name, hold in self.holds.items():
            try:
                sha256, size = store_hold(self.lane.folder, hold)
            except ChangedError:
                lost = True
                members[name] = [hold.stamp.size, None]
                self.lane.note_changed(hold)
            else:
                members[name] = [size, sha256]
        if self.place is None:
            size, sha256_or_none = members.popitem()[1]
            found = {"size": size, "sha256": sha256_or_none}
        else:
            found = {"members": members, "size": sum(size for size, _ in members.values())}
            found["sha256"] = None if lost else put_bytes(self.lane.folder, tree_bytes(members))
        if self.lane.complete(self, found):
            self.release()

    def release(self) -> None:
        """Let go of everything held."""
        for hold in self.holds.values():
            hold.release()
        if self.place is not None:
            shutil.rmtree(self.place, ignore_errors=True)

    def give_up(self) -> None:
        """Leave what is staged, or the source, to whoever completes it."""
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors; what is staged stays."""
        self.done = True
        for hold in self.holds.values():
            if hold.fd is not None:
                with contextlib.suppress(OSError):
                    os.close(hold.fd)
                hold.fd = None


@dataclass(eq=False)
class DigestJob:
    """Find the digest of a file or folder that is referred to, if it is still the same.

    Attributes:
        lane: Where it is recorded.
        target: What is completed.
        sources: Resolved paths and stamps, by name within the folder; a file by itself is ``""``.
    """

    lane: ContentLane
    target: Target
    sources: dict[str, tuple[str, Stamp]]
    _found: dict[str, list[Any]] = field(default_factory=dict)

    def run(self) -> None:
        """Digest and record; nothing if a file is gone or rewritten, which readers see as well."""
        for name, (source, stamp) in self.sources.items():
            if name not in self._found and not self._digest(name, source, stamp):
                return
        if self.target.file.get("dir"):
            tree = hashlib.sha256(tree_bytes(self._found)).hexdigest()
            more = {"members": self._found, "sha256": tree}
        else:
            more = {"sha256": self._found[""][1]}
        self.lane.complete_reference(self, more)

    def _digest(self, name: str, source: str, stamp: Stamp) -> bool:
        try:
            fd = open_source(source)
        except FileNotFoundError:
            return False
        try:
            if Stamp.of(os.fstat(fd)) != stamp:
                return False
            sha256, size = digest_of(fd)
            same = Stamp.of(os.fstat(fd)) == stamp
        finally:
            os.close(fd)
        if same:
            self._found[name] = [size, sha256]
        return same

    def give_up(self) -> None:
        """The reference stays without a digest."""

    def abandon(self) -> None:
        """Nothing is held."""


@dataclass(eq=False)
class BytesJob:
    """Store content that the disk refused when it was given."""

    lane: ContentLane
    content: bytes

    def run(self) -> None:
        """Try again."""
        sha256 = put_bytes(self.lane.folder, self.content)
        self.lane.kept_in_memory(-len(self.content))
        sync_blob(self.lane.folder, sha256)

    def give_up(self) -> None:
        """It was counted when it failed."""

    def abandon(self) -> None:
        """The parent keeps trying."""
        self.lane.kept_in_memory(-len(self.content))


@dataclass(eq=False)
class SyncJob:
    """Force a blob to disk that was written on the caller's thread."""

    lane: ContentLane
    sha256: str

    def run(self) -> None:
        """Force it."""
        sync_blob(self.lane.folder, self.sha256)

    def give_up(self) -> None:
        """The kernel has it."""

    def abandon(self) -> None:
        """Nothing is held."""
