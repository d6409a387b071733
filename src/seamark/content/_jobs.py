"""What the lane's thread does: store what is held, and digest what is referred to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections import deque
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
    sync_folder,
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


def store_hold(folder: RunFolder, hold: Hold, *, changed: bool = False) -> tuple[str, int]:
    """Make a blob of a file that is held, and return SHA-256 and size in bytes.

    Args:
        folder: The run.
        hold: The file.
        changed: Take the bytes that are there now, whatever was there before.

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
        if changed:
            return copy_blob(folder, fd)
        hold.check(fd)
        return copy_blob(folder, fd, lambda: hold.check(fd))
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True, eq=False)
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

    def taken(self) -> dict[str, Any]:
        """Return the op that says that its bytes are taken."""
        if self.name is None:
            return {"op": "own", "path": self.path, "token": self.token, "file": self.file}
        return self.op(self.file)

    def op(self, file: dict[str, Any]) -> dict[str, Any]:
        """Return the op that completes this target."""
        if self.name is None:
            return {"op": "digest", "path": self.path, "token": self.token, "file": file}
        return {
            "op": "files",
            "path": self.path,
            "members": {self.name: file | {"token": self.token}},
        }


@dataclass(eq=False)
class StoreJob:
    """Make blobs of a file or folder that is held.

    Attributes:
        lane: Where it is recorded.
        holds: The files held, by name within the folder; a file by itself is ``""``.
        targets: Where it is recorded; empty if all were deleted meanwhile.
        place: The folder in ``.staging/`` of a folder, None for a file.
        strict: Whether bytes that were written since they were taken are worth nothing (a
            checkpoint); otherwise they are kept as they are, and marked (a log that grows).
        done: Whether it is stored and recorded; nothing can be added then.
    """

    lane: ContentLane
    holds: dict[str, Hold]
    targets: list[Target]
    place: Path | None = None
    strict: bool = True
    done: bool = False
    _members: dict[str, list[Any]] = field(default_factory=dict)
    _changed: bool = False

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
        for name, hold in self.holds.items():
            if name not in self._members:
                self._members[name] = self._store(hold)
        if self.lane.complete(self, self._found()):
            self.release()

    def _store(self, hold: Hold) -> list[Any]:
        """Return size and digest of a file; the digest is None if the bytes are lost."""
        folder = self.lane.folder
        try:
            sha256, size = store_hold(folder, hold)
        except ChangedError:
            self._changed = True
            try:
                if not self.strict:
                    sha256, size = store_hold(folder, hold, changed=True)
                    return [size, sha256]
            except ChangedError:  # gone
                pass
            self.lane.note_changed(hold)
            return [hold.stamp.size, None]
        return [size, sha256]

    def _found(self) -> dict[str, Any]:
        """Return what is known now for the FILE record."""
        found: dict[str, Any] = {"changed": True} if self._changed else {}
        if self.place is None:
            found["size"], found["sha256"] = self._members[""]
            return found
        members = dict(self._members)
        whole = all(sha256 for _, sha256 in members.values())
        found["members"], found["size"] = members, sum(size for size, _ in members.values())
        found["sha256"] = put_bytes(self.lane.folder, tree_bytes(members)) if whole else None
        return found

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
    """Store content that the disk refused when it was given, and record what waits for it.

    Attributes:
        lane: Where it is recorded.
        content: The bytes.
        sha256: Their digest.
    """

    lane: ContentLane
    content: bytes
    sha256: str

    def run(self) -> None:
        """Try again."""
        put_bytes(self.lane.folder, self.content)
        self.lane.stored(self.sha256)
        sync_blob(self.lane.folder, self.sha256)
        sync_folder(self.lane.folder.blobs_dir)

    def give_up(self) -> None:
        """Say that the bytes are lost."""
        self.lane.lost(self.sha256)

    def abandon(self) -> None:
        """The parent keeps trying, and records it."""
        self.lane.forget_refused()


@dataclass(eq=False)
class SyncJob:
    """Force blobs to disk that were written on the caller's thread.

    Attributes:
        folder: The run.
        digests: Those that wait. Of very many in a short time only the newest do, the others are
            left to the kernel, so that stopping a run does not take minutes.
    """

    folder: RunFolder
    digests: deque[str] = field(default_factory=lambda: deque(maxlen=256))

    def run(self) -> None:
        """Force them."""
        while self.digests:
            sync_blob(self.folder, self.digests[0])
            self.digests.popleft()
        sync_folder(self.folder.blobs_dir)

    def give_up(self) -> None:
        """The kernel has them."""
        self.digests.clear()

    def abandon(self) -> None:
        """The parent forces them."""
        self.digests.clear()
