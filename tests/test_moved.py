"""A run folder that was moved or copied is whole: what its records refer to is found in it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from command import app, output_of
from journal_builder import JournalBuilder
from recording import QUIET

import seamark
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder
from seamark.run.adapters import CheckpointSet

if TYPE_CHECKING:
    from collections.abc import Callable


ROOT = Path("first")
CHECKPOINT = "model/checkpoints/best"
WEIGHTS = b"weights" * 100


@pytest.fixture
def folder():
    """A run with a checkpoint in its own folder, one elsewhere, and a folder of shards."""
    with seamark.init_run("p", root=ROOT, custom_run_id="one", **QUIET) as run:
        place = run.folder.files_dir / "checkpoints"
        (place / "shards").mkdir(parents=True)
        (place / "best.ckpt").write_bytes(WEIGHTS)
        (place / "shards" / "0.pt").write_bytes(b"shard")
        (place / "last.ckpt").symlink_to("best.ckpt")
        Path("elsewhere.ckpt").write_bytes(b"other")
        for name in ("best", "last"):
            run.session.content.refer(f"model/checkpoints/{name}", place / f"{name}.ckpt")
        run.session.content.refer("model/checkpoints/shards", place / "shards")
        run.session.content.refer("model/elsewhere", Path("elsewhere.ckpt"))
        run["model/best_model_path"] = str(place / "best.ckpt")
        run["loss"].append(1.0)
    return run.folder


def opened(root, folder):
    given: Any = {"mode": "read-only", **QUIET}
    return seamark.init_run(folder.project, with_id=folder.run, root=root, **given)


def command(root, *words):
    return CliRunner().invoke(app, [*words, "--root", str(root)], prog_name="seamark")


def output(root, *words):
    """Call the command, which has to succeed; return what it prints."""
    return output_of(*words, "--root", str(root))


def move(root, _):
    return ROOT.rename(root)


def copy(root, folder):
    """Like ``cp -r``: times and inodes are new; a reader that opens the first one is found out."""
    shutil.copytree(ROOT, root, symlinks=True, copy_function=shutil.copyfile)
    (folder.files_dir / "checkpoints" / "best.ckpt").write_bytes(b"not this")
    return root


def synchronise(root, folder):
    """Like ``rsync -a`` to another host: only times stay, and nothing else is there."""
    shutil.copytree(folder.path, root / folder.project / folder.run, symlinks=True)
    shutil.rmtree(ROOT)
    return root


@pytest.fixture(params=[move, copy, synchronise])
def moved(request, folder):
    way: Callable[[Path, RunFolder], Path] = request.param
    return way(Path("second").absolute(), folder)


def test_checkpoints_are_downloaded_from_the_new_place(folder, moved, monkeypatch):
    # Another host has another name, and its reader another uid.
    with monkeypatch.context() as patch:
        patch.setattr("seamark.blobs.contents.are_recorded_by_user", lambda _: False)
        opened(moved, folder)[CHECKPOINT].download("stranger.ckpt")
    assert Path("stranger.ckpt").read_bytes() == WEIGHTS
    run = opened(moved, folder)
    for name in ("best", "last"):
        run[f"model/checkpoints/{name}"].download(f"{name}.ckpt")
        assert Path(f"{name}.ckpt").read_bytes() == WEIGHTS
    run["model/checkpoints/shards"].download("shards")
    assert Path("shards/0.pt").read_bytes() == b"shard"


@pytest.mark.parametrize("moved", [copy], indirect=True)
def test_the_command_says_where_checkpoints_are_now(folder, moved):
    place = moved / folder.project / folder.run / "files" / "checkpoints" / "best.ckpt"
    shown = output(moved, "show", folder.run, CHECKPOINT)
    assert "reference" in shown
    assert "gone" not in shown
    assert str(place) in shown.replace("\n", "")
    assert "gone" not in output(moved, "show", folder.run)
    recorded = opened(moved, folder)["model/best_model_path"].fetch()
    assert recorded == str(folder.files_dir / "checkpoints" / "best.ckpt")
    output(moved, "fsck", "--blobs")


def test_records_without_the_key_are_found_by_project_and_run(tmp_path):
    """Also where the path goes through both twice, as Lightning had it; the root may be a link."""
    folder = RunFolder(tmp_path / "new", "p", "r1")
    (tmp_path / "disk").mkdir()
    folder.root.symlink_to(tmp_path / "disk")
    inside = "files/p/r1/checkpoints/best.ckpt"
    place = folder.path / inside
    place.parent.mkdir(parents=True)
    place.write_bytes(WEIGHTS)
    file = {"name": "best", "size": len(WEIGHTS), "ref": f"/old/root/p/r1/{inside}"}
    other = {**file, "size": 3}
    elsewhere = {**file, "ref": f"/old/root/q/r1/{inside}"}
    builder = JournalBuilder("old")
    for path, record in (("a", file), ("b", other), ("c", elsewhere)):
        builder.op("file", path=path, file=record)
    builder.close().save(folder)
    run = opened(folder.root, folder)
    run["a"].download("a")
    assert Path("a").read_bytes() == WEIGHTS
    for path in ("b", "c"):
        with pytest.raises(FileMissingError, match="not opened"):
            run[path].download(path)
    assert str(place) in output(folder.root, "show", "r1", "a").replace("\n", "")


def test_tracked_files_are_found_in_a_moved_folder():
    """Their records have no key for it."""
    with seamark.init_run("p", root=ROOT, **QUIET) as run:
        place = run.folder.files_dir / "data"
        place.mkdir(parents=True)
        (place / "a.csv").write_bytes(WEIGHTS)
        run["data"].track_files(str(place), wait=True)
    shutil.move(ROOT, "second")
    opened(Path("second"), run.folder)["data"].download("out")
    assert (Path("out") / "a.csv").read_bytes() == WEIGHTS


def crafted(tmp_path, files):
    """Save a journal of a stranger with files by path; return the folder of the run."""
    folder = RunFolder(tmp_path / "root", "p", "r1")
    builder = JournalBuilder("evil").assign(lr=0.1)
    for path, facts in files.items():
        builder.op("file", path=path, file={"name": "s", "size": 6, **facts})
    builder.close().save(folder)
    return folder


def test_a_name_that_leads_out_of_the_run_is_no_record(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    names = [f"{tmp_path}/secret", "../secret", "files/../../secret", "files//x", "./files/x"]
    names += ["..", "", "x" * 300, 3, ["files"]]
    files = {f"a{at}": {"ref": "/nowhere/s", "inside": name} for at, name in enumerate(names)}
    folder = crafted(tmp_path, files)
    run = opened(folder.root, folder)
    assert run["lr"].fetch() == 0.1
    assert not any(path.startswith("a") for path in run.session.recorded.families())
    output(folder.root, "show", "r1")
    assert "unusable record" in command(folder.root, "fsck").stdout


@pytest.mark.parametrize("kind", ["link", "link above", "pipe", "folder", "NUL"])
def test_only_a_file_of_the_folder_itself_is_opened(tmp_path, kind):
    """A link leads to the reader's own files, and a pipe waits for ever."""
    secret = tmp_path / "home" / "best.ckpt"
    secret.parent.mkdir()
    secret.write_bytes(b"secret")
    folder = RunFolder(tmp_path / "root", "p", "r1")
    place = folder.files_dir / "checkpoints" / "best.ckpt"
    place.parent.mkdir(parents=True)
    if kind == "link":
        place.symlink_to(secret)
    elif kind == "link above":
        place.parent.rmdir()
        place.parent.symlink_to(secret.parent)
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    inside = "files/checkpoints/best.ckpt" + ("\0" if kind == "NUL" else "")
    crafted(tmp_path, {"a": {"ref": "/nowhere/best.ckpt", "inside": inside}})
    with pytest.raises(FileMissingError):
        opened(folder.root, folder)["a"].download("out")
    assert not Path("out").exists()
    assert "/nowhere/best.ckpt" in output(folder.root, "show", "r1", "a")
    output(folder.root, "fsck", "--blobs")


