"""Import of the runs of Neptune, one after the other; a run that cannot be read is skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from seamark.errors import ArgumentError, SeamarkError
from seamark.interchange.draft import Draft, NotImportedError
from seamark.interchange.export import ExportedRun, check_parquet, parts_below
from seamark.interchange.offline import ClientFolder, ClientRun, folders_below, logs_in
from seamark.interchange.source import FoundRun, Notes, Places, RunSummary
from seamark.journal.safe import is_folder
from seamark.paths import check_project
from seamark.process.interrupts import let_pass

Open = Callable[[], "FoundRun"]
_MAX_DEPTH: Final = 3
"""Maximum depth at which an export is searched below a folder: ``exports/data/<project>/``."""


@dataclass(slots=True)
class Source:
    """Candidate for an import; ``open`` may raise any error; ``size`` in bytes."""

    called: str
    open: Open
    size: int


@dataclass(slots=True)
class Listed:
    """Preview of the import of a run; ``"more"``: an imported run has new data; size in bytes."""

    called: str
    status: Literal["new", "more", "there already", "unreadable"]
    project: str = ""
    run: str = ""
    summary: RunSummary | None = None
    size: int = 0
    problem: str = ""


@dataclass(slots=True)
class Imported:
    """Result of an import; ``there`` counts runs that had been imported before."""

    runs: list[tuple[str, str]] = field(default_factory=list)
    there: int = 0
    problems: list[str] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)


def find_neptune(
    root: Path,
    path: Path,
    *,
    project: str | None = None,
    files: Sequence[Path] = (),
    zone: str | None = None,
) -> tuple[list[Source], Notes]:
    """Return the runs of Neptune at or below a path, and notes on entries that cannot be imported.

    Args:
        root: Root folder to import into.
        path: Folder of an export or of the client.
        project: Project to import into; None for the project of an export.
        files: For an export, the folder of its files, if it is not next to the data. For the
            client, further folders from which referenced files may be read.
        zone: Name of the time zone in which the exporter ran; None for UTC.

    Raises:
        ArgumentError: If there is nothing to import, or an argument is invalid.
        MissingExtraError: If there is an export, but the extra ``parquet`` is not installed.
    """
    if project is not None:
        check_project(project)
    if not path.is_dir():
        raise ArgumentError(
            f"expected a folder of neptune-exporter or of the client (.neptune), got {path}"
        )
    notes = Notes()
    found = [
        *_export_sources(root, path, project, files, zone, notes),
        *_client_sources(root, path, project, files, notes),
    ]
    if not found and not notes.counts:
        raise ArgumentError(
            f"nothing to import in {path}: no *_part_0.parquet of neptune-exporter, and "
            "no folder of the client such as .neptune/offline/run__..."
        )
    return found, notes


def _export_sources(
    root: Path,
    path: Path,
    project: str | None,
    files: Sequence[Path],
    zone: str | None,
    notes: Notes,
) -> Iterator[Source]:
    for folder in _folders(path, _MAX_DEPTH):
        parts = parts_below(folder)
        if not parts:
            continue
        if folder.name in ("models", "model_versions") and folder.parent.parent.name.startswith(
            "model"
        ):
            notes.add("models and their versions: left out", str(folder), len(parts))
            continue
        check_parquet()
        if zone is not None:
            _check_zone(zone)
        beside = folder.parent.parent / "files"
        for prefix, paths in parts.items():
            place = files[0] if files else beside
            opened = partial(ExportedRun, root, paths, place, project, zone)
            yield Source(prefix, opened, _size_of(paths))


def _check_zone(zone: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.assume_timezone(pa.scalar(0, pa.timestamp("ms")), zone)
    except (pa.ArrowException, ValueError) as error:
        raise ArgumentError(
            f"--tz: expected a time zone such as Europe/Berlin, got {zone!r:.80}"
        ) from error


def _folders(path: Path, depth: int) -> Iterator[Path]:
    yield path
    if depth:
        inner: list[Path] = []
        with contextlib.suppress(OSError):
            inner = sorted(one for one in path.iterdir() if is_folder(one))
        for one in inner:
            if not one.name.startswith("."):
                yield from _folders(one, depth - 1)


def _client_sources(
    root: Path, path: Path, project: str | None, files: Sequence[Path], notes: Notes
) -> Iterator[Source]:
    groups: dict[str, list[ClientFolder]] = {}
    for one in folders_below(path):
        if one.kind != "run":
            notes.add(f"folders of a {one.kind[:40]} instead of a run: left out", str(one.path))
            continue
        groups.setdefault(one.container, []).append(one)
    if groups and project is None:
        raise ArgumentError(
            "the client's folders do not name their project: give it with --project"
        )
    for container, folders in groups.items():
        places = Places([*dict.fromkeys(_working_folder(one.path) for one in folders), *files])
        opened = partial(ClientRun, root, folders, str(project), places)
        yield Source(
            container, opened, _size_of(log for one in folders for log in logs_in(one.path))
        )


def _size_of(paths: Iterable[Path]) -> int:
    size = 0
    for path in paths:
        with contextlib.suppress(OSError):
            size += path.stat().st_size
    return size


def _working_folder(folder: Path) -> Path:
    """Return the folder that contains ``.neptune``, in which the training ran; or ``folder``."""
    whole = folder.absolute()
    for above in whole.parents:
        if above.name == ".neptune":
            return above.parent
    return whole


# -------------------------------------------------------------------- import


def list_runs(sources: Iterable[Source]) -> Iterator[Listed]:
    """Yield the expected result of an import for each run."""
    for source in sources:
        try:
            yield _preview(source.open())
        except Exception as error:  # noqa: BLE001 - of a damaged source
            let_pass(error)
            yield Listed(source.called, "unreadable", problem=_describe(source.called, error))


def _describe(called: str, error: Exception) -> str:
    is_known = isinstance(error, SeamarkError | OSError)
    return f"{called}: {error}" if is_known else f"{called}: it cannot be read: {error!s:.300}"


def _preview(run: FoundRun) -> Listed:
    place = (run.folder.project, run.folder.run)
    if not run.missing():
        return Listed(run.called, "there already", *place)
    if run.folder.purged_mark.exists():
        raise NotImportedError(f"{run.folder.words} was purged here")
    status: Literal["new", "more"] = "more" if run.folder.path.exists() else "new"
    return Listed(run.called, status, *place, run.summary(), run.size)


def import_runs(
    sources: Sequence[Source], progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Imported:
    """Import runs, one after the other; ``progress`` is called with bytes read and known in total.

    An interrupted import can be repeated: existing data is not written again, and a run becomes
    visible only when it is complete.
    """
    done = Imported()
    total, before = sum(source.size for source in sources), 0
    for source in sources:
        read = before

        def add(size: int) -> None:
            nonlocal read
            read += size
            progress(read, max(total, read))

        _import(source, done, add)
        before += source.size
        progress(before, total)
    return done


def _import(source: Source, done: Imported, add: Callable[[int], None]) -> None:
    called = source.called
    try:
        run = source.open()
        called = run.called
        if not run.missing():
            done.there += 1
            if remark := run.note():
                done.notes.add(remark, called)
            return
        notes = Notes()
        with contextlib.closing(Draft(run.folder)) as draft:
            if not run.missing():  # another import finished it meanwhile
                done.there += 1
                return
            run.write(draft, notes, add)
            draft.finish()
        done.notes.join(notes)
        done.runs.append((run.folder.project, run.folder.run))
    except Exception as error:  # noqa: BLE001 - a damaged source must not stop the import of others
        let_pass(error)
        done.problems.append(_describe(called, error))
