from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from journals import Journal, Kind, journal_files

from seamark.journal.folder import RunFolder
from seamark.journal.format import frame_bytes, salt_of
from seamark.types import File


def journal_of(root, run, project="default"):
    return journal_files(root / project / run)[0]


def problems(result):
    return [found["problem"] for found in json.loads(result.stdout)["findings"]]


def age(path, seconds=600):
    """Make a file look untouched for a while, so that nobody waits for more of it."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def frame_offsets(path):
    return [(frame.offset, frame.end, frame.kind) for frame in Journal(path).frames]


def test_sound_runs_are_clean(cli, record):
    """Exit code 0, and what was looked at."""
    record()
    record("team/vision")
    result = cli("fsck")
    assert result.exit_code == 0
    assert "checked 2 runs, 2 journals" in result.stdout
    assert "no damage" in result.stdout
    assert cli("fsck", "--json").exit_code == 0


def test_a_flipped_bit_is_a_gap(cli, record, root):
    """Exit code 1; run, journal, offset and length are named; everything else was read."""
    run = record()
    path = journal_of(root, run)
    whole = frame_offsets(path)
    start, end, _ = next(entry for entry in whole if entry[2] == Kind.ROW)
    data = bytearray(path.read_bytes())
    data[start + 30] ^= 1
    path.write_bytes(data)
    result = cli("fsck", "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)["findings"]
    assert found["problem"] == "gap"
    assert found["run"] == run
    assert found["where"] == path.name
    assert (found["offset"], found["length"]) == (start, end - start)
    assert json.loads(result.stdout)["frames"] == len(whole) - 1


def test_a_torn_end_of_a_dead_writer_is_told(cli, record, root):
    """What was written before it is all there; the bytes that are no record are named."""
    path = journal_of(root, record())
    start, end, _ = frame_offsets(path)[-1]
    path.write_bytes(path.read_bytes()[: end - 3])
    age(path)
    assert problems(result := cli("fsck", "--json")) == ["torn tail"]
    assert result.exit_code == 1
    assert json.loads(result.stdout)["findings"][0]["offset"] == start


def test_a_run_that_is_being_written_is_no_finding(cli, start, root):
    """While a process writes, the end of its journal may be incomplete at any moment."""
    run = start()
    run.log_metrics({"loss": 1.0}, step=0)
    result = cli("fsck", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["live"] == 1
    with journal_of(root, run.id).open("ab") as file:
        file.write(b"\x01\x02\x03")
    assert cli("fsck").exit_code == 0
    run.stop()


def test_records_of_a_newer_seamark_are_told(cli, record, root):
    """A kind that must not be passed over stops reading, and a reader must know."""
    path = journal_of(root, record())
    last, salt = Journal(path).frames[-1], salt_of(path.read_bytes()[16:32])
    with path.open("ab") as file:
        file.write(frame_bytes(salt, 99, last.t + 1, b"from the future"))
    assert problems(cli("fsck", "--json")) == ["newer format"]


def test_a_damaged_file_header_is_told_and_the_journal_read(cli, record, root):
    """The uid in the file's name mends it."""
    path = journal_of(root, record())
    before = len(frame_offsets(path))
    data = bytearray(path.read_bytes())
    data[0] ^= 0xFF
    path.write_bytes(data)
    result = cli("fsck", "--json")
    assert problems(result) == ["damaged header"]
    assert json.loads(result.stdout)["frames"] == before


def test_other_files_among_the_journals_are_told(cli, record, root):
    """A stray file is named; temporaries of rsync are nobody's business."""
    path = journal_of(root, record())
    (path.parent / "notes.txt").write_text("forty bytes of something that is no journal")
    (path.parent / ".half-copied").write_bytes(b"")
    assert problems(cli("fsck", "--json")) == ["not a journal"]


@pytest.fixture
def run_with_file(start):
    run = start()
    run["report"].upload(File.from_content("a report", extension="txt"))
    run.stop()
    return run


