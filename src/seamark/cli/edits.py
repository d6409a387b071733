"""``seamark describe``, ``rename``, ``tag``, ``trash``, ``untrash``, ``purge``: edits of runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from seamark.cli import _runs
from seamark.cli._app import CommandError, misuse, root_option
from seamark.cli._facts import text_or_record
from seamark.cli._runs import (
    RunRef,
    Runs,
    open_runs,
    project_option,
    query_option,
    run_argument,
    runs_argument,
)
from seamark.cli._screen import Screen, listed, note
from seamark.cli.fsck import drafts, half_purged
from seamark.errors import RunNotFoundError
from seamark.index.purging import delete_hidden, is_live, remove
from seamark.journal.folder import RunFolder, iter_runs
from seamark.paths import home_of, kind_of
from seamark.reading.names import LATEST
from seamark.reading.text import clean, human_bytes, plural, shorten
from seamark.values import escape

_MAX_CELLS: Final = 60
"""Maximum width of an old or new text on a terminal, in cells."""


def record(runs: Runs, ref: RunRef, **changes: Any) -> None:
    """Change name, description or tags of a run, on a server or with a further journal; refresh it.

    Such a journal does not own the run: state, error, script and running time stay unchanged,
    whether the run has finished or another process is training it.
    """
    from seamark.journal.format import LONG_TEXT, is_long
    from seamark.run.logbook import append_ops

    for name, value in changes.items():
        if isinstance(value, str) and is_long(value):
            misuse(f"sys/{name}: expected at most {LONG_TEXT:,} characters, got {len(value):,}")
        if name.endswith("_tags"):
            changes[name] = [escape(tag) for tag in sorted(value)]
    if runs.root is not None:
        if not append_ops(RunFolder(runs.root, *ref), _ops(changes)):
            raise CommandError(f"{runs.root.joinpath(*ref)}: the change could not be written")
    else:
        if "description" in changes:
            was = getattr(runs.view(ref).attribute("sys/description"), "value", None)
            changes["description_was"] = was if isinstance(was, str) else None
        runs.remote.edit(ref, changes)
    runs.refresh(*ref)


def _ops(changes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from seamark.run.contents import assign_ops
    from seamark.values import encode_atom

    for name, value in changes.items():
        op, of_tags, _ = name.partition("_tags")
        if of_tags and value:
            yield {"op": op, "path": "sys/tags", "values": value}
        elif value is None:
            yield {"op": "delete", "paths": [f"sys/{name}"]}
        elif not of_tags:
            yield from assign_ops({f"sys/{name}": encode_atom(value)})


def masked_text(text: str) -> str:
    """Return a text without the secrets that the environment specifies."""
    from seamark.options.settings import hidden_by_environment

    return hidden_by_environment().text(text)


def checked_text(text: str, what: str, *, block: bool = False) -> str:
    """Return a text of the user; Misuse if it is empty or contains control characters."""
    if not text.strip():
        misuse(f"{what}: expected some text, got {text!r}")
    if clean(text, block=block) != text:
        misuse(f"{what}: expected no control characters, got {text!r:.200}")
    return text


def print_change(screen: Screen, label: str, old: str, new: str) -> None:
    """Print a value before and after an edit."""
    before, after = (
        shorten(clean(one), _MAX_CELLS) if screen.terminal else clean(one) for one in (old, new)
    )
    if old == new:
        screen.styled([(f"{label}: {after}", ""), (" (unchanged)", "dim")])
    else:
        screen.styled([(f"{label}: ", ""), (f"{before} → ", "dim"), (after, "bold")])


_DESCRIPTION = "sys/description"


@click.command(short_help="Set a run's description.")
@run_argument
@click.argument("text", required=False, metavar="[TEXT]")
@click.option("--remove", is_flag=True, help="Remove the description.")
@project_option
@root_option
@click.pass_context
def describe(
    context: click.Context, run: str, text: str | None, project: str | None, *, remove: bool
) -> None:
    """Set a run's description.

    Without TEXT, the text is read from a pipe or, on a terminal, the current description opens in
    your editor (VISUAL, EDITOR). The text replaces the old description; nothing else in the run
    changes.

    \b
    Examples:
      seamark describe quick-otter "warm-up twice as long, see issue 12"
      seamark describe quick-otter           opens the editor
      git log -1 | seamark describe latest   reads the text from a pipe
      seamark describe quick-otter --remove
      seamark ls --columns sys/name,sys/description
    """
    if remove and text is not None:
        misuse("describe: expected TEXT or --remove, got both")
    if text is not None:
        text = checked_text(text, "description", block=True)
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    old = _description(runs, ref)
    new = "" if remove else _read_text(old) if text is None else text
    kept = masked_text(new)
    if kept != old:
        record(runs, ref, description=new or None)
    print_change(Screen(), runs.label(ref), old or "(no description)", kept or "(no description)")


def _description(runs: Runs, ref: RunRef) -> str:
    view = runs.view(ref)
    found = view.attribute(_DESCRIPTION)
    if found is None or found.family != "atom":
        return ""
    return str(text_or_record(view, found.value, _DESCRIPTION))


def _read_text(old: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        try:
            given = sys.stdin.read() if sys.stdin else ""
        except UnicodeDecodeError as error:
            misuse(
                f"describe: expected text in {error.encoding} on standard input, got other bytes"
            )
        return checked_text(given.rstrip(), "description (from standard input)", block=True)
    edited = click.edit(old, extension=".md")
    return old if edited is None else checked_text(edited.rstrip(), "description", block=True)


_NAME = "sys/name"


@click.command(short_help="Rename a run.")
@run_argument
@click.argument("name", metavar="NAME")
@project_option
@root_option
@click.pass_context
def rename(context: click.Context, run: str, name: str, project: str | None) -> None:
    """Rename a run. Its id, its folder and everything else stay the same.

    \b
    Examples:
      seamark rename latest baseline
      seamark rename quick-otter "two layers, no dropout"
      seamark rename d1vku baseline --project vision
    """
    checked_text(name, "name")
    if name == LATEST:
        misuse(f"name: expected another name than {LATEST!r}, which always means the newest run")
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    found = runs.view(ref).attribute(_NAME)
    old = "" if found is None else str(found.value)
    kept = masked_text(name)
    if kept != old:
        record(runs, ref, name=name)
    print_change(Screen(), ref.run, old or "(no name)", kept)


@click.command(short_help="Add or remove tags.")
@runs_argument
@click.option(
    "--add",
    multiple=True,
    metavar="TAG",
    shell_complete=_runs.complete_tags,
    help="Add this tag; may be repeated.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="TAG",
    shell_complete=_runs.complete_tags,
    help="Remove this tag; may be repeated.",
)
@project_option
@query_option
@root_option
@click.pass_context
def tag(
    context: click.Context,
    names: tuple[str, ...],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    project: str | None,
    query: str | None,
) -> None:
    """Add or remove tags of runs; without --add and --remove, show them.

    Nothing else in a run changes: a finished run keeps its state, its error and its times, and a
    running training is not disturbed.

    \b
    Examples:
      seamark tag quick-otter --add best
      seamark tag quick-otter calm-heron --add paper --remove draft
      seamark tag --query 'val/loss:min < 0.1' --add good
      seamark tag latest                     the tags of the newest run
      seamark ls --tag best                  the runs with a tag
    """
    for given in (*add, *remove):
        checked_text(given, "tag")
    if both := sorted({*add} & {*remove}):
        misuse(f"tag: expected one of --add and --remove for {both[0]!r}, got both")
    runs = open_runs(context, project)
    try:
        refs = runs.chosen(names, project, query)
    except RunNotFoundError as error:
        if add or remove or len(names) < 2:  # noqa: PLR2004 - a run and possibly a tag
            raise
        misuse(f"{error}; to add a tag: seamark tag {names[0]} --add {names[-1]}")
    screen = Screen()
    for ref in refs:
        old = _tags(runs, ref)
        added, removed = {*add} - old, {*remove} & old
        if added or removed:
            record(runs, ref, add_tags=added, remove_tags=removed)
        new = _tags(runs, ref)
        if add or remove:
            print_change(screen, runs.label(ref), _tag_list(old), _tag_list(new))
        else:
            screen.line(f"{runs.label(ref)}: {_tag_list(old)}")


def _tags(runs: Runs, ref: RunRef) -> set[str]:
    found = runs.view(ref).attribute("sys/tags")
    return set(found.value) if found is not None and found.family == "string_set" else set()


def _tag_list(tags: set[str]) -> str:
    return ", ".join(sorted(tags)) or "(no tags)"


_MAX_NAMED_RUNS = 20
"""Maximum number of runs named in a message."""


@click.command(short_help="Move runs to the trash; their files stay.")
@runs_argument
@project_option
@query_option
@root_option
@click.pass_context
def trash(
    context: click.Context, names: tuple[str, ...], project: str | None, query: str | None
) -> None:
    """Move runs to the trash: they are hidden from listings, but nothing is deleted.

    \b
    Examples:
      seamark trash quick-otter calm-heron
      seamark trash --query 'sys/state = "failed" AND val/loss:count < 10'
      seamark ls --trashed                   list the trash
      seamark untrash quick-otter            restore a run
      seamark purge                          delete everything in the trash
    """
    runs = open_runs(context, project)
    refs = runs.chosen(names, project, query)
    moved = _set_trashed(runs, refs, trashed=True)
    note(
        f"moved {plural(len(moved), 'run')} to the trash"
        f"{_describe_unchanged(len(refs) - len(moved), 'already in it')}{_name_list(runs, moved)}; "
        "seamark untrash restores them, seamark purge deletes them"
    )
    if live := [ref for ref in moved if runs.view(ref).state == "running"]:
        note(f"still recording{_name_list(runs, live)}", style="warning")


@click.command(short_help="Restore runs from the trash.")
@runs_argument
@project_option
@query_option
@root_option
@click.pass_context
def untrash(
    context: click.Context, names: tuple[str, ...], project: str | None, query: str | None
) -> None:
    """Restore runs from the trash, so that listings show them again.

    \b
    Examples:
      seamark untrash quick-otter
      seamark untrash --query 'sys/tags CONTAINS "keep"'
    """
    runs = open_runs(context, project)
    refs = runs.chosen(names, project, query, trashed=True)
    moved = _set_trashed(runs, refs, trashed=False)
    note(
        f"restored {plural(len(moved), 'run')} from the trash"
        f"{_describe_unchanged(len(refs) - len(moved), 'not in it')}{_name_list(runs, moved)}"
    )


def _describe_unchanged(count: int, how: str) -> str:
    return f" ({count:,} {'was' if count == 1 else 'were'} {how})" if count else ""


def _name_list(runs: Runs, refs: Sequence[RunRef]) -> str:
    labels = runs.finder.labels(refs[:_MAX_NAMED_RUNS])
    more = f" and {len(refs) - _MAX_NAMED_RUNS:,} more" if len(refs) > _MAX_NAMED_RUNS else ""
    return f": {', '.join(labels)}{more}" if refs else ""


def _set_trashed(runs: Runs, refs: Sequence[RunRef], *, trashed: bool) -> list[RunRef]:
    from seamark.run.logbook import set_trashed

    marks = {ref: runs.view(ref).attribute("sys/trashed") for ref in refs}
    moved = [ref for ref, now in marks.items() if now is None or now.value is not trashed]
    set_trashed(runs.index, runs.root, moved, trashed=trashed)
    for ref in moved:
        runs.refresh(*ref)
    return moved


@click.command(short_help="Delete runs permanently.")
@runs_argument
@project_option
@query_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
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
    """Delete runs and their files permanently; without RUN or --query, everything in the trash.

    A small marker remains, so that merging copied folders does not restore a purged run. Runs that
    a process is writing to are never deleted. Drafts of artifacts whose process has ended are
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
            folders = iter_runs(root, project, models=True)
            restored = [RunRef(one.project, one.run) for one in folders if one.is_purged]
            refs = list(dict.fromkeys([*refs, *restored]))
            _remove_leftovers(root, project)
    _refuse_versions(runs, refs)
    if root is not None:
        refs.sort(key=lambda ref: kind_of(*ref) == "model")  # after its versions
        _refuse_live([RunFolder(root, *ref) for ref in refs])
    if not refs:
        note("the trash is empty; nothing to purge")
        return
    if not yes:
        _confirm(runs, refs)
    for ref in refs:
        if root is not None:
            remove(RunFolder(root, *ref))
        else:
            runs.remote.purge(ref)
    count = plural(len(refs), "run")
    if root is None:
        note(f"purged {count} from {runs.where}; copies on the machines that recorded them remain")
        return
    runs.refresh(project)
    note(f"purged {count}")


