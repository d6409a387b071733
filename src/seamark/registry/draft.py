"""Drafts of artifact versions: their objects and their sealing.

The folder of a draft has a name that is never listed. Once all of it is on disk, it is renamed
atomically to the digest of its objects: a killed process leaves either the draft or the version. If
several processes seal the same content, the first one wins; the others find its folder and move
their journals into it, because a container may have any number of journals.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from seamark.blobs.draft import DraftBlobs, move_blobs
from seamark.errors import InactiveRunError, JournalError
from seamark.journal.folder import RunFolder
from seamark.journal.safe import make_folder, sync_folder
from seamark.journal.writer import CLOSE_TIMEOUT_S
from seamark.opening.place import expect_writable
from seamark.paths import model_key
from seamark.pictures.printing import is_quiet, progress_bar
from seamark.registry.model import NUMBER, Place
from seamark.run.artifact import OBJECTS, ArtifactObject, Objects, digest_of_objects
from seamark.run.lifecycle import note_finished
from seamark.run.logbook import LogSession
from seamark.run.ranks import EveryRank
from seamark.run.recorded import Recorded

_MEMBERS: Final = 1000
"""Maximum number of objects named by one record."""
_THERE: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST})


def _join(draft: RunFolder, sealed: RunFolder, *, has_records: bool) -> None:
    move_blobs(draft, sealed)  # including those that were lost there
    for journal in draft.journals() if has_records else ():
        make_folder(sealed.journal_dir)
        journal.path.rename(sealed.journal_dir / journal.path.name)
    sync_folder(sealed.journal_dir)
    shutil.rmtree(draft.path, ignore_errors=True)


class DraftSession(LogSession):
    """Session of a draft, which is sent and read only after it is sealed."""

    def __init__(self, place: Place, folder: RunFolder) -> None:
        super().__init__(folder, place.mode)
        self.objects = Objects()
        self._place, self._made_by = place, os.getpid()
        silent = self.recorder.silent
        self._blobs = None if silent else DraftBlobs(folder)
        self.recorded = Recorded(
            folder, EveryRank(disabled=silent), known=list, disabled=silent, settle=self._refuse
        )
        if self.recorder.recording:
            expect_writable(folder)
            self.recorder.to_write()

    def _refuse(self) -> None:
        # Refuse to read a draft, which is not indexed.
        raise InactiveRunError(
            f"{self.recorded.words} cannot be read before it is saved: save() creates a version"
        )

    def expect_own(self) -> None:
        """Raise `InactiveRunError` in a forked child."""
        if self._made_by != os.getpid():
            raise InactiveRunError(
                "this draft belongs to the parent process, which alone can change or save it"
            )

    def add(self, files: Mapping[str, str]) -> None:
        """Add copies of files by object name: all or none."""
        self.objects.expect(files)
        if self._blobs is None:
            return
        if not self.objects and (writer := self.recorder.writer) is not None:
            writer.begin()  # by its header, others know that the process of the draft lives
        total = len(files)
        with progress_bar("Adding files", quiet=is_quiet()) as show:
            stored = self._blobs.store(files.values(), lambda done: show(done, total))
        pairs = zip(files, stored, strict=True)
        self.objects.put([ArtifactObject(name, size, sha256) for name, (sha256, size) in pairs])

    def seal(self) -> tuple[LogSession, bool]:
        """Seal the draft as a version, or join the version with the same objects.

        Return the session of the version, and whether the version existed before. If writing fails,
        an OSError is raised and it stays a draft.
        """
        recorder, draft = self.recorder, self.recorder.folder
        sealed = replace(draft, run=digest_of_objects(self.objects))
        sealed.refuse_links()
        recorder.store_files(None)
        has_records = bool(recorder.writer and recorder.writer.families)
        again = sealed.exists()
        if again:
            recorder.close("stop", CLOSE_TIMEOUT_S)
        else:
            self._record(sealed)
            again = not self._rename(draft, sealed)
        if again:
            _join(draft, sealed, has_records=has_records)
        note_finished(self, draft)
        session = self._place.session((sealed.project, sealed.run))
        session.expect_end()
        session.shipping.begin(recorder.writer)  # even though it has ended
        return session, again

    def _record(self, sealed: RunFolder) -> None:
        writer = self.recorder.writer
        assert writer is not None  # noqa: S101 - a draft begins with it
        lost = sum(writer.dropped.values())
        name, number = model_key(sealed.project, sealed.run), self._place.take_number(sealed)
        self.recorder.values.assign_quietly({"sys/name": name, NUMBER: number})
        writer.claim(OBJECTS, "file_set")
        objects, is_kept = list(self.objects), True
        for at in range(0, len(objects), _MEMBERS):
            members = {one.path: one.record for one in objects[at : at + _MEMBERS]}
            op = {"op": "files", "path": OBJECTS, "members": members}
            is_kept = writer.append_op(op) and is_kept
        if not is_kept or self.recorder.close("stop", CLOSE_TIMEOUT_S) > lost:
            raise JournalError(
                errno.EIO,
                f"{self.recorder.folder.words} is not saved: its journal could not be written",
            )

    def _rename(self, draft: RunFolder, sealed: RunFolder) -> bool:
        """Rename the folder of the draft to that of the version; return False if that exists."""
        assert self._blobs is not None  # noqa: S101 - something is recorded
        self._blobs.sync()
        shutil.rmtree(draft.staging_dir, ignore_errors=True)
        sync_folder(draft.journal_dir)
        sync_folder(draft.path)
        sealed.purged_mark.unlink(missing_ok=True)  # it is wanted again
        try:
            draft.path.rename(sealed.path)
        except OSError as error:
            if error.errno not in _THERE:
                raise
            return False
        sync_folder(sealed.path.parent)
        return True

    def finish(self, reason: str, seconds: float | None = None) -> None:
        """Finish writing, and remove the folder if this process created it."""
        super().finish(reason, seconds)
        if self._blobs is not None and self._made_by == os.getpid():
            shutil.rmtree(self.recorder.folder.path, ignore_errors=True)

    def _start(self) -> None:
        self._open()  # drafts are not indexed

    def _header(self) -> dict[str, Any]:
        return {**super()._header(), "run": None}  # not known yet
