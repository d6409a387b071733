from __future__ import annotations

import json
import shutil

import pytest
from journal_builder import START, JournalBuilder
from journals import journal_files

from seamark.index import purging as purge_module
from seamark.reading.names import generated_name


def listed(cli, *words):
    return {row["run"] for row in json.loads(cli("ls", "--json", *words).stdout)}


def test_trash_hides_runs_and_untrash_restores_them(cli, record, root, monkeypatch):
    first, second = record(), record()
    # In a shell within a job, RANK says nothing about this command.
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert f"moved 1 run to the trash: {generated_name(first)};" in cli("trash", first).stderr
    assert (listed(cli), listed(cli, "--trashed")) == ({second}, {first})
    journals = len(journal_files(root / "default" / first))
    told = cli("trash", first, second).stderr
    assert f"moved 1 run to the trash (1 was already in it): {generated_name(second)}" in told
    assert len(journal_files(root / "default" / first)) == journals
    shown = json.loads(cli("show", first, "--json").stdout)["attributes"]
    assert shown["sys/state"]["value"] == "completed"  # the command is no owner of the run
    assert shown["sys/trashed"]["value"] is True
    assert "restored 2 runs from the trash: " in cli("untrash", first, second).stderr
    assert (
        "restored 0 runs from the trash (2 were not in it)" in cli("untrash", first, second).stderr
    )
    assert listed(cli) == {first, second}


def test_purge_deletes_trashed_runs_and_leaves_a_mark(cli, record, root):
    kept, gone = record(), record()
    result = cli("purge", "--yes")
    assert (result.exit_code, "nothing to purge" in result.stderr) == (0, True)
    result = cli("purge", gone, "--yes")
    assert (result.exit_code, "not in the trash" in result.stderr) == (2, True)
    assert (root / "default" / gone).is_dir()
    cli("trash", gone)
    result = cli("purge", "--yes")
    assert result.exit_code == 0, result.stderr
    assert listed(cli) == {kept}
    assert sorted(path.name for path in (root / "default").iterdir()) == sorted([kept, ".purged"])
    assert (root / "default" / ".purged" / gone).exists()  # the mark keeps copies from reviving it
    assert cli("purge", kept, "--yes", "--force").exit_code == 0
    assert not (root / "default" / kept).exists()


def test_purge_never_deletes_a_live_run(cli, start, record, root):
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
def test_purge_asks_at_a_terminal_and_needs_yes_elsewhere(cli, terminal, record, root):
    run = record()
    cli("trash", run)
    assert cli("purge").exit_code == 2
    code, shown = terminal("purge", typed="n\n")
    assert code != 0
    assert "1 run" in shown
    assert (root / "default" / run).is_dir()
    assert terminal("purge", typed="y\n")[0] == 0
    assert not (root / "default" / run).exists()


def test_interrupted_purge_is_finished_by_the_next(cli, record, root, monkeypatch):
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


def test_purged_run_that_is_copied_back_stays_purged(cli, record, root, tmp_path):
    run = record()
    shutil.copytree(root / "default" / run, tmp_path / "copy")
    cli("purge", run, "--yes", "--force")
    shutil.copytree(tmp_path / "copy", root / "default" / run)
    assert listed(cli) == set()
    assert json.loads(cli("fsck", "--json").stdout)["findings"][0]["problem"] == "purged"
    assert cli("purge", "--yes").exit_code == 0
    assert not (root / "default" / run).exists()


def test_trash_by_query_names_twenty_runs_and_live_ones(cli, record, root, start):
    for number in range(22):
        journal = JournalBuilder(f"w{number}", t=START + number * 10**9)
        journal.assign(sys__name=f"run{number}").close().save(root / "p" / f"run{number}")
    other = record("p", name="other")
    told = cli("trash", "--query", 'sys/name MATCHES "run.*"').stderr
    assert told.startswith("moved 22 runs to the trash: run21, run20, ")
    assert "run2 and 2 more;" in told
    assert listed(cli) == {other}
    live = start("p", name="live")
    live["a"] = 1
    live.wait()
    assert cli("trash", "live").stderr.endswith("still recording: live\n")
    live.stop()
    assert "restored 1 run from the trash: live\n" in cli("untrash", "live").stderr
