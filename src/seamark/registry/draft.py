"""A version of an artifact on its way: its objects, and how it becomes one.

The folder of a draft has a name that nothing lists. It is renamed to the digest of its objects once
all of it is on disk, which a file system does at one moment: who is killed leaves the draft or the
version. Of several that seal the same content one is first; the others find its folder there, and
put what they have to say into it: a journal is a file, and a container has as many as there are.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs.draft import DraftBlobs, move_blobs
from seamark.blobs.store import sync_folder
from seamark.errors import InactiveRunError, JournalError
from seamark.journal.folder import RunFolder
from seamark.journal.safe import make_folder
from seamark.journal.writer import CLOSE_TIMEOUT_S
from seamark.opening.place import expect_writable
from seamark.paths import model_key
from seamark.pictures.progress import progress_bar
from seamark.process.quiet import is_quiet
from seamark.run import at_exit
from seamark.run.logbook import LogSession
from seamark.run.objects import OBJECTS, ArtifactObject, Objects, digest_of_objects
from seamark.run.recorded import Recorded

if TYPE_CHECKING:
    from seamark.reading.reader import Reader
    from seamark.run.recorder import Recorder

__all__ = ["Draft", "DraftSession"]

_NUMBER: Final = "sys/version"
_MEMBERS: Final = 1000
"""How many objects one record names."""
_THERE: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class Draft:
    """The objects of an artifact that is not sealed yet.

    Attributes:
        objects: What it consists of so far.

    Args:
        recorder: Of the draft; None where nothing is recorded.
    """

    def __init__(self, recorder: Recorder | None) -> None:
        self.objects = Objects()
        self._recorder = recorder
        self._blobs = DraftBlobs(recorder.folder) if recorder is not None else None
        self._pid = os.getpid()

    def expect_own(self) -> None:
        """Refuse to work on a draft in a forked child, beside its parent.

        Raises:
            InactiveRunError: If this is one.
        """
        if self._pid != os.getpid():
            msg = "this draft is the parent process's: only that one adds to it and saves it"
            raise InactiveRunError(msg)

    def add(self, files: Mapping[str, str]) -> None:
        """Add copies of files: all, or none.

        Args:
            files: Where the bytes are, by the names of the objects.

        Raises:
            ArgumentError: If a name cannot be that of an object, or something is there.
            FileMissingError: If a file is gone, or changed while it is read.
            OSError: If one cannot be copied.
        """
        self.objects.expect(files)
        if self._blobs is None:
            return
        names, total = list(files), len(files)
        with progress_bar("Adding files", quiet=is_quiet()) as show:
            stored = self._blobs.store(files.values(), lambda done: show(done, total))
        pairs = zip(names, stored, strict=True)
        self.objects.put([ArtifactObject(name, size, sha256) for name, (sha256, size) in pairs])

    def seal(self, number: Callable[[RunFolder], int]) -> tuple[RunFolder, bool]:
        """Make a version of the draft, or a part of the version that it is.

        Args:
            number: Takes the number of a version, given its folder.

        Returns:
            The folder of the version, and whether it was there before.

        Raises:
            OSError: If the disk refuses; it stays a draft.
        """
        recorder = self._recorder
        assert recorder is not None  # noqa: S101 - asked by the caller
        assert self._blobs is not None  # noqa: S101 - likewise
        draft = recorder.folder
        sealed = RunFolder(draft.root, draft.project, digest_of_objects(self.objects))
        sealed.refuse_links()
        recorder.store_files(None)
        said = bool(recorder.writer and recorder.writer.families)
        if sealed.is_there():
            recorder.close("stop", CLOSE_TIMEOUT_S)
            _join(draft, sealed, said=said)
            return sealed, True
        self._record(
            recorder, {"sys/name": model_key(sealed.project, sealed.run), _NUMBER: number(sealed)}
        )
        self._blobs.sync()
        shutil.rmtree(draft.staging_dir, ignore_errors=True)
        sync_folder(draft.journal_dir)
        sync_folder(draft.path)
        sealed.purged_mark.unlink(missing_ok=True)  # somebody wants it again
        try:
            draft.path.rename(sealed.path)
        except OSError as error:
            if error.errno not in _THERE:
                raise
            _join(draft, sealed, said=said)
            return sealed, True
        sync_folder(sealed.path.parent)
        return sealed, False

    def _record(self, recorder: Recorder, facts: Mapping[str, Any]) -> None:
        """Record the objects, as the last that the draft has to say.

        Raises:
            JournalError: If the disk does not take it.
        """
        writer = recorder.writer
        assert writer is not None  # noqa: S101 - a draft begins with it
        lost = sum(writer.dropped.values())
        recorder.assign_quietly(facts)
        writer.claim(OBJECTS, "file_set")
        objects = list(self.objects)
        written = [
            writer.append_op(
                {
                    "op": "files",
                    "path": OBJECTS,
                    "members": {one.path: one.record for one in objects[at : at + _MEMBERS]},
                }
            )
            for at in range(0, len(objects), _MEMBERS)
        ]
        if not all(written) or recorder.close("stop", CLOSE_TIMEOUT_S) > lost:
            msg = f"{recorder.folder.words} is not saved: the disk did not take its journal"
            raise JournalError(errno.EIO, msg)

    def drop(self) -> None:
        """Remove what there is of it on disk, if this process made it."""
        if self._recorder is not None and self._pid == os.getpid():
            shutil.rmtree(self._recorder.folder.path, ignore_errors=True)


def _join(draft: RunFolder, sealed: RunFolder, *, said: bool) -> None:
    """Put what a draft has to say into the version that was there before it.

    Args:
        draft: Its folder; nothing is left of it.
        sealed: That of the version, with the same objects.
        said: Whether it has anything to say beside its objects.

    Raises:
        OSError: If the disk refuses.
    """
    move_blobs(draft, sealed)  # also what was lost of them there
    for journal in draft.journals() if said else ():
        make_folder(sealed.journal_dir)
        journal.path.rename(sealed.journal_dir / journal.path.name)
    sync_folder(sealed.journal_dir)
    shutil.rmtree(draft.path, ignore_errors=True)


class _UnreadDraft(Recorded):
    """Refuses to read a draft, of which no index knows."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read; see `view`."""
        return self.silent

    def view(self) -> Reader:
        """Refuse.

        Raises:
            InactiveRunError: Always.
        """
        msg = f"{self.words} cannot be read before it is saved: save() makes a version of it"
        raise InactiveRunError(msg)


