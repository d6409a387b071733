from __future__ import annotations

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
