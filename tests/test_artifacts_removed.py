"""Purged versions of artifacts leave on this disk the contents that others still have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import app

import seamark
from seamark import errors


def save(root, project, files):
    with seamark.init_artifact(name="data", project=project, root=root) as made:
        for name, content in files.items():
            Path(name).write_bytes(content)
            made.add_file(name)
    return made


def purge(root, *versions):
    for words in (["trash", *versions], ["purge", *versions, "--yes"]):
        done = CliRunner().invoke(app, [*words, "--root", str(root)])
        assert done.exit_code == 0, done.output


def blobs(made):
    """Return the contents of a version, and how many names each has on the disk."""
    folder = made.folder.path / "blobs"
    return {path.name: path.stat().st_nlink for path in folder.glob("*")}


def read(root, version, to):
    project, _, name = version.rpartition("/")
    found = seamark.init_artifact(name, project=project, root=root, mode="read-only")
    return {path.name: path.read_bytes() for path in found.download(to).iterdir()}


def test_only_contents_without_a_version_are_removed(tmp_path):
    """Versions share the bytes of common contents; another project has its own."""
    root = tmp_path / "root"
    both, alone, later = b"b" * 5000, b"a" * 6000, b"l" * 7000
    first = save(root, "p", {"both": both, "alone": alone})
    second = save(root, "p", {"both": both, "later": later})
    other = save(root, "q", {"both": both, "alone": alone})
    shared = next(one.sha256 for one in second.objects if one.path == "both")
    assert blobs(first)[shared] == blobs(second)[shared] == 2
    assert blobs(other)[shared] == 1
    purge(root, "p/data:1")
    assert blobs(first) == {}
    assert blobs(second)[shared] == 1
    assert read(root, "p/data:2", tmp_path / "two") == {"both": both, "later": later}
    assert read(root, "q/data:1", tmp_path / "other") == {"both": both, "alone": alone}
    again = save(root, "p", {"both": both, "alone": alone})  # somebody wants it after all
    assert (again.digest, again.version) == (first.digest, 1)
    assert read(root, "p/data:1", tmp_path / "again") == {"both": both, "alone": alone}


def test_a_draft_keeps_contents_of_a_version_that_is_purged(tmp_path):
    """It has linked their bytes before."""
    root = tmp_path / "root"
    save(root, "p", {"both": b"b" * 5000})
    with seamark.init_artifact(name="data", project="p", root=root) as draft:
        draft.add_file("both")
        purge(root, "p/data:1")
        Path("more").write_bytes(b"more")
        draft.add_file("more")
    assert read(root, "p/data", tmp_path / "back") == {"both": b"b" * 5000, "more": b"more"}


def test_an_open_file_is_read_to_its_end_though_its_version_is_purged(tmp_path):
    """Later downloads fail, and leave no parts."""
    root = tmp_path / "root"
    content = os.urandom(3 << 20)
    save(root, "p", {"big": content, "small": b"small"})
    reader = seamark.init_artifact("data", project="p", root=root, mode="read-only")
    with reader.open("big") as file:
        begin = file.read(1000)
        purge(root, "p/data:1")
        assert begin + file.read() == content
    with pytest.raises(errors.SeamarkError):
        reader.download(tmp_path / "back")
    assert not list((tmp_path / "back").rglob("*"))
