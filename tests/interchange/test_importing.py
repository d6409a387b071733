"""Imports of several runs, one after the other."""

from __future__ import annotations

from seamark.interchange.importing import find_neptune, import_runs


def test_progress_is_reported_within_a_run(training, root):
    (folder,) = (training / ".neptune" / "offline").iterdir()
    found, _ = find_neptune(root, folder, project="digits")
    seen = []
    import_runs(found, lambda done, total: seen.append((done, total)))
    assert len(seen) > len(found) + 10
    assert seen == sorted(seen)
    assert seen[-1] == (found[0].size, found[0].size)
