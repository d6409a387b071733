"""Common interface of all import sources: runs to import, and notes about them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from seamark.errors import PathError
from seamark.interchange.journal import writer_of
from seamark.journal.folder import RunFolder, hashed_run_id, journal_name
from seamark.paths import check_path

if TYPE_CHECKING:
    from seamark.interchange.draft import Draft

__all__ = [
    "DERIVED",
    "FoundRun",
    "Glance",
    "Notes",
    "Progress",
    "legal_path",
    "run_id_of",
    "uid_of",
]

Progress = Callable[[int], None]
"""Takes how many bytes of the source were read since the last call."""

DERIVED: Final = frozenset(
    {
        "sys/content_hash",
        "sys/crash_reason",
        "sys/creation_time",
        "sys/end_time",
        "sys/id",
        "sys/modification_time",
        "sys/owner",
        "sys/running_time",
        "sys/start_time",
        "sys/state",
        "sys/state_detail",
    }
)
"""What a run says of itself: never assigned, but told by its headers and the times of records."""


@dataclass(slots=True)
class Notes:
    """Counts of lost data and other remarks by kind, with the first example of each.

    Attributes:
        counts: Number of occurrences, by kind.
        examples: First example, by kind.
    """

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, example: str = "", count: int = 1) -> None:
        """Count something of a kind."""
        self.counts[kind] = self.counts.get(kind, 0) + count
        if example:
            self.examples.setdefault(kind, example)

    def join(self, other: Notes) -> None:
        """Add what was counted elsewhere."""
        for kind, count in other.counts.items():
            self.add(kind, other.examples.get(kind, ""), count)


@dataclass(frozen=True, slots=True)
class Glance:
    """Summary of a run before its import.

    Attributes:
        name: Name of the run; empty if unknown.
        created_ns: Creation time, nanoseconds since the Unix epoch; 0 if unknown.
        rows: Number of values, points and files, or of records of a log.
    """

    name: str
    created_ns: int
    rows: int


class FoundRun(Protocol):
    """A run of another program.

    Attributes:
        folder: Where it goes; settled by what the source says, so that it is the same each time.
        called: What people call it there, such as ``KEY-12``.
        size: Bytes that are read of it.
    """

    folder: RunFolder
    called: str
    size: int

    def missing(self) -> list[bytes]:
        """Return the uids of its journals that are not in the root; empty if all are.

        Raises:
            NotImportedError: If another run is in its place.
            OSError: If it cannot be read.
        """
        ...

    def note(self) -> str:
        """Return what is to be known of a run that is there already; mostly nothing."""
        ...

    def glance(self) -> Glance:
        """Return what can be said of it without reading it whole.

        Raises:
            NotImportedError: If it cannot be read.
            OSError: The same.
        """
        ...

    def write(self, draft: Draft, notes: Notes, progress: Progress) -> None:
        """Write what is missing.

        Raises:
            NotImportedError: If it cannot be read.
            OSError: The same, or if it cannot be written.
        """
        ...


def run_id_of(project: str, identity: tuple[str, ...], custom_run_id: str | None) -> str:
    """Return the id of an imported run: the same from the same source, each time.

    A custom id goes on naming the run: ``init_run(custom_run_id=...)`` finds it.

    Args:
        project: Project that it goes to.
        identity: What identifies it where it comes from.
        custom_run_id: The id that a person gave it, if there is one.
    """
    return hashed_run_id(project, custom_run_id or "\0".join(("import", *identity)))


def uid_of(*identity: str) -> bytes:
    """Return the uid of a journal that is written from a source, the same each time."""
    text = "\0".join(("seamark import", *identity))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def has_journal(folder: RunFolder, uid: bytes) -> bool:
    """Return whether a run holds an imported journal."""
    return (folder.journal_dir / journal_name(writer_of(uid), uid)).is_file()


def legal_path(path: Any, notes: Notes) -> str | None:
    """Return a path if it can be an attribute's; None, and a note, if it cannot."""
    try:
        return check_path(path)
    except PathError:
        notes.add("paths that cannot be kept", f"{path!r:.80}")
        return None
