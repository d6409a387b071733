from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from journals import operations

from seamark.blobs import BlobWriter
from seamark.blobs.pending import _header
from seamark.blobs.worker import Job
from seamark.journal.folder import RunFolder
from seamark.journal.writer import JournalWriter
from seamark.paths import is_inside


def names_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


class Recording:
    """A run folder with a journal and a writer of blobs, and what a reader finds in it."""

    def __init__(self, folder):
        self.folder = folder
        self.troubles = []
        self.writer = JournalWriter(folder, _header)
        self.files = BlobWriter(
            folder, self.writer.append_op, self.trouble, writers=lambda: self.writer.writers
        )

    def trouble(self, kind, error):
        self.troubles.append((kind, error))

    @contextmanager
    def held_up(self):
        """Keep the thread from storing anything in the block; at its end all is stored."""
        opened = threading.Event()
        self.files._worker.submit(Job(lambda: opened.wait(60)))
        try:
            yield
        finally:
            opened.set()
        assert self.files.flush(60)

    def ops(self):
        return operations(self.folder.path)

    def file(self, path):
        """The FILE record at a path by table B: the last upload, completed by its digest."""
        current = token = None
        for op in self.ops():
            if op.get("path") == path and op["op"] in ("file", "own"):
                current, token = op["file"], op.get("token")
            elif op.get("path") == path and op["op"] == "digest" and op["token"] == token:
                current = op["file"]
            elif op["op"] == "delete" and any(is_inside(path, each) for each in op["paths"]):
                current = None
        return current

    def member(self, path, name):
        current = None
        for op in self.ops():
            if op["op"] == "files" and op["path"] == path and name in op["members"]:
                current = op["members"][name]
        return current

    def content(self, path):
        file = self.file(path)
        assert "staged" not in file
        return self.folder.blobs_dir.joinpath(file["sha256"]).read_bytes()

    def blobs(self):
        return set(names_in(self.folder.blobs_dir))

    def staged(self):
        return names_in(self.folder.staging_dir)


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "root", "digits", "0123456789abcdef")


@pytest.fixture
def run(folder):
    recording = Recording(folder)
    yield recording
    recording.files.close(10)
    recording.writer.close()


@pytest.fixture
def other_device(tmp_path):
    """A folder on another file system than the run."""
    place = Path("/dev/shm")
    if not place.is_dir() or place.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system here")
    folder = place / f"seamark-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
