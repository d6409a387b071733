"""``seamark changes``: list of the runs that changed since a cursor."""

from __future__ import annotations

from dataclasses import asdict

import click

from seamark.cli._app import json_option, root_option
from seamark.cli._runs import open_runs, project_option
from seamark.cli._screen import STATE_STYLES, Cell, Column, Screen, dumps, listed, note
from seamark.reading.text import clean


@click.command(short_help="List the runs that changed since a cursor.")
@click.argument("cursor", default="", metavar="[CURSOR]")
@project_option
@json_option
@root_option
@click.pass_context
def changes(context: click.Context, cursor: str, project: str | None, *, as_json: bool) -> None:
    """List the runs that changed since CURSOR, and print the next cursor.

    A run changes when it records something, when it starts, ends or crashes, and when it is edited
    or removed. Without CURSOR, only a first cursor is printed. If the index has been rebuilt since
    CURSOR, the result is "reset": every run may have changed.

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
                Cell(clean(listed(one.paths)), "dim"),
            ]
            for one in found.runs
        ]
        Screen().table([Column("RUN"), Column("STATE"), Column("RECORDED", shrink=True)], lines)
    elif cursor:
        note("every run may have changed" if found.reset else "nothing changed")
    click.echo(f"cursor: {found.cursor}")
