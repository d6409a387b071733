"""Checks of ``seamark fsck``, run by run, which read the journals and never write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._screen import note
from seamark.errors import ArgumentError, JournalError
from seamark.index.purging import PURGING
from seamark.journal.folder import (
    DEEPEST,
    DRAFT,
    OWN_FOLDERS,
    PROJECT_LOG,
    JournalFile,
    RunFolder,
    is_linked,
)
from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader
from seamark.journal.safe import names_in, open_file
from seamark.paths import ARTIFACTS, MODELS
from seamark.reading.words import human_bytes, plural

if TYPE_CHECKING:
    from seamark.index.copies import RunView

__all__ = [
    "COPY",
    "Finding",
    "Totals",
    "check_blobs",
    "check_copies",
    "check_folder",
    "check_journal",
    "check_records",
    "drafts",
    "finish_queued",
    "half_purged",
    "project_logs",
    "unreadable",
]

_LISTED: Final = 5
COPY: Final = "journal/"
"""Prefix of the name of a file among the conflicts of a run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that a check found.

    Attributes:
        project: Project path.
        run: Run id, or ``.project`` for a project's own log.
        problem: Kind of the problem, in one or two fixed words: ``"gap"``, ``"torn tail"``, ...
        where: The journal, blob, file or attribute, or ``""`` for the run as a whole.
        detail: Description for people.
        offset: Position in the journal, bytes; None if not applicable.
        length: Length in the journal, bytes; None if not applicable.
    """

    project: str
    run: str
    problem: str
    where: str
    detail: str
    offset: int | None = None
    length: int | None = None


@dataclass(slots=True)
class Totals:
    """Numbers of checked items and their size."""

    runs: int = 0
    journals: int = 0
    frames: int = 0
    blobs: int = 0
    size_bytes: int = 0
    live: int = 0


def check_journal(folder: RunFolder, file: JournalFile, totals: Totals) -> Iterator[Finding]:
    """Read one journal to its end and yield what is wrong with it.

    The end of a journal that is being written may be incomplete at any moment; that is not a
    finding.
    """
    name = file.path.name
    totals.journals += 1
    try:
        with JournalReader(file.path) as reader:
            for problem, detail, *span in _problems(reader, totals):
                yield _found(folder, problem, name, detail, *span)
    except JournalError as error:
        yield _found(folder, "not a journal", name, str(error))
    except OSError as error:
        yield _found(folder, "unreadable", name, error.strerror or str(error))


def _found(folder: RunFolder, problem: str, where: str, detail: str, *span: int) -> Finding:
    return Finding(folder.project, folder.run, problem, where, detail, *span)


def _problems(reader: JournalReader, totals: Totals) -> Iterator[tuple[Any, ...]]:
    """Yield the problem, its description, and its offset and length as far as they are known."""
    totals.size_bytes += reader.size
    if reader.damaged_header:
        yield "damaged header", "the first 32 bytes; the journal is still read, by its name", 0, 32
    for number, frame in enumerate(reader.frames()):
        totals.frames += 1
        if not number and frame.kind != Kind.HEADER:
            detail = "its first record does not say which run and process it belongs to"
            yield "no header", detail, frame.offset
    for gap in reader.gaps:
        size = human_bytes(gap.length)
        detail = f"{size} at {gap.offset:,} hold no valid record; what follows was read"
        yield "gap", detail, gap.offset, gap.length
    if reader.stopped == "newer":
        detail = f"written by a newer Seamark from {reader.offset:,} on; upgrade to read it"
        yield "newer format", detail, reader.offset
    elif reader.tail is not None:
        size = human_bytes(reader.tail.length)
        why = "the process died while writing, or damage"
        yield "torn tail", f"the last {size} are not a whole record: {why}", *reader.tail
    elif not reader.is_finished():
        totals.live += 1


def check_folder(folder: RunFolder, *, live: bool) -> Iterator[Finding]:
    """Yield what is wrong around the journals of one run.

    Args:
        folder: The run.
        live: Whether a process is writing to it, which may be about to finish what is in
            ``.staging``.
    """
    if folder.is_purged:
        detail = "purged, but its folder exists again (copied back?); seamark purge removes it"
        yield _found(folder, "purged", "", detail)
    yield from _strange_entries(folder)
    if not live and (left := _names(folder.staging_dir)):
        listed = ", ".join(left[:_LISTED]) + (", …" if len(left) > _LISTED else "")
        detail = f"{plural(len(left), 'file')} taken, not stored: {listed} (fsck --finish stores)"
        yield _found(folder, "leftover staging", folder.staging_dir.name, detail)


def _names(folder: Path) -> list[str]:
    try:
        return [] if folder.is_symlink() else sorted(entry.name for entry in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _strange_entries(folder: RunFolder) -> Iterator[Finding]:
    """Yield what no reader opens: links, pipes, devices and names that are not text."""
    places = (folder.files_dir, folder.staging_dir, folder.journal_dir, folder.blobs_dir)
    for place in places:
        strange = [place] if place.is_symlink() else []
        if not strange and place in places[2:]:
            known = set(names_in(place))
            strange = [place / name for name in _names(place) if name not in known]
        for path in strange:
            if path is place or path.name[0] != ".":
                detail = "a link, a folder, a pipe, or a name that is not text: it is not read"
                where = path.relative_to(folder.path).as_posix()
                yield _found(folder, "not a file", where, detail)


def check_records(view: RunView) -> Iterator[Finding]:
    """Yield the records of a run that are whole but cannot be applied."""
    for journal in view.journals():
        if journal.stopped == "unreadable":
            continue  # `check_journal` reports it
        for offset, message in journal.notes:
            detail = f"at {offset:,}: {message}"
            yield _found(view.folder, "unusable record", journal.file, detail, offset)
        if more := journal.errors - len(journal.notes):
            detail = f"{plural(more, 'further record')} that cannot be applied"
            yield _found(view.folder, "unusable record", journal.file, detail)


def check_copies(view: RunView) -> Iterator[Finding]:
    """Yield the files that have the id of a journal but other contents."""
    for name, journals in view.problems().get("conflicts", {}).items():
        if name.startswith(COPY):
            detail = f"not read: it has the id of {journals[0]}, but is not a copy of it"
            yield _found(view.folder, "diverged", name.removeprefix(COPY), detail)


def check_blobs(view: RunView, totals: Totals, *, digests: bool) -> Iterator[Finding]:
    """Yield the contents that a run names and does not have, or that are not what they should be.

    Args:
        view: The run, refreshed.
        totals: Counts what was looked at.
        digests: Read every blob and compare its SHA-256, instead of only its size.
    """
    folder = view.folder
    seen: set[str] = set()
    for path, digest, size in _stored_contents(view):
        if digest in seen:
            continue
        seen.add(digest)
        totals.blobs += 1
        if problem := _blob_problem(folder, digest, size, digests=digests):
            yield _found(folder, problem[0], path, f"{problem[1]} ({digest[:12]}…)")
    for attribute in view.attributes() if digests else ():
        if attribute.family == "file" and not _is_whole(folder, attribute.value):
            detail = "the file in the run folder is not what was recorded, though its time is"
            yield _found(folder, "wrong file", attribute.path, detail)


def _is_whole(folder: RunFolder, record: Mapping[str, Any]) -> bool:
    """Return whether a file that was left in the run folder, where a training put it, is intact.

    One that is gone or newer is no damage: whoever made it may remove it and write it again.
    """
    from seamark.blobs.names import find_inside
    from seamark.blobs.store import digest_of

    digest = record.get("sha256")
    if digest is None or "ref" not in record or record.get("dir"):
        return True
    found = find_inside(folder, record)
    if found is None or found.status.st_mtime_ns != record.get("mtime_ns"):
        return True
    if found.status.st_size != record.get("size"):
        return False
    with os.fdopen(open_file(found.path, above=len(found.parts)), "rb") as file:
        return digest_of(file.fileno())[0] == str(digest)


def _blob_problem(
    folder: RunFolder, digest: str, size: int | None, *, digests: bool
) -> tuple[str, str] | None:
    from seamark.blobs.store import digest_of, open_blob

    try:
        with open_blob(folder, digest) as blob:
            found = os.fstat(blob.fileno()).st_size
            if size is not None and found != size:
                return "wrong blob", f"expected {size:,} bytes, found {found:,}"
            if digests and digest_of(blob.fileno())[0] != digest:
                return "wrong blob", "its bytes do not match the digest in its name"
    except ArgumentError as error:
        return "wrong blob", str(error)
    except FileNotFoundError:
        return "missing blob", "the contents of this file are not in the run folder"
    except OSError as error:
        return "unreadable blob", error.strerror or str(error)
    return None


def _stored_contents(view: RunView) -> Iterator[tuple[str, str, int | None]]:
    """Yield (attribute path, SHA-256, size in bytes) of every content that the run keeps itself."""
    for attribute in view.attributes():
        value = attribute.value
        if attribute.family == "file":
            yield from _records(attribute.path, value)
        elif attribute.family == "file_set":
            for name, member in value.items():
                yield from _records(f"{attribute.path}/{name}", member)
        elif attribute.family == "file_series":
            for point in view.files(attribute.path, attempt="all"):
                yield from _records(attribute.path, point.file)
        elif attribute.family == "string_series":
            for text in view.texts(attribute.path, attempt="all"):
                yield from _long_text(attribute.path, text.text)
        elif attribute.type == "text":
            yield from _long_text(attribute.path, value)


def _long_text(path: str, text: Any) -> Iterator[tuple[str, str, int | None]]:
    """Yield the file of a text that was too long for the journal; of others nothing."""
    if isinstance(text, Mapping) and "sha256" in text:
        yield path, str(text["sha256"]), text.get("size")


def _records(path: str, record: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """Yield the contents that a FILE record names: none if it is a reference, of a folder many."""
    if "ref" in record:
        return
    if record.get("dir"):
        for name, (size, digest) in record.get("members", {}).items():
            if digest:
                yield f"{path}/{name}", digest, size
    elif record.get("sha256"):
        yield path, record["sha256"], record.get("size")


def finish_queued(folders: Iterable[RunFolder]) -> int:
    """Store the files that dead processes had taken; say how many, and return it."""
    from seamark.blobs import finish_staged

    count = 0
    for folder in folders:
        try:
            count += finish_staged(folder)
        except OSError as error:
            note(f"{folder.words}: queued files were not stored: {error}", style="warning")
    if count:
        note(f"stored {plural(count, 'file')} that a process had left unfinished")
    return count


def half_purged(root: Path, project: str | None) -> list[Path]:
    """Return the folders that a purge hid and did not finish deleting."""
    return [path for path in _hidden_folders(root, project) if path.name.endswith(PURGING)]


def drafts(root: Path, project: str | None) -> list[RunFolder]:
    """Return the folders of artifacts that are not saved, below ``root`` or one project."""
    return [
        RunFolder(root, path.parent.relative_to(root).as_posix(), path.name)
        for path in _hidden_folders(root, project)
        if path.name.startswith(DRAFT)
        and path.parent.parent.name == ARTIFACTS
        and not path.name.endswith(PURGING)
        and not path.is_symlink()
    ]


def project_logs(root: Path, project: str | None) -> list[RunFolder]:
    """Return the folders of projects' own logs below ``root``, or below one project."""
    return [
        RunFolder(root, path.parent.relative_to(root).as_posix(), PROJECT_LOG)
        for path in _hidden_folders(root, project)
        if path.name == PROJECT_LOG and path.parent != root and not path.is_symlink()
    ]


