"""The set of checkpoints of one callback, on a real run; the callback is played by hand."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from recording import QUIET

import seamark
from seamark.run.adapters import CheckpointSet, checkpoint_name, fingerprint


@pytest.fixture
def run():
    with seamark.init_run(capture={"git": False, "packages": False}) as run:
        yield run


@pytest.fixture
def keep():
    """Whether bytes are kept; tests that differ in that say so by a parameter."""
    return False


both_ways = pytest.mark.parametrize("keep", [False, True], ids=["reference", "keep"])


@pytest.fixture
def files(run, keep):
    return CheckpointSet(run, "model/checkpoints", keep=keep)


def save(name, content="weights"):
    path = Path("kept", name).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return str(path)


def names(run):
    """Read what stands on record, by name and size."""
    run.wait()
    prefix = "model/checkpoints/"
    return {
        one.path.removeprefix(prefix): one.value["size"]
        for one in run.session.recorded.attributes("model/checkpoints")
    }


FOLDER = "kept"


@pytest.mark.parametrize(
    ("location", "folder", "name"),
    [
        ("/a/b/last.ckpt", "/a/b", "last"),
        ("/a/b/last.ckpt", "/a/b/", "last"),
        ("/a/b/val/loss=0.12.ckpt", "/a/b", "val/loss=0.12"),
        ("/a/b/step=1.ckpt/", "/a/b", "step=1"),
        ("/a/other/last.ckpt", "/a/b", ""),
        ("/a/bc/last.ckpt", "/a/b", ""),
        ("/a/b", "/a/b", ""),
        ("s3://bucket/run/last.ckpt", "s3://bucket/run", "last"),
        ("s3://bucket/run/last.ckpt", "s3://bucket/run/", "last"),
        ("s3://bucket/running/last.ckpt", "s3://bucket/run", ""),
        ("/a/b/last.ckpt", None, "a/b/last"),
        ("s3://bucket/last.ckpt", None, "bucket/last"),
    ],
)
def test_names_are_paths_below_the_folder(location, folder, name):
    """Without the extension, whatever kind of place it is; outside of the folder there is none."""
    assert checkpoint_name(location, folder) == name


def test_fingerprint_tells_versions_apart():
    """Of a file, of a link to it, of a folder and of what lies deep in it."""
    path = save("a.ckpt")
    first = fingerprint(path)
    Path("link").symlink_to(path)
    assert first is not None
    assert fingerprint("link") == first
    os.utime(path, ns=(1, 1))
    assert fingerprint(path) != first
    deep = save("folder.ckpt/deep/0.distcp")
    folder = fingerprint("kept/folder.ckpt")
    Path(deep).write_text("longer than before")
    assert fingerprint("kept/folder.ckpt") not in {None, folder}
    assert fingerprint("nothing") is None
    assert fingerprint(path + "/below") is None


@both_ways
def test_what_is_named_is_recorded(run, files):
    """Files that do not exist yet come later."""
    late = str(Path("kept/late.ckpt").absolute())
    files.update([save("a.ckpt"), save("b.ckpt"), late], FOLDER)
    assert sorted(names(run)) == ["a", "b"]
    save("late.ckpt")
    files.settle()
    assert sorted(names(run)) == ["a", "b", "late"]


def test_pruned_after_the_hook(run, files):
    """The callback removes a file after it has named its successor."""
    first, second = save("1.ckpt"), save("2.ckpt")
    files.update([first], FOLDER)
    files.update([second], FOLDER)
    Path(first).unlink()
    assert sorted(names(run)) == ["1", "2"]
    files.update([second], FOLDER)
    assert sorted(names(run)) == ["2"]


def test_forgotten_but_not_removed(run, files):
    """What the callback does not name any more, and leaves on disk, stays on record."""
    for number in range(4):
        files.update([save(f"{number}.ckpt")], FOLDER)
    files.settle()
    assert sorted(names(run)) == ["0", "1", "2", "3"]
    Path("kept/0.ckpt").unlink()  # somebody else, long after
    Path("kept/2.ckpt").unlink()
    files.settle()
    assert sorted(names(run)) == ["0", "1", "3"]


@both_ways
def test_what_somebody_else_removes_stays(run, files, keep):
    """A file that the callback still names, and all of a folder that was temporary."""
    one, two = save("1.ckpt", "one"), save("2.ckpt", "two")
    files.update([one, two], FOLDER)
    files.update([one, save("3.ckpt", "three")], FOLDER)
    Path(one).unlink()
    files.settle()
    shutil.rmtree(FOLDER)
    files.settle()
    assert sorted(names(run)) == ["1", "2", "3"]
    run.wait()
    assert len(list(run.folder.blobs_dir.glob("[!.]*"))) == 3 * keep


@both_ways
def test_rewritten_file_is_recorded_anew(run, files, frames):
    """``last`` has a new content after every save; what did not change is not taken again."""
    path = save("last.ckpt", "short")
    files.update([path], FOLDER)
    run.wait()
    before = frames(run)
    files.update([path], FOLDER)
    run.wait()
    assert frames(run) == before
    save("last.ckpt", "a longer content")
    files.update([path], FOLDER)
    assert names(run) == {"last": len("a longer content")}


def journal_size(run):
    run.wait()
    return sum(journal.path.stat().st_size for journal in run.folder.journals())


def test_removed_and_saved_again(run, files):
    path = save("a.ckpt")
    files.update([path], FOLDER)
    Path(path).unlink()
    files.update([], FOLDER)
    assert names(run) == {}
    save("a.ckpt")
    files.update([path], FOLDER)
    assert sorted(names(run)) == ["a"]


@both_ways
def test_other_sets_are_left_alone(run, files, keep):
    """Pruning removes only what this callback recorded, also where names nest."""
    other = CheckpointSet(run, "model/other/checkpoints", keep=keep)
    path = save("a.ckpt")
    files.update([path, save("a/b.ckpt")], FOLDER)
    other.update([path], FOLDER)
    run["model/checkpoints/note"] = "by hand"
    Path(path).unlink()
    files.update([], FOLDER)
    assert sorted(one.path for one in run.session.recorded.attributes("model")) == [
        "model/checkpoints/a/b",
        "model/checkpoints/note",
        "model/other/checkpoints/a",
    ]


def test_same_name_with_two_extensions(run, files):
    """Neither hides the other."""
    files.update([save("a.ckpt"), save("a.pt")], FOLDER)
    assert len(names(run)) == 2


def test_kept_bytes_go_with_the_record(run):
    """One blob for each content that is still on record."""
    files = CheckpointSet(run, "model/checkpoints", keep=True)
    one, two, same = save("1.ckpt", "one"), save("2.ckpt", "two"), save("3.ckpt", "two")
    files.update([one, two, same], FOLDER)
    Path(one).unlink()
    Path(two).unlink()
    files.update([same], FOLDER)
    run.wait()
    assert len([blob for blob in run.folder.blobs_dir.iterdir() if blob.name[0] != "."]) == 1
    run["model/checkpoints/3"].download("copy")
    assert Path("copy").read_text() == "two"


def test_continued_run_takes_over_references(run):
    """Files of the process before are pruned with the callback that reads its state back."""
    first = CheckpointSet(run, "model/checkpoints")
    one, two = save("1.ckpt"), save("2.ckpt")
    first.update([one, two], FOLDER)
    run["model/checkpoints/foreign"].upload(save("../foreign.ckpt"))
    with seamark.init_run(with_id=run.id, **QUIET) as later:
        second = CheckpointSet(later, "model/checkpoints")
        later["begun"] = True
        Path(one).unlink()
        second.update([save("3.ckpt")], FOLDER)
        size = journal_size(later)
        second.adopt(FOLDER)
        second.settle()
        assert sorted(names(later)) == ["2", "3", "foreign"]
        assert journal_size(later) < size + 500


def test_trouble_is_counted_and_does_not_raise(run, caplog):
    """A place that cannot be looked at; the other files are recorded."""

    def probe(location):
        if location.endswith("bad.ckpt"):
            raise PermissionError(location)
        return fingerprint(location)

    files = CheckpointSet(run, "model/checkpoints", probe=probe)
    files.update([save("bad.ckpt"), save("good.ckpt")], FOLDER)
    assert sorted(names(run)) == ["good"]
    assert "bad.ckpt" in caplog.text


@both_ways
def test_file_that_goes_away_while_it_is_taken(run, files, monkeypatch):
    """Between looking and taking is a moment; what is gone is gone."""
    path = save("a.ckpt")
    files.update([path], FOLDER)
    monkeypatch.setattr(files, "_probe", lambda location: object())
    Path(path).unlink()
    files.update([], FOLDER)
    assert names(run) == {}


def test_what_lies_outside_is_recorded_under_its_file_name(run, files):
    """A name such as ``../best`` leads out of the folder. Each has a name."""
    outside, same = save("../outside.ckpt"), save("../other/a.ckpt")
    again, gone = save("../more/a.ckpt"), str(Path("gone/b.ckpt").absolute())
    files.update([save("a.ckpt"), outside, same, again, gone], FOLDER)
    whole = again.removeprefix("/").removesuffix(".ckpt")
    assert sorted(names(run)) == sorted(["a", "outside", "a.ckpt", whole])
    Path(outside).unlink()
    files.update([save("a.ckpt"), same, again], FOLDER)
    assert "outside" not in names(run)


def test_removal_that_was_not_written_is_made_up_for(run, files, monkeypatch):
    """While the disk is full, files go away whose records stay; they go when there is room."""
    path = save("a.ckpt")
    files.update([path], FOLDER)
    run.wait()
    with monkeypatch.context() as patched:
        patched.setattr(run.session, "record_op", lambda op: None)
        Path(path).unlink()
        for _ in range(4):
            files.update([], FOLDER)
    assert sorted(names(run)) == ["a"]
    files.settle()
    assert names(run) == {}


def test_signal_handler_that_raises_meanwhile_is_heard(run, monkeypatch):
    """A time limit means to stop the training, wherever it is; nothing was lost by that."""

    def limit(*_):
        raise TimeoutError

    def interrupted(*_):
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)
    try:
        files = CheckpointSet(run, "model/checkpoints", probe=interrupted)
        with pytest.raises(TimeoutError):
            files.update([save("1.ckpt")], FOLDER)
        with seamark.init_run(with_id=run.id, **QUIET) as later:
            later["begun"] = True
            monkeypatch.setattr(later.session.recorded, "local_reader", interrupted)
            with pytest.raises(TimeoutError):
                CheckpointSet(later, "model/checkpoints").adopt(FOLDER)
    finally:
        signal.signal(signal.SIGUSR1, before)
