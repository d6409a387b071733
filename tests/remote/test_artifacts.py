"""Artifacts on a server: sent once they are saved, read and found there like those of a folder."""

from __future__ import annotations

from click.testing import CliRunner
from command import app

import seamark


def test_a_version_is_sent_once_it_is_saved(there, tmp_path):
    """And read elsewhere: numbers and aliases go on counting, the same content is one version."""
    file = tmp_path / "data.bin"
    file.write_bytes(b"d" * 5000)
    with seamark.init_artifact(name="data", tags=["raw"], **there("one")) as one:
        one.add_file(file)
        one.add_file(file, "again/")
        one.alias("best")
        one["rows"] = 5
    read = seamark.init_artifact("data:best", mode="read-only", **there("three"))
    assert (read.version, read.aliases, read.digest) == (1, ["best", "latest"], one.digest)
    assert (read["rows"].fetch(), read["sys/tags"].fetch()) == (5, {"raw"})
    back = read.download(tmp_path / "back")
    assert {path.name for path in back.rglob("*.bin")} == {"data.bin"}
    assert (back / "again/data.bin").read_bytes() == file.read_bytes()
    assert read.open("data.bin").read() == file.read_bytes()
    with seamark.init_artifact(name="data", **there("two")) as two:
        two.add_reference("s3://bucket/data")
    assert seamark.init_artifact("data", mode="read-only", **there("three")).version == 2
    with seamark.init_artifact(name="data", description="same", **there("two")) as same:
        same.add_file(file)
        same.add_file(file, "again/")
    assert same.digest == one.digest
    again = seamark.init_artifact("data:1", mode="read-only", **there("three"))
    assert again["sys/description"].fetch() == "same"
    off = ("stdout", "stderr", "hardware_metrics", "traceback")
    quick = {f"capture_{name}": False for name in off}
    with seamark.init_run(name="train", **there("two"), **quick) as run:
        run.mark_input("data:best")  # which lies on the server alone
        run.mark_output(same, name="copy")
    found = seamark.init_run("train", mode="read-only", **there("three")).lineage()
    labels = {one.label.rpartition("/")[2] for one in found.nodes.values()}
    assert labels == {"train", "data:1"}
    project = seamark.init_project(mode="read-only", **there("three"))
    assert [row["sys/version"] for row in project.fetch_artifacts_table()] == [2]
    assert project.fetch_artifacts_table(columns=["objects"]).columns == ["sys/id", "objects"]
    name = f"{there('one')['project']}/data:1"
    for words in (["export", name, "--format", "json"], ["show", name]):
        done = CliRunner().invoke(app, [*words, "--remote", there("one")["remote"]])
        assert done.exit_code == 0, done.output
        assert one.digest[:12] in done.output
