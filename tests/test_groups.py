"""Groups of runs, runs that are parts of others, keyed tags; and tables of groups and projects."""

from __future__ import annotations

import json
import logging
import math
from datetime import datetime, timezone
from pathlib import Path

import pytest
from command import outcome_of, output_of

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
    with seamark.init_model(key="NET", project="zoo") as model:
        model["a"] = 1
    with seamark.init_project("team") as project:
        project["description"] = "us"
        project["tags/team"] = "vision"
    with seamark.init_project("later/on") as project:
        project["description"] = "no runs yet"
    table = seamark.fetch_projects_table()
    assert table["sys/id"] == ["later/on", "solo", "team", "team/x", "zoo"]
    assert table["runs"] == [0, 1, 0, 2, 0]
    assert table["description"] == ["no runs yet", None, "us", None, None]
    for query, ids in {
        'tags/team = "vision"': ["team", "team/x"],
        "runs > 0": ["solo", "team/x"],
    }.items():
        assert seamark.fetch_projects_table(query)["sys/id"] == ids, query
    with pytest.raises(errors.QueryError):
        seamark.fetch_projects_table("runs >")


def ls(*words):
    return outcome_of("ls", *words)


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
    assert listed("project", "--sort", "runs", "--columns", "runs")[-1] == ("team", 0)
    assert listed("group", "--columns", "runs,metadata/*") == [
        ("team/x", "folds", 2, 3),  # runs of projects below it count, too
        ("team/x/y", "best", 1, None),
        ("team/x/y", "folds", 1, None),
    ]
    refused = ls("--kind", "group", "--tag", "x")
    assert (refused.exit_code, "--tag" in refused.stderr) == (2, True)


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
        "children/seed:count IN (3, 7)",
        "NOT children/seed IS MISSING",
    ):
        assert found(query) == [whole], query
    assert len(found("children/seed IS MISSING")) == len(parts) + 1
    assert not outcome_of("trash", parts[2]).exit_code
    assert table(columns=columns)[whole]["children/val/acc:max"] == 1.5


@pytest.mark.parametrize(
    ("parent", "why"), [(3, "got int: 3"), ("a b", "got 'a b'"), ("x/../y", "project 'x/..'")]
)
def test_a_parent_that_is_no_run_is_refused(parent, why):
    with pytest.raises((errors.ArgumentError, errors.PathError), match=why):
        seamark.init_run(parent=parent)


def say(project, **tags):
    with seamark.init_project(project) as container:
        for key, value in tags.items():
            container[f"tags/{key}"] = value


def test_a_run_has_tags_of_its_own():
    since = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with seamark.init_run(tags={"workers": 8, "host/gpu": "h200"}) as run:
        run["tags"] = {"owner": "ada", "since": since}
        run["sys/tags"].add("best")
        assert run.tags == {"workers": 8, "host/gpu": "h200", "owner": "ada", "since": since}
        assert run["tags/host/gpu"].fetch() == "h200"
        assert run["sys/tags"].fetch() == {"best"}
    assert seamark.init_run(mode="disabled", tags={"workers": 8}).tags == {"workers": 8}


def test_only_single_values_are_tags(caplog):
    with seamark.init_run(tags={"workers": 8}) as run:
        for record, family in (
            (lambda: run["tags/x"].append(1.0), "a float series"),
            (lambda: run["tags/x"].add("word"), "a string set"),
            (lambda: run["tags/deep/x"].keep(seamark.Statistics()), "a statistic"),
            (lambda: run["tags"].assign({"y": 1, "x": seamark.types.StringSet({"z"})}), "a string"),
        ):
            expected = f"below 'tags/', where only .*take {family}"
            with pytest.raises(errors.FamilyError, match=expected):
                record()
        run.log_metrics({"loss": 1.0, "tags/x": 2.0})  # is left out: training goes on
        assert "'tags/x' is left out" in caplog.text
        run["tags/x"] = 1
    assert run["loss"].fetch_last() == 1.0
    assert run.tags == {"workers": 8, "x": 1}


