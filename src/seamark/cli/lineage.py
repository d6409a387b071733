"""``seamark lineage``: ancestors and descendants of a run, an artifact or a model version."""

from __future__ import annotations

import click

from seamark.cli._app import json_option, root_option
from seamark.cli._runs import open_runs, project_option, run_argument
from seamark.cli._screen import dumps
from seamark.reading.text import clean


@click.command(short_help="Show the ancestors and descendants of a run or an artifact.")
@run_argument
@project_option
@json_option
@root_option
@click.pass_context
def lineage(context: click.Context, run: str, project: str | None, *, as_json: bool) -> None:
    """Show the ancestors and descendants of a run, an artifact or a model version.

    They are recorded by run.mark_input and run.mark_output. All generations are shown: the runs
    that produced the inputs of a run, the runs that used its outputs, and so on.

    \b
    Examples:
      seamark lineage latest                 the newest run
      seamark lineage digits:3               a version of an artifact
      seamark lineage latest --json | jq '.nodes[].label'
    """
    from seamark.run.lineage import lineage_of

    runs = open_runs(context, project)
    found = lineage_of(runs.index, runs.find(run, project))
    if as_json:
        click.echo(dumps(found.to_dict()))
    else:
        for line in str(found).split("\n"):
            click.echo(clean(line))
