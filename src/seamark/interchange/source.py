"""Interface of import sources: the runs, notes and files of a source.

Only files below permitted folders are opened, and never through a link.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from seamark.errors import ArgumentError, PathError
from seamark.interchange.draft import Draft, writer_of
from seamark.journal.folder import RunFolder, hashed_run_id, journal_name
from seamark.journal.safe import is_folder, open_file, parts_of
from seamark.paths import check_path, is_derived

Progress = Callable[[int], None]
"""Function that takes the number of source bytes read since its last call."""
REFUSED: Final = "refused files: outside the permitted folders, or behind links"
MISSING: Final = "missing files"
_ZIP_ERRORS: Final = (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, RuntimeError)


@dataclass(slots=True)
class Notes:
    """Counts of lost data and other remarks by kind, with the first example of each."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, example: str = "", count: int = 1) -> None:
        """Add ``count`` to a kind."""
        self.counts[kind] = self.counts.get(kind, 0) + count
        if example:
            self.examples.setdefault(kind, example)

    @contextlib.contextmanager
    def failures(self, path: str, name: object) -> Iterator[None]:
        """Add a note if the file ``name`` of an attribute is missing, refused or damaged."""
        try:
            yield
        except ArgumentError:
            self.add(REFUSED, f"{path}: {name!r:.120}")
        except _ZIP_ERRORS as error:
            self.add("damaged archives", f"{path}: {error}")
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            kind = REFUSED if "link" in str(error) else MISSING
            self.add(kind, f"{path}: {name!r:.120}")

    def join(self, other: Notes) -> None:
        """Add the counts of other notes."""
        for kind, count in other.counts.items():
            self.add(kind, other.examples.get(kind, ""), count)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary of a run before import; ``created_ns`` since the Unix epoch, 0 if unknown."""

    name: str
    created_ns: int
    rows: int


class FoundRun(Protocol):
    """Run of another program; ``called`` is its id there, such as ``KEY-12``; ``size`` is in bytes.

    ``folder`` depends only on the source, so that it is the same in each import.
    """

    folder: RunFolder
    called: str
    size: int

    def missing(self) -> list[bytes]:
        """Return the uids of journals not in the root; NotImportedError if another run is there."""

    def note(self) -> str:
        """Return a note about a run that already exists; usually empty."""

    def summary(self) -> RunSummary:
        """Return a summary without reading the whole run; it may raise any error."""

    def write(self, draft: Draft, notes: Notes, progress: Progress) -> None:
        """Write the missing journals; it may raise any error."""


def run_id_of(project: str, identity: tuple[str, ...], custom_run_id: str | None) -> str:
    """Return the id of an imported run; the same source always gives the same id.

    The custom id still identifies the run: ``init_run(custom_run_id=...)`` finds it.
    """
    return hashed_run_id(project, custom_run_id or "\0".join(("import", *identity)))


def uid_of(*identity: str) -> bytes:
    """Return the uid of the journal of a source; the same source always gives the same uid."""
    text = "\0".join(("seamark import", *identity))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def has_journal(folder: RunFolder, uid: bytes) -> bool:
    """Return whether a run has an imported journal."""
    return (folder.journal_dir / journal_name(writer_of(uid), uid)).is_file()


def legal_path(path: Any, notes: Notes) -> str | None:
    """Return a valid path of an attribute; for an invalid one add a note and return None.

    Return None also for attributes that are derived from headers and times of records.
    """
    try:
        check_path(path)
    except PathError:
        notes.add("invalid paths", f"{path!r:.80}")
        return None
    return None if is_derived(path) and path != "sys/trashed" else str(path)


_MAX_MEMORY_BYTES: Final = 4 << 20
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
    """Return the extension of a file without the dot, from its name or else its first bytes."""
    if ext := os.path.splitext(name)[1].removeprefix("."):
        return ext
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    lowered = head.lower()
    return next((ext for magic, ext in _MAGIC if lowered.startswith(magic.lower())), "")


@contextlib.contextmanager
def open_below(base: Path, name: str) -> Iterator[BinaryIO]:
    """Open a regular file below a folder; its name comes from the source.

    Raises ArgumentError if the name leads out of the folder, and OSError also for a link.
    """
    parts = parts_of(name, "file")
    with os.fdopen(open_file(base.joinpath(*parts), len(parts)), "rb") as file:
        yield file


def walk_below(base: Path, name: str) -> Iterator[str]:
    """Yield the names of files below a folder; links to folders are not followed."""
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
    """Permitted folders for files that a source names by absolute paths."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = [Path(os.path.abspath(folder)) for folder in folders]

    def below(self, path: str) -> tuple[Path, str] | None:
        """Return folder and relative name of an absolute path in a permitted folder; else None."""
        clean = os.path.normpath(path)
        for folder in self.folders:
            if clean == str(folder):
                return folder.parent, folder.name
            if clean.startswith(f"{folder}/"):
                return folder, os.path.relpath(clean, folder).replace(os.sep, "/")
        return None


def keep_zip(
    file: BinaryIO, draft: Draft, path: str, notes: Notes
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and FILE record of each member of an archive; BadZipFile if it is damaged.

    Names that lead out of the file set are refused and counted in ``notes``.
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
        if info.file_size <= _MAX_MEMORY_BYTES:
            return draft.keep_bytes(member.read(), name, ext)
        with draft.scratch() as file:
            while block := member.read(1 << 20):
                file.write(block)
            file.flush()
            return draft.keep(file, name, ext)
