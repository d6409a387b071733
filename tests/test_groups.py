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


class TestGroup:
    def test_its_runs_are_those_of_the_project_and_below(self):
        """However they came into it; a query and all other arguments are those of a project."""
        first = begin("team/x", groups=["folds", "best"])
        second = begin("team/x/y", groups="folds")
        begin("team")
        with seamark.init_run(with_id=begin("team/x"), project="team/x") as third:
            third["sys/group_tags"].add("folds")
        with seamark.init_project("team/x") as project:
            group = project.group("folds")
            assert group.exists()
            ids = {row["sys/id"] for row in group.fetch_runs_table()}
            assert ids == {first, second, third.id}
            table = group.fetch_runs_table(
                query='sys/group_tags CONTAINS "best" OR lr > 5', columns=["lr"], limit=5
            )
            assert table.to_rows() == [{"sys/id": first, "lr": 0.1}]
            assert {r["sys/id"] for r in project.group("best").fetch_runs_table()} == {first}
            with pytest.raises(errors.QueryError, match="lr >"):
                group.fetch_runs_table(query="lr >")

    def test_what_is_recorded_of_it_is_in_the_project(self):
        """And makes it exist; opening one makes nothing."""
        with seamark.init_project("team/x") as project:
            group = project.group("folds")
            assert not group.exists()
            assert group.description is None
            assert group.name == "folds"
            assert not project.folder.path.exists()
            group["seed"] = 3
            group["data"] = {"name": "digits"}
            group.description = "five of them"
            assert group.exists()
            assert group.description == "five of them"
            assert group["seed"].fetch() == 3
            assert "data/name" in group
            assert project["groups/folds/metadata/data/name"].fetch() == "digits"
            del group["data"]
            assert "data" not in group
        assert not len(seamark.init_project("team/x").group("folds").fetch_runs_table())

    @pytest.mark.parametrize("name", ["a/b", "", ".a", "a b"])
    def test_a_name_is_one_that_a_part_of_a_project_can_have(self, name):
        """In a project and of a run."""
        with pytest.raises(errors.PathError, match="group: expected"):
            seamark.init_project("team").group(name)
        if name:
            with pytest.raises(errors.PathError, match="groups: group: expected"):
                seamark.init_run(groups=[name])


def test_groups_have_a_table(caplog):
    """One row a group, also for one that nobody is in, and one that is only recorded of."""
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

        def found(query):
            return project.fetch_groups_table(query=query)["sys/id"]

        assert found("runs > 1 AND metadata/seed = 3") == ["folds"]
        assert found("NOT runs > 1") == ["empty", "odd"]
        assert found('sys/id = "odd" OR description CONTAINS "late"') == ["empty", "odd"]
        assert found('sys/id IN ("odd", "none")') == ["odd"]
        assert found("runs >= 0 AND metadata/seed != 3") == []
        with pytest.raises(errors.QueryError):
            found("runs >")
        with pytest.raises(errors.QueryError, match="regular expressions are for runs"):
            found('sys/id =~ "o"')
        with caplog.at_level(logging.WARNING):
            assert found("metadata/sed = 3") == []
        assert "nothing here has 'metadata/sed'; there is 'metadata/seed'" in caplog.text


def test_projects_have_a_table():
    """Those with runs, models or a log; what their logs hold can be asked for."""
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
    found = seamark.fetch_projects_table('tags/team = "vision" AND sys/tags CONTAINS "big"')
    assert found["sys/id"] == ["team"]
    assert seamark.fetch_projects_table('tags/team = "vision"')["sys/id"] == ["team", "team/x"]
    assert seamark.fetch_projects_table("runs > 0")["sys/id"] == ["solo", "team/x"]
    with pytest.raises(errors.QueryError):
        seamark.fetch_projects_table("runs >")


class TestListed:
    """``seamark ls --kind project`` and ``--kind group``."""

    def ls(self, *words):
        done = CliRunner().invoke(app, ["ls", *words, "--json"], catch_exceptions=False)
        assert not done.exit_code, done.output
        return json.loads(done.stdout)

    @pytest.fixture(autouse=True)
    def _there(self):
        begin("team/x", groups=["folds"])
        begin("team/x/y", groups=["folds", "best"])
        begin("other")
        with seamark.init_project("team") as project:
            project["tags/team"] = "vision"
        with seamark.init_project("team/x") as project:
            project.group("folds")["seed"] = 3

    def test_projects(self):
        """One row each, as `fetch_projects_table` has them; queries, columns and order count."""
        listed = self.ls("--kind", "project", "--columns", "runs,tags/*")
        assert listed == [
            {"project": "other", "runs": 1, "tags/team": None},
            {"project": "team", "runs": 0, "tags/team": "vision"},
            {"project": "team/x", "runs": 1, "tags/team": "vision"},
            {"project": "team/x/y", "runs": 1, "tags/team": "vision"},
        ]
        some = ("--kind", "project", "--query", "runs > 0", "--columns", "runs")
        assert [one["project"] for one in self.ls(*some, "--project", "team", "--limit", "1")] == [
            "team/x"
        ]
        assert [one["runs"] for one in self.ls("--kind", "project", "--sort", "runs")][-1] == 0

    def test_groups(self):
        """With each project that has runs in them; those below it count, too."""
        listed = self.ls("--kind", "group", "--columns", "runs,metadata/*")
        assert [tuple(one.values()) for one in listed] == [
            ("team/x", "folds", 2, 3),
            ("team/x/y", "best", 1, None),
            ("team/x/y", "folds", 1, None),
        ]
        printed = CliRunner().invoke(app, ["ls", "--kind", "group", "--project", "team/x/y"])
        assert [line.split() for line in printed.stdout.splitlines()] == [
            ["GROUP", "RUNS"],
            ["best", "1"],
            ["folds", "1"],
        ]

    def test_what_is_of_runs_is_refused(self):
        """And nothing is found in silence."""
        refused = CliRunner().invoke(app, ["ls", "--kind", "group", "--tag", "x"])
        assert refused.exit_code == 2
        assert "--tag" in refused.stderr
        none = CliRunner().invoke(app, ["ls", "--kind", "project", "--query", "runs > 9"])
        assert (none.exit_code, none.stdout) == (0, "")
        assert "no project matches" in none.stderr
