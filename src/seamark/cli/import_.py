"""``seamark import``: import of runs from documents and from other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from seamark.cli._app import EXIT_FAILURE, root_only
from seamark.cli._screen import Cell, Column, Screen, note, progress_bar
from seamark.errors import RunExistsError, SeamarkError
from seamark.journal.folder import root_dir
from seamark.reading.text import clean, human_bytes, plural, time_text

if TYPE_CHECKING:
    from seamark.interchange.importing import Listed, Source
    from seamark.interchange.source import Notes


_COLUMNS: Final = (
    Column("PROJECT", shrink=True),
    Column("RUN"),
    Column("SOURCE ID", shrink=True),
    Column("NAME", shrink=True),
    Column("CREATED"),
    Column("VALUES", right=True),
    Column("SIZE", right=True),
    Column("STATUS"),
)


class _Sources(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0].lower().endswith(".json"):
            args = ["json", *args]
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sources of this package, then those of installed importers."""
        from seamark.interchange.document import importers

        own = super().list_commands(ctx)
        return [*own, *(name for name in importers() if name not in own)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a source, or None if no source has that name."""
        from seamark.interchange.document import importers

        own = super().get_command(ctx, cmd_name)
        return _command_of(cmd_name) if own is None and cmd_name in importers() else own


@click.group("import", cls=_Sources, short_help="Import runs from a document or another program.")
def import_() -> None:
    """Import runs from a document or from another program.

    Imported runs are ordinary runs that keep their times, steps and ids. For a path that ends in
    .json, the word json may be omitted.

    \b
    Examples:
      seamark import runs.json
      seamark import neptune exports/data --dry-run
      seamark import neptune .neptune --project digits
    """


@import_.command("json", short_help="From a document of seamark export --format json.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--project",
    metavar="PROJECT",
    help="Project to import into.  [default: the project of each run]",
)
@root_only
@click.pass_context
def from_json(context: click.Context, path: Path, project: str | None) -> None:
    """Recreate runs from a document that seamark export --format json wrote.

    Runs keep their ids, times, owners and states. A document does not contain the bytes of files.
    It is checked completely first; nothing is written if a value is invalid or a run exists.

    \b
    Examples:
      seamark import runs.json
      seamark import runs.json --project digits/from-anna
    """
    from seamark.interchange.document import DocumentRun, documents_in

    root = root_dir(context.find_root().params.get("root"))
    documents = documents_in(path)
    runs = [DocumentRun(root, one, project, where) for where, one in documents]
    for run in runs:
        run.expect_new()
    done, total = 0, sum(run.points for run in runs)
    with progress_bar("Importing") as progress:

        def add(count: int) -> None:
            nonlocal done
            done += count
            progress(done, total)

        for run in runs:
            run.make(add)
    note(f"imported {plural(len(runs), 'run')} to {root}")


def _command_of(importer: str) -> click.Command:
    """Return the command of an importer from another package."""

    @click.command(importer, short_help="With an installed importer.")
    @click.argument("path", type=click.Path(exists=True, path_type=Path))
    @click.option("--project", metavar="PROJECT", help="Project to import into.")
    @root_only
    @click.pass_context
    def command(context: click.Context, path: Path, project: str | None) -> None:
        """Import the runs in PATH with an importer from another package.

        Existing runs are not changed, so an interrupted command can be repeated. The exit code is 1
        if a run could not be imported; the other runs are imported.
        """
        from seamark.interchange.document import DocumentRun, as_strict_json, documents_of

        root = root_dir(context.find_root().params.get("root"))
        imported = existing = failed = 0
        try:
            for where, document in documents_of(importer, path):
                try:
                    DocumentRun(root, as_strict_json(document, where), project, where).make()
                    imported += 1
                except RunExistsError:
                    existing += 1
                except (SeamarkError, OSError) as error:
                    note(str(error), style="warning")
                    failed += 1
        finally:
            _report(root, imported, existing, failed)
        if failed:
            context.exit(EXIT_FAILURE)

    return command


@import_.command(
    "neptune", short_help="From neptune-exporter, or from folders of the Neptune client."
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--project",
    metavar="PROJECT",
    help="Project to import into.  [default: the project of an export; required for folders of "
    "the client]",
)
@click.option(
    "--files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="For an export, the folder of its files.  [default: files next to the data]  For "
    "folders of the client, a folder from which referenced files may be read, in addition to the "
    "folder that contains .neptune; may be repeated.",
)
@click.option(
    "--tz",
    "zone",
    metavar="ZONE",
    help="Time zone in which the exporter ran, such as Europe/Berlin.  [default: UTC]",
)
@click.option("--dry-run", is_flag=True, help="Only list the runs that would be imported.")
@root_only
@click.pass_context
def neptune(
    context: click.Context,
    path: Path,
    project: str | None,
    files: tuple[Path, ...],
    zone: str | None,
    *,
    dry_run: bool,
) -> None:
    """Import Neptune runs that were exported, or that its client has not sent.

    PATH is a folder that neptune-exporter wrote (its data folder or the parent folder), the folder
    .neptune with runs that the client logged offline or could not send, or a folder inside these.
    Reading an export needs the extra: pip install "seamark[parquet]"

    A run keeps its times, owner, steps and ids; it can still be found by its KEY-12 and its custom
    id. Existing data is not written again, so an interrupted command can be repeated. The exit code
    is 1 if a run could not be imported; the other runs are imported.

    \b
    Examples:
      seamark import neptune exports
      seamark import neptune exports/data --files exports/files --project digits
      seamark import neptune .neptune --project digits --dry-run
    """
    from seamark.interchange.importing import find_neptune, list_runs

    root = root_dir(context.find_root().params.get("root"))
    sources, left_out = find_neptune(root, path, project=project, files=files, zone=zone)
    if dry_run:
        with progress_bar("Reading") as progress:
            listed = []
            for number, one in enumerate(list_runs(sources)):
                listed.append(one)
                progress(number + 1, len(sources))
        failed = _print_listed(root, listed, left_out)
    else:
        failed = _import(root, sources, left_out)
    if failed:
        context.exit(EXIT_FAILURE)


def _import(root: Path, sources: list[Source], left_out: Notes) -> bool:
    from seamark.interchange.importing import import_runs

    with progress_bar("Importing", of_bytes=True) as progress:
        done = import_runs(sources, progress)
    done.notes.join(left_out)
    _print_notes(done.notes)
    for problem in done.problems:
        note(problem, style="warning")
    _report(root, len(done.runs), done.there, len(done.problems))
    return bool(done.problems)


def _report(root: Path, imported: int, there: int, failed: int) -> None:
    if imported or not there:
        note(f"imported {plural(imported, 'run')} to {root}")
    if there:
        note(f"{plural(there, 'run')} {'was' if there == 1 else 'were'} there already")
    if failed:
        note(f"{plural(failed, 'run')} could not be imported", style="error")


def _print_notes(notes: Notes) -> None:
    for kind, count in notes.counts.items():
        example = notes.examples.get(kind)
        note(f"{kind} ({count}{f', the first: {example}' if example else ''})", style="warning")


def _print_listed(root: Path, listed: list[Listed], left_out: Notes) -> bool:
    rows = [_row(one) for one in listed if not one.problem]
    if rows:
        Screen().table(_COLUMNS, rows)
    _print_notes(left_out)
    failed = [one for one in listed if one.problem]
    for one in failed:
        note(one.problem, style="warning")
    coming = [one for one in listed if one.status in ("new", "more")]
    size = human_bytes(sum(one.size for one in coming))
    note(f"would import {size} of {plural(len(coming), 'run')} into {root}")
    return bool(failed)


def _row(one: Listed) -> list[Any]:
    seen = one.summary
    return [
        Cell(one.project),
        Cell(one.run, "cyan"),
        Cell(clean(one.called)),
        Cell(clean(seen.name) if seen else "", "bold"),
        Cell(time_text(seen.created_ns) if seen and seen.created_ns else ""),
        Cell(f"{seen.rows:,}" if seen else ""),
        Cell(human_bytes(one.size) if one.size else ""),
        Cell(one.status, "" if one.status in ("new", "more") else "dim"),
    ]
