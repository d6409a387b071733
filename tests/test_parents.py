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


def test_tables_have_aggregates_of_parts(family):
    """Of the finite numbers of the parts in the project that is asked, without the trash."""
    whole, parts, _ = family
    columns = ["sys/name", "children/val/acc:max", "children/val/acc:mean", "children/seed:count"]
    project = seamark.init_project("team/x")
    rows = {row["sys/id"]: row for row in project.fetch_runs_table(columns=columns)}
    assert rows[whole] == {
        "sys/id": whole,
        "sys/name": "sweep",
        "children/val/acc:max": 2.5,
        "children/val/acc:mean": 1.5,
        "children/seed:count": 3,
    }
    everywhere = seamark.init_project("team").fetch_runs_table(columns=columns)
    assert {row["sys/id"]: row for row in everywhere}[whole]["children/seed:count"] == 4
    assert rows[parts[0]].keys() == {"sys/id", "sys/name"}
    assert not CliRunner().invoke(app, ["trash", parts[2]]).exit_code
    table = project.fetch_runs_table(columns=["children/val/acc:max"])
    assert max(filter(None, table["children/val/acc:max"])) == 1.5
    with pytest.raises(errors.QueryError, match="expected one of :min, :max, :mean, :count"):
        project.fetch_runs_table(columns=["children/val/acc"])
    assert not any(
        project.fetch_runs_table(columns=["children/nothing:max"])["children/nothing:max"]
    )


def test_queries_ask_for_aggregates_of_parts(family):
    whole, parts, _ = family

    def found(query, project="team/x"):
        table = seamark.init_project(project).fetch_runs_table(query=query)
        return [row["sys/id"] for row in table]

    assert found("children/val/acc:max > 2") == [whole]
    assert found("children/val/acc:max > 2.5") == []
    for query, why in (
        ("children/val/acc > 2", "expected one of :min, :max, :mean, :count"),
        ("children/val/acc:last_step > 2", "expected one of :min, :max, :mean, :count"),
        ('children/val/acc:max = "much"', "expected"),
        ("children/val/acc:max CONTAINS 2", "expected"),
    ):
        with pytest.raises(errors.QueryError, match=why):
            found(query)
    assert found("children/val/acc:mean = 1.5 AND children/val/acc:min < 1") == [whole]
    assert found("children/seed:count = 3") == [whole]
    assert found("children/seed:count = 4", "team") == [whole]
    assert found("children/seed:count IN (3, 7)") == [whole]
    assert len(found("children/seed IS MISSING")) == len(parts) + 1
    assert found("NOT children/seed IS MISSING") == [whole]
    assert not CliRunner().invoke(app, ["trash", parts[2]]).exit_code
    assert found("children/val/acc:max > 2") == []
    listed = CliRunner().invoke(app, ["ls", "--query", "children/val/acc:max > 1", "--json"])
    assert whole in listed.stdout


@pytest.mark.parametrize(
    ("parent", "why"), [(3, "got int: 3"), ("a b", "got 'a b'"), ("x/../y", "project 'x/..'")]
)
def test_a_parent_that_is_no_run_is_refused(parent, why):
    with pytest.raises((errors.ArgumentError, errors.PathError), match=why):
        seamark.init_run(parent=parent)
