"""``seamark describe``: write what a run is about into its description."""

from __future__ import annotations

import click

from seamark.cli._app import misuse, root_option
from seamark.cli._edits import as_recorded, legible, print_change, record
from seamark.cli._facts import text_or_record
from seamark.cli._runs import RunRef, Runs, open_runs, project_option, run_argument
from seamark.cli._screen import Screen

__all__ = ["describe"]

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

    TEXT replaces the old description; nothing else about the run changes.

    \b
    Examples:
      seamark describe quick-otter "warm-up twice as long, see issue 12"
      seamark describe latest "$(git log -1)"
      seamark describe quick-otter --remove
      seamark ls --columns sys/name,sys/description
    """
    if remove == (text is not None):
        misuse(f"describe: expected TEXT or --remove, got {'both' if remove else 'neither'}")
    new = "" if text is None else legible(text, "description", block=True)
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    old = _description(runs, ref)
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
