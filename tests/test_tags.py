"""Keyed tags, and what containers inherit of them."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from pathlib import Path

import pytest
from command import output_of

import seamark
from seamark import errors


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


def test_wrong_tags_are_refused_before_anything_is_recorded():
    for tags, error, why in (
        ({"a//b": 1}, errors.PathError, "an empty part"),
        ({"a": object()}, errors.ValueKindError, "tags: 'a': "),
        ({3: 1}, errors.PathError, "expected a string"),
    ):
        with pytest.raises(error, match=why):
            seamark.init_run(tags=tags)
    assert not Path(".seamark").exists()


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
    rows = output_of("export", run.id, "--what", "attributes").splitlines()
    assert f"{run.id},tags/team,atom,string,mine" in rows
    assert sum(",tags/team," in row for row in rows) == 1
    listed = json.loads(output_of("ls", "--json", "-c", "tags/team", "-q", 'tags/team = "lab"'))
    assert [row["tags/team"] for row in listed] == ["lab"]


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
