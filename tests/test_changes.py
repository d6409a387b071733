"""What changed since the last look: on a folder and through a server."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from command import outcome_of
from recording import QUIET

from seamark import init_project, init_run


@pytest.fixture
def project(tmp_path):
    return init_project(project="team", root=tmp_path)


def begin(root, name, project="team", **given):
    return init_run(project=project, custom_run_id=name, root=root, **QUIET, **given)


def told(changes):
    return [(one.run, one.state) for one in changes.runs]


def test_changes_name_the_run_its_state_and_paths(tmp_path, project):
    with begin(tmp_path, "old") as old:
        old["lr"] = 1.0
    first = project.fetch_changes()
    assert (first.reset, first.runs) == (True, [])
    assert project.fetch_changes(first.cursor).runs == []
    with begin(tmp_path, "new") as run:
        run["lr"] = 0.5
        run.log_metrics({"loss": 1.0}, step=0)
        second = project.fetch_changes(first.cursor)
    assert (told(second), second.runs[0].gone) == ([(run.id, "running")], False)
    assert {"lr", "loss"} <= set(second.runs[0].paths)
    assert second.looked_ns > 0
    third = project.fetch_changes(second.cursor)
    again = project.fetch_changes(first.cursor)
    assert told(third) == told(again) == [(run.id, "completed")]
    assert project.fetch_changes(third.cursor).runs == []


def test_changes_are_those_of_the_project_and_below(tmp_path, project):
    cursor = project.fetch_changes().cursor
    with begin(tmp_path, "two", "other"), begin(tmp_path, "three", "team/sub") as sub:
        pass
    assert [one.run for one in project.fetch_changes(cursor).runs] == [sub.id]
    for cursor in ("x", "0123456789abcdef.1.1", "a.9.9"):  # of no index: it goes on from here
        found = project.fetch_changes(cursor)
        assert (found.reset, found.runs) == (True, [])
        assert not project.fetch_changes(found.cursor).reset


def test_crash_is_a_change_once(tmp_path, project):
    """Nothing is recorded for that: it is found out by looking."""
    cursor = project.fetch_changes().cursor
    reads, writes = os.pipe()
    if not (training := os.fork()):
        run = begin(tmp_path, "dead")
        run["lr"] = 1.0
        os.write(writes, run.id.encode())
        signal.pause()
    try:
        run = os.read(reads, 100).decode()
        found = project.fetch_changes(cursor)
        assert told(found) == [(run, "running")]
    finally:
        os.kill(training, signal.SIGKILL)
        os.waitpid(training, 0)
    later = project.fetch_changes(found.cursor)
    assert told(later) == [(run, "crashed")]
    assert project.fetch_changes(later.cursor).runs == []


def test_removed_folder_and_its_return_are_changes(tmp_path, project):
    with begin(tmp_path, "one") as run:
        run["lr"] = 1.0
    cursor = project.fetch_changes().cursor
    kept = tmp_path.with_name(f"{tmp_path.name}-kept")
    shutil.move(run.folder.path, kept)
    found = project.fetch_changes(cursor)
    assert (told(found), found.runs[0].gone) == ([(run.id, None)], True)
    shutil.move(kept, run.folder.path)
    back = project.fetch_changes(found.cursor)
    assert (told(back), back.runs[0].gone) == ([(run.id, "completed")], False)


def test_command_and_python_share_cursors(tmp_path, project):
    cursor = project.fetch_changes().cursor
    with begin(tmp_path, "two") as run:
        run["lr"] = 1.0
    words = ["changes", cursor, "--root", str(tmp_path)]
    found = json.loads(outcome_of(*words, "--json").output)
    assert [(one["run"], one["state"]) for one in found["runs"]] == [(run.id, "completed")]
    assert project.fetch_changes(found["cursor"]).runs == []
    shown = outcome_of(*words)
    assert shown.exit_code == 0, shown.output
    assert f"team/{run.id}" in shown.output
    assert "completed" in shown.output
