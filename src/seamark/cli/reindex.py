"""``seamark reindex``: rebuild the local index."""

from __future__ import annotations

import time

import click

from seamark.cli._app import root_only
from seamark.cli._runs import open_runs
from seamark.cli._screen import note, progress_bar
from seamark.reading.words import duration_words, plural

__all__ = ["reindex"]


@click.command(short_help="Rebuild the local index of all runs.")
@root_only
@click.pass_context
def reindex(context: click.Context) -> None:
    """Rebuild the local index from the journals.

    The index only makes reading fast; it holds nothing that the journals do not. It is in your
    cache folder (SEAMARK_INDEX moves it) and updates itself, so this is needed only if it looks
    wrong.

    \b
    Example:
      seamark reindex --root /data/experiments
    """
    started = time.monotonic()
    runs = open_runs(context, refresh=False, local="reindex")
    index = runs.local
    with progress_bar("Reading runs") as progress:
        index.rebuild(progress=progress)
    count = len(runs.refs())
    note(
        f"indexed {plural(count, 'run')} of {index.root} "
        f"in {duration_words(time.monotonic() - started)}"
    )
