"""``seamark describe``: write what a run is about into its description."""

from __future__ import annotations

import sys

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
    """Return the text that an editor or a pipe gives.

    Raises:
        Misuse: If it is none.
        ClickException: If the editor cannot be started or fails.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        try:
            given = sys.stdin.read() if sys.stdin else ""
        except UnicodeDecodeError as error:
            misuse(
                f"describe: expected text in {error.encoding} on standard input, got other bytes"
            )
        return legible(given.rstrip(), "description (from standard input)", block=True)
    edited = click.edit(old, extension=".md")
    if edited is None:
        return old
    return legible(edited.rstrip(), "description", block=True)
