"""Models on a server are sent and read like runs; each client numbers its own versions."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from command import app
from server_waits import until

import seamark
from seamark.errors import KeyTakenError, RunNotFoundError


def test_two_machines_share_a_model(there, tmp_path):
    file = tmp_path / "weights.bin"
    file.write_bytes(b"w" * 5000)
    with seamark.init_model(key="RESNET", name="Big", **there("one")) as model:
        model["signature"] = "image"
    with seamark.init_model_version(model="RESNET", **there("one")) as first:
        first["weights"].upload(str(file))
        first["acc"].append(0.5)
        first.change_stage("staging")
    with pytest.raises(KeyTakenError):
        seamark.init_model(key="RESNET", **there("two"))
    with pytest.raises(RunNotFoundError):
        seamark.init_model_version(model="OTHER", **there("two"))
    with seamark.init_model_version(model="X-RESNET", **there("two")) as second:
        second["acc"].append(0.75)
    with seamark.init_model_version("RESNET-1", **there("two")) as again:
        assert again.id == first.id
        assert again["acc"].fetch_last() == 0.5
        again["note"] = "from elsewhere"
        again.change_stage("production")
        assert again["note"].fetch() == "from elsewhere"
    with seamark.init_model("RESNET", mode="read-only", **there("three")) as read:
        assert read["signature"].fetch() == "image"
        table = read.fetch_model_versions_table(sort_by="sys/version", ascending=True)
        rows = [(row["sys/id"], row["sys/version"], row["sys/stage"]) for row in table.to_rows()]
        assert rows == [(first.id, 1, "production"), (second.id, 2, "none")]
    with seamark.init_model_version("RESNET-1", mode="read-only", **there("three")) as read_one:
        read_one["weights"].download(str(tmp_path / "back"))
        assert read_one["sys/version"].fetch() == 1
    assert (tmp_path / "back").read_bytes() == file.read_bytes()
    with seamark.init_project(**there("three")) as project:
        assert [row["sys/id"] for row in project.fetch_models_table().to_rows()] == ["RESNET"]
        assert len(project.fetch_runs_table()) == 0


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
    invoke = CliRunner().invoke
    for words in (["tag", f"{project}/M-2", "--add", "good"], ["trash", f"{project}/M"]):
        done = invoke(app, words)
        assert done.exit_code == 0, done.output
    refused = invoke(app, ["purge", "--yes", "--project", project])
    assert "has 2 versions that would go with it" in refused.output
    shown = invoke(app, ["show", f"{project}/M-2", "--json"])
    assert json.loads(shown.stdout)["attributes"]["sys/tags"]["value"] == ["good"]
    listed = invoke(app, ["ls", "--kind", "model_version", "--csv", "--columns", "from"])
    assert f",{made[1]},two" in listed.stdout
