"""Reservations: one of many that want the same has it, and it never changes."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from seamark.journal.reservations import Reservations


def test_one_of_many_has_it(tmp_path):
    made = Reservations(tmp_path, ".claims", "groups")
    assert made.names() == {}
    assert made.read("a.1") is None
    assert not list(tmp_path.iterdir())
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda holder: made.reserve("a.1", str(holder)), range(8)))
    assert won.count(True) == 1
    assert made.read("a.1").holder == str(won.index(True)).encode()
    assert made.names() == {"a.1": True}
    made.remove("a.1")
    made.remove("a.1")
    assert made.names() == {}


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_a_file_system_without_links(tmp_path, monkeypatch, code):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    made = Reservations(tmp_path, ".numbers")
    assert [made.reserve("1", holder) for holder in "ab"] == [True, False]
    assert made.read("1").holder == b"a"
    assert made.names() == {"1": True}


def test_folders_pipes_and_links_are_no_reservations(tmp_path):
    there, outside = tmp_path / ".numbers", tmp_path / "outside"
    (there / "1").mkdir(parents=True)
    os.mkfifo(there / "2")
    (there / "3").symlink_to(outside)
    made = Reservations(tmp_path, ".numbers")
    assert made.names() == dict.fromkeys("123", False)
    assert not any(made.reserve(name, "a") or made.read(name) for name in "123")
    made.remove("1")
    made.remove("3")
    assert made.names() == dict.fromkeys("12", False)
    assert not outside.exists()
    there.rename(outside)
    there.symlink_to(outside)
    assert made.names() == {}
    assert made.read("1") is None
    with pytest.raises(OSError, match="link"):
        made.reserve("4", "a")
