"""What a lane remembers: which sources it took, and which paths have which contents."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from seamark.journal.blobs import Stamp

__all__ = ["Contents", "Sources", "digests_of"]

_MAX_SOURCES: Final = 4096
"""How many sources are remembered as taken."""

_MAX_HANDED_OUT: Final = 4096
"""How many digests are remembered that were given to somebody who records them."""


class Sources:
    """Files that were taken, by resolved path: what was taken once is not taken again."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[Stamp, str | None]] = {}
        self._rewritten: set[str] = set()

    def remember(self, source: str, stamp: Stamp, sha256: str | None) -> None:
        """Remember what a source was like when it was taken, and its digest once it is known."""
        self._taken.pop(source, None)
        self._taken[source] = (stamp, sha256)
        if len(self._taken) > _MAX_SOURCES:
            del self._taken[next(iter(self._taken))]

    def digest_of(self, source: str, stamp: Stamp) -> str | None:
        """Return the digest of a source that was taken before and did not change since."""
        before, sha256 = self._taken.get(source, (None, None))
        return sha256 if before == stamp else None

    def note_rewritten(self, source: str) -> None:
        """Remember that a source is rewritten in place."""
        self._rewritten.add(source)

    def is_rewritten(self, source: str, now: Stamp) -> bool:
        """Tell whether a source is known to be rewritten in place.

        That shows when it has the inode, but not the bytes, that it had when it was taken.
        """
        before, _ = self._taken.get(source, (now, None))
        if now != before and (now.inode, now.device) == (before.inode, before.device):
            self._rewritten.add(source)
        return source in self._rewritten


class Contents:
    """Digests that a lane recorded, by attribute path."""

    def __init__(self) -> None:
        self._at: dict[str, frozenset[str]] = {}
        self._paths: set[str] = set()
        self._handed_out: deque[str] = deque(maxlen=_MAX_HANDED_OUT)

    def put(self, path: str, file: Mapping[str, Any]) -> None:
        """Remember what was recorded as the file at a path."""
        self._at[path] = frozenset(digests_of(file))
        self._paths.add(path)

    def pop(self, path: str) -> frozenset[str]:
        """Return what was recorded at a path, which has it no more."""
        return self._at.pop(path, frozenset())

    def hand_out(self, file: Mapping[str, Any]) -> None:
        """Remember contents that are recorded elsewhere: as points of a series, as members."""
        self._handed_out.extend(digests_of(file))

    def has(self, sha256: str) -> bool:
        """Tell whether a path has a content, or whether it was handed out."""
        return sha256 in self._handed_out or any(sha256 in held for held in self._at.values())

    def knew(self, path: str | None) -> bool:
        """Tell whether a file was ever recorded at a path."""
        return path in self._paths


def digests_of(file: Mapping[str, Any]) -> Iterable[str]:
    """Return the digests in a FILE record: its own, and those of the files in a folder."""
    inside = [sha256 for _, sha256 in file.get("members", {}).values()]
    return filter(None, [*inside, file.get("sha256")])
