"""A run on its way into a root: nothing of it is seen before it is whole.

It is written to a folder beside its place, under a name with a dot, which no reader looks at, and
renamed at the end. What a killed import left there is removed by the next one, which begins that
run again. Where the run is there already, as when a second process of a resumed run is found,
contents are moved to it first and then journals, each by one renaming.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Final

from seamark.blobs.store import ANYBODY, copy_blob, put_bytes, sync_blob, sync_folder
from seamark.errors import RunExistsError, SeamarkError
from seamark.interchange.journal import GivenJournal
from seamark.journal.folder import RunFolder
from seamark.journal.safe import is_folder, make_folder, names_in, open_folder, remove_entry
from seamark.process.interrupts import let_pass
from seamark.values import escape

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Draft", "NotImportedError", "run_exists_error"]

_LOCK: Final = ".lock"
_FLAGS: Final = os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)
_LONG_TEXT: Final = 1 << 20
"""A text of more characters than this is kept as a blob."""


def run_exists_error(folder: RunFolder) -> RunExistsError:
    """Return the error that says that a run is there already."""
    msg = f"{folder.words} exists below {folder.root}: nothing is written over"
    return RunExistsError(msg)


class NotImportedError(SeamarkError):
    """A run cannot be imported; the others are."""


class Draft:
    """Run that is being written to a temporary folder.

    Args:
        folder: Final folder of the run.

    Attributes:
        folder: Final folder of the run.

    Raises:
        NotImportedError: If the run was purged, or another import is writing it.
        OSError: If the temporary folder cannot be written.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._place = RunFolder(folder.root, folder.project, f".import-{folder.run}")
        self._journals: list[GivenJournal] = []
        self._unsynced: set[str] = set()
        self._placed = False
        if folder.purged_mark.exists():
            msg = f"{folder.words} was purged here"
            raise NotImportedError(msg)
        folder.refuse_links()
        self._place.refuse_links()
        make_folder(self._place.path)
        self._lock = self._locked()
        try:
            self._empty()
        except BaseException:
            os.close(self._lock)
            raise

    def _locked(self) -> int:
        above = open_folder(self._place.path)
        try:
            fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600, dir_fd=above)
        finally:
            os.close(above)
        if not self._try_lock(fd):
            os.close(fd)
            msg = f"{self.folder.words} is being imported by another process"
            raise NotImportedError(msg)
        return fd

    def _try_lock(self, fd: int) -> bool:
        """Lock the file of an open descriptor; return whether the draft is ours then."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have finished meanwhile, and taken the folder with it.
            return os.fstat(fd).st_ino == (self._place.path / _LOCK).stat().st_ino
        except OSError as error:
            let_pass(error)
            return False

    def _empty(self, *, lock: bool = False) -> None:
        above = open_folder(self._place.path)
        try:
            for name in os.listdir(above):
                if lock or name != _LOCK:
                    remove_entry(above, name)
        finally:
            os.close(above)

    # ---------------------------------------------------------------- what is written

    def journal(self, uid: bytes, header: Mapping[str, Any], begun_ns: int) -> GivenJournal:
        """Begin a journal; see `GivenJournal`."""
        run = (self.folder.project, self.folder.run)
        made = GivenJournal(self._place, run, uid, header, begun_ns)
        self._journals.append(made)
        return made

    def keep(self, file: IO[bytes], name: str, ext: str) -> dict[str, Any]:
        """Keep the bytes of an open file, and return its FILE record."""
        sha256, size = copy_blob(self._place, file.fileno())
        return {"name": escape(name), "ext": escape(ext), "size": size, "sha256": sha256}

    def keep_bytes(self, content: bytes, name: str, ext: str) -> dict[str, Any]:
        """Keep bytes, and return their FILE record."""
        sha256 = put_bytes(self._place, content, ANYBODY)
        self._unsynced.add(sha256)
        return {"name": escape(name), "ext": escape(ext), "size": len(content), "sha256": sha256}

    def text(self, text: str) -> Any:
        """Return a text as a point holds it: a very long one is kept as a blob."""
        kept = escape(text)
        if len(kept) <= _LONG_TEXT:
            return kept
        content = kept.encode()
        record = self.keep_bytes(content, "", "txt")
        return {"sha256": record["sha256"], "size": len(content)}

    @contextlib.contextmanager
    def scratch(self) -> Iterator[IO[bytes]]:
        """Give an open file without a name, on the disk of the run."""
        with tempfile.TemporaryFile(dir=self._place.path) as file:
            yield file

    # ---------------------------------------------------------------- the end

    def finish(self, *, alone: bool = False) -> None:
        """Put the run, all of whose journals are closed, in its place.

        Args:
            alone: Whether nothing may be there yet.

        Raises:
            RunExistsError: If something is all the same.
            OSError: If that is impossible.
        """
        for sha256 in self._unsynced:
            sync_blob(self._place, sha256)
        for path in (self._place.blobs_dir, self._place.journal_dir, self._place.path):
            sync_folder(path)
        self.folder.refuse_links()
        if is_folder(self._place.staging_dir):
            os.rmdir(self._place.staging_dir)
        if not self._take_place():
            if alone:
                raise run_exists_error(self.folder)
            self._join()
        sync_folder(self._place.path.parent)

    def _take_place(self) -> bool:
        if self.folder.path.exists():
            return False
        above = open_folder(self._place.path)
        try:
            os.unlink(_LOCK, dir_fd=above)
        finally:
            os.close(above)
        try:
            os.rename(self._place.path, self.folder.path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        self._placed = True
        return True

    def _join(self) -> None:
        """Move what was written to a run that is there already."""
        for mine, theirs in (
            (self._place.blobs_dir, self.folder.blobs_dir),
            (self._place.journal_dir, self.folder.journal_dir),
        ):
            if names := names_in(mine):
                make_folder(theirs)
                _move(mine, theirs, names)

    def close(self) -> None:
        """Leave nothing behind but a run that is whole; harmless when called twice."""
        fd, self._lock = self._lock, -1
        if fd < 0:
            return
        for journal in self._journals:
            journal.release()
        with contextlib.suppress(OSError):
            if not self._placed:  # else there may be somebody else's by now
                self._empty(lock=True)
                os.rmdir(self._place.path)
        os.close(fd)


def _move(source: Path, target: Path, names: list[str]) -> None:
    above, below = open_folder(source), open_folder(target)
    try:
        for name in names:
            os.rename(name, name, src_dir_fd=above, dst_dir_fd=below)
        os.fsync(below)
    finally:
        os.close(above)
        os.close(below)
