from __future__ import annotations

import json
import shutil

import pytest
from journals import journal_files

from seamark.index import purging as purge_module
from seamark.reading.names import generated_name


def listed(cli, *words):
    return {row["run"] for row in json.loads(cli("ls", "--json", *words).stdout)}


def test_trashed_runs_are_hidden_and_come_back(cli, record):
    """Nothing is deleted by the trash."""
    kept, gone = record(), record()
    assert cli("trash", gone).exit_code == 0
    assert listed(cli) == {kept}
    assert listed(cli, "--trashed") == {gone}
    assert cli("untrash", gone).exit_code == 0
    assert listed(cli) == {kept, gone}


def test_only_runs_that_change_are_counted(cli, record, root):
    """What is in the trash already, or was never there, is said, and nothing is written into it."""
    first, second = record(), record()
    assert f"put 1 run into the trash: {generated_name(first)};" in cli("trash", first).stderr
    journals = {run: len(journal_files(root / "default" / run)) for run in (first, second)}
    told = cli("trash", first, second).stderr
    assert f"put 1 run into the trash (1 was already in it): {generated_name(second)}" in told
    assert len(journal_files(root / "default" / first)) == journals[first]
    assert "took 2 runs out of the trash: " in cli("untrash", first, second).stderr
    assert "took 0 runs out of the trash (2 were not in it)" in cli("untrash", first, second).stderr


def test_trashing_leaves_the_state_alone(cli, record):
    """The command is no owner of the run: what is completed stays completed."""
    run = record()
    for verb in ("trash", "untrash", "trash"):
        assert cli(verb, run).exit_code == 0
    shown = json.loads(cli("show", run, "--json").stdout)["attributes"]
    assert shown["sys/state"]["value"] == "completed"
    assert shown["sys/trashed"]["value"] is True


def test_trashing_by_query(cli, record):
    """All that match, and an error if none does."""
    short, long = record(steps=2), record(steps=30)
    assert cli("trash", "--query", "train/loss:count < 10").exit_code == 0
    assert listed(cli) == {long}
    assert listed(cli, "--trashed") == {short}
    result = cli("trash", "--query", "train/loss:count < 1")
    assert result.exit_code == 2
    assert "no run matches" in result.stderr


def test_trash_works_where_a_launcher_set_a_rank(cli, record, monkeypatch):
    """In a shell within a job, RANK says nothing about this command."""
    run = record()
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert cli("trash", run).exit_code == 0
    assert listed(cli, "--trashed") == {run}


def test_purge_deletes_what_is_in_the_trash_and_leaves_a_mark(cli, record, root):
    """The folder is gone, the mark keeps copies from reviving it, other runs are untouched."""
    kept, gone = record(), record()
    cli("trash", gone)
    result = cli("purge", "--yes")
    assert result.exit_code == 0, result.stderr
    assert not (root / "default" / gone).exists()
    assert (root / "default" / ".purged" / gone).exists()
    assert listed(cli) == {kept}
    assert sorted(path.name for path in (root / "default").iterdir()) == sorted([kept, ".purged"])


def test_purge_refuses_what_is_not_in_the_trash(cli, record, root):
    """One step of caution, which --force leaves out."""
    run = record()
    result = cli("purge", run, "--yes")
    assert result.exit_code == 2
    assert "not in the trash" in result.stderr
    assert (root / "default" / run).is_dir()
    assert cli("purge", run, "--yes", "--force").exit_code == 0
    assert not (root / "default" / run).exists()


def test_purge_never_deletes_a_run_that_is_being_written(cli, start, record, root):
    """Not even with --force; and nothing else is deleted either."""
    live = start()
    live.log_metrics({"loss": 1.0}, step=0)
    done = record()
    cli("trash", live.id)
    cli("trash", done)
    result = cli("purge", "--yes", "--force", live.id, done)
    assert result.exit_code == 1
    assert live.id in result.stderr
    assert (root / "default" / live.id).is_dir()
    assert (root / "default" / done).is_dir()
    live.log_metrics({"loss": 0.5}, step=1)
    live.stop()
    assert cli("purge", "--yes").exit_code == 0


@pytest.mark.once
def test_purge_asks_a_person_and_nobody_else(cli, terminal, record, root):
    """Without a terminal --yes is needed; on one, everything but "y" keeps the runs."""
    run = record()
    cli("trash", run)
    assert cli("purge").exit_code == 2
    code, shown = terminal("purge", typed="n\n")
    assert code != 0
    assert "1 run" in shown
    assert (root / "default" / run).is_dir()
    assert terminal("purge", typed="y\n")[0] == 0
    assert not (root / "default" / run).exists()


def test_an_empty_trash_is_no_error(cli, record):
    """Nothing to do is said, not failed."""
    record()
    result = cli("purge", "--yes")
    assert result.exit_code == 0
    assert "nothing to purge" in result.stderr


def test_a_purge_that_was_cut_short_is_finished_by_the_next(cli, record, root, monkeypatch):
    """Nobody sees half a run meanwhile, and fsck tells."""
    run = record()
    cli("trash", run)
    delete = purge_module.remove_entry

    def fail(folder, name):
        msg = "disk on fire"
        raise OSError(5, msg, name)

    monkeypatch.setattr(purge_module, "remove_entry", fail)
    result = cli("purge", "--yes")
    assert result.exit_code == 1
    assert "disk on fire" in result.stderr
    monkeypatch.setattr(purge_module, "remove_entry", delete)
    assert listed(cli) == listed(cli, "--trashed") == set()
    assert "half purged" in cli("fsck").stdout
    assert cli("purge", "--yes").exit_code == 0
    assert cli("fsck").exit_code == 0
    assert [path.name for path in (root / "default").iterdir()] == [".purged"]


def test_a_purged_run_that_was_copied_back_stays_away(cli, record, root, tmp_path):
    """Merging folders does not revive it; fsck tells, and the next purge removes it again."""
    run = record()
    shutil.copytree(root / "default" / run, tmp_path / "copy")
    cli("purge", run, "--yes", "--force")
    shutil.copytree(tmp_path / "copy", root / "default" / run)
    assert listed(cli) == set()
    assert json.loads(cli("fsck", "--json").stdout)["findings"][0]["problem"] == "purged"
    assert cli("purge", "--yes").exit_code == 0
    assert not (root / "default" / run).exists()


def test_the_trash_names_the_runs(cli, record, start):
    """Of many the first twenty; and those that are still being trained."""
    for number in range(22):
        record("p", steps=0, name=f"run{number}")
    told = cli("trash", "--query", 'sys/name MATCHES "run.*"').stderr
    assert told.startswith("put 22 runs into the trash: run21, run20, ")
    assert "run2 and 2 more;" in told
    assert "still recording" not in told
    live = start("p", name="live")
    live["a"] = 1
    live.wait()
    assert cli("trash", "live").stderr.endswith("still recording: live\n")
    live.stop()
    assert "took 1 run out of the trash: live\n" in cli("untrash", "live").stderr
