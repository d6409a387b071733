"""``seamark trash`` and ``seamark untrash``: hide runs, or show them again."""

from __future__ import annotations

from collections.abc import Sequence

import click

from seamark.cli._app import root_option
from seamark.cli._edits import assigned, record
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, query_option, runs_argument
from seamark.cli._screen import note
from seamark.cli._text import plural

__all__ = ["trash", "untrash"]


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
        f"put {plural(moved, 'run')} into the trash{_others(len(refs) - moved, 'already in it')}; "
        "seamark untrash takes them out, seamark purge deletes them"
    )


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
    note(f"took {plural(moved, 'run')} out of the trash{_others(len(refs) - moved, 'not in it')}")


def _others(count: int, how: str) -> str:
    """Return what is said of runs that were named and stay as they are."""
    return f" ({count:,} {'was' if count == 1 else 'were'} {how})" if count else ""


def _mark(runs: Runs, refs: Sequence[RunRef], *, trashed: bool) -> int:
    """Write the mark where it is not there yet; return how many runs got it."""
    moved = 0
    for ref in refs:
        now = runs.view(ref).attribute("sys/trashed")
        if now is None or now.value is not trashed:
            record(runs, ref, assigned("sys/trashed", trashed))
            moved += 1
    return moved
