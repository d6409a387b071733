from __future__ import annotations

import time

import pytest

from seamark.blobs import draft
from seamark.journal.folder import RunFolder


def test_identical_files_known_from_an_earlier_version_are_linked_once(
    tmp_path, folder, monkeypatch
):
    first, same = tmp_path / "a", tmp_path / "b"
    for path, mode in ((first, 0o644), (same, 0o600)):
        path.write_bytes(bytes(9 << 20))
        path.chmod(mode)
    draft.DraftBlobs(folder).store([str(first)], lambda _: None)
    monkeypatch.delattr(draft, "copy_blob")
    later = RunFolder(folder.root, folder.project, "fedcba9876543210")
    blobs = draft.DraftBlobs(later)
    for path in (first, same):
        ((sha256, _),) = blobs.store([str(path)], lambda _: None)
    (blob,) = later.blobs_dir.iterdir()
    assert blob.name == sha256
    assert blob.samefile(folder.blobs_dir / sha256)
    assert blob.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("stops", ["a file fails", "a later file fails", "the caller stops"])
def test_no_file_is_begun_after_a_failure(tmp_path, folder, monkeypatch, stops):
    """Also not by calls that store many files: they may be large."""
    paths = [str(tmp_path / str(number)) for number in range(256)]
    begun = []
    failing = {"a file fails": paths[0], "a later file fails": paths[16]}.get(stops)
    fast = paths[:16] if failing != paths[16] else paths[16:32]

    def store(self, path):
        begun.append(path)
        if path == failing:
            raise RuntimeError("refused")
        time.sleep(0.0 if path in fast else 0.05)
        return path, 0

    def progress(_):
        raise RuntimeError("refused")

    monkeypatch.setattr(draft.DraftBlobs, "_store", store)
    with pytest.raises(RuntimeError, match="refused"):
        draft.DraftBlobs(folder).store(paths, progress)
    assert len(begun) < 16 + 16
