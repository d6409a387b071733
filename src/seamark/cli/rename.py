"""``seamark rename``: give a run another name."""

from __future__ import annotations

import click

from seamark.cli._app import misuse, root_option
from seamark.cli._edits import as_recorded, legible, print_change, record
from seamark.cli._runs import open_runs, project_option, run_argument
from seamark.cli._screen import Screen, note
from seamark.reading.names import LATEST

__all__ = ["rename"]

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
