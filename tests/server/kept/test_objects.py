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


def test_what_was_put_is_read(objects):
    objects.put("journals/w/0/1", b"one", b"two", b"")
    assert objects.get("journals/w/0/1") == b"onetwo"
    assert objects.get("journals/w/0/1", 2, 2) == b"et"
    assert objects.get("journals/w/0/1", 4) == b"wo"
    assert objects.get("journals/w/0/1", 4, 100) == b"wo"
    assert objects.get("journals/w/0/1", 100, 5) == b""


def test_nothing_is_ever_overwritten(objects):
    objects.put("a/b", b"first")
    with pytest.raises(FileExistsError):
        objects.put("a/b", b"second")
    assert objects.get("a/b") == b"first"


def test_what_is_not_there_is_said(objects):
    objects.delete("a/b")
    with pytest.raises(FileNotFoundError):
        objects.get("a/b", 0, 10)
    objects.put("a/b", b"x")
    assert objects.get("a/b", 0, 1) == b"x"
    objects.delete("a/b")
    assert [one.name for one in objects.listed()] == []


def test_names_are_listed_by_what_they_begin_with(objects):
    before = time.time_ns() - 2 * 10**9
    for name in ("journals/w1/0/1", "journals/w2/0/1", "blobs/p/.sha256/x", "journalsx/1"):
        objects.put(name, name.encode())
    assert sorted(one.name for one in objects.listed("journals/")) == [
        "journals/w1/0/1",
        "journals/w2/0/1",
    ]
    assert sorted(one.name for one in objects.listed("journals/w2")) == ["journals/w2/0/1"]
    assert [one.name for one in objects.listed("other/")] == []
    assert len([one.name for one in objects.listed()]) == 4
    (found,) = objects.listed("blobs/")
    assert (found.name, found.size) == ("blobs/p/.sha256/x", 17)
    assert before < found.made_ns < time.time_ns() + 2 * 10**9


@pytest.mark.parametrize("name", ["", "../x", "/etc/passwd", "a/../../x", "a//b", "a\0b", "."])
def test_no_name_leads_out_of_the_place(objects, name):
    for call in (lambda: objects.put(name, b""), lambda: objects.get(name)):
        with pytest.raises(ArgumentError):
            call()


def test_of_many_who_write_one_name_one_wins(objects):
    if isinstance(objects, FsspecObjects):
        pytest.skip("names are drawn at random: no two processes write one there")
    results = at_once(*(lambda n=n: objects.put("x/y", b"%d" % n * 1000) for n in range(8)))
    assert sorted(type(result).__name__ for result in results) == ["FileExistsError"] * 7 + [
        "NoneType"
    ]
    assert len(set(objects.get("x/y"))) == 1


def test_nothing_half_written_is_an_object(tmp_path):
    """What a process left is no object, and goes after a day."""
    place = FolderObjects(tmp_path / "o")
    place.put("x/1", b"one")
    left = tmp_path / "o" / ".new" / "left"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    fresh = tmp_path / "o" / ".new" / "fresh"
    fresh.write_bytes(b"half")
    assert [one.name for one in FolderObjects(tmp_path / "o").listed()] == ["x/1"]
    assert not left.exists()
    assert fresh.exists()


def test_a_link_in_the_place_is_not_followed(tmp_path):
    """Whoever can write a link there cannot have other files read."""
    (tmp_path / "secret").write_text("secret")
    place = FolderObjects(tmp_path / "o")
    place.put("x/1", b"one")
    (tmp_path / "o" / "x" / "2").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        place.get("x/2")
    assert [one.name for one in place.listed("x/")] == ["x/1"]


@pytest.mark.parametrize(
    "uri", ["", "relative", "file://host/x", "file:relative", "s3:", "nope://x"]
)
def test_a_place_that_is_none_is_refused(uri):
    with pytest.raises(ArgumentError, match="objects: "):
        open_objects(uri)
