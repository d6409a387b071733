"""``tag``, ``rename`` and ``describe`` change one thing of a run, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from seamark.index.index import Index

EDITS: dict[str, tuple[list[str], str, Any]] = {
    "tag": (["--add", "best", "--remove", "draft"], "sys/tags", {"kept", "best"}),
    "rename": (["another name"], "sys/name", "another name"),
    "describe": (["two lines\nof text"], "sys/description", "two lines\nof text"),
}


def facts(root, run):
    """Return everything that a run shows, by path."""
    with Index.open(root) as index:
        index.refresh("p", run)
        return {one.path: (one.type, one.value) for one in index.view("p", run).attributes()}


@pytest.mark.usefixtures("captured")  # an edit captures nothing all the same
def test_edit_of_a_failed_run_changes_nothing_else(cli, root, start):
    run = start("p", name="wild", tags=["draft", "kept"], capture_traceback=True)
    run.log_metrics({"loss": 1.0}, 0)
    error = ValueError("diverged")
    with pytest.raises(ValueError, match="diverged"), run:
        raise error
    for command, (more, path, new) in EDITS.items():
        before = facts(root, run.id)
        assert before["sys/state"] == ("string", "failed")
        done = cli(command, run.id, *more)
        assert (done.exit_code, done.stderr) == (0, "")
        after = facts(root, run.id)
        assert after.pop(path)[1] == new
        before.pop(path, None)
        assert after.pop("sys/modification_time") > before.pop("sys/modification_time")
        assert after == before
    assert "ValueError: diverged" in cli("show", run.id).stdout


def test_edit_of_a_live_run_does_not_disturb_its_training(cli, root, training):
    run = training.do("begin", 0, "p", {"name": "live", "tags": ["draft", "kept"]})
    training.do("row", 0, {"loss": 1.0}, 0)
    training.do("sync", 0)
    before = facts(root, run)
    for command, (more, _, _) in EDITS.items():
        assert cli(command, run, *more).exit_code == 0
    between = facts(root, run)
    assert between["sys/state"] == ("string", "running")
    training.do("row", 0, {"loss": 0.5}, 1)
    training.do("stop", 0)
    after = facts(root, run)
    for _, path, new in EDITS.values():
        assert between[path][1] == after[path][1] == new
    assert after["sys/state"] == ("string", "completed")
    assert after["loss"][1].count == 2
    assert set(after) == set(before) | {"sys/description", "sys/end_time"}


def test_edits_show_old_and_new_value_and_record_no_repetition(cli, record, root):
    run, other = record("p", name="calm", tags=["a", "b"]), record("p", name="two", steps=3)
    journal = root / "p" / run / "journal"
    for words, shown, records in (
        (["tag", "calm", "--add", "c", "--remove", "a"], "calm: a, b → b, c", True),
        (["tag", "calm", "--add", "c", "--remove", "a"], "calm: b, c (unchanged)", False),
        (["tag", "calm"], "calm: b, c", False),
        (["tag", "two"], "two: (no tags)", False),
        (
            ["tag", other, run, "--add", "d", "--add", "e f"],
            "two: (no tags) → d, e f\ncalm: b, c → b, c, d, e f",
            True,
        ),
        (
            ["tag", "--query", 'sys/tags CONTAINS "e f"', "--remove", "b"],
            "two: d, e f (unchanged)\ncalm: b, c, d, e f → c, d, e f",
            True,
        ),
        (["describe", "calm", "first"], "calm: (no description) → first", True),
        (["describe", "calm", "second"], "calm: first → second", True),
        (["describe", "calm", "second"], "calm: second (unchanged)", False),
        (["rename", "calm", "quiet"], f"{run}: calm → quiet", True),
        (["rename", "quiet", "quiet"], f"{run}: quiet (unchanged)", False),
        (["describe", "quiet", "--remove"], "quiet: second → (no description)", True),
    ):
        before = len(list(journal.iterdir()))
        assert cli(*words).stdout == f"{shown}\n"
        assert (len(list(journal.iterdir())) > before) is records, words
    assert "description" not in cli("show", "quiet").stdout


@pytest.mark.parametrize("command", EDITS)
def test_no_secret_is_recorded_or_printed(cli, root, record, command):
    run = record("p", name="calm", tags=["kept"])
    text = "see https://me:hunter2@host and ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    more = ["--add", text] if command == "tag" else [text]
    done = cli(command, run, *more)
    assert done.exit_code == 0
    kept, path = "see https://***@host and ***", EDITS[command][1]
    assert kept in done.stdout
    assert facts(root, run)["sys/masked"][1] == {path}
    assert kept in facts(root, run)[path][1]
    files = [path.read_bytes().decode("latin1") for path in root.rglob("*") if path.is_file()]
    for said in (done.output, *files):
        assert "hunter2" not in said
        assert "ghp_" not in said
    assert "(unchanged)" in cli(command, run, *more).stdout


@pytest.mark.once
def test_description_is_read_from_a_pipe(cli, record, root):
    run = record("p", name="one")
    for given, said in (
        (b"\377\376", "expected text in utf-8 on standard input"),
        (b"", "description (from standard input): expected some text, got ''"),
    ):
        done = cli("describe", "one", given=given)
        assert (done.exit_code, done.stdout) == (2, "")
        assert said in done.stderr
    assert cli("describe", "one", given=b"first\nsecond\n\n").exit_code == 0
    assert facts(root, run)["sys/description"][1] == "first\nsecond"
    assert "description" in cli("show", "one").stdout


@pytest.mark.once
def test_description_is_edited_in_an_editor(terminal, record, root, tmp_path):
    run = record("p", name="one", description="old")
    editor = tmp_path / "editor"
    for script, code, shown in (
        ('grep -q old "$1" && echo "new" > "$1"', 0, "one: old → new"),
        ("true", 0, "one: new (unchanged)"),
        (': > "$1"', 2, "description: expected some text"),
        ("exit 3", 1, "editor"),
    ):
        editor.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        editor.chmod(0o755)
        found, text = terminal("describe", "one", VISUAL=str(editor))
        assert found == code
        assert shown in re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert facts(root, run)["sys/description"][1] == "new"
