"""Groups of runs, and tables of groups and of projects."""

from __future__ import annotations

import json
import logging

import pytest
from click.testing import CliRunner
from command import app

import seamark
from seamark import errors


def begin(project, **given):
    with seamark.init_run(project=project, **given) as run:
        run["lr"] = 0.1
    return run.id


def test_runs_of_a_group_are_those_of_the_project_and_below():
    first = begin("team/x", groups=["folds", "best"])
    second = begin("team/x/y", groups="folds")
    begin("team")
    with seamark.init_run(with_id=begin("team/x"), project="team/x") as third:
        third["sys/group_tags"].add("folds")
    with seamark.init_project("team/x") as project:
        group = project.group("folds")
        assert group.exists()
        assert {row["sys/id"] for row in group.fetch_runs_table()} == {first, second, third.id}
        query = 'sys/group_tags CONTAINS "best" OR lr > 5'
        table = group.fetch_runs_table(query=query, columns=["lr"], limit=5)
        assert table.to_rows() == [{"sys/id": first, "lr": 0.1}]
        assert {r["sys/id"] for r in project.group("best").fetch_runs_table()} == {first}
        with pytest.raises(errors.QueryError, match="lr >"):
            group.fetch_runs_table(query="lr >")


def test_metadata_of_a_group_is_in_the_project_and_makes_it_exist():
    with seamark.init_project("team/x") as project:
        group = project.group("folds")
        assert (group.exists(), group.description, group.name) == (False, None, "folds")
        assert not project.folder.path.exists()  # opening one makes nothing
        group["seed"] = 3
        group["data"] = {"name": "digits"}
        group.description = "five of them"
        assert (group.exists(), group.description) == (True, "five of them")
        assert group["seed"].fetch() == 3
        assert "data/name" in group
        assert project["groups/folds/metadata/data/name"].fetch() == "digits"
        del group["data"]
        assert "data" not in group
    assert not len(seamark.init_project("team/x").group("folds").fetch_runs_table())


@pytest.mark.parametrize("name", ["a/b", "", ".a", "a b"])
def test_name_of_a_group_is_one_part_of_a_path(name):
    with pytest.raises(errors.PathError, match="group: expected"):
        seamark.init_project("team").group(name)
    if name:
        with pytest.raises(errors.PathError, match="groups: group: expected"):
            seamark.init_run(groups=[name])


def test_groups_table_has_a_row_for_each_group(caplog):
    for number in range(3):
        begin("team/x", groups=["folds", "odd"] if number % 2 else ["folds"])
    with seamark.init_project("team") as project:
        project.group("folds")["seed"] = 3
        project.group("empty").description = "later"
        table = project.fetch_groups_table()
        assert table.to_rows() == [
            {"sys/id": "empty", "runs": 0, "description": "later"},
            {"sys/id": "folds", "runs": 3, "metadata/seed": 3},
            {"sys/id": "odd", "runs": 1},
        ]

        for query, ids in {
            "runs > 1 AND metadata/seed = 3": ["folds"],
            "NOT runs > 1": ["empty", "odd"],
            'sys/id = "odd" OR description CONTAINS "late"': ["empty", "odd"],
            'sys/id IN ("odd", "none")': ["odd"],
            "runs >= 0 AND metadata/seed != 3": [],
        }.items():
            assert project.fetch_groups_table(query=query)["sys/id"] == ids, query
        with pytest.raises(errors.QueryError):
            project.fetch_groups_table(query="runs >")
        with pytest.raises(errors.QueryError, match="regular expressions only work for runs"):
            project.fetch_groups_table(query='sys/id =~ "o"')
        with caplog.at_level(logging.WARNING):
            assert not len(project.fetch_groups_table(query="metadata/sed = 3"))
        assert "nothing here has 'metadata/sed'; there is 'metadata/seed'" in caplog.text


def test_projects_table_has_projects_with_runs_models_or_metadata():
    begin("team/x")
    begin("team/x")
    begin("solo", groups=["a"])
    seamark.init_model(key="NET", project="zoo").stop()
    with seamark.init_model(key="NET2", project="zoo") as model:
        model["a"] = 1
    with seamark.init_project("team") as project:
        project["description"] = "us"
        project["tags/team"] = "vision"
        project["sys/tags"].add("big")
    with seamark.init_project("later/on") as project:
        project["description"] = "no runs yet"
    table = seamark.fetch_projects_table()
    assert table["sys/id"] == ["later/on", "solo", "team", "team/x", "zoo"]
    assert table["runs"] == [0, 1, 0, 2, 0]
    assert table["description"] == ["no runs yet", None, "us", None, None]
    for query, ids in {
        'tags/team = "vision" AND sys/tags CONTAINS "big"': ["team"],
        'tags/team = "vision"': ["team", "team/x"],
        "runs > 0": ["solo", "team/x"],
    }.items():
        assert seamark.fetch_projects_table(query)["sys/id"] == ids, query
    with pytest.raises(errors.QueryError):
        seamark.fetch_projects_table("runs >")


def ls(*words):
    return CliRunner().invoke(app, ["ls", *words], catch_exceptions=False)


def test_command_lists_projects_and_groups():
    begin("team/x", groups=["folds"])
    begin("team/x/y", groups=["folds", "best"])
    begin("other")
    with seamark.init_project("team") as project:
        project["tags/team"] = "vision"
    with seamark.init_project("team/x") as project:
        project.group("folds")["seed"] = 3

    def listed(*words):
        return [tuple(one.values()) for one in json.loads(ls("--kind", *words, "--json").stdout)]

    assert json.loads(ls("--kind", "project", "--columns", "runs,tags/*", "--json").stdout) == [
        {"project": "other", "runs": 1, "tags/team": None},
        {"project": "team", "runs": 0, "tags/team": "vision"},
        {"project": "team/x", "runs": 1, "tags/team": "vision"},
        {"project": "team/x/y", "runs": 1, "tags/team": "vision"},
    ]
    some = ("--query", "runs > 0", "--columns", "runs", "--project", "team", "--limit", "1")
    assert listed("project", *some) == [("team/x", 1)]
    assert listed("project", "--sort", "runs", "--columns", "runs")[-1] == ("team", 0)
    assert listed("group", "--columns", "runs,metadata/*") == [
        ("team/x", "folds", 2, 3),  # runs of projects below it count, too
        ("team/x/y", "best", 1, None),
        ("team/x/y", "folds", 1, None),
    ]
    lines = ls("--kind", "group", "--project", "team/x/y").stdout.splitlines()
    assert [line.split() for line in lines] == [["GROUP", "RUNS"], ["best", "1"], ["folds", "1"]]
    refused = ls("--kind", "group", "--tag", "x")
    assert (refused.exit_code, "--tag" in refused.stderr) == (2, True)
    none = ls("--kind", "project", "--query", "runs > 9")
    assert (none.exit_code, none.stdout) == (0, "")
    assert "no project matches" in none.stderr
