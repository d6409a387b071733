"""``seamark sync`` and what it leaves for the next time."""

from __future__ import annotations

import pytest
from journals import journal_files
from recording import QUIET

from seamark import init_project, init_run
from seamark.types import File


@pytest.fixture
def there(tmp_path):
    return tmp_path / "there"


@pytest.fixture
def with_file(root):
    """A run with a curve and a file, and the log of its project."""
    with init_run("team/x", root=root, **QUIET) as run:
        for step in range(50):
            run.log_metrics({"train/loss": 1 / (step + 1)}, step=step)
        run["model"].upload(File.from_content(b"weights" * 1000, "bin"))
    with init_project("team/x", root=root) as project:
        project["dataset"] = "v3"
    return run.id


def journals_of(root, project, run):
    """Return the journals, but for the one that a run gets where it arrives."""
    return {
        one.name: one.read_bytes()
        for one in journal_files(root / project / run)
        if not one.name.startswith("arrival-")
    }


def files_of(folder):
    """Return the size of each file content that a run holds."""
    return {one.name: one.stat().st_size for one in (folder / "blobs").glob("*")}


def runs_at(root):
    """Return the ids of all runs below a root."""
    return sorted(one.parent.name for one in root.glob("**/[!.]*/journal"))


def test_root_is_no_remote_of_itself(cli, root, with_file):
    link = root.with_name("link")
    link.symlink_to(root)
    done = cli("sync", "--to", link.as_uri())
    assert done.exit_code == 2
    assert "another place than the root itself" in done.stderr


def test_unreachable_server_is_one_error_for_all_runs(cli, record, monkeypatch):
    monkeypatch.setattr("seamark.remote.sync._MAX_TRIES", 1)
    monkeypatch.setattr("seamark.remote.sync.Patience.__init__.__defaults__", (1, lambda _: None))
    for _ in range(3):
        record()
    done = cli("sync", "--to", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert done.stderr.count("cannot be reached") == 1
    assert "3 runs" in done.stderr


def test_different_journal_of_the_same_name_is_set_aside_and_the_rest_is_sent(
    cli, root, there, with_file
):
    cli("sync", "--to", there.as_uri())
    for journal in journal_files(there / "team/x" / with_file):
        if not journal.name.startswith("arrival-"):
            journal.write_bytes(journal.read_bytes()[:32] + bytes(64))
    with init_run("team/x", root=root, **QUIET) as other:
        pass
    done = cli("sync", "--to", there.as_uri())
    assert (done.exit_code, "is set aside" in done.stderr) == (1, True)
    assert journals_of(there, "team/x", other.id) == journals_of(root, "team/x", other.id)


def test_journals_files_and_project_log_are_sent_once(cli, root, there, with_file, monkeypatch):
    done = cli("sync", "--dry-run", "--to", there.as_uri())
    assert done.exit_code == 0
    assert with_file in done.stdout
    assert not there.exists()
    first = cli("sync", "--to", there.as_uri())
    assert first.exit_code == 0, first.stderr
    assert "1 run and 1 project log" in first.stderr
    for run in (with_file, ".project"):
        assert journals_of(there, "team/x", run) == journals_of(root, "team/x", run)
    here, copy = (each / "team/x" / with_file for each in (root, there))
    assert files_of(copy) == files_of(here) != {}
    second = cli("sync", "--to", there.as_uri())
    assert second.exit_code == 0
    assert not second.stderr.startswith("sent ")
    assert "already" in second.stderr
    elsewhere = there.with_name("elsewhere")
    monkeypatch.setenv("SEAMARK_REMOTE", elsewhere.as_uri())
    assert cli("sync").exit_code == 0
    assert runs_at(elsewhere) == [with_file]


def test_runs_are_chosen_by_name_project_and_query(cli, there, record):
    one, two = record("a", steps=3), record("b", steps=5)
    for words, code, sent in (
        ([one], 0, [one]),
        (["--query", 'sys/id = "nobody"'], 2, [one]),
        (["--project", "b"], 0, sorted([one, two])),
    ):
        assert cli("sync", *words, "--to", there.as_uri()).exit_code == code
        assert runs_at(there) == sent


def test_damaged_journal_is_sent_and_a_purged_run_is_not(cli, root, there, record):
    run, purged = record(steps=200), record()
    mark = there / "default" / ".purged" / purged
    mark.parent.mkdir(parents=True)
    mark.touch()
    (journal,) = journal_files(root / "default" / run)
    data = bytearray(journal.read_bytes())
    at = len(data) // 2
    data[at : at + 40] = b"\xff" * 40
    journal.write_bytes(data + b"\x07" * 13)
    done = cli("sync", "--to", there.as_uri())
    assert done.exit_code == 0
    assert done.stderr.count("1 run was purged at") == 1
    assert "at " + str(there) + " already" not in done.stderr
    assert not (there / "default" / purged).exists()
    words = ("export", run, "--paths", "train/loss")
    assert cli(*words, "--root", str(there)).stdout == cli(*words).stdout


def test_records_of_a_killed_process_are_sent(cli, root, there, training):
    run = training.do("begin", 0, "team/x", {})
    training.do("upload", 0, "data", "data" * 5000)
    training.do("extend", 0, "a", [0.5, 1.5], [0, 1])
    training.do("sync", 0)
    training.kill()
    assert cli("sync", "--to", there.as_uri()).exit_code == 0
    with init_run("team/x", root=there, with_id=run, mode="read-only") as copy:
        assert copy["a"].fetch_points().value.tolist() == [0.5, 1.5]
    assert files_of(there / "team/x" / run) == files_of(root / "team/x" / run) != {}
