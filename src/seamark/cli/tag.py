"""``seamark tag``: add tags to runs, take tags away, show them."""

from __future__ import annotations

import click

from seamark.cli import _complete
from seamark.cli._app import misuse, root_option
from seamark.cli._edits import legible, print_change, record
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, query_option, runs_argument
from seamark.cli._screen import Screen
from seamark.errors import RunNotFoundError

__all__ = ["tag"]


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
