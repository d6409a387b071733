"""Runs that are parts of others: folds and trials."""

from __future__ import annotations

import math

import pytest
from click.testing import CliRunner
from command import app

import seamark
from seamark import errors


@pytest.fixture
def family():
    """Record a run with three parts here, one elsewhere, and one run that is no part."""
    with seamark.init_run(project="team/x", name="sweep") as run:
        parts = []
        for number in range(3):
            with seamark.init_run(project="team/x", name=f"fold{number}", parent=run) as part:
                part.log_metrics({"val/acc": 0.5 + number}, 0)
                part["seed"] = number
            parts.append(part.id)
        with seamark.init_run(project="team/y", name="away", parent=run) as away:
            away.log_metrics({"val/acc": math.inf}, 0)
            away["seed"] = 10
    with seamark.init_run(project="team/x", name="alone"):
        pass
    return run.id, parts, away.id


def test_a_part_names_its_run(family):
    whole, parts, away = family
    with seamark.init_run(with_id=parts[0], project="team/x", mode="read-only") as part:
        assert part["sys/parent"].fetch() == whole
    with seamark.init_run(with_id=away, project="team/y", mode="read-only") as part:
        assert part["sys/parent"].fetch() == f"team/x/{whole}"
    found = seamark.init_project("team").fetch_runs_table(query=f'sys/parent = "{whole}"')
    assert {row["sys/id"] for row in found} == set(parts)
    # What is left of a path below the part's own project would name another place.
    with seamark.init_run(project="team", parent=f"team/x/{whole}") as part:
        assert part["sys/parent"].fetch() == f"team/x/{whole}"


def test_tables_and_queries_have_aggregates_of_parts(family):
    """Of the finite numbers of the parts in the project that is asked, without the trash."""
    whole, parts, _ = family
    columns = ["sys/name", "children/val/acc:max", "children/val/acc:mean", "children/seed:count"]

    def table(project="team/x", **given):
        found = seamark.init_project(project).fetch_runs_table(**given)
        return {row["sys/id"]: row for row in found}

    def found(query, project="team/x"):
        return [*table(project, query=query)]

    rows = table(columns=columns)
    values = ["sweep", 2.5, 1.5, 3]
    assert rows[whole] == {"sys/id": whole, **dict(zip(columns, values, strict=True))}
    assert rows[parts[0]].keys() == {"sys/id", "sys/name"}
    assert table("team", columns=columns)[whole]["children/seed:count"] == 4
    assert not any(
        "children/nothing:max" in row for row in table(columns=["children/nothing:max"]).values()
    )
    with pytest.raises(errors.QueryError, match="expected one of :min, :max, :mean, :count"):
        table(columns=["children/val/acc"])
    for query in (
        "children/val/acc:max > 2",
        "children/val/acc:mean = 1.5 AND children/val/acc:min < 1",
        "children/seed:count = 3",
        "children/seed:count IN (3, 7)",
        "NOT children/seed IS MISSING",
    ):
        assert found(query) == [whole], query
    assert found("children/val/acc:max > 2.5") == []
    assert found("children/seed:count = 4", "team") == [whole]
    assert len(found("children/seed IS MISSING")) == len(parts) + 1
    for query in ("children/val/acc > 2", "children/val/acc:last_step > 2"):
        with pytest.raises(errors.QueryError, match="expected one of :min, :max, :mean, :count"):
            found(query)
    with pytest.raises(errors.QueryError, match="expected"):
        found('children/val/acc:max = "much"')
    assert not CliRunner().invoke(app, ["trash", parts[2]]).exit_code
    assert table(columns=columns)[whole]["children/val/acc:max"] == 1.5
    assert found("children/val/acc:max > 2") == []
    listed = CliRunner().invoke(app, ["ls", "--query", "children/val/acc:max > 1", "--json"])
    assert whole in listed.stdout


@pytest.mark.parametrize(
    ("parent", "why"), [(3, "got int: 3"), ("a b", "got 'a b'"), ("x/../y", "project 'x/..'")]
)
def test_a_parent_that_is_no_run_is_refused(parent, why):
    with pytest.raises((errors.ArgumentError, errors.PathError), match=why):
        seamark.init_run(parent=parent)
