"""``seamark describe``, ``rename`` and ``tag``: edits of a run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from seamark.cli import _complete
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
from seamark.cli._screen import Screen, note
from seamark.errors import RunNotFoundError
from seamark.journal.folder import RunFolder
from seamark.reading.names import LATEST
from seamark.reading.words import clean, shorten
from seamark.values import escape

_LONGEST: Final = 60
"""Cells to which an old and a new text are shortened on a terminal."""


def record(runs: Runs, ref: RunRef, **changes: Any) -> None:
    """Change a run (name, description, tags) on a server, or through a journal that is folded then.

    Such a journal owns nothing: state, error, script and running time of the run stay as they are,
    whether it is finished or is being trained by another process at this moment.
    """
    from seamark.journal.format import LONG_TEXT, is_long
    from seamark.run.logbook import append_ops

    for name, value in changes.items():
        if isinstance(value, str) and is_long(value):
            misuse(f"sys/{name}: expected at most {LONG_TEXT:,} characters, got {len(value):,}")
        if name.endswith("_tags"):
            changes[name] = [escape(tag) for tag in sorted(value)]
    if runs.root is not None:
        if not append_ops(RunFolder(runs.root, ref.project, ref.run), _ops(changes)):
            msg = f"{runs.root / ref.project / ref.run}: the change could not be written"
            raise CommandError(msg)
    else:
        if "description" in changes:
            was = getattr(runs.view(ref).attribute("sys/description"), "value", None)
            changes["description_was"] = was if isinstance(was, str) else None
        runs.remote.edit((ref.project, ref.run), changes)
    runs.refresh(ref.project, ref.run)


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


def as_recorded(text: str) -> str:
    """Return a text without the secrets that the environment names."""
    from seamark.options.settings import hidden_by_environment

    return hidden_by_environment().text(text)


def legible(text: str, what: str, *, block: bool = False) -> str:
    """Return a text of the user; Misuse if it is empty or has unprintable characters."""
    if not text.strip():
        misuse(f"{what}: expected some text, got {text!r}")
    if clean(text, block=block) != text:
        misuse(f"{what}: expected no control characters, got {text!r:.200}")
    return text


def print_change(screen: Screen, label: str, old: str, new: str) -> None:
    """Print a value before and after an edit."""
    before, after = (
        shorten(clean(one), _LONGEST) if screen.terminal else clean(one) for one in (old, new)
    )
    if old == new:
        screen.styled([(f"{label}: {after}", ""), (" (as it was)", "dim")])
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

    Without TEXT the current description opens in your editor (VISUAL, EDITOR), or the text is read
    from a pipe. It replaces the old description; nothing else about the run changes.

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
        text = legible(text, "description", block=True)
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    old = _description(runs, ref)
    new = "" if remove else _read_text(old) if text is None else text
    kept = as_recorded(new)
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
        return legible(given.rstrip(), "description (from standard input)", block=True)
    edited = click.edit(old, extension=".md")
    return old if edited is None else legible(edited.rstrip(), "description", block=True)


_NAME = "sys/name"


@click.command(short_help="Give a run another name.")
@run_argument
@click.argument("name", metavar="NAME")
@project_option
@root_option
@click.pass_context
def rename(context: click.Context, run: str, name: str, project: str | None) -> None:
    """Give a run another name. Its id, its folder and everything else stay the same.

    \b
    Examples:
      seamark rename latest baseline
      seamark rename quick-otter "two layers, no dropout"
      seamark rename d1vku baseline --project vision
    """
    legible(name, "name")
    if name == LATEST:
        misuse(f"name: expected another name than {LATEST!r}, which always means the newest run")
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    found = runs.view(ref).attribute(_NAME)
    old = "" if found is None else str(found.value)
    kept = as_recorded(name)
    if kept != old:
        record(runs, ref, name=name)
    print_change(Screen(), ref.run, old or "(no name)", kept)
    if others := runs.finder.ambiguity(kept, (ref.project, ref.run)):
        note(f"{others}; say {ref.run} where you mean this one")


@click.command(short_help="Add or remove tags.")
@runs_argument
@click.option(
    "--add",
    multiple=True,
    metavar="TAG",
    shell_complete=_complete.tags,
    help="Add this tag; may be repeated.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="TAG",
    shell_complete=_complete.tags,
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

    Nothing else about a run changes: a finished run keeps its state, its error and its times, and a
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
        legible(given, "tag")
    if both := sorted({*add} & {*remove}):
        misuse(f"tag: expected one of --add and --remove for {both[0]!r}, got both")
    runs = open_runs(context, project)
    try:
        refs = runs.chosen(names, project, query)
    except RunNotFoundError as error:
        if add or remove or len(names) < 2:  # noqa: PLR2004 - a run and what may be a tag
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
            print_change(screen, runs.label(ref), _listed(old), _listed(new))
        else:
            screen.line(f"{runs.label(ref)}: {_listed(old)}")


def _tags(runs: Runs, ref: RunRef) -> set[str]:
    found = runs.view(ref).attribute("sys/tags")
    return set(found.value) if found is not None and found.family == "string_set" else set()


def _listed(tags: set[str]) -> str:
    return ", ".join(sorted(tags)) or "(no tags)"