def test_tags_of_projects_are_read_below_them_and_written_nowhere():
    """By attribute, namespace, iteration, tables, queries and sorting; the uppermost counts."""
    with seamark.init_run(project="team/vision/mnist", tags={"own": 1}) as run:
        run.log_metrics({"loss": 1.0}, 0)
    with seamark.init_run(project="team/audio") as other:
        other["x"] = 1
    say("team/vision/mnist", data="digits")
    say("team", team="lab", budget=3)
    with seamark.init_run(with_id=run.id, project=run.project, mode="read-only") as read:
        wanted = {"own": 1, "data": "digits", "team": "lab", "budget": 3}
        assert read.tags == wanted == read["tags"].fetch()
        assert read["tags/team"].fetch() == "lab"
        assert read.exists("tags/team")
        assert set(read["tags"]) == set(wanted)
        assert read.get_attribute_type("tags/budget") == "int"
    assert b"digits" not in b"".join(one.path.read_bytes() for one in run.folder.journals())
    project = seamark.init_project("team", mode="read-only")
    assert project.tags == {"team": "lab", "budget": 3}
    for query, wanted in (
        ('tags/team = "lab"', {run.id, other.id}),
        ('tags/data = "digits"', {run.id}),
        ("tags/budget > 2 AND tags/own = 1", {run.id}),
    ):
        assert set(project.fetch_runs_table(query=query)["sys/id"]) == wanted
    table = project.fetch_runs_table(columns=["tags/*"], sort_by="tags/data", ascending=True)
    assert [row["sys/id"] for row in table] == [run.id, other.id]
    assert table["tags/team"] == ["lab", "lab"]
    assert table["tags/data"] == ["digits", None]
    assert seamark.init_project("team/audio").fetch_runs_table()["tags/budget"] == [3]
    run.folder.path.rename(Path(".seamark/team/audio") / run.id)
    with seamark.init_run(with_id=run.id, project="team/audio", mode="read-only") as moved:
        assert moved.tags == {"own": 1, "team": "lab", "budget": 3}


def test_a_tag_of_a_parent_project_cannot_be_set_below_it():
    """In a run at its start and later, and in a project; the same value is no contradiction."""
    say("team", team="lab")
    with pytest.raises(errors.ArgumentError, match="'team' is 'lab' throughout project 'team'"):
        seamark.init_run(project="team/x", tags={"team": "mine"})
    assert not Path(".seamark/team/x").exists()
    with seamark.init_run(project="team/x", tags={"team": "lab", "own": 1}) as run:
        with pytest.raises(errors.ArgumentError, match="cannot be set below it, got 'mine'"):
            run["tags"] = {"other": 1, "team": "mine"}
        assert run.tags == {"team": "lab", "own": 1}
    with pytest.raises(errors.ArgumentError, match="'team' is 'lab'"):
        say("team/x", team="mine")
    say("team", team="other")


def test_a_tag_that_a_project_contradicts_later_is_kept_and_shown():
    """The value of the project counts, the run's own is in its export."""
    with seamark.init_run(project="team/x", tags={"team": "mine", "n": 1}) as run:
        pass
    say("team", team="lab", n=1)
    project = seamark.init_project("team/x")
    assert project.fetch_runs_table(columns=["tags/team"])["tags/team"] == ["lab"]
    assert not len(project.fetch_runs_table(query='tags/team = "mine"'))
    with seamark.init_run(with_id=run.id, project="team/x", mode="read-only") as read:
        assert read.tags == {"team": "lab", "n": 1}
        conflict = read["monitoring/seamark/tags"].fetch()
        assert conflict == {"team": {"value": "lab", "project": "team", "own": "mine"}}
    shown = output_of("show", run.id)
    assert "inherited   n = 1 (team), team = lab (team)" in shown
    assert "team ('mine' here, 'lab' in team)" in shown
    (told,) = json.loads(output_of("export", run.id, "--format", "json"))["runs"]
    own = {path: told["attributes"][f"tags/{path}"]["value"] for path in ("team", "n")}
    assert own == {"team": "mine", "n": 1}
    assert told["inherited_tags"]["team"] == {"value": "lab", "project": "team"}


def test_runs_and_models_inherit_what_the_project_says_now():
    with seamark.init_run(project="team/x") as run:
        run["a"] = 1
    say("team", team="lab", odd=math.nan)
    read = seamark.init_run(with_id=run.id, project="team/x", mode="read-only")
    project = seamark.init_project("team")
    assert read.tags["team"] == "lab"
    assert math.isnan(read.tags["odd"])
    with seamark.init_model(key="NET", project="team/x") as model:
        model["a"] = 1
        assert model.tags["team"] == "lab"
    assert project.fetch_models_table(query='tags/team = "lab"')["sys/id"] == ["NET"]
    say("team", team="other")
    assert read.tags["team"] == "other"
    assert project.fetch_runs_table(columns=["tags/team"])["tags/team"] == ["other"]
    with seamark.init_project("team") as container:
        del container["tags"]
    assert read.tags == {}
    assert project.fetch_runs_table(columns=["a", "tags/*"]).columns == ["sys/id", "a"]
