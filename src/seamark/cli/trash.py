"""``seamark trash``, ``untrash`` and ``purge``: hide runs, show them again, or delete them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from seamark.cli._app import CommandError, misuse, root_option
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, query_option, runs_argument
from seamark.cli._screen import note
from seamark.cli.fsck import drafts, half_purged
from seamark.index.purging import delete_hidden, is_live, remove
from seamark.journal.folder import RunFolder, iter_runs
from seamark.paths import home_of, kind_of
from seamark.reading.words import human_bytes, plural

_LISTED = 20
"""So many runs are named."""


@click.command(short_help="Hide runs; their files stay.")
@runs_argument
@project_option
@query_option
@root_option
@click.pass_context
def trash(
    context: click.Context, names: tuple[str, ...], project: str | None, query: str | None
) -> None:
    """Put runs into the trash: listings leave them out, nothing is deleted.

    \b
    Examples:
      seamark trash quick-otter calm-heron
      seamark trash --query 'sys/state = "failed" AND val/loss:count < 10'
      seamark ls --trashed                   what is in the trash
      seamark untrash quick-otter            take it out again
      seamark purge                          delete for good what is in the trash
    """
    runs = open_runs(context, project)
    refs = runs.chosen(names, project, query)
    moved = _mark(runs, refs, trashed=True)
    note(
        f"put {plural(len(moved), 'run')} into the trash"
        f"{_describe_unchanged(len(refs) - len(moved), 'already in it')}{_named(runs, moved)}; "
        "seamark untrash takes them out, seamark purge deletes them"
    )
    if live := [ref for ref in moved if runs.view(ref).state == "running"]:
        note(f"still recording{_named(runs, live)}", style="warning")


@click.command(short_help="Take runs out of the trash.")
@runs_argument
@project_option
@query_option
@root_option
@click.pass_context
def untrash(
    context: click.Context, names: tuple[str, ...], project: str | None, query: str | None
) -> None:
    """Take runs out of the trash, so that listings show them again.

    \b
    Examples:
      seamark untrash quick-otter
      seamark untrash --query 'sys/tags CONTAINS "keep"'
    """
    runs = open_runs(context, project)
    refs = runs.chosen(names, project, query, trashed=True)
    moved = _mark(runs, refs, trashed=False)
    note(
        f"took {plural(len(moved), 'run')} out of the trash"
        f"{_describe_unchanged(len(refs) - len(moved), 'not in it')}{_named(runs, moved)}"
    )


def _describe_unchanged(count: int, how: str) -> str:
    return f" ({count:,} {'was' if count == 1 else 'were'} {how})" if count else ""


def _named(runs: Runs, refs: Sequence[RunRef]) -> str:
    labels = runs.finder.labels([(ref.project, ref.run) for ref in refs[:_LISTED]])
    more = f" and {len(refs) - _LISTED:,} more" if len(refs) > _LISTED else ""
    return f": {', '.join(labels)}{more}" if refs else ""


def _mark(runs: Runs, refs: Sequence[RunRef], *, trashed: bool) -> list[RunRef]:
    from seamark.run.logbook import set_trashed

    marks = {ref: runs.view(ref).attribute("sys/trashed") for ref in refs}
    moved = [ref for ref, now in marks.items() if now is None or now.value is not trashed]
    pairs = [(ref.project, ref.run) for ref in moved]
    set_trashed(runs.index, runs.root, pairs, trashed=trashed)
    for pair in pairs:
        runs.refresh(*pair)
    return moved


@click.command(short_help="Delete runs for good.")
@runs_argument
@project_option
@query_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Also delete runs that are not in the trash.")
@root_option
@click.pass_context
def purge(
    context: click.Context,
    names: tuple[str, ...],
    project: str | None,
    query: str | None,
    *,
    yes: bool,
    force: bool,
) -> None:
    """Delete runs for good, with their files. Without RUN or --query, everything in the trash.

    A small marker stays behind, so that merging copied folders does not bring a purged run back.
    Runs that are being written to are never deleted. Drafts of artifacts whose process is gone are
    removed with the trash.

    \b
    Examples:
      seamark purge                          everything in the trash; asks first
      seamark purge quick-otter --yes
      seamark purge --force --query 'sys/state = "crashed"'
    """
    runs = open_runs(context, project)
    root = runs.root
    if names or query is not None:
        refs = runs.chosen(names, project, query, trashed=None if force else True)
        if not force:
            _refuse_untrashed(runs, refs)
    else:
        kinds = ("run", "model", "model_version", "artifact")
        refs = [ref for kind in kinds for ref in runs.select("", project, trashed=True, kind=kind)]
        if root is not None:
            refs = list(dict.fromkeys([*refs, *_copied_back(root, project)]))
            _clear(root, project)
    _refuse_versions(runs, refs)
    if root is not None:
        refs.sort(key=lambda ref: kind_of(ref.project, ref.run) == "model")  # it holds its versions
        _refuse_live([RunFolder(root, ref.project, ref.run) for ref in refs])
    if not refs:
        note("the trash is empty; nothing to purge")
        return
    if not yes:
        _ask(runs, refs)
    for ref in refs:
        if root is not None:
            remove(RunFolder(root, ref.project, ref.run))
        else:
            runs.remote.purge((ref.project, ref.run))
    count = plural(len(refs), "run")
    if root is None:
        note(f"purged {count} from {runs.where}; copies on the machines that recorded them stay")
        return
    runs.refresh(project)
    note(f"purged {count}")


def _copied_back(root: Path, project: str | None) -> Iterator[RunRef]:
    for folder in iter_runs(root, project, models=True):
        if folder.is_purged:
            yield RunRef(folder.project, folder.run)


def _refuse_untrashed(runs: Runs, refs: Sequence[RunRef]) -> None:
    for ref in refs:
        mark = runs.view(ref).attribute("sys/trashed")
        if mark is None or mark.value is not True:
            misuse(f"run {ref} is not in the trash: seamark trash {ref.run} first, or add --force")


def _refuse_versions(runs: Runs, refs: Sequence[RunRef]) -> None:
    for ref in refs:
        if kind_of(ref.project, ref.run) != "model":
            continue
        versions = runs.index.runs(str(ref), "model_version")
        if left := [one for one in versions if RunRef(*one) not in refs]:
            what = f"model {ref.run!r} of project {home_of(ref.project)!r}"
            misuse(
                f"{what} has {plural(len(left), 'version')} that would go with it: "
                f"purge {'it' if len(left) == 1 else 'them'}, too"
            )


def _refuse_live(folders: Sequence[RunFolder]) -> None:
    if live := [f"{folder.project}/{folder.run}" for folder in folders if is_live(folder)]:
        listed = ", ".join(live[:_LISTED]) + (", …" if len(live) > _LISTED else "")
        msg = f"nothing was purged: a process is still writing to {listed}; stop it first"
        raise CommandError(msg)


def _ask(runs: Runs, refs: Sequence[RunRef]) -> None:
    if not sys.stdin.isatty():
        misuse("purge asks before it deletes, and there is no terminal to answer from: add --yes")
    root, what = runs.root, plural(len(refs), "run")
    for ref in refs[:_LISTED]:
        note(f"  {runs.label(ref)}  ({ref if root is None else root / ref.project / ref.run})")
    if len(refs) > _LISTED:
        note(f"  and {len(refs) - _LISTED} more")
    if root is None:
        what = f"{what} from {runs.where}"
    else:
        size = sum(_size(root / ref.project / ref.run) for ref in refs)
        what = f"{what}, {human_bytes(size)},"
    click.confirm(f"Delete {what} for good?", abort=True, err=True)


def _size(folder: Path) -> int:
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for where, _, files in os.walk(folder)
        for entry in (Path(where) / name for name in files)
    )


def _clear(root: Path, project: str | None) -> None:
    left = [one.path for one in drafts(root, project) if not is_live(one)]
    for place in [*half_purged(root, project), *left]:
        delete_hidden(place)
    if left:
        note(f"removed {plural(len(left), 'draft')} of artifacts that nobody saved")
