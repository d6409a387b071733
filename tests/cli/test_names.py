"""What the command calls runs, and where it looks for them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from seamark.reading.names import generated_name

DIM = "\x1b[2m"


def test_a_run_without_a_name_shows_the_generated_one(cli, record):
    """In ``ls``, ``show`` and ``plot``; with a name, that one."""
    unnamed, named = record(), record(name="mine")
    lines = {line.split()[0]: line.split()[1] for line in cli("ls").stdout.splitlines()[1:]}
    assert lines == {unnamed: generated_name(unnamed), named: "mine"}
    assert cli("show", unnamed).stdout.startswith(f"{generated_name(unnamed)}  completed\n")
    assert cli("show", named).stdout.startswith("mine  completed\n")
    drawn = cli("plot", unnamed, named, "train/loss").stdout
    assert generated_name(unnamed) in drawn
    assert "mine" in drawn


@pytest.mark.once
def test_a_generated_name_is_dim_on_a_terminal(terminal, record, monkeypatch):
    """So that nobody takes it for recorded."""
    monkeypatch.delenv("NO_COLOR")
    name = generated_name(record())
    for words in (("ls",), ("show", "latest")):
        _, shown = terminal(*words, columns=120)
        assert f"{DIM}{name}" in shown


def test_programs_get_what_was_recorded_only(cli, record):
    """No generated name is in JSON, CSV or an export."""
    run = record()
    (row,) = json.loads(cli("ls", "--json").stdout)
    assert row["run"] == run
    assert row["sys/name"] is None
    for words in (
        ("ls", "--json"),
        ("ls", "--csv"),
        ("show", run, "--json"),
        ("export", run),
        ("export", run, "--what", "attributes"),
        ("export", run, "--format", "json"),
    ):
        result = cli(*words)
        assert result.exit_code == 0
        assert generated_name(run) not in result.stdout, words


def test_every_command_takes_every_name(cli, record):
    """The same words mean the same run wherever a run is named."""
    run = record("team", name="base")
    record("team")
    for command in ("show", "plot", "export", "fsck", "trash", "untrash"):
        for word in (run, f"team/{run}", "team/base", "base", generated_name(run), run[:8]):
            result = cli(command, word, *(["val/loss"] if command == "plot" else []))
            assert result.exit_code == 0, result.stderr


def test_a_purge_takes_the_run_that_was_named(cli, record, root):
    """And no other one."""
    for how in ("team/base", "base", "generated"):
        run, other = record("team", name="base"), record("team", name="other")
        word = generated_name(run) if how == "generated" else how
        assert cli("purge", "--force", "--yes", word).exit_code == 0
        assert not (root / "team" / run).exists()
        assert (root / "team" / other).exists()


def test_a_series_is_no_beginning_of_an_id(cli, record, start, monkeypatch):
    """Some id begins with any short word: what a named run has as a series stays a series."""
    monkeypatch.setattr("seamark.opening.opening.mint_run_id", lambda: "lr00000000000001")
    assert record(name="second") == "lr00000000000001"
    run = start(name="third", custom_run_id="third")
    run["lr"].append(0.1)
    run.stop()
    result = cli("plot", "third", "lr")
    assert result.exit_code == 0, result.stderr
    assert "second" not in result.stdout
    assert "second" in cli("plot", "third", "lr0", "train/loss").stdout


def test_what_may_be_several_runs_is_told_in_one_line(shell, record):
    """Whatever is in their names."""
    name = 'a\nb "\x1b[31m'
    runs = [record(name=name) for _ in range(2)]
    done = shell("show", name)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert all(run in done.stderr for run in runs)


class TestRoots:
    """Where the command looks when it is told, or is not."""

    @pytest.fixture
    def project(self, tmp_path, monkeypatch):
        """A folder to work in; nothing names a root."""
        folder = tmp_path / "project"
        (folder / "src").mkdir(parents=True)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("SEAMARK_DIR", raising=False)
        monkeypatch.chdir(folder / "src")
        return folder

    def test_the_folder_above_the_root_is_not_taken_for_it(self, shell, project):
        """One line, which names the root; but a root that has runs may hold another one."""
        (project / ".seamark").mkdir()
        for given in ({"SEAMARK_DIR": str(project)}, {}):
            done = shell(*([] if given else ["--root", project]), "ls", **given)
            assert done.returncode == 2
            assert done.stderr.endswith(
                f"no runs in {project}; did you mean {project / '.seamark'}?\n"
            )
            assert done.stderr.count("\n") == 1
        (project / "p" / "r" / "journal").mkdir(parents=True)
        assert shell("--root", project, "ls").returncode == 0

    def test_a_file_is_said_to_be_one(self, shell, project):
        """Named or not."""
        file = project / "src" / ".seamark"
        file.touch()
        for words in (["ls"], ["--root", file, "ls"], ["ls", "--root", file], ["show", "x"]):
            done = shell(*words)
            assert done.returncode == 2
            assert done.stderr == f"seamark: no runs here: {file} is a file, not a folder of runs\n"

    @pytest.mark.once
    def test_that_there_is_nothing_is_said_once(self, shell, project):
        """Without a root, and with one that holds no run; an empty answer is no failure."""
        root = project / "src" / ".seamark"
        done = shell("ls")
        assert (done.returncode, done.stderr) == (
            0,
            f"no runs here yet: {root} does not exist\n",
        )
        root.mkdir()
        done = shell("ls")
        assert (done.returncode, done.stderr) == (0, f"no runs in {root} yet\n")

    @pytest.mark.root
    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
    @pytest.mark.once
    def test_a_root_of_somebody_else_is_refused_until_it_is_named(self, shell, project):
        """One line that says whose it is."""
        root: Any = project / ".seamark"
        root.mkdir()
        os.chown(root, 54321, 54321)
        done = shell("ls")
        assert done.returncode == 2
        assert done.stderr.startswith(f"seamark: root: {root} belongs to uid 54321, not to root")
        assert done.stderr.count("\n") == 1
        assert shell("ls", "--root", root).returncode == 0
        assert shell("ls", SEAMARK_DIR=str(root)).returncode == 0


def test_no_run_is_renamed_to_latest(cli, record):
    """That word always means the newest run, so the name would not find its own."""
    run = record("p", name="kept")
    done = cli("rename", run, "latest")
    assert done.exit_code == 2
    assert "'latest', which always means the newest run" in done.stderr
    assert cli("show", run, "sys/name").stdout == "kept\n"


def test_a_run_that_is_named_latest_says_what_that_means(start, caplog):
    """Once; a training script does start. An empty name is none."""
    run = start("p", name="latest")
    run["a"] = 1
    run.stop()
    said = [one.getMessage() for one in caplog.records if "'latest'" in one.getMessage()]
    assert said == ["seamark: the name 'latest' finds the newest run, whatever it is called"]
    for name in ("", "  "):
        run = start("p", name=name)
        assert run.name is None
        assert not run.exists("sys/name")
        run.stop()
