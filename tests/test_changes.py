"""What changed since the last look: on a folder and through a server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from command import app
from recording import QUIET

from seamark import init_project, init_run


@pytest.fixture
def project(tmp_path):
    return init_project(project="team", root=tmp_path)


def begin(root, name, project="team", **given):
    return init_run(project=project, custom_run_id=name, root=root, **QUIET, **given)


def test_changes_name_the_run_its_state_and_paths(tmp_path, project):
    with begin(tmp_path, "old") as old:
        old["lr"] = 1.0
    first = project.fetch_changes()
    assert (first.reset, first.runs) == (True, [])
    assert project.fetch_changes(first.cursor).runs == []
    run = begin(tmp_path, "new")
    run["lr"] = 0.5
    run.log_metrics({"loss": 1.0}, step=0)
    second = project.fetch_changes(first.cursor)
    identity = run["sys/id"].fetch()
    assert [(one.run, one.state, one.gone) for one in second.runs] == [(identity, "running", False)]
    assert {"lr", "loss"} <= set(second.runs[0].paths)
    assert second.looked_ns > 0
    run.stop()
    third = project.fetch_changes(second.cursor)
    assert [(one.run, one.state) for one in third.runs] == [(identity, "completed")]
    again = project.fetch_changes(first.cursor)
    assert [(one.run, one.state) for one in again.runs] == [(identity, "completed")]
    assert project.fetch_changes(third.cursor).runs == []


def test_changes_are_those_of_the_project_and_below(tmp_path, project):
    with begin(tmp_path, "one"):
        pass
    cursor = project.fetch_changes().cursor
    with begin(tmp_path, "two", "other") as other, begin(tmp_path, "three", "team/sub") as sub:
        other["lr"] = sub["lr"] = 1
        wanted = [sub["sys/id"].fetch()]
    assert [one.run for one in project.fetch_changes(cursor).runs] == wanted


def test_unknown_cursor_resets_and_goes_on_from_here(tmp_path, project):
    with begin(tmp_path, "one"):
        pass
    for cursor in ("x", "0123456789abcdef.1.1", "a.9.9"):
        found = project.fetch_changes(cursor)
        assert (found.reset, found.runs) == (True, [])
        assert not project.fetch_changes(found.cursor).reset


def test_crash_is_a_change_once(tmp_path, project):
    """Nothing is recorded for that: it is found out by looking."""
    cursor = project.fetch_changes().cursor
    code = (
        "import os; from seamark import init_run\n"
        f"run = init_run(project='team', custom_run_id='dead', root={str(tmp_path)!r})\n"
        "run['lr'] = 1.0\nprint(run['sys/id'].fetch(), flush=True)\ninput()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], text=True, **pipes) as training:
        identity = training.stdout.readline().strip()
        found = project.fetch_changes(cursor)
        assert [(one.run, one.state) for one in found.runs] == [(identity, "running")]
        training.kill()
    later = project.fetch_changes(found.cursor)
    assert [(one.run, one.state) for one in later.runs] == [(identity, "crashed")]
    assert project.fetch_changes(later.cursor).runs == []


def test_removed_folder_and_its_return_are_changes(tmp_path, project):
    with begin(tmp_path, "one") as run:
        run["lr"] = 1.0
        identity = run["sys/id"].fetch()
    cursor = project.fetch_changes().cursor
    kept = tmp_path.with_name(f"{tmp_path.name}-kept")
    shutil.move(tmp_path / "team" / identity, kept)
    found = project.fetch_changes(cursor)
    assert [(one.run, one.state, one.gone) for one in found.runs] == [(identity, None, True)]
    shutil.move(kept, tmp_path / "team" / identity)
    back = project.fetch_changes(found.cursor)
    assert [(one.run, one.state, one.gone) for one in back.runs] == [(identity, "completed", False)]


def test_command_and_python_share_cursors(tmp_path, project):
    with begin(tmp_path, "one"):
        pass
    cursor = project.fetch_changes().cursor
    with begin(tmp_path, "two") as run:
        run["lr"] = 1.0
        identity = run["sys/id"].fetch()
    root = ["--root", str(tmp_path)]
    told = json.loads(CliRunner().invoke(app, ["changes", cursor, "--json", *root]).output)
    assert [(one["run"], one["state"]) for one in told["runs"]] == [(identity, "completed")]
    assert project.fetch_changes(told["cursor"]).runs == []
    shown = CliRunner().invoke(app, ["changes", cursor, *root])
    assert shown.exit_code == 0, shown.output
    assert f"team/{identity}" in shown.output
    assert "completed" in shown.output
