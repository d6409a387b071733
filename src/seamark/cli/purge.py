"""``seamark purge``: delete runs for good."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from seamark.cli._app import Trouble, misuse, root_option
from seamark.cli._checks import drafts, half_purged
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, query_option, runs_argument
from seamark.cli._screen import note
from seamark.cli._text import human_bytes, plural
from seamark.index.purging import delete_hidden, is_live, remove
from seamark.journal.folder import RunFolder, iter_runs
from seamark.paths import home_of, kind_of

__all__ = ["purge"]

_LISTED = 20


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
    if runs.root is None:
        _purge_there(runs, names, project, query, yes=yes, force=force)
        return
    if names or query is not None:
        refs = _named(runs, names, project, query, force=force)
        folders = [RunFolder(runs.local.root, ref.project, ref.run) for ref in refs]
    else:
        folders = _trash(runs, project)
        _finish_earlier(runs.local.root, project)
        _drop_drafts(runs.local.root, project)
    folders.sort(key=lambda folder: folder.kind == "model")  # whose folder holds its versions
    _refuse_live(folders)
    if not folders:
        note("the trash is empty; nothing to purge")
        return
    if not yes:
        _ask(runs, folders)
    for folder in folders:
        remove(folder)
    runs.refresh(project)
    note(f"purged {plural(len(folders), 'run')}")


def _named(
    runs: Runs, names: Sequence[str], project: str | None, query: str | None, *, force: bool
) -> list[RunRef]:
    refs = runs.chosen(names, project, query, trashed=None if force else True)
    if not force:
        _refuse_untrashed(runs, refs)
    _refuse_versions(runs, refs)
    return refs


def _in_trash(runs: Runs, project: str | None) -> list[RunRef]:
    kinds = ("run", "model", "model_version", "artifact")
    refs = [ref for kind in kinds for ref in runs.select("", project, trashed=True, kind=kind)]
    _refuse_versions(runs, refs)
    return refs


def _purge_there(
    runs: Runs,
    names: Sequence[str],
    project: str | None,
    query: str | None,
    *,
    yes: bool,
    force: bool,
) -> None:
    """Delete runs on a server, and note that copies on other machines are not deleted."""
    from seamark.remote.http.catalog import RemoteCatalog

    assert isinstance(runs.index, RemoteCatalog)  # noqa: S101 - there are no other places
    if names or query is not None:
        refs = _named(runs, names, project, query, force=force)
    else:
        refs = _in_trash(runs, project)
    if not refs:
        note("the trash is empty; nothing to purge")
        return
    if not yes:
        _expect_somebody()
        _list([f"{runs.label(ref)}  ({ref})" for ref in refs])
        count = plural(len(refs), "run")
        click.confirm(f"Delete {count} from {runs.where} for good?", abort=True, err=True)
    for ref in refs:
        runs.index.purge((ref.project, ref.run))
    note(
        f"purged {plural(len(refs), 'run')} from {runs.where}; copies on the machines that "
        "recorded them stay"
    )


def _trash(runs: Runs, project: str | None) -> list[RunFolder]:
    """Return what is in the trash, and purged runs that somebody copied back."""
    refs = _in_trash(runs, project)
    folders = [RunFolder(runs.local.root, ref.project, ref.run) for ref in refs]
    there = iter_runs(runs.local.root, project, models=True)
    back = (folder for folder in there if folder.is_purged)
    return list(dict.fromkeys([*folders, *back]))


def _refuse_untrashed(runs: Runs, refs: Sequence[RunRef]) -> None:
    for ref in refs:
        mark = runs.view(ref).attribute("sys/trashed")
        if mark is None or mark.value is not True:
            misuse(f"run {ref} is not in the trash: seamark trash {ref.run} first, or add --force")


def _refuse_versions(runs: Runs, refs: Sequence[RunRef]) -> None:
    """Refuse to delete a model with versions that are not to be deleted.

    Raises:
        Misuse: If there are any.
    """
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
        raise Trouble(msg)


def _ask(runs: Runs, folders: Sequence[RunFolder]) -> None:
    _expect_somebody()
    size = sum(_size(folder.path) for folder in folders)
    _list(
        [f"{runs.label(RunRef(folder.project, folder.run))}  ({folder.path})" for folder in folders]
    )
    click.confirm(
        f"Delete {plural(len(folders), 'run')}, {human_bytes(size)}, for good?",
        abort=True,
        err=True,
    )


def _expect_somebody() -> None:
    if not sys.stdin.isatty():
        misuse("purge asks before it deletes, and there is no terminal to answer from: add --yes")


def _list(lines: Sequence[str]) -> None:
    for line in lines[:_LISTED]:
        note(f"  {line}")
    if len(lines) > _LISTED:
        note(f"  and {len(lines) - _LISTED} more")


def _size(folder: Path) -> int:
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for where, _, files in os.walk(folder)
        for entry in (Path(where) / name for name in files)
    )


def _drop_drafts(root: Path, project: str | None) -> None:
    """Remove drafts of artifacts whose process is gone; nobody can save them any more."""
    left = [one for one in drafts(root, project) if not is_live(one)]
    for draft in left:
        delete_hidden(draft.path)
    if left:
        note(f"removed {plural(len(left), 'draft')} of artifacts that nobody saved")


def _finish_earlier(root: Path, project: str | None) -> None:
    for hidden in list(half_purged(root, project)):
        delete_hidden(hidden)
