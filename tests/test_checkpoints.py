"""The set of checkpoints of one callback, on a real run; the callback is played by hand."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from recording import QUIET

import seamark
from seamark.run.adapters import CheckpointSet, checkpoint_name, fingerprint


@pytest.fixture
def run():
    with seamark.init_run(**QUIET) as run:
        yield run


@pytest.fixture(params=[False, True], ids=["reference", "keep"])
def keep(request):
    return request.param


@pytest.fixture
def files(run, keep):
    return CheckpointSet(run, "model/checkpoints", keep=keep)


def save(name, content="weights"):
    path = Path("kept", name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


def update(files, *locations):
    files.update(list(locations), "kept")


def names(run):
    run.wait()
    found = run.session.recorded.attributes("model/checkpoints")
    return {one.path.removeprefix("model/checkpoints/"): one.value["size"] for one in found}


def test_names_are_paths_below_the_folder():
    """Without the extension, whatever kind of place it is; outside of the folder there is none."""
    for location, folder, name in (
        ("/a/b/last.ckpt", "/a/b", "last"),
        ("/a/b/val/loss=0.12.ckpt", "/a/b", "val/loss=0.12"),
        ("/a/b/step=1.ckpt/", "/a/b", "step=1"),
        ("/a/other/last.ckpt", "/a/b", ""),
        ("/a/bc/last.ckpt", "/a/b", ""),
        ("s3://bucket/run/last.ckpt", "s3://bucket/run", "last"),
        ("s3://bucket/running/last.ckpt", "s3://bucket/run", ""),
        ("/a/b/last.ckpt", None, "a/b/last"),
        ("s3://bucket/last.ckpt", None, "bucket/last"),
    ):
        assert checkpoint_name(location, folder) == name, (location, folder)


def test_a_named_file_is_recorded_once_it_exists(run, files):
    update(files, save("a.ckpt"), save("a.pt"), str(Path("kept/late.ckpt").absolute()))
    assert len(names(run)) == 2  # of two files with one name neither hides the other
    save("late.ckpt")
    files.settle()
    assert {"a", "late"} < names(run).keys()
    assert len(names(run)) == 3


def test_a_file_is_removed_after_its_successor_was_named(run, files, keep):
    """A content that another record has stays; those that none has go."""
    first, second = save("1.ckpt", "one"), save("2.ckpt", "two")
    update(files, first, save("same.ckpt", "two"))
    update(files, second, save("same.ckpt", "two"))
    Path(first).unlink()
    assert sorted(names(run)) == ["1", "2", "same"]
    Path("kept/same.ckpt").unlink()
    update(files, second)
    assert sorted(names(run)) == ["2"]
    assert len(list(run.folder.blobs_dir.glob("[!.]*"))) == keep
    if keep:
        run["model/checkpoints/2"].download("copy")
        assert Path("copy").read_text() == "two"
    save("1.ckpt")
    update(files, first, second)
    assert sorted(names(run)) == ["1", "2"]


def test_a_file_that_somebody_else_removes_stays_recorded(run, files, keep):
    one, two = save("1.ckpt", "one"), save("2.ckpt", "two")
    update(files, one, two)
    update(files, one, save("3.ckpt", "three"))
    Path(one).unlink()
    files.settle()
    shutil.rmtree("kept")
    files.settle()
    assert sorted(names(run)) == ["1", "2", "3"]
    assert len(list(run.folder.blobs_dir.glob("[!.]*"))) == 3 * keep


def test_a_rewritten_file_is_recorded_anew(run, files, frames):
    path = save("last.ckpt", "short")
    update(files, path)
    run.wait()
    before = frames(run)
    update(files, path)
    run.wait()
    assert frames(run) == before  # what did not change is not taken again
    save("last.ckpt", "a longer content")
    update(files, path)
    assert names(run) == {"last": len("a longer content")}


def test_only_what_this_callback_recorded_is_removed(run, files, keep):
    other = CheckpointSet(run, "model/other/checkpoints", keep=keep)
    path = save("a.ckpt")
    update(files, path, save("a/b.ckpt"))
    update(other, path)
    run["model/checkpoints/note"] = "by hand"
    Path(path).unlink()
    update(files)
    assert sorted(one.path for one in run.session.recorded.attributes("model")) == [
        *("model/checkpoints/a/b", "model/checkpoints/note", "model/other/checkpoints/a")
    ]


def test_a_continued_run_takes_over_references(run):
    """Files of the process before are pruned with the callback that reads its state back."""
    first = CheckpointSet(run, "model/checkpoints")
    one, two = save("1.ckpt"), save("2.ckpt")
    update(first, one, two)
    run["model/checkpoints/foreign"].upload(save("../foreign.ckpt"))
    with seamark.init_run(with_id=run.id, **QUIET) as later:

        def size():
            later.wait()
            return sum(journal.path.stat().st_size for journal in later.folder.journals())

        second = CheckpointSet(later, "model/checkpoints")
        later["begun"] = True
        Path(one).unlink()
        update(second, save("3.ckpt"))
        before = size()
        second.adopt("kept")
        second.settle()
        assert sorted(names(later)) == ["2", "3", "foreign"]
        assert size() < before + 500


def test_a_file_that_cannot_be_looked_at_is_warned_about(run, caplog):
    def probe(location):
        if location.endswith("bad.ckpt"):
            raise PermissionError(location)
        return fingerprint(location)

    files = CheckpointSet(run, "model/checkpoints", probe=probe)
    update(files, save("bad.ckpt"), save("good.ckpt"))
    assert sorted(names(run)) == ["good"]
    assert "bad.ckpt" in caplog.text


def test_a_file_outside_of_the_folder_is_recorded_under_its_file_name(run, files):
    outside, same = save("../outside.ckpt"), save("../other/a.ckpt")
    again, gone = save("../more/a.ckpt"), str(Path("gone/b.ckpt").absolute())
    update(files, save("a.ckpt"), outside, same, again, gone)
    whole = again.removeprefix("/").removesuffix(".ckpt")
    assert sorted(names(run)) == sorted(["a", "outside", "a.ckpt", whole])
    Path(outside).unlink()
    update(files, save("a.ckpt"), same, again)
    assert "outside" not in names(run)


def test_a_removal_that_was_not_written_is_made_up_for(run, files, monkeypatch):
    """While the disk is full, files go away whose records stay; they go when there is room."""
    path = save("a.ckpt")
    update(files, path)
    run.wait()
    with monkeypatch.context() as patched:
        patched.setattr(run.session.recorder.values, "record_op", lambda op: None)
        Path(path).unlink()
        for _ in range(4):
            update(files)
    assert sorted(names(run)) == ["a"]
    files.settle()
    assert names(run) == {}


def test_a_signal_handler_that_raises_meanwhile_is_heard(run, monkeypatch):
    """A time limit means to stop the training, wherever it is; nothing was lost by that."""

    def limit(*_):
        raise TimeoutError

    def interrupted(*_):
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        files = CheckpointSet(run, "model/checkpoints", probe=interrupted)
        with pytest.raises(TimeoutError):
            update(files, save("1.ckpt"))
        with seamark.init_run(with_id=run.id, **QUIET) as later:
            later["begun"] = True
            monkeypatch.setattr(later.session.recorded, "local_reader", interrupted)
            with pytest.raises(TimeoutError):
                CheckpointSet(later, "model/checkpoints").adopt("kept")
    finally:
        signal.signal(signal.SIGUSR1, before)
