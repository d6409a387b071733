"""``seamark reindex``: build the local index anew."""

from __future__ import annotations

import time

import click

from seamark.cli._app import root_option
from seamark.cli._progress import progress_bar
from seamark.cli._runs import open_runs
from seamark.cli._screen import note
from seamark.cli._text import human_duration, plural

__all__ = ["reindex"]


@click.command(short_help="Build the local index of all runs anew.")
@root_option
@click.pass_context
def reindex(context: click.Context) -> None:
    """Build the local index anew from the journals.

    The index only makes reading fast; it holds nothing that the journals do not. It lies in your
    cache folder (SEAMARK_INDEX moves it) and renews itself, so this is for the day when it looks
    wrong.

    \b
    Example:
      seamark reindex --root /data/experiments
    """
    started = time.monotonic()
    runs = open_runs(context, refresh=False)
    with progress_bar("Reading runs") as progress:
        runs.index.rebuild(progress=progress)
    count = len(runs.refs())
    note(
        f"indexed {plural(count, 'run')} of {runs.root} "
        f"in {human_duration(time.monotonic() - started)}"
    )
