"""``seamark fsck``: read everything and tell what is damaged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import click

from seamark.cli import _checks
from seamark.cli._app import root_only
from seamark.cli._checks import Finding, Totals
from seamark.cli._runs import Runs, open_runs, project_option, runs_argument
from seamark.cli._screen import Cell, Column, Screen, dumps, note, progress_bar
from seamark.errors import SeamarkError
from seamark.index.purging import PURGING, is_live
from seamark.journal.folder import RunFolder, iter_runs
from seamark.reading.words import clean, human_bytes, plural

__all__ = ["fsck"]

_EXIT_FOUND: Final = 1


@click.command(short_help="Read all journals and report what is damaged.")
@runs_argument
@project_option
@click.option(
    "--blobs",
    is_flag=True,
    help="Also read every file that is stored, or left in the run folder, and compare its digest.",
)
@click.option(
    "--finish",
    is_flag=True,
    help="First store the files that dead processes had queued but not stored.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one strict JSON document.")
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
    """Read every journal to its end and report what is damaged. Only --finish changes anything.

    It reports damaged bytes (gap), incomplete last records (torn tail: the process died while it
    wrote; everything it had written before is there), records of a newer Seamark, stored files that
    are missing or of the wrong size or digest, and files that were queued but never stored. A run
    that is still being written to is not reported as a problem.

    The exit code is 1 if anything was found, else 0.

    \b
    Examples:
      seamark fsck                           everything below the root
      seamark fsck --blobs quick-otter       one run, its stored files too
      seamark fsck --json | jq '.findings[].problem'
    """
    runs = open_runs(context, project, local="fsck")
    root = runs.local.root
    refs = [runs.find(name, project) for name in names]
    folders = [RunFolder(root, ref.project, ref.run) for ref in refs] or _all_folders(root, project)
    if finish and _checks.finish_queued(folders):
        runs.refresh()
    totals = Totals()
    findings = [*_check(runs, folders, totals, digests=blobs)]
    if not names:
        findings += [*_unfinished_purges(root, project), *_checks.unreadable(root, project)]
    if as_json:
        counts = dataclasses.asdict(totals)
        listed = [dataclasses.asdict(finding) for finding in findings]
        click.echo(dumps({"root": str(root), **counts, "findings": listed}))
    else:
        _print(Screen(), findings, totals)
    if findings:
        context.exit(_EXIT_FOUND)


def _all_folders(root: Path, project: str | None) -> list[RunFolder]:
    return [*iter_runs(root, project, models=True), *_checks.project_logs(root, project)]


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
                yield Finding(folder.project, folder.run, "unreadable", where, why)
            except Exception as error:  # noqa: BLE001 - one odd run does not hide the others
                why = f"its records cannot be read: {type(error).__name__}: {error}"
                yield Finding(folder.project, folder.run, "unreadable run", "", why)
        progress(len(folders), len(folders))


def _check_one(
    runs: Runs, folder: RunFolder, totals: Totals, *, digests: bool
) -> Iterator[Finding]:
    own_log, index = folder.run.startswith("."), runs.local
    totals.runs += not own_log
    for file in folder.journals():
        yield from _checks.check_journal(folder, file, totals)
    yield from _checks.check_folder(folder, live=is_live(folder))
    if folder.is_purged:
        return
    try:
        if own_log:
            index.refresh(folder.project, folder.run)
        for name in index.verify(folder.project, folder.run):
            detail = "its bytes are not those that were read before; it was read again"
            yield Finding(folder.project, folder.run, "changed", name, detail)
        view = index.view(folder.project, folder.run)
        yield from _checks.check_copies(view)
        yield from _checks.check_records(view)
        yield from _checks.check_blobs(view, totals, digests=digests)
    except SeamarkError as error:
        yield Finding(folder.project, folder.run, "unreadable run", "", str(error))


def _unfinished_purges(root: Path, project: str | None) -> Iterator[Finding]:
    for hidden in _checks.half_purged(root, project):
        where = hidden.parent.relative_to(root).as_posix()
        run = hidden.name.removeprefix(".").removesuffix(PURGING)
        detail = "left by a purge that was not completed; seamark purge removes it"
        yield Finding(where, run, "half purged", hidden.name, detail)


def _print(screen: Screen, findings: Sequence[Finding], totals: Totals) -> None:
    looked = (
        f"{plural(totals.runs, 'run')}, {plural(totals.journals, 'journal')} "
        f"({human_bytes(totals.size_bytes)}), "
        f"{plural(totals.frames, 'record')}, {plural(totals.blobs, 'stored file')}"
    )
    if totals.live:
        looked += f"; {totals.live:,} still being written"
    if findings:
        _list(screen, findings)
        note(f"checked {looked}: {plural(len(findings), 'problem')}", style="error")
    else:
        screen.line(f"checked {looked}: no damage", style="green")


def _list(screen: Screen, findings: Sequence[Finding]) -> None:
    """Print findings: run by run, in as many lines as they take, on a terminal; else a table."""
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
