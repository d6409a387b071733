from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from seamark.blobs import members_of, reference
from seamark.blobs.names import local_path
from seamark.errors import FileMissingError


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("a.py", "b.txt", "src/c.py", "src/deep/d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["nowhere", "*.cpp", "src/**/*.cpp"])
def test_a_pattern_that_matches_nothing_is_refused(tree, target):
    with pytest.raises(FileMissingError, match="matches one"):
        members_of(target)


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("a.py", ["a.py"]),
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/c.py", "src/deep/d.py"]),
        ("src", ["src/c.py", "src/deep/d.py"]),
        ("src/*", ["src/c.py", "src/deep/d.py"]),
        (["a.py", "src/deep"], ["a.py", "src/deep/d.py"]),
    ],
)
def test_members_are_named_as_seen_from_here(tree, target, names):
    found = members_of(target)
    assert sorted(found) == names
    assert all(path.is_file() for path in found.values())


def test_members_from_elsewhere_are_named_from_where_the_pattern_starts(tree, monkeypatch):
    monkeypatch.chdir(tree / "src" / "deep")
    assert sorted(members_of(tree / "src")) == ["c.py", "d.py"]
    assert sorted(members_of(f"{tree}/**/c.py")) == ["src/c.py"]
    assert sorted(members_of("../../a.py")) == ["a.py"]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("s3://bucket/a b.ckpt", "s3://bucket/a b.ckpt"),
        ("https://me:pw@host:80/x", "https://host:80/x"),
        ("https://h/x?v=a@b&page=1#c", "https://h/x?v=a@b&page=1#c"),
        ("http://[broken@x/y", "http://x/y"),
        ("zip::s3://u:p@b/x.zip", "zip::s3://b/x.zip"),
    ],
)
def test_references_hold_no_passwords(url, kept):
    assert reference(url) == kept


def test_urls_are_told_from_paths(tmp_path, monkeypatch):
    class CloudPath:
        def __str__(self):
            return "s3://bucket/x"

        def __fspath__(self):
            raise AssertionError

    monkeypatch.chdir(tmp_path)
    assert local_path("x") == str(tmp_path / "x")
    assert local_path(PurePosixPath("/a/b")) == "/a/b"
    assert local_path("file:///a%20b") == "/a b"
    assert local_path("memory://x") is None
    assert local_path("zip::s3://b/x.zip") is None
    assert local_path(CloudPath()) is None
