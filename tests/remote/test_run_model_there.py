"""Runs, groups and models through a server: recorded on one machine, read on another."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from command import app
from recording import QUIET
from server_waits import until

import seamark
from seamark import errors
from seamark.journal.reservations import REVISIONS
from seamark.remote import shipper as shippers


def start(given, **more):
    return seamark.init_run(**QUIET, **given, **more)


def sent(given):
    assert shippers.flush(given["remote"], 60)


def read(given, run):
    return seamark.init_run(with_id=run.id, mode="read-only", **given)


def test_groups_parents_and_inherited_tags(there):
    one, two = there("one"), there("two")
    with seamark.init_project(**one) as project:
        project["tags/team"] = "vision"
        project.group("folds")["seed"] = 3
        project.group("folds").description = "five folds"
    sent(one)
    with pytest.raises(errors.ArgumentError, match="'team' is 'vision' throughout project"):
        start(two, tags={"team": "audio"})
    with start(two, tags={"own": 1, "team": "vision"}, groups=["folds"]) as parent:
        with pytest.raises(errors.ArgumentError, match="cannot be set below it"):
            parent["tags/team"] = "audio"
        assert parent.tags == {"own": 1, "team": "vision"}
        with start(two, parent=parent, groups=["folds"]) as child:
            child["x"] = 1
            assert child.tags == {"team": "vision"}
    three = there("three")
    found = read(three, parent)
    assert found.tags == {"own": 1, "team": "vision"}
    assert found["tags/team"].fetch() == "vision"
    with seamark.init_project(mode="read-only", **three) as project:
        (group,) = project.fetch_groups_table(query="metadata/seed = 3").to_rows()
        assert (group["sys/id"], group["runs"], group["description"]) == ("folds", 2, "five folds")
        assert project.group("folds").exists()
        assert len(project.group("folds").fetch_runs_table()) == 2
        rows = project.fetch_runs_table(query='tags/team = "vision"', columns=["sys/parent"])
        assert {row.get("sys/parent") for row in rows.to_rows()} == {None, parent.id}
        table = seamark.fetch_projects_table(remote=three["remote"])
        assert three["project"] in {row["sys/id"] for row in table.to_rows()}


PARAMS = {"lr": 0.1, "layers": [1, 2]}


def begin_again(given, **more):
    run = start(given, **{"params": PARAMS, "on_duplicate": "reuse", **more})
    run.stop()
    return run


def test_a_duplicate_on_the_server_is_found(there, monkeypatch):
    """Unless it is in the trash, or purged; a run that waits for its start is found, too."""
    first = begin_again(there("one"))
    assert begin_again(there("two")).id == first.id
    with pytest.raises(errors.DuplicateRunError, match=first.id):
        begin_again(there("three"), on_duplicate="error")
    other = begin_again(there("three"), params={"lr": 7})
    assert other.id != first.id
    with seamark.init_project(**there("one")) as project:
        project.trash(first.id)
    sent(there("one"))
    second = begin_again(there("four"))
    assert second.id != first.id
    monkeypatch.setenv("SEAMARK_REMOTE", there("one")["remote"])
    words = ["purge", f"{second.project}/{second.id}", "--yes", "--force"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert begin_again(there("five")).id not in (first.id, second.id)
    waiting = start(there("one"), params={"lr": 8}, on_duplicate="reuse", start=False)
    waiting.start()
    waiting.stop()
    assert begin_again(there("two"), params={"lr": 8}).id == waiting.id


def test_without_an_answer_only_this_disk_is_searched_for_duplicates(begin, tmp_path, caplog):
    given = {"remote": "http://127.0.0.1:9", "params": PARAMS, "on_duplicate": "reuse"}
    ids = []
    for _ in range(2):
        run = begin(**given)
        run.stop(seconds=0)
        ids.append(run.id)
    assert ids[0] == ids[1]
    assert len(list((tmp_path / "root/p" / REVISIONS).iterdir())) == 1
    told = [
        one for one in caplog.records if "was not searched for the same run" in one.getMessage()
    ]
    assert len(told) == 1


def test_models_of_two_machines_are_sent_later(there, server, monkeypatch):
    """With ``sync``; of two versions with one number, the earlier keeps it."""
    made = []
    for name in ("one", "two"):
        given = {**there(name), "mode": "offline"}
        with seamark.init_model(key="M", **given):
            pass
        with seamark.init_model_version(model="M", **given) as version:
            version["from"] = name
            made.append(version.id)
    for name in ("two", "one", "one"):
        words = ["sync", "--root", str(there(name)["root"]), "--to", server.url]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    with seamark.init_model("M", mode="read-only", **there("three")) as model:

        def numbers():
            rows = model.fetch_model_versions_table().to_rows()
            return {row["sys/id"]: row["sys/version"] for row in rows}

        until(lambda: numbers() == {made[0]: 1, made[1]: 2})  # a server that is busy folds later
    with seamark.init_model_version("M-2", mode="read-only", **there("three")) as read:
        assert (read.id, read["from"].fetch()) == (made[1], "two")
    monkeypatch.setenv("SEAMARK_REMOTE", server.url)
    project = there("one")["project"]
    for words in (["tag", f"{project}/M-2", "--add", "good"], ["trash", f"{project}/M"]):
        assert CliRunner().invoke(app, words).exit_code == 0
    shown = CliRunner().invoke(app, ["show", f"{project}/M-2", "--json"]).stdout
    assert json.loads(shown)["attributes"]["sys/tags"]["value"] == ["good"]
    refused = CliRunner().invoke(app, ["purge", "--yes", "--project", project])
    assert "has 2 versions that would be deleted with it" in refused.output
