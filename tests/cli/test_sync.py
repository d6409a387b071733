"""``seamark sync`` and what it leaves for the next time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    """A run with two curves and a file, and the log of its project."""
    run = init_run("team/x", root=root, **QUIET)
    for step in range(50):
        run.log_metrics({"train/loss": 1 / (step + 1)}, step=step)
    run["model"].upload(File.from_content(b"weights" * 1000, "bin"))
    run.stop()
    project = init_project("team/x", root=root)
    project["dataset"] = "v3"
    project.stop()
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


# ---------------------------------------------------------------------- what is wrong


def test_without_a_place_it_says_how_to_name_one(cli, with_file):
    """Nothing is guessed."""
    done = cli("sync")
    assert done.exit_code == 2
    assert "--to URI" in done.stderr
    assert "SEAMARK_REMOTE" in done.stderr


@pytest.mark.parametrize("uri", ["nonsense", "gopher://x", "file://relative", "file:///a\0b"])
def test_a_place_that_is_none_is_refused(cli, with_file, uri):
    """Before anything is read."""
    done = cli("sync", "--to", uri)
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1


def test_the_root_itself_is_no_other_place(cli, root, with_file):
    """Also where another name leads to it."""
    link = root.with_name("link")
    link.symlink_to(root)
    done = cli("sync", "--to", link.as_uri())
    assert done.exit_code == 2
    assert "another place than the root itself" in done.stderr


def test_a_server_that_is_away_is_one_line_for_all_runs(cli, record, monkeypatch):
    """Whoever has a thousand runs reads it once; the exit code says that something is missing."""
    monkeypatch.setattr("seamark.remote.sync._TRIES", 1)
    monkeypatch.setattr("seamark.remote.sync.Patience.__init__.__defaults__", (1, lambda _: None))
    for _ in range(3):
        record()
    done = cli("sync", "--to", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert done.stderr.count("cannot be reached") == 1
    assert "3 runs" in done.stderr


def test_another_journal_of_the_same_name_is_set_aside(cli, root, there, with_file):
    """The others are sent, and the exit code says that one was not."""
    cli("sync", "--to", there.as_uri())
    for journal in journal_files(there / "team/x" / with_file):
        if journal.name.startswith("arrival-"):
            continue
        data = journal.read_bytes()
        journal.write_bytes(data[:32] + bytes(64))
    other = init_run("team/x", root=root, **QUIET)
    other.stop()
    done = cli("sync", "--to", there.as_uri())
    assert done.exit_code == 1
    assert "is set aside" in done.stderr
    assert journals_of(there, "team/x", other.id) == journals_of(root, "team/x", other.id)


# ---------------------------------------------------------------------- what is sent


def test_everything_is_sent_once(cli, root, there, with_file):
    """Journals, files and the log of the project; the second time nothing is left."""
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


def test_the_place_comes_from_the_environment(cli, there, with_file, monkeypatch):
    """As for a training."""
    monkeypatch.setenv("SEAMARK_REMOTE", there.as_uri())
    assert cli("sync").exit_code == 0
    assert runs_at(there) == [with_file]


def test_a_dry_run_sends_nothing(cli, there, with_file):
    """It lists what would be sent."""
    done = cli("sync", "--dry-run", "--to", there.as_uri())
    assert done.exit_code == 0
    assert with_file in done.stdout
    assert not there.exists()


def test_only_the_runs_that_are_meant(cli, there, record):
    """By name, by project and by query."""
    one, two = record("a", steps=3), record("b", steps=5)
    assert cli("sync", one, "--to", there.as_uri()).exit_code == 0
    assert runs_at(there) == [one]
    by_query = cli("sync", "--query", 'sys/id = "nobody"', "--to", there.as_uri())
    assert by_query.exit_code == 2
    assert cli("sync", "--project", "b", "--to", there.as_uri()).exit_code == 0
    assert runs_at(there) == sorted([one, two])


def test_a_torn_tail_and_damage_do_not_stop_the_rest(cli, root, there, record):
    """What will never be a record is declared; what follows is sent, and reads the same there."""
    run = record(steps=200)
    (journal,) = journal_files(root / "default" / run)
    data = bytearray(journal.read_bytes())
    at = len(data) // 2
    data[at : at + 40] = b"\xff" * 40
    journal.write_bytes(data + b"\x07" * 13)
    assert cli("sync", "--to", there.as_uri()).exit_code == 0
    words = ("export", run, "--paths", "train/loss")
    assert cli(*words, "--root", str(there)).stdout == cli(*words).stdout


KILLED = """
import os, signal, sys
from recording import QUIET
from seamark import init_run
run = init_run("team/x", root=sys.argv[1], **QUIET)
run["data"].upload(sys.argv[2])
run.log_metrics({"a": 1.0}, step=0)
run.wait()
for step in range(1, 100):
    run.log_metrics({"a": float(step)}, step=step)
print(run.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_sent(cli, root, there, tmp_path):
    """All that it had recorded, without the process."""
    file = tmp_path / "data.bin"
    file.write_bytes(b"data" * 5000)
    support = Path(__file__).parents[1] / "support"
    source = Path(__file__).parents[2] / "src"
    told = subprocess.run(
        [sys.executable, "-c", KILLED, str(root), str(file)],
        env={"PYTHONPATH": f"{source}:{support}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    run = told.stdout.strip()
    assert cli("sync", "--to", there.as_uri()).exit_code == 0
    here, copy = (
        init_run("team/x", root=each, with_id=run, mode="read-only", **QUIET)
        for each in (root, there)
    )
    assert copy["a"].fetch_points().value.tolist() == here["a"].fetch_points().value.tolist()
    assert len(copy["a"].fetch_points()) == 100
    assert files_of(there / "team/x" / run) == files_of(root / "team/x" / run)


def test_a_purged_run_is_not_sent(cli, root, there, record):
    """What a person has deleted does not go elsewhere, and does not come back there."""
    run = record()
    (there / "default" / ".purged").mkdir(parents=True)
    (there / "default" / ".purged" / run).touch()
    done = cli("sync", "--to", there.as_uri())
    assert done.exit_code == 0
    assert done.stderr.count("1 run was purged at") == 1
    assert "at " + str(there) + " already" not in done.stderr
    assert not (there / "default" / run).exists()
