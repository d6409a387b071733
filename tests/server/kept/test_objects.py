"""Objects: written once, durable, never overwritten; the same promises wherever they lie."""

from __future__ import annotations

import errno
import os
import time

import pytest
from keeping import at_once

from seamark.errors import ArgumentError
from seamark.server.objects import FolderObjects, FsspecObjects, open_objects


@pytest.fixture(params=["folder", "fsspec"])
def objects(request, tmp_path):
    if request.param == "folder":
        made = open_objects((tmp_path / "a place").as_uri())
    else:
        pytest.importorskip("fsspec")
        made = FsspecObjects(f"memory://{tmp_path}")
    yield made
    made.close()


def test_object_is_written_once_read_in_part_listed_and_deleted(objects):
    before = time.time_ns() - 2 * 10**9
    name = "journals/w/0/1"
    objects.delete(name)
    with pytest.raises(FileNotFoundError):
        objects.get(name, 0, 10)
    objects.put(name, b"one", b"two", b"")
    with pytest.raises(FileExistsError):
        objects.put(name, b"second")
    assert objects.get(name) == b"onetwo"
    for where, data in {(2, 2): b"et", (4,): b"wo", (4, 100): b"wo", (100, 5): b""}.items():
        assert objects.get(name, *where) == data, where
    for other in ("journals/w2/0/1", "blobs/p/.sha256/x", "journalsx/1"):
        objects.put(other, other.encode())
    for prefix, found in {
        "journals/": [name, "journals/w2/0/1"],
        "journals/w2": ["journals/w2/0/1"],
        "other/": [],
    }.items():
        assert sorted(one.name for one in objects.listed(prefix)) == found
    assert len([one.name for one in objects.listed()]) == 4
    (found,) = objects.listed("blobs/")
    assert (found.name, found.size) == ("blobs/p/.sha256/x", 17)
    assert before < found.made_ns < time.time_ns() + 2 * 10**9
    objects.delete(name)
    assert [one.name for one in objects.listed("journals/w/")] == []
    for wrong in ("", "../x", "/etc/passwd", "a/../../x", "a//b", "a\0b", "."):
        for call in (objects.get, lambda name: objects.put(name, b"")):
            with pytest.raises(ArgumentError):
                call(wrong)
    if isinstance(objects, FsspecObjects):
        return  # names are drawn at random: no two processes write one there
    results = at_once(*(lambda n=n: objects.put("x/y", b"%d" % n * 1000) for n in range(8)))
    kinds = sorted(type(result).__name__ for result in results)
    assert kinds == ["FileExistsError"] * 7 + ["NoneType"]
    assert len(set(objects.get("x/y"))) == 1


def test_leftovers_and_links_are_no_objects(tmp_path):
    """What a process left half written goes after a day."""
    place = FolderObjects(tmp_path / "o")
    place.put("x/1", b"one")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "o" / "x" / "2").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        place.get("x/2")
    left, fresh = (tmp_path / "o" / ".new" / name for name in ("left", "fresh"))
    for half in (left, fresh):
        half.write_bytes(b"half")
    os.utime(left, (0, 0))
    assert [one.name for one in FolderObjects(tmp_path / "o").listed()] == ["x/1"]
    assert (left.exists(), fresh.exists()) == (False, True)


@pytest.mark.parametrize(
    "uri", ["", "relative", "file://host/x", "file:relative", "s3:", "nope://x"]
)
def test_address_of_no_place_is_refused(uri):
    with pytest.raises(ArgumentError, match="objects: "):
        open_objects(uri)