def _refuse_untrashed(runs: Runs, refs: Sequence[RunRef]) -> None:
    for ref in refs:
        mark = runs.view(ref).attribute("sys/trashed")
        if mark is None or mark.value is not True:
            misuse(f"run {ref} is not in the trash: seamark trash {ref.run} first, or add --force")


def _refuse_versions(runs: Runs, refs: Sequence[RunRef]) -> None:
    for ref in refs:
        if kind_of(*ref) != "model":
            continue
        versions = runs.index.runs(str(ref), "model_version")
        if left := [one for one in versions if one not in refs]:
            what = f"model {ref.run!r} of project {home_of(ref.project)!r}"
            misuse(
                f"{what} has {plural(len(left), 'version')} that would be deleted with it: purge "
                f"{'it' if len(left) == 1 else 'them'}, too"
            )


def _refuse_live(folders: Sequence[RunFolder]) -> None:
    if live := [f"{folder.project}/{folder.run}" for folder in folders if is_live(folder)]:
        names = listed(live, _MAX_NAMED_RUNS)
        raise CommandError(
            f"nothing was purged: a process is still writing to {names}; stop it first"
        )


def _confirm(runs: Runs, refs: Sequence[RunRef]) -> None:
    if not sys.stdin.isatty():
        misuse("purge asks for confirmation, but standard input is not a terminal: add --yes")
    root, what = runs.root, plural(len(refs), "run")
    for ref in refs[:_MAX_NAMED_RUNS]:
        note(f"  {runs.label(ref)}  ({ref if root is None else root.joinpath(*ref)})")
    if len(refs) > _MAX_NAMED_RUNS:
        note(f"  and {len(refs) - _MAX_NAMED_RUNS} more")
    if root is None:
        what = f"{what} from {runs.where}"
    else:
        size = sum(_folder_size(root.joinpath(*ref)) for ref in refs)
        what = f"{what}, {human_bytes(size)},"
    click.confirm(f"Delete {what} permanently?", abort=True, err=True)


def _folder_size(folder: Path) -> int:
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for where, _, files in os.walk(folder)
        for entry in (Path(where) / name for name in files)
    )


def _remove_leftovers(root: Path, project: str | None) -> None:
    left = [one.path for one in drafts(root, project) if not is_live(one)]
    for place in [*half_purged(root, project), *left]:
        delete_hidden(place)
    if left:
        note(f"removed {plural(len(left), 'draft')} of artifacts that were never saved")