def test_a_missing_blob_is_told(cli, run_with_file):
    """The attribute whose content is gone is named."""
    for blob in run_with_file.folder.blobs_dir.iterdir():
        blob.unlink()
    result = cli("fsck", "--json")
    assert result.exit_code == 1
    assert problems(result) == ["missing blob"]
    assert json.loads(result.stdout)["findings"][0]["where"] == "report"


def test_wrong_sizes_are_found_at_once_and_wrong_bytes_on_request(cli, run_with_file):
    """Reading every blob takes time, so digests are compared with --blobs only."""
    (blob,) = run_with_file.folder.blobs_dir.iterdir()
    blob.chmod(0o644)
    blob.write_text("A report")
    assert cli("fsck").exit_code == 0
    assert problems(cli("fsck", "--blobs", "--json")) == ["wrong blob"]
    blob.write_text("longer than it was")
    assert problems(cli("fsck", "--json")) == ["wrong blob"]


def test_one_run_can_be_checked_alone(cli, record, root):
    """Damage elsewhere is not its business."""
    sound, damaged = record(), record()
    path = journal_of(root, damaged)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    assert cli("fsck", sound).exit_code == 0
    assert cli("fsck", damaged).exit_code == 1


def test_findings_are_told_in_a_table_and_on_a_terminal(cli, terminal, record, root):
    """In a pipe one line for each finding; on a terminal nothing is cut short."""
    path = journal_of(root, record())
    path.write_bytes(path.read_bytes()[:-3])
    age(path)
    rows = [line for line in cli("fsck").stdout.splitlines() if "torn tail" in line]
    assert len(rows) == 1
    assert path.name in rows[0]
    code, shown = terminal("fsck", columns=40)
    assert code == 1
    assert path.name in shown
    assert "1 problem" in shown


def test_a_project_log_is_checked_too(cli, record, root):
    """A project is a log like a run."""
    path = journal_of(root, record())
    folder = root / "default" / ".project" / "journal"
    folder.mkdir(parents=True)
    copy = folder / path.name
    data = bytearray(path.read_bytes())
    data[frame_offsets(path)[-2][0] + 25] ^= 1
    copy.write_bytes(data)
    (found,) = json.loads(cli("fsck", "--json").stdout)["findings"]
    assert found["run"] == ".project"


def test_what_cannot_be_read_is_told(cli, record, root, monkeypatch):
    """A run whose folder cannot be listed is a finding, and the others are still checked."""
    barred, other = record(), record()
    listing = RunFolder.journals

    def journals(folder):
        if folder.run == barred:
            raise PermissionError(13, "Permission denied", str(folder.journal_dir))
        return listing(folder)

    monkeypatch.setattr(RunFolder, "journals", journals)
    result = cli("fsck", "--json")
    assert result.exit_code == 1
    assert problems(result) == ["unreadable"]
    assert json.loads(result.stdout)["runs"] == 2
    assert other


TAKEN = """
    import os, signal, sys, threading
    from pathlib import Path
    from seamark.blobs.worker import Job
    from seamark import init_run

    run = init_run(capture=dict(packages=False, git=False))
    run.session.content._worker.submit(Job(threading.Event().wait))
    run.session.content.keep("model/last", Path(sys.argv[1]))
    print(run.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_dead_process_had_taken_is_stored_on_request(cli, root, tmp_path):
    """Its bytes are still there: fsck tells, and --finish makes them a file like any other."""
    source = tmp_path / "last.ckpt"
    source.write_bytes(bytes(20_000_000))
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TAKEN), source],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    ).stdout.strip()
    source.unlink()
    assert (root / "default" / run).is_dir()
    (found,) = json.loads(cli("fsck", "--json").stdout)["findings"]
    assert found["problem"] == "leftover staging"
    assert found["detail"].startswith("1 file taken, not stored: ")
    result = cli("fsck", "--finish", "--blobs")
    assert result.exit_code == 0, result.stdout
    assert "stored 1 file" in result.stderr
    assert "20,000,000 bytes\nwhere       kept" in cli("show", run, "model/last").stdout
