"""Contents that the disk refused, and the records that wait for them.

A record that names a content is written after the content, so that no reader looks for bytes that
are nowhere. While a disk is full both are in memory. A file that was uploaded is recorded at once,
as taken, because what it replaces and what replaces it go by that moment; its digest follows. The
points of a series, and very long texts, have no such halves: their records follow whole.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from seamark.blobs.store import ANYBODY, put_bytes, sync_blob, sync_folder
from seamark.blobs.worker import Job
from seamark.paths import is_inside
from seamark.process.interrupts import let_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from seamark.blobs.worker import Worker
    from seamark.journal.folder import RunFolder

__all__ = ["MAX_BYTES", "BytesWriter", "WaitingRecord"]

MAX_BYTES: Final = 64 << 20
"""Content that the disk refused is held in memory up to this many bytes."""

_MAX_UNSYNCED: Final = 256
"""Of very many blobs in a short time only the newest are forced to disk, the others are left to the
kernel, so that stopping a run does not take minutes."""


@dataclass(eq=False, slots=True)
class WaitingRecord:
    """A record that waits for contents.

    Attributes:
        path: Attribute path.
        name: Member of a file set, or None.
        needs: SHA-256 of what is not stored yet.
        append: Appends it.
        append_without: Appends what is left of it if the contents will not be stored.
        taken: Whether it was recorded already that the bytes are taken.
    """

    path: str
    name: str | None
    needs: set[str]
    append: Callable[[], object]
    append_without: Callable[[], object]
    taken: bool = False


class BytesWriter:
    """Stores bytes as blobs, now or as soon as the disk takes them. From any thread.

    The worker's lock is held while asking what is missing and adding a record that waits for it.

    Args:
        folder: The run.
        worker: Tries again.
        trouble: Called with what could not be stored.
        unneeded: Called with the digest of a content that was stored but is no longer wanted.
    """

    def __init__(
        self,
        folder: RunFolder,
        worker: Worker,
        trouble: Callable[[str, BaseException | None], None],
        unneeded: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._worker = worker
        self._trouble = trouble
        self._unneeded = unneeded
        self._unsynced: deque[str] = deque(maxlen=_MAX_UNSYNCED)
        self._forget_all()

    def _forget_all(self) -> None:
        """Hold nothing; in a forked child, what was held is the parent's."""
        self._held: dict[str, tuple[int, int]] = {}  # size and rights
        self._lost: set[str] = set()
        self._unwanted: set[str] = set()
        self._waiting: list[WaitingRecord] = []

    def __bool__(self) -> bool:
        """Return whether any content is not stored yet, or never will be."""
        return bool(self._held or self._lost)

    def put(self, content: bytes, mode: int = ANYBODY) -> str:
        """Store bytes now, or later if the disk refuses; return their SHA-256.

        Args:
            content: The bytes.
            mode: Rights of the file that they come from.
        """
        try:
            sha256 = put_bytes(self._folder, content, mode)
        except OSError as error:
            let_pass(error)
            sha256 = hashlib.sha256(content).hexdigest()
            self._hold(sha256, content, mode, error)
            return sha256
        with self._worker.lock:
            self._unsynced.append(sha256)
            if len(self._unsynced) == 1:
                clear = self._unsynced.clear
                self._worker.submit(Job(self._sync, give_up=clear, abandon=clear))
            if self:
                self._unwanted.discard(sha256)  # it is wanted again
                self._note_stored(sha256)
        return sha256

    def _hold(self, sha256: str, content: bytes, mode: int, error: OSError) -> None:
        """Keep in memory what the disk refused, if there is room."""
        with self._worker.lock:
            self._unwanted.discard(sha256)
            if (known := self._held.get(sha256)) is not None:
                self._held[sha256] = known[0], known[1] & mode
            elif sum(size for size, _ in self._held.values()) + len(content) > MAX_BYTES:
                self._lost.add(sha256)
            else:
                self._lost.discard(sha256)
                self._held[sha256] = len(content), mode
                again = partial(self._put_held, sha256, content)
                give_up = partial(self._lose, sha256)
                self._worker.submit(Job(again, give_up, self._forget_all, failed=True))
            lost = sha256 in self._lost
        self._trouble("not stored" if lost else "not stored yet", error)

    def _put_held(self, sha256: str, content: bytes) -> None:
        _, mode = self._held.get(sha256, (0, ANYBODY))
        put_bytes(self._folder, content, mode)
        self._note_stored(sha256)
        sync_blob(self._folder, sha256)
        sync_folder(self._folder.blobs_dir)

    def _sync(self) -> None:
        """Force blobs to disk that were written on the caller's thread."""
        while self._unsynced:
            sync_blob(self._folder, self._unsynced[0])
            self._unsynced.popleft()
        sync_folder(self._folder.blobs_dir)

    def _note_stored(self, sha256: str) -> None:
        """Record what waited for a content that the disk takes now."""
        with self._worker.lock:
            if self._worker.stopped:
                return
            needed = any(sha256 in record.needs for record in self._waiting)
            unwanted = sha256 in self._unwanted and not needed
            self._unwanted.discard(sha256)
            for record in self._settle(sha256, stored=True):
                record.append()
            if unwanted:
                self._unneeded(sha256)

    def _lose(self, sha256: str) -> None:
        """Record without it what waited for a content that will not be stored."""
        with self._worker.lock:
            for record in self._settle(sha256, stored=False):
                record.append_without()

    def _settle(self, sha256: str, *, stored: bool) -> list[WaitingRecord]:
        """Let go of a content; return the records that wait for nothing more.

        Without one of its contents no record is whole.
        """
        self._lost.discard(sha256)
        self._held.pop(sha256, None)
        ready = []
        for record in self._waiting:
            if sha256 in record.needs:
                record.needs.discard(sha256)
                if not (stored and record.needs):
                    ready.append(record)
        self._waiting = [record for record in self._waiting if record not in ready]
        return ready

    def is_lost(self, digests: Iterable[str]) -> bool:
        """Return whether one of these was refused and could not be held."""
        return not self._lost.isdisjoint(digests)

    def missing(self, digests: Iterable[str]) -> set[str]:
        """Return those of these digests that are held and not stored."""
        return self._held.keys() & digests

    def wait(self, record: WaitingRecord) -> None:
        """Add a record that waits until its contents are stored."""
        self._waiting.append(record)

    def forget(self, path: str, names: set[str] | None) -> None:
        """Let no record appear at a path that was deleted, or at these members of a file set."""
        self._drop(lambda one: is_inside(one.path, path) and (names is None or one.name in names))

    def replace(self, paths: Iterable[str]) -> None:
        """Let no text appear at paths that have another value now."""
        at = set(paths)
        self._drop(lambda one: one.path in at and not one.taken)

    def _drop(self, gone: Callable[[WaitingRecord], bool]) -> None:
        with self._worker.lock:
            for record in filter(gone, self._waiting):
                self._unwanted |= record.needs
            self._waiting = [record for record in self._waiting if not gone(record)]
