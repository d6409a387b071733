from __future__ import annotations

import hashlib
import os
import time

import pytest

from seamark.blobs import store as blobs
from seamark.errors import ArgumentError, FileMissingError


def names(path):
    return sorted(each.name for each in path.iterdir()) if path.is_dir() else []


def test_contents_that_are_not_there_and_names_that_are_no_digest_are_refused(folder):
    for digest in ("", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 65):
        with pytest.raises(ArgumentError, match="sha256"):
            blobs.open_blob(folder, digest)
    with pytest.raises(FileMissingError, match="0000") as error:
        blobs.open_blob(folder, "0" * 64)
    assert isinstance(error.value, FileNotFoundError)
    blobs.remove_blob(folder, "0" * 64)
    blobs.sync_blob(folder, "0" * 64)


@pytest.mark.parametrize("content", [b"", b"x", os.urandom(3_000_000)], ids=len)
def test_bytes_come_back_under_their_digest(folder, content):
    digest = blobs.put_bytes(folder, content)
    assert digest == hashlib.sha256(content).hexdigest()
    with blobs.open_blob(folder, digest) as blob:
        assert blob.read() == content
    inode = blobs.blob_path(folder, digest).stat().st_ino
    assert blobs.put_bytes(folder, content) == digest
    assert blobs.blob_path(folder, digest).stat().st_ino == inode
    assert (names(folder.blobs_dir), names(folder.staging_dir)) == ([digest], [])


def test_a_blob_that_a_power_cut_left_short_is_replaced(folder):
    digest = blobs.put_bytes(folder, b"contents")
    blobs.blob_path(folder, digest).write_bytes(b"")
    assert not blobs.has_blob(folder, digest, 8)
    blobs.put_bytes(folder, b"contents")
    assert blobs.has_blob(folder, digest, 8)


def test_a_staged_file_is_adopted_without_a_copy(folder):
    folder.staging_dir.mkdir(parents=True)
    staged = folder.staging_dir / "ab12"
    staged.write_bytes(b"mine")
    digest, size = blobs.adopt(folder, staged)
    assert (digest, size) == (hashlib.sha256(b"mine").hexdigest(), 4)
    assert blobs.blob_path(folder, digest).stat().st_ino == staged.stat().st_ino
    assert blobs.adopt(folder, staged) == (digest, size)


def test_a_clone_is_made_or_refused_and_never_wrong(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 10_000)
    with (tmp_path / "a").open("rb") as source, (tmp_path / "b").open("wb") as target:
        done = blobs.clone(source.fileno(), target.fileno())
    assert (tmp_path / "b").read_bytes() == (b"x" * 10_000 if done else b"")


def test_a_purged_run_does_not_come_back(folder):
    folder.purged_mark.parent.mkdir(parents=True)
    folder.purged_mark.touch()
    with pytest.raises(OSError, match="purged"):
        blobs.put_bytes(folder, b"late")
    assert not folder.path.exists()


def test_blobs_have_the_permissions_of_other_files(folder, tmp_path):
    (tmp_path / "plain").touch()
    digest = blobs.put_bytes(folder, b"x")
    assert blobs.blob_path(folder, digest).stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_leftovers_are_removed_when_they_are_old_and_not_wanted(folder):
    (folder.staging_dir / "01").mkdir(parents=True)
    (folder.staging_dir / "01" / "inside").touch()
    for name in (".tmp-1", "23", "45"):
        (folder.staging_dir / name).touch()
    blobs.remove_leftovers(folder, {"23"})
    assert names(folder.staging_dir) == [".tmp-1", "01", "23", "45"]
    blobs.remove_leftovers(folder, {"23"}, now_s=time.time() + 7200)
    assert names(folder.staging_dir) == ["23"]