def test_odd_references_stop_no_reader(tmp_path):
    targets = ["file://[x", "\0", "", "/p/r1/", "/p/r1/../../x", "//p/r1/x"]
    folder = crafted(tmp_path, {f"a{at}": {"ref": target} for at, target in enumerate(targets)})
    output(folder.root, "show", "r1")
    run = opened(folder.root, folder)
    for number in range(6):
        with pytest.raises(FileMissingError):
            run[f"a{number}"].download("out")


@pytest.mark.parametrize("harm", ["other bytes", "too short", "rewritten", "removed"])
def test_fsck_finds_wrong_bytes_of_checkpoints_that_no_training_rewrote(folder, harm):
    place = folder.files_dir / "checkpoints" / "best.ckpt"
    before = place.stat()
    if harm == "removed":
        place.unlink()
    else:
        place.write_bytes(b"x" * (len(WEIGHTS) - (harm == "too short")))
    if harm in ("other bytes", "too short"):
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = command(ROOT, "fsck", "--blobs", folder.run)
    damaged = harm in ("other bytes", "too short")
    assert (found.exit_code, "wrong file" in found.stdout) == (int(damaged), damaged)
    output(ROOT, "fsck", folder.run)


@pytest.mark.parametrize("moved", [move, synchronise], indirect=True)
def test_checkpoints_of_a_moved_run_are_taken_over(folder, moved):
    given: Any = {"root": moved, "custom_run_id": "one", **QUIET}
    with seamark.init_run("p", **given) as run:
        assert run.id == folder.run
        place = run.folder.files_dir / "checkpoints"
        files = CheckpointSet(run, "model/checkpoints")
        files.adopt(str(place))
        (place / "best.ckpt").unlink()
        files.settle()
        assert not run.exists(CHECKPOINT)
