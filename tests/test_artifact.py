from __future__ import annotations

import hashlib
import os

import pytest

from seamark.errors import FileMissingError
from seamark.run.artifact import artifact_hash, artifact_op, track


@pytest.fixture
def data(tmp_path):
    for name in ("train/a.csv", "train/b.csv", "test.csv"):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path / "data"


def test_mistakes_are_told_at_the_call(data):
    """A path where nothing is."""
    with pytest.raises(FileMissingError):
        artifact_op("a", "tracked", data / "nowhere")


def test_folders_files_patterns_and_references(data):
    """Names are relative to what was given, and can be put below a folder."""
    files, references = track([data, "s3://me:pw@bucket/x"])
    assert [file["path"] for file in files] == ["test.csv", "train/a.csv", "train/b.csv"]
    assert references == ["s3://bucket/x"]
    assert [file["path"] for file in track(data / "test.csv")[0]] == ["test.csv"]
    found, _ = track(f"{data}/**/*.csv", destination="/sets/1/")
    assert {file["path"] for file in found} == {
        "sets/1/test.csv",
        "sets/1/train/a.csv",
        "sets/1/train/b.csv",
    }


def test_a_file_is_known_by_size_time_and_digest(data):
    """No bytes are kept, and what is kept tells every change."""
    (file,) = track(data / "test.csv")[0]
    stat = (data / "test.csv").stat()
    assert file == {
        "path": "test.csv",
        "size": 8,
        "sha256": hashlib.sha256(b"test.csv").hexdigest(),
        "mtime_ns": stat.st_mtime_ns,
        "ref": str(data / "test.csv"),
        "inode": stat.st_ino,
    }


def test_the_hash_tells_names_and_contents_and_nothing_else(data):
    """Equal data have equal hashes, wherever and whenever they were written."""
    before = artifact_op("a", "input", data)
    os.utime(data / "test.csv", (1, 1))
    assert artifact_op("b", "output", [data])["hash"] == before["hash"]
    (data / "test.csv").write_text("changed!")
    after = artifact_op("a", "input", data)
    assert after["hash"] != before["hash"]
    assert artifact_hash(after["files"], ["s3://x"]) != after["hash"]
    assert artifact_hash(reversed(after["files"]), []) == after["hash"]


def test_tracking_more_keeps_what_was_tracked(data):
    """A second call adds, and replaces files of the same name."""
    first = artifact_op("a", "tracked", [data / "train", "s3://x"])
    (data / "train" / "a.csv").write_text("new")
    second = artifact_op(
        "a", "tracked", [data / "train" / "a.csv", data / "test.csv"], previous=first
    )
    assert [file["path"] for file in second["files"]] == ["a.csv", "b.csv", "test.csv"]
    assert second["files"][0]["size"] == 3
    assert second["references"] == ["s3://x"]
