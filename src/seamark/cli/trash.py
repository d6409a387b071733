"""``seamark trash`` and ``seamark untrash``: hide runs, or show them again."""

from __future__ import annotations

from collections.abc import Sequence

import click

from seamark.cli._app import root_option
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, query_option, runs_argument
from seamark.cli._screen import note
from seamark.reading.words import plural

__all__ = ["trash", "untrash"]

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
    """Return what is said of runs that were named and stay as they are."""
    return f" ({count:,} {'was' if count == 1 else 'were'} {how})" if count else ""


def _named(runs: Runs, refs: Sequence[RunRef]) -> str:
    """Return which runs those are, behind a colon; of many the first ones and a count."""
    labels = runs.finder.labels([(ref.project, ref.run) for ref in refs[:_LISTED]])
    more = f" and {len(refs) - _LISTED:,} more" if len(refs) > _LISTED else ""
    return f": {', '.join(labels)}{more}" if refs else ""


def _mark(runs: Runs, refs: Sequence[RunRef], *, trashed: bool) -> list[RunRef]:
    """Write the mark where it is not there yet; return the runs that got it."""
    from seamark.registry.edits import set_trashed

    marks = {ref: runs.view(ref).attribute("sys/trashed") for ref in refs}
    moved = [ref for ref, now in marks.items() if now is None or now.value is not trashed]
    pairs = [(ref.project, ref.run) for ref in moved]
    set_trashed(runs.index, runs.root, pairs, trashed=trashed)
    for pair in pairs:
        runs.refresh(*pair)
    return moved