class DraftSession(LogSession):
    """Part of one process in a draft: it is sent and read once it is sealed.

    Args:
        folder: Where it lies.
        mode: See ``init_run``.
        number: Takes the number of a version, given its folder.
        sealed: Returns this process's part in a version, given its folder.

    Attributes:
        draft: The objects.
    """

    def __init__(
        self,
        folder: RunFolder,
        mode: str,
        *,
        number: Callable[[RunFolder], int],
        sealed: Callable[[RunFolder], LogSession],
    ) -> None:
        super().__init__(folder, mode)
        self._number, self._sealed = number, sealed
        silent = self.recorder.silent
        self.recorded = _UnreadDraft(folder, silent=lambda: silent, known=list, disabled=silent)
        self.draft = Draft(None if silent else self.recorder)
        if self.recorder.recording:
            expect_writable(folder)
            self.recorder.to_write()  # so that it is known whose draft it is

    def seal(self) -> tuple[LogSession, bool]:
        """Make a version of the draft.

        Returns:
            This process's part in the version, and whether the version was there before.

        Raises:
            OSError: If the disk refuses; it stays a draft.
        """
        folder, again = self.draft.seal(self._number)
        at_exit.settle(self, self._key)
        session = self._sealed(folder)
        session.expect_end()
        session.shipping.begin(self.recorder.writer)  # which has ended, and is not to be forgotten
        return session, again

    def finish(self, reason: str, seconds: float | None = None) -> None:
        """Finish writing, and drop the draft; may be called twice."""
        super().finish(reason, seconds)
        self.draft.drop()

    def _start(self) -> None:
        self._open()  # and no index is to know of it

    def _header(self) -> dict[str, Any]:
        return {**super()._header(), "run": None}  # which is not known yet
