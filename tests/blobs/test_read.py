from __future__ import annotations

import pytest

from seamark.blobs.contents import FolderContents
from seamark.errors import FileMissingError
from seamark.types import File


def test_files_are_written_under_their_name_or_a_given_one(run, tmp_path):
    file = run.files.put(File.from_content("x", extension="txt"))
    assert FolderContents(run.folder).write(file, tmp_path, "some/a").name == "a.txt"
    target = tmp_path / "new" / "b.txt"
    assert FolderContents(run.folder).write(file, target, "a") == target
    assert target.read_text() == "x"
    assert [each.name for each in target.parent.iterdir()] == ["b.txt"]


def test_folders_are_written_as_folders(run, tmp_path):
    source = tmp_path / "shards"
    (source / "x").mkdir(parents=True)
    (source / "x" / "0").write_bytes(b"0")
    (source / "1").write_bytes(b"1")
    run.files.keep("kept", source)
    run.files.refer("referred", source)
    run.files.flush(60)
    for path in ("kept", "referred"):
        target = FolderContents(run.folder).write(run.file(path), tmp_path / path, path)
        assert (target / "x" / "0").read_bytes() == b"0"
        assert (target / "1").read_bytes() == b"1"


def test_references_are_read_where_they_are(run, tmp_path):
    source = tmp_path / "a.ckpt"
    source.write_bytes(b"x")
    run.files.refer("a", source)
    run.files.refer("b", "s3://bucket/x")
    contents = FolderContents(run.folder)
    assert contents.write(run.file("a"), tmp_path / "copy", "a").read_bytes() == b"x"
    source.unlink()
    for path, why in (("a", "does not exist"), ("b", "s3://bucket/x")):
        with pytest.raises(FileMissingError, match=why):
            contents.write(run.file(path), tmp_path / "copy2", path)
    assert not (tmp_path / "copy2").exists()


def test_missing_bytes_say_why(run, tmp_path):
    for facts, why in (
        ({"staged": "00"}, "is not stored yet"),
        ({"lost": "changed"}, "rewritten"),
        ({"lost": "gone"}, "removed"),
        ({"sha256": "0" * 64}, "not in"),
    ):
        with pytest.raises(FileMissingError, match=why):
            FolderContents(run.folder).write({"name": "a", **facts}, tmp_path / "x", "model/a")
        assert not (tmp_path / "x").exists()
