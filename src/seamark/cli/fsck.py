"""``seamark fsck`` and ``reindex``: check the journals of runs, and rebuild the index."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli._app import EXIT_FAILURE, json_option, root_only
from seamark.cli._runs import Runs, open_runs, project_option, runs_argument
from seamark.cli._screen import Cell, Column, Screen, dumps, listed, note, progress_bar
from seamark.errors import ArgumentError, JournalError, SeamarkError
from seamark.index.purging import PURGING, is_live
from seamark.journal.folder import (
    DRAFT,
    JournalFile,
    RunFolder,
    iter_runs,
)
from seamark.journal.format import Kind
from seamark.journal.reader import JournalReader
from seamark.journal.safe import is_folder, names_in, open_file
from seamark.paths import ARTIFACTS, PROJECT_LOG
from seamark.process.interrupts import quietly
from seamark.reading.text import clean, duration_words, human_bytes, plural

if TYPE_CHECKING:
    from seamark.index.copies import RunView


COPY: Final = "journal/"
"""Prefix of the names of copies of journals among the conflicts of a run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that a check found in a run, or in the log of a project (``run`` is ``.project``).

    ``problem`` is a fixed term such as ``"gap"`` or ``"torn tail"``; ``offset`` and ``length``
    refer to the journal, in bytes; ``where`` is ``""`` for the run as a whole.
    """

    project: str
    run: str
    problem: str
    where: str
    detail: str
    offset: int | None = None
    length: int | None = None


Totals = dict[str, int]
"""Counts of the checked items; ``size_bytes`` is the size of all journals, ``live`` the number
still written."""
_COUNTED: Final = ("runs", "journals", "frames", "blobs", "size_bytes", "live")


def check_journal(folder: RunFolder, file: JournalFile, totals: Totals) -> Iterator[Finding]:
    """Yield the problems of a journal; an incomplete end is normal while it is being written."""
    name = file.path.name
    totals["journals"] += 1
    try:
        with JournalReader(file.path) as reader:
            for problem, detail, *span in _problems(reader, totals):
                yield _finding(folder, problem, name, detail, *span)
    except (JournalError, OSError) as error:
        problem = "not a journal" if isinstance(error, JournalError) else "unreadable"
        yield _finding(folder, problem, name, getattr(error, "strerror", None) or str(error))


def _finding(folder: RunFolder, problem: str, where: str, detail: str, *span: int) -> Finding:
    return Finding(folder.project, folder.run, problem, where, detail, *span)


def _problems(reader: JournalReader, totals: Totals) -> Iterator[tuple[Any, ...]]:
    totals["size_bytes"] += reader.size
    if reader.damaged_header:
        yield (
            "damaged header",
            "the first 32 bytes; the journal is read with the id in its name",
            0,
            32,
        )
    for number, frame in enumerate(reader.frames()):
        totals["frames"] += 1
        if not number and frame.kind != Kind.HEADER:
            detail = "its first record does not name its run and process"
            yield "no header", detail, frame.offset
    for gap in reader.gaps:
        size = human_bytes(gap.length)
        detail = f"{size} at {gap.offset:,} hold no valid record; later records were read"
        yield "gap", detail, gap.offset, gap.length
    if reader.stopped == "newer":
        detail = f"written by a newer Seamark from {reader.offset:,} on; upgrade to read it"
        yield "newer format", detail, reader.offset
    elif reader.tail is not None:
        size = human_bytes(reader.tail.length)
        why = "the process died while writing, or the file is damaged"
        yield "torn tail", f"the last {size} are not a complete record: {why}", *reader.tail
    elif not reader.is_finished():
        totals["live"] += 1


def check_folder(folder: RunFolder, *, live: bool) -> Iterator[Finding]:
    """Yield the problems of other files of a run; a ``live`` run may still store staged files."""
    if folder.is_purged:
        detail = "purged, but its folder exists again (copied back?); seamark purge removes it"
        yield _finding(folder, "purged", "", detail)
    yield from _strange_entries(folder)
    if not live and (left := _names(folder.staging_dir)):
        detail = (
            f"{plural(len(left), 'file')} not stored yet: {listed(left)} "
            "(fsck --finish stores them)"
        )
        yield _finding(folder, "leftover staging", folder.staging_dir.name, detail)


def _names(folder: Path) -> list[str]:
    try:
        return [] if folder.is_symlink() else sorted(entry.name for entry in folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _strange_entries(folder: RunFolder) -> Iterator[Finding]:
    """Yield entries that no reader opens: links, pipes, devices and names that are not text."""
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
                yield _finding(folder, "not a file", where, detail)


def check_records(view: RunView) -> Iterator[Finding]:
    """Yield unusable records, and files with the id of a journal but other contents."""
    for journal in view.journals():
        if journal.stopped == "unreadable":
            continue  # `check_journal` reports it
        for offset, message in journal.notes:
            detail = f"at {offset:,}: {message}"
            yield _finding(view.folder, "unusable record", journal.file, detail, offset)
        if more := journal.errors - len(journal.notes):
            detail = f"{plural(more, 'further record')} that cannot be applied"
            yield _finding(view.folder, "unusable record", journal.file, detail)
    for name, journals in view.problems().get("conflicts", {}).items():
        if name.startswith(COPY):
            detail = f"not read: it has the id of {journals[0]}, but is not a copy of it"
            yield _finding(view.folder, "diverged", name.removeprefix(COPY), detail)


def check_blobs(view: RunView, totals: Totals, *, digests: bool) -> Iterator[Finding]:
    """Yield stored files that are missing or have a wrong size or, with ``digests``, SHA-256."""
    folder = view.folder
    seen: set[str] = set()
    for path, digest, size in _stored_contents(view):
        if digest in seen:
            continue
        seen.add(digest)
        totals["blobs"] += 1
        if problem := _blob_problem(folder, digest, size, digests=digests):
            yield _finding(folder, problem[0], path, f"{problem[1]} ({digest[:12]}…)")
    for attribute in view.attributes() if digests else ():
        if attribute.family == "file" and not _is_whole(folder, attribute.value):
            detail = (
                "the file in the run folder has other contents than recorded, but the same time"
            )
            yield _finding(folder, "wrong file", attribute.path, detail)


def _is_whole(folder: RunFolder, record: Mapping[str, Any]) -> bool:
    # A missing or newer file is not damaged: its program may delete it or write it again.
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
    if isinstance(text, Mapping) and "sha256" in text:
        yield path, str(text["sha256"]), text.get("size")


def _records(path: str, record: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    if "ref" in record:
        return
    if record.get("dir"):
        for name, (size, digest) in record.get("members", {}).items():
            if digest:
                yield f"{path}/{name}", digest, size
    elif record.get("sha256"):
        yield path, record["sha256"], record.get("size")


def finish_queued(folders: Iterable[RunFolder]) -> int:
    """Store the files that ended processes had queued, and return their number."""
    from seamark.blobs import finish_staged

    count = 0
    for folder in folders:
        try:
            count += finish_staged(folder)
        except OSError as error:
            note(f"{folder.words}: queued files were not stored: {error}", style="warning")
    if count:
        note(f"stored {plural(count, 'file')} that an ended process had queued")
    return count


def half_purged(root: Path, project: str | None) -> list[Path]:
    """Return the folders of runs whose removal was interrupted."""
    return [path for path in _hidden_folders(root, project) if path.name.endswith(PURGING)]


def drafts(root: Path, project: str | None) -> list[RunFolder]:
    """Return the folders of artifacts that are not sealed yet."""
    return [
        RunFolder(root, path.parent.relative_to(root).as_posix(), path.name)
        for path in _hidden_folders(root, project)
        if path.name.startswith(DRAFT)
        and path.parent.parent.name == ARTIFACTS
        and not path.name.endswith(PURGING)
    ]


def project_logs(root: Path, project: str | None) -> list[RunFolder]:
    """Return the folders with the records of projects."""
    return [
        RunFolder(root, path.parent.relative_to(root).as_posix(), PROJECT_LOG)
        for path in _hidden_folders(root, project)
        if path.name == PROJECT_LOG and path.parent != root
    ]


def _hidden_folders(root: Path, project: str | None) -> Iterator[Path]:
    walked: list[str] = []
    list(iter_runs(root, project, walked=walked, models=True, unread=lambda *_: None))
    for folder in walked:
        hidden: list[Path] = []
        with quietly(only=OSError):  # it was removed meanwhile, or is inaccessible
            hidden = sorted(Path(folder).glob(".*"))
        yield from filter(is_folder, hidden)


@click.command(short_help="Check all journals and report damage.")
@runs_argument
@project_option
@click.option(
    "--blobs",
    is_flag=True,
    help="Also read all stored files, and the files left in the run folder, and check their "
    "digests.",
)
@click.option(
    "--finish",
    is_flag=True,
    help="First store the files that ended processes had queued but not stored.",
)
@json_option
@root_only
@click.pass_context
def fsck(
    context: click.Context,
    names: tuple[str, ...],
    project: str | None,
    *,
    blobs: bool,
    finish: bool,
    as_json: bool,
) -> None:
    """Read all journals completely and report damage. Only --finish changes anything.

    The report names damaged bytes (gap), incomplete last records (torn tail: the process died while
    writing; all earlier records are intact), records of a newer Seamark, stored files that are
    missing or have the wrong size or digest, and files that were queued but never stored. A run
    that is still being written is not a problem.

    The exit code is 1 if a problem was found, otherwise 0.

    \b
    Examples:
      seamark fsck                           everything below the root
      seamark fsck --blobs quick-otter       one run, its stored files too
      seamark fsck --json | jq '.findings[].problem'
    """
    runs = open_runs(context, project, local="fsck")
    root = runs.local.root
    refs = [runs.find(name, project) for name in names]
    findings: list[Finding] = []

    def add_unread(path: str, error: OSError) -> None:
        why = error.strerror or str(error)
        findings.append(Finding(project or "", "", "unreadable", path, why))

    folders = [RunFolder(root, *ref) for ref in refs] or [
        *iter_runs(root, project, models=True, unread=add_unread),
        *project_logs(root, project),
    ]
    if finish and finish_queued(folders):
        runs.refresh()
    totals = dict.fromkeys(_COUNTED, 0)
    findings += _check(runs, folders, totals, digests=blobs)
    if not names:
        findings += _unfinished_purges(root, project)
    if as_json:
        found = [dataclasses.asdict(finding) for finding in findings]
        click.echo(dumps({"root": str(root), **totals, "findings": found}))
    else:
        _print(Screen(), findings, totals)
    if findings:
        context.exit(EXIT_FAILURE)


def _check(
    runs: Runs, folders: Sequence[RunFolder], totals: Totals, *, digests: bool
) -> Iterator[Finding]:
    with progress_bar("Checking runs") as progress:
        for done, folder in enumerate(folders):
            progress(done, len(folders))
            try:
                yield from _check_one(runs, folder, totals, digests=digests)
            except OSError as error:
                where, why = str(error.filename or ""), error.strerror or str(error)
                yield _finding(folder, "unreadable", where, why)
            except Exception as error:  # noqa: BLE001 - one run must not hide the others
                why = f"its records cannot be read: {type(error).__name__}: {error}"
                yield _finding(folder, "unreadable run", "", why)
        progress(len(folders), len(folders))


def _check_one(
    runs: Runs, folder: RunFolder, totals: Totals, *, digests: bool
) -> Iterator[Finding]:
    own_log, index = folder.run.startswith("."), runs.local
    totals["runs"] += not own_log
    for file in folder.journals():
        yield from check_journal(folder, file, totals)
    yield from check_folder(folder, live=is_live(folder))
    if folder.is_purged:
        return
    try:
        if own_log:
            index.refresh(folder.project, folder.run)
        for name in index.verify(folder.project, folder.run):
            detail = "its bytes have changed since they were last read; it was read again"
            yield _finding(folder, "changed", name, detail)
        view = index.view(folder.project, folder.run)
        yield from check_records(view)
        yield from check_blobs(view, totals, digests=digests)
    except SeamarkError as error:
        yield _finding(folder, "unreadable run", "", str(error))


def _unfinished_purges(root: Path, project: str | None) -> Iterator[Finding]:
    for hidden in half_purged(root, project):
        where = hidden.parent.relative_to(root).as_posix()
        run = hidden.name.removeprefix(".").removesuffix(PURGING)
        detail = "left by an incomplete purge; seamark purge removes it"
        yield Finding(where, run, "half purged", hidden.name, detail)


def _print(screen: Screen, findings: Sequence[Finding], totals: Totals) -> None:
    runs, journals, frames, blobs, size_bytes, live = totals.values()
    checked = (
        f"{plural(runs, 'run')}, {plural(journals, 'journal')} ({human_bytes(size_bytes)}), "
        f"{plural(frames, 'record')}, {plural(blobs, 'stored file')}"
    )
    if live:
        checked += f"; {live:,} still being written"
    if findings:
        _print_findings(screen, findings)
        note(f"checked {checked}: {plural(len(findings), 'problem')}", style="error")
    else:
        screen.line(f"checked {checked}: no damage", style="green")


def _print_findings(screen: Screen, findings: Sequence[Finding]) -> None:
    if not screen.terminal:
        rows = [
            [
                Cell(clean(text))
                for text in (f"{one.project}/{one.run}", one.problem, one.where, one.detail)
            ]
            for one in findings
        ]
        screen.table([Column(title) for title in ("RUN", "PROBLEM", "WHERE", "DETAIL")], rows)
        return
    for run, found in groupby(findings, key=lambda one: f"{one.project}/{one.run}"):
        screen.line(run, style="bold")
        for one in found:
            screen.styled([(f"  {one.problem}", "bold red"), (f"  {one.where}", "dim")])
            screen.line(f"    {one.detail}")
    screen.line()


@click.command(short_help="Rebuild the local index of all runs.")
@root_only
@click.pass_context
def reindex(context: click.Context) -> None:
    """Rebuild the local index from the journals.

    The index only makes reading fast; all its data comes from the journals. It is in your cache
    folder (set SEAMARK_INDEX to move it) and is updated automatically. Rebuild it only if it seems
    wrong.

    \b
    Example:
      seamark reindex --root /data/experiments
    """
    started = time.monotonic()
    runs = open_runs(context, refresh=False, local="reindex")
    index = runs.local
    with progress_bar("Reading runs") as progress:
        index.rebuild(progress=progress)
    note(
        f"indexed {plural(len(index.runs()), 'run')} of {index.root} "
        f"in {duration_words(time.monotonic() - started)}"
    )
