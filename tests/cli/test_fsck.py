from __future__ import annotations

import json
import os
import signal
import time

import pytest
from journals import Journal, Kind, journal_files
from scripts import run_script

from seamark.journal.folder import RunFolder
from seamark.journal.format import frame_bytes, salt_of
from seamark.types import File


def journal_of(root, run, project="default"):
    return journal_files(root / project / run)[0]


def problems(result):
    return [found["problem"] for found in json.loads(result.stdout)["findings"]]


def age(path):
    """Make a file look untouched for a while, so that nobody waits for more of it."""
    os.utime(path, (time.time() - 600,) * 2)


def frame_offsets(path):
    return [(frame.offset, frame.end, frame.kind) for frame in Journal(path).frames]


def test_sound_and_live_runs_have_no_findings(cli, start, record, root):
    """While a process writes, the end of its journal may be incomplete at any moment."""
    record()
    record("team/vision")
    result = cli("fsck")
    assert result.exit_code == 0
    assert "checked 2 runs, 2 journals" in result.stdout
    assert "no damage" in result.stdout
    run = start()
    run.log_metrics({"loss": 1.0}, step=0)
    result = cli("fsck", "--json")
    assert (result.exit_code, json.loads(result.stdout)["live"]) == (0, 1)
    with journal_of(root, run.id).open("ab") as file:
        file.write(b"\x01\x02\x03")
    assert cli("fsck").exit_code == 0
    run.stop()


def _flip_a_bit(path, data):
    start, end, _ = next(entry for entry in frame_offsets(path) if entry[2] == Kind.ROW)
    data[start + 30] ^= 1
    path.write_bytes(data)
    return {"offset": start, "length": end - start}


def _tear_the_end(path, data):
    start = frame_offsets(path)[-1][0]
    path.write_bytes(data[:-3])
    age(path)
    return {"offset": start}


def _append_a_newer_kind(path, data):
    frame = frame_bytes(
        salt_of(data[16:32]), 99, Journal(path).frames[-1].t + 1, b"from the future"
    )
    path.write_bytes(data + frame)
    return {}


def _damage_the_header(path, data):
    data[0] ^= 0xFF  # the uid in the file's name replaces that of the header
    path.write_bytes(data)
    return {}


def _add_other_files(path, _):
    (path.parent / "notes.txt").write_text("forty bytes of something that is no journal")
    (path.parent / ".half-copied").write_bytes(b"")  # as rsync's temporaries
    return {"where": "notes.txt"}


@pytest.mark.parametrize(
    ("damage", "problem", "lost"),
    [
        (_flip_a_bit, "gap", 1),
        (_tear_the_end, "torn tail", 1),
        (_append_a_newer_kind, "newer format", 0),
        (_damage_the_header, "damaged header", 0),
        (_add_other_files, "not a journal", 0),
    ],
)
def test_damage_is_named_and_the_rest_is_read(cli, record, root, damage, problem, lost):
    sound, run = record(), record()
    path = journal_of(root, run)
    frames = len(frame_offsets(path))
    expected = {"problem": problem, "run": run, "where": path.name}
    expected |= damage(path, bytearray(path.read_bytes()))
    result = cli("fsck", "--json", run)
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    (found,) = document["findings"]
    assert found.items() >= expected.items()
    assert document["frames"] == frames - lost
    assert cli("fsck", sound).exit_code == 0


def test_wrong_and_missing_blobs_are_found(cli, start):
    with start() as run:
        run["report"].upload(File.from_content("a report", extension="txt"))
    (blob,) = run.folder.blobs_dir.iterdir()
    blob.chmod(0o644)
    blob.write_text("A report")
    assert cli("fsck").exit_code == 0  # digests are compared on request, as that takes time
    assert problems(cli("fsck", "--blobs", "--json")) == ["wrong blob"]
    blob.write_text("longer than it was")
    assert problems(cli("fsck", "--json")) == ["wrong blob"]
    blob.unlink()
    result = cli("fsck", "--json")
    assert result.exit_code == 1
    assert problems(result) == ["missing blob"]
    assert json.loads(result.stdout)["findings"][0]["where"] == "report"


def test_log_of_a_project_is_checked(cli, record, root):
    path = journal_of(root, record())
    folder = root / "default" / ".project" / "journal"
    folder.mkdir(parents=True)
    data = bytearray(path.read_bytes())
    data[frame_offsets(path)[-2][0] + 25] ^= 1
    (folder / path.name).write_bytes(data)
    (found,) = json.loads(cli("fsck", "--json").stdout)["findings"]
    assert found["run"] == ".project"


def test_unreadable_run_is_a_finding_and_the_others_are_checked(cli, record, root, monkeypatch):
    barred, _ = record(), record()
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


def test_staged_files_of_a_dead_process_are_stored_on_request(cli, root, tmp_path):
    source = tmp_path / "last.ckpt"
    source.write_bytes(bytes(20_000_000))
    run = run_script(TAKEN, str(source), status=-signal.SIGKILL)[0].strip()
    source.unlink()
    assert (root / "default" / run).is_dir()
    (found,) = json.loads(cli("fsck", "--json").stdout)["findings"]
    assert found["problem"] == "leftover staging"
    assert found["detail"].startswith("1 file not stored yet: ")
    result = cli("fsck", "--finish", "--blobs")
    assert result.exit_code == 0, result.stdout
    assert "stored 1 file" in result.stderr
    assert "20,000,000 bytes\nwhere       kept" in cli("show", run, "model/last").stdout