def unreadable(root: Path, project: str | None) -> list[Finding]:
    """Return the folders that cannot be looked into, whose runs no reader sees."""
    errors: list[OSError] = []
    for _ in _hidden_folders(root, project, errors.append):
        pass
    return [
        Finding(project or "", "", "unreadable", str(error.filename), error.strerror or str(error))
        for error in errors
    ]


def _hidden_folders(
    root: Path, project: str | None, on_error: Callable[[OSError], None] | None = None
) -> Iterator[Path]:
    """Yield the hidden folders of projects, which are beside their runs."""
    start = root / project if project else root
    deepest = str(root).count(os.sep) + DEEPEST
    if project and is_linked(root, project):
        return
    for folder, names, _ in os.walk(start, onerror=on_error):
        above = os.path.basename(os.path.dirname(folder))  # noqa: PTH119, PTH120
        is_model = above in (MODELS, ARTIFACTS)
        if ("journal" in names and not is_model) or folder.count(os.sep) > deepest:
            names.clear()  # a run; its inside holds no projects
            continue
        hidden = sorted(name for name in names if name.startswith("."))
        yield from (Path(folder, name) for name in hidden)
        inside = set(names).difference(hidden, OWN_FOLDERS if is_model else ())
        for place in {MODELS, ARTIFACTS}.intersection(hidden):
            if not Path(folder, place).is_symlink():
                inside.add(place)
        names[:] = sorted(inside)
