from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from seamark.blobs import members_of, reference
from seamark.blobs.names import local_path
from seamark.errors import FileMissingError


def test_members_are_named_as_seen_from_here_or_from_where_the_pattern_starts(
    tmp_path, monkeypatch
):
    for name in ("a.py", "b.txt", "src/c.py", "src/deep/d.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    for target, names in (
        ("a.py", ["a.py"]),
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "src/c.py", "src/deep/d.py"]),
        ("src", ["src/c.py", "src/deep/d.py"]),
        ("src/*", ["src/c.py", "src/deep/d.py"]),
        (["a.py", "src/deep"], ["a.py", "src/deep/d.py"]),
    ):
        found = members_of(target)
        assert sorted(found) == names, target
        assert all(path.is_file() for path in found.values())
    for target in ("nowhere", "*.cpp", "src/**/*.cpp"):
        with pytest.raises(FileMissingError, match="matches one"):
            members_of(target)
    monkeypatch.chdir(tmp_path / "src" / "deep")
    assert sorted(members_of(tmp_path / "src")) == ["c.py", "d.py"]
    assert sorted(members_of(f"{tmp_path}/**/c.py")) == ["src/c.py"]
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
