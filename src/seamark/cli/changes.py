"""``seamark changes``: which runs changed since the last look."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

import click

from seamark.cli._app import json_option, root_option
from seamark.cli._runs import open_runs, project_option
from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, dumps, note
from seamark.reading.words import clean, plural

_LISTED: Final = 3


@click.command(short_help="Show which runs changed since the last look.")
@click.argument("cursor", default="", metavar="[CURSOR]")
@project_option
@json_option
@root_option
@click.pass_context
def changes(context: click.Context, cursor: str, project: str | None, *, as_json: bool) -> None:
    """Show which runs changed since CURSOR, and the next cursor.

    Runs change when something is recorded, when they begin, end or crash, and when they are
    edited or removed. Without a cursor only one to begin with is given; the cursor of an index
    that was made anew since is answered with "reset": everything may have changed.

    \b
    Examples:
      seamark changes
      seamark changes 5f2c0a6d9be1f3a7.12.1790000000000000000
      seamark changes --json "$CURSOR" | jq -r '.runs[].run'
    """
    runs = open_runs(context, project, missing_ok=True)
    found = runs.index.changes(cursor, project)
    if as_json:
        click.echo(dumps(asdict(found)))
        return
    if found.runs:
        lines = [
            [
                Cell(f"{one.project}/{one.run}", "cyan"),
                Cell(one.state or "gone", STATE_STYLES.get(one.state or "", "")),
                Cell(_few(one.paths), "dim"),
            ]
            for one in found.runs
        ]
        Screen().table([Column("RUN"), Column("STATE"), Column("RECORDED", shrink=True)], lines)
    elif cursor:
        note("everything may have changed" if found.reset else "nothing changed")
    click.echo(f"cursor: {found.cursor}")


def _few(paths: list[str]) -> str:
    shown = clean(", ".join(paths[:_LISTED]))
    more = len(paths) - _LISTED
    return f"{shown} and {plural(more, 'more path')}" if more > 0 else shown
