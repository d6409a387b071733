"""``seamark lineage``: ancestors and descendants of a run, an artifact or a model version."""

from __future__ import annotations

import click

from seamark.cli._app import json_option, misuse, root_option
from seamark.cli._runs import open_runs, project_option, run_argument
from seamark.cli._screen import dumps
from seamark.reading.words import clean


@click.command(short_help="Show where a run or an artifact comes from, and what came of it.")
@run_argument
@project_option
@click.option("--dot", "as_dot", is_flag=True, help="Write a graph for Graphviz.")
@json_option
@root_option
@click.pass_context
def lineage(
    context: click.Context, run: str, project: str | None, *, as_dot: bool, as_json: bool
) -> None:
    """Show what led to a run, an artifact or a model version, and what came of it.

    That is what run.mark_input and run.mark_output recorded, over all generations: the runs that
    made what a run read, those that read what it made, and so on.

    \b
    Examples:
      seamark lineage latest                 the newest run
      seamark lineage digits:3               a version of an artifact
      seamark lineage digits:best --dot | dot -Tsvg > digits.svg
      seamark lineage latest --json | jq '.nodes[].label'
    """
    from seamark.run.lineage import lineage_of

    if as_dot and as_json:
        misuse("expected one of --dot and --json, got both")
    runs = open_runs(context, project)
    ref = runs.find(run, project)
    found = lineage_of(runs.index, (ref.project, ref.run))
    if as_json:
        click.echo(dumps(found.to_dict()))
    elif as_dot:
        click.echo(found.to_dot())
    else:
        for line in str(found).split("\n"):
            click.echo(clean(line))
