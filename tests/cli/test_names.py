"""What the command calls runs, and where it looks for them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from seamark.reading.names import generated_name


def test_generated_name_is_shown_to_people_and_not_to_programs(cli, record):
    unnamed, named = record(), record(name="mine")
    generated = generated_name(unnamed)
    lines = {line.split()[0]: line.split()[1] for line in cli("ls").stdout.splitlines()[1:]}
    assert lines == {unnamed: generated, named: "mine"}
    assert cli("show", unnamed).stdout.startswith(f"{generated}  completed\n")
    assert cli("show", named).stdout.startswith("mine  completed\n")
    rows = json.loads(cli("ls", "--json").stdout)
    assert {row["run"]: row["sys/name"] for row in rows} == {unnamed: None, named: "mine"}
    for words in (
        ("ls", "--json"),
        ("ls", "--csv"),
        ("show", unnamed, "--json"),
        ("export", unnamed, "--format", "json"),
    ):
        result = cli(*words)
        assert result.exit_code == 0
        assert generated not in result.stdout, words


def test_every_name_finds_its_run_and_purge_deletes_no_other(cli, record, root):
    other = record("team")
    for at in range(6):
        run = record("team", name="base")
        names = (run, f"team/{run}", "team/base", "base", generated_name(run), run[:8])
        assert cli("show", names[at]).stdout.startswith("base  completed\n")
        assert cli("purge", names[at], "--force", "--yes").exit_code == 0
        assert not (root / "team" / run).exists()
        assert (root / "team" / other).exists()


def test_ambiguous_name_is_an_error_in_one_line(cli, record):
    name = 'a\nb "\x1b[31m'
    runs = [record(name=name) for _ in range(2)]
    done = cli("show", name)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert all(run in done.stderr for run in runs)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder to work in; nothing names a root."""
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SEAMARK_DIR", raising=False)
    monkeypatch.chdir(folder / "src")
    return folder


def test_folder_above_the_root_is_not_taken_for_it(cli, project):
    (project / ".seamark").mkdir()
    done = cli("--root", project, "ls")
    assert done.exit_code == 2
    assert done.stderr.endswith(f"no runs in {project}; did you mean {project / '.seamark'}?\n")
    assert done.stderr.count("\n") == 1
    (project / "p" / "r" / "journal").mkdir(parents=True)  # a root with runs may hold another one
    assert cli("--root", project, "ls").exit_code == 0


@pytest.mark.once
def test_missing_empty_and_wrong_roots_are_told_apart(cli, project):
    root = project / "src" / ".seamark"
    done = cli("ls")
    assert (done.exit_code, done.stderr) == (0, f"no runs here yet: {root} does not exist\n")
    root.mkdir()
    done = cli("ls")
    assert (done.exit_code, done.stderr) == (0, f"no runs in {root} yet\n")
    root.rmdir()
    root.touch()
    done = cli("ls")
    said = f"seamark: no runs here: {root} is a file, not a folder of runs\n"
    assert (done.exit_code, done.stderr) == (2, said)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.once
def test_root_of_another_user_is_refused_unless_named(cli, project):
    root: Any = project / ".seamark"
    root.mkdir()
    os.chown(root, 54321, 54321)
    done = cli("ls")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"seamark: root: {root} belongs to uid 54321, not to root")
    assert done.stderr.count("\n") == 1
    assert cli("ls", "--root", root).exit_code == 0
    assert cli("ls", SEAMARK_DIR=str(root)).exit_code == 0


def test_run_may_be_named_latest_with_a_warning_and_an_empty_name_is_none(start, caplog):
    start("p", name="latest").stop()
    said = [one.getMessage() for one in caplog.records if "'latest'" in one.getMessage()]
    assert said == ["seamark: the name 'latest' always means the newest run, whatever its name"]
    for name in ("", "  "):
        with start("p", name=name) as run:
            assert run.name is None
            assert not run.exists("sys/name")
