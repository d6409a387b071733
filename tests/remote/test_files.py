"""Contents of files are sent elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from seamark.blobs.store import put_bytes
from seamark.journal.folder import RunFolder
from seamark.remote.file import FileRemote
from seamark.remote.files import FileSender, files_of
from seamark.remote.protocol import Unfit, Unreachable


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("seamark.remote.files._FIRST_WAIT_S", 0.01)


def folders(tmp_path):
    return RunFolder(tmp_path / "here", "p", "r"), RunFolder(tmp_path / "there", "p", "r")


def failing(error, fails):
    """Return a remote that fails at these of its calls."""

    class Failing(FileRemote):
        def missing_blobs(self, *given: Any) -> Any:
            if next(fails, False):
                raise error
            return super().missing_blobs(*given)

    return Failing


def test_present_and_later_files_are_sent(tmp_path):
    here, there = folders(tmp_path)
    remote = failing(Unreachable("away"), iter([True, False, True, False]))
    said: list[str] = []
    sender = FileSender(lambda: remote(there.root), said.append, look_s=0.05)
    put_bytes(here, b"first")
    sender.watch(here)
    assert sender.flush(60, here)
    assert files_of(there) == files_of(here)
    put_bytes(here, b"second" * 100_000)
    sender.finish(here)
    assert sender.flush(60, here)
    assert files_of(there) == files_of(here)
    assert len(files_of(there)) == 2
    assert said == []


def test_a_content_that_does_not_fit_its_digest_is_not_sent(tmp_path):
    here, there = folders(tmp_path)
    wrong, right = put_bytes(here, b"wrong"), put_bytes(here, b"right")
    (here.blobs_dir / wrong).write_bytes(b"other")
    sender = FileSender(lambda: FileRemote(there.root), print, look_s=0.05)
    sender.watch(here)
    assert sender.flush(60, here)
    assert files_of(there) == {right: 5}
    assert [each.name for each in there.blobs_dir.iterdir()] == [right]


def test_a_file_that_the_remote_refuses_is_named_once(tmp_path):
    class Small(FileRemote):
        def put_blob(self, run: Any, digest: str, size: int, file: Any) -> None:
            if size > 5:
                raise Unfit("too large")
            super().put_blob(run, digest, size, file)

    here, there = folders(tmp_path)
    for content in (b"large one", b"larger one"):
        put_bytes(here, content)
    small = put_bytes(here, b"small")
    warnings: list[str] = []
    sender = FileSender(lambda: Small(there.root), warnings.append, look_s=0.05)
    sender.watch(here)
    assert sender.flush(60, here)
    assert files_of(there) == {small: 5}
    assert warnings == ["a file of run r is not sent: too large"]
