"""Contents that the disk refused, and the records that wait for them.

A record that names a content is written after the content, so that no reader looks for bytes that
are nowhere. While a disk is full both are in memory. A file that was uploaded is recorded at once,
as taken, because what it replaces and what replaces it go by that moment; its digest follows. The
points of a series, and very long texts, have no such halves: their records follow whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from seamark.content._memory import digests_of
from seamark.paths import is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["MAX_BYTES", "Late", "Refused", "contents_of"]

MAX_BYTES: Final = 64 << 20
"""Content that the disk refused is held in memory up to this many bytes."""


@dataclass(eq=False, slots=True)
class Late:
    """A record that waits for contents.

    Attributes:
        path: Attribute path.
        name: Member of a file set, or None.
        needs: SHA-256 of what is not stored yet.
        tell: Appends the record; told whether everything was stored in the end.
        taken: Whether it was recorded already that the bytes are taken.
    """

    path: str
    name: str | None
    needs: set[str]
    tell: Callable[[bool], None]
    taken: bool = False


class Refused:
    """What a lane holds in memory; it holds the lock of its worker around every call."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._gone: set[str] = set()
        self._unwanted: set[str] = set()
        self._late: list[Late] = []

    def __bool__(self) -> bool:
        """Tell whether any content is not stored yet, or never will be."""
        return bool(self._held or self._gone)

    def hold(self, sha256: str, size: int) -> bool:
        """Count a content of so many bytes as held.

        Returns:
            False if it is held already, or if there is no room for it, so that it is lost.
        """
        self._unwanted.discard(sha256)
        if sha256 in self._held:
            return False
        if sum(self._held.values()) + size > MAX_BYTES:
            self._gone.add(sha256)
            return False
        self._gone.discard(sha256)
        self._held[sha256] = size
        return True

    def is_lost(self, digests: Iterable[str]) -> bool:
        """Tell whether one of these was refused and could not be held."""
        return not self._gone.isdisjoint(digests)

    def missing(self, digests: Iterable[str]) -> set[str]:
        """Return those of these digests that are held and not stored."""
        return self._held.keys() & digests

    def add(self, late: Late) -> None:
        """Have a record wait."""
        self._late.append(late)

    def settle(self, sha256: str, *, stored: bool) -> list[Late]:
        """Let go of a content; return the records that wait for nothing more.

        Args:
            sha256: Which content.
            stored: Whether it is on disk; without it, no record that names it is whole.
        """
        self._gone.discard(sha256)
        self._held.pop(sha256, None)
        ready = []
        for late in self._late:
            if sha256 in late.needs:
                late.needs.discard(sha256)
                if not (stored and late.needs):
                    ready.append(late)
        self._late = [late for late in self._late if late not in ready]
        return ready

    def forget(self, path: str, names: set[str] | None) -> None:
        """Let no record appear at a path that was deleted, or at these members of a file set."""
        self._drop(lambda one: is_inside(one.path, path) and (names is None or one.name in names))

    def replace(self, paths: Iterable[str]) -> None:
        """Let no text appear at paths that have another value now."""
        at = set(paths)
        self._drop(lambda one: one.path in at and not one.taken)

    def _drop(self, gone: Callable[[Late], bool]) -> None:
        for late in filter(gone, self._late):
            self._unwanted |= late.needs
        self._late = [late for late in self._late if not gone(late)]

    def was_unwanted(self, sha256: str) -> bool:
        """Tell whether all records of a content were deleted while it waited; forgets that."""
        unwanted = sha256 in self._unwanted
        self._unwanted.discard(sha256)
        return unwanted and not any(sha256 in late.needs for late in self._late)

    def clear(self) -> None:
        """Forget everything, in a forked child: it is the parent's."""
        self._held, self._gone, self._unwanted, self._late = {}, set(), set(), []


def contents_of(record: Mapping[str, Any]) -> set[str]:
    """Return the digests of the contents that a record names, in its file, values or texts."""
    if "file" in record:
        return set(digests_of(record["file"]))
    atoms = [atom.value for atom in record.get("atoms", {}).values() if atom.type == "text"]
    texts = [point[1] for point in record.get("points", ()) if isinstance(point[1], dict)]
    return {each["sha256"] for each in (*atoms, *texts)}
