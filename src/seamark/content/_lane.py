"""The lane in which files travel into a run."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Any, Final

from seamark.content._hold import (
    ChangedError,
    Hold,
    Patience,
    look,
    read_small,
    take,
)
from seamark.content._jobs import BytesJob, DigestJob, StoreJob, SyncJob, Target, tree_bytes
from seamark.content._memory import Contents, Sources, digests_of
from seamark.content._names import (
    extension_of,
    file_record,
    local_path,
    reference,
    walk_files,
)
from seamark.content._prune import Mentions, PruneJob
from seamark.content._refused import Late, Refused, contents_of
from seamark.content._worker import Worker
from seamark.errors import FileMissingError
from seamark.journal._format import Kind
from seamark.journal.blobs import (
    Stamp,
    copy_blob,
    has_blob,
    narrow_blob,
    open_source,
    put_bytes,
    remove_blob,
)
from seamark.paths import is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from seamark.journal.folder import RunFolder
    from seamark.types import File

__all__ = ["ContentLane"]

_MAX_OPEN: Final = 64
"""Files on other file systems that may be held open; further ones are copied at once."""

_MEMBERS_AN_OP: Final = 100
"""Members of a file set that are recorded together; longer ops are compressed in the journal."""


class ContentLane:
    """Takes files into one run.

    Every method that takes a file has hold of its bytes when it returns. All may be called from any
    thread and after a fork; none of them lets trouble with a disk out, but a file that does not
    exist is a mistake and raises.

    Args:
        folder: The run.
        record: Appends one record to the journal: an OP, unless its kind is given too.
        trouble: Told of every file that could not be stored (what happened, and the error); warns
            once and counts.
        takes: Tells whether files at an attribute path are this process's to record; all are if
            left out.
    """

    def __init__(
        self,
        folder: RunFolder,
        record: Callable[..., None],
        trouble: Callable[[str, BaseException | None], None],
        takes: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.folder = folder
        self._record = record
        self._trouble = trouble
        self._takes = takes
        self._worker = Worker(trouble)
        self._jobs: list[StoreJob] = []
        self._sources = Sources()
        self._unsynced = SyncJob(folder)
        self._refused = Refused()
        self.contents = Contents()
        self.mentions = Mentions(folder)

    # ---------------------------------------------------------------- taking

    def put(self, file: File) -> dict[str, Any]:
        """Store a file before this returns, and return its FILE record.

        A file that is being written meanwhile is marked as ``"changed"``; one that could not be
        stored has no digest but ``"lost"``.

        Raises:
            FileMissingError: If there is no such file on disk.
            OSError: If it cannot be read.
        """
        record = self._put(file)
        self.contents.hand_out(record)
        return record

    def put_text(self, text: str) -> dict[str, Any]:
        """Store a text like `put`, and return what names it in a record: digest and size."""
        content = text.encode("utf-8", "backslashreplace")
        sha256 = self._put_bytes(content)
        self.contents.hand_out({"sha256": sha256})
        return {"sha256": sha256, "size": len(content)}

    def _put(self, file: File) -> dict[str, Any]:
        if file.content is not None:
            return self._put_content(file.content, file.name, file.extension)
        source = look(str(file.path))[0]
        if not os.path.isdir(source):
            return self._store_now(source, file.name, file.extension)
        members: dict[str, list[Any]] = {}
        for name, path in walk_files(source).items():
            part = self._store_now(os.path.realpath(path), name, "")
            members[name] = [part["size"], part.get("sha256")]
        size = sum(size for size, _ in members.values())
        sha256 = self._put_bytes(tree_bytes(members))
        return file_record(
            file.name, file.extension, size, dir=True, sha256=sha256, members=members
        )

    def upload(self, path: str, file: File, *, wait: bool = False) -> None:
        """Take a file, or a folder, as the file at an attribute path.

        Args:
            path: Attribute path.
            file: On disk or in memory.
            wait: Return only when it is stored.

        Raises:
            FileMissingError: If there is no such file on disk.
            OSError: If it cannot be read.
        """
        if not self._takes(path):
            return
        if file.content is not None:
            name = f"{path.rpartition('/')[2]}.{file.extension}".rstrip(".")
            with self._worker.lock:  # nothing is pruned between storing and recording
                self._record_file(path, self._put_content(file.content, name, file.extension))
        else:
            self._take(path, str(file.path), file.extension, strict=False)
        if wait:
            self.flush()

    def keep(self, path: str, target: str | os.PathLike[str]) -> None:
        """Take a checkpoint, which may be a folder.

        Raises:
            FileMissingError: If it does not exist (yet).
            OSError: If it cannot be read.
        """
        if self._takes(path):
            self._take(path, os.path.abspath(target), None, strict=True)

    def upload_members(self, path: str, members: Mapping[str, str | os.PathLike[str]]) -> None:
        """Take files as members of the file set at an attribute path.

        Raises:
            FileMissingError: If one does not exist; nothing is taken then.
            OSError: If one cannot be read.
        """
        if not self._takes(path):
            return
        found = {name: look(os.fspath(target))[0] for name, target in members.items()}
        for name, source in found.items():
            if os.path.isdir(source):
                msg = f"expected files as members of a file set, got the folder {name!r}"
                raise FileMissingError(msg)
        complete: dict[str, dict[str, Any]] = {}
        for name, source in found.items():
            own, ext = name.rpartition("/")[2], extension_of(name)
            record = self._at_once(source, own, ext)
            if record is None:
                self._own(path, source, {"": source}, own, ext, member=name, strict=False)
                continue
            self.contents.hand_out(record)
            with self._worker.lock:
                if self._refused.missing(digests_of(record)):
                    self._record_late(path, name, record)
                    continue
            complete[name] = record
            if len(complete) == _MEMBERS_AN_OP:
                self._record({"op": "files", "path": path, "members": complete})
                complete = {}
        if complete:
            self._record({"op": "files", "path": path, "members": complete})

    def refer(self, path: str, target: str | os.PathLike[str]) -> None:
        """Record where a file or folder is, without taking its bytes; its digest follows.

        Args:
            path: Attribute path.
            target: On this machine, or a URL such as ``s3://bucket/last.ckpt``, which is not
                touched, and loses user, password and secrets in its query.

        Raises:
            FileMissingError: If nothing is there on this machine.
            OSError: If it cannot be looked at.
        """
        if not self._takes(path):
            return
        here = local_path(target)
        if here is None:
            url = reference(str(target))
            name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
            self._record_file(path, file_record(name, extension_of(name), None, ref=url))
            return
        source, found = look(here)
        name, token = os.path.basename(here), secrets.token_hex(8)
        folder = os.path.isdir(source)
        inside = walk_files(source) if folder else {"": source}
        sources = {each: (at, Stamp.of(os.stat(at))) for each, at in inside.items()}
        stamps = [stamp for _, stamp in sources.values()]
        file = file_record(
            name,
            extension_of(name),
            sum(stamp.size for stamp in stamps),
            ref=here,
            mtime_ns=max((stamp.mtime_ns for stamp in stamps), default=found.st_mtime_ns),
            inode=found.st_ino,
            dir=folder or None,
            members={each: [at[1].size, None] for each, at in sources.items()} if folder else None,
        )
        sha256 = None if folder else self._sources.digest_of(source, stamps[0])
        if sha256 is not None:
            self._record_file(path, file | {"sha256": sha256})
            return
        self._record_file(path, file, token)
        self._worker.submit(DigestJob(self, Target(path, token, None, file), sources))

    # ---------------------------------------------------------------- letting go

    def forget(self, path: str, names: Iterable[str] | None = None) -> None:
        """Complete nothing that is still on its way to an attribute that was deleted.

        Args:
            path: Attribute path or namespace.
            names: Members of the file set at the path; None is all of it.
        """
        gone = None if names is None else set(names)
        with self._worker.lock:
            for job in self._jobs:
                job.targets = [
                    each
                    for each in job.targets
                    if not (is_inside(each.path, path) and (gone is None or each.name in gone))
                ]
            self._refused.forget(path, gone)

    def prune(self, path: str) -> None:
        """Remove the bytes that this lane took as the file at a path, if nothing else has them.

        To be called after the attribute was deleted. What another process recorded with the same
        content stays, and so does everything that this lane did not take.
        """
        self.forget(path)
        with self._worker.lock:
            digests = self.contents.pop(path)
        if digests:
            self._worker.submit(PruneJob(self, digests))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything taken is stored; what the disk refused is tried again.

        Args:
            timeout_s: Seconds; None waits without end.

        Returns:
            Whether everything is.
        """
        return self._worker.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Wait like `flush`; after that nothing is recorded any more.

        What is staged and not stored by then is left to `finish_staged`.
        """
        if self._worker.stop(timeout_s):
            with contextlib.suppress(OSError):  # not empty: another process has something there
                self.folder.staging_dir.rmdir()

    # ---------------------------------------------------------------- records with contents

    @property
    def refuses(self) -> bool:
        """Whether some content that was given is not stored; records may have to wait for it."""
        return bool(self._refused)

    def postpones(self, record: Mapping[str, Any], path: str, kind: int = Kind.OP) -> bool:
        """Take over a record that names a content which the disk refused.

        It is appended once the content is stored; without it if that never happens, and not at all
        if it would say nothing then.

        Args:
            record: A point of a file series, a text of a series, or an op that assigns one text.
            path: Its attribute path.
            kind: Kind of frame.

        Returns:
            False if it names nothing of the kind, and has to be appended as it is.
        """

        def tell(stored: bool) -> None:  # noqa: FBT001
            if stored:
                self._record(record, kind)
            elif "file" in record:
                self._record({**record, "file": _lost(record["file"])}, kind)

        needs = contents_of(record)
        with self._worker.lock:
            if missing := self._refused.missing(needs):
                self._refused.add(Late(path, None, missing, tell))
            return bool(missing) or self._refused.is_lost(needs)

    def replace(self, paths: Iterable[str]) -> None:
        """Let no text follow at paths to which something else was assigned meanwhile."""
        with self._worker.lock:
            self._refused.replace(paths)

    # ---------------------------------------------------------------- for the jobs

    def complete(self, job: StoreJob, found: dict[str, Any]) -> bool:
        """Record that a job is stored; False if nothing may be recorded any more."""
        with self._worker.lock:
            if self._worker.stopped:
                return False
            self._end(job)
            if not found["sha256"]:
                found = {key: each for key, each in found.items() if key != "sha256"}
                found |= {"lost": "changed"}
            for target in job.targets:
                file = {key: value for key, value in target.file.items() if key != "staged"} | found
                if "lost" not in file and target.name is None:
                    self.contents.put(target.path, file)
                self._record(target.op(file))
            hold = job.holds.get("")
            if hold is not None and hold.settled and not found.keys() & {"lost", "changed"}:
                self._sources.remember(hold.source, hold.stamp, found["sha256"])
            if not job.targets:  # deleted while it was stored
                members = found.get("members", {}).values()
                digests = {found.get("sha256"), *(digest for _, digest in members)} - {None}
                self._worker.submit(PruneJob(self, frozenset(digests)))
        return True

    def withdraw(self, job: StoreJob) -> None:
        """Take note that a job is not needed any more."""
        with self._worker.lock:
            self._end(job)

    def complete_reference(self, job: DigestJob, found: dict[str, Any]) -> None:
        """Record the digest of a reference."""
        with self._worker.lock:
            if self._worker.stopped:
                return
            self._record(job.target.op(job.target.file | found))
            if "" in job.sources:
                self._sources.remember(*job.sources[""], found["sha256"])

    def note_changed(self, hold: Hold) -> None:
        """Learn that a file is rewritten in place, and say that a version of it is lost."""
        self._sources.note_rewritten(hold.source)
        self._trouble("rewritten before it was copied", ChangedError(hold.source))

    def stored(self, sha256: str) -> None:
        """Record what waited for a content that the disk takes now."""
        with self._worker.lock:
            if self._worker.stopped:
                return
            unwanted = self._refused.was_unwanted(sha256)
            for late in self._refused.settle(sha256, stored=True):
                late.tell(True)  # noqa: FBT003
                unwanted = False
            if unwanted:
                self._worker.submit(PruneJob(self, frozenset([sha256])))

    def lost(self, sha256: str) -> None:
        """Record without it what waited for a content that will not be stored."""
        with self._worker.lock:
            for late in self._refused.settle(sha256, stored=False):
                late.tell(False)  # noqa: FBT003

    def forget_refused(self) -> None:
        """Leave to the parent, in a forked child, what waits for contents."""
        self._refused.clear()

    def drop(self, sha256: str) -> None:
        """Remove a blob, if this lane recorded it nowhere else.

        Raises:
            OSError: If it cannot be removed.
        """
        with self._worker.lock:
            if not self.contents.has(sha256):
                remove_blob(self.folder, sha256)

    # ---------------------------------------------------------------- inside

    def _take(self, path: str, target: str, ext: str | None, *, strict: bool) -> None:
        source, _ = look(target)
        name = os.path.basename(target)
        ext = extension_of(name) if ext is None else ext
        if os.path.isdir(source):
            self._own(path, source, walk_files(source), name, ext, strict=strict)
            return
        with self._worker.lock:  # nothing is pruned between storing and recording
            file = self._at_once(source, name, ext)
            if file is not None:
                self._record_file(path, file)
                return
        self._own(path, source, {"": source}, name, ext, strict=strict)

    def _at_once(self, source: str, name: str, ext: str) -> dict[str, Any] | None:
        """Return the FILE record of a file that is known or small, None for one to be held."""
        stamp = Stamp.of(os.stat(source))
        sha256 = self._sources.digest_of(source, stamp)
        if sha256 is not None and has_blob(self.folder, sha256, stamp.size):
            return file_record(name, ext, stamp.size, sha256=sha256)
        small = read_small(source)
        if small is None:
            return None
        content, stamp, settled = small
        file = self._put_content(content, name, ext)
        narrow_blob(self.folder, file["sha256"], source)
        if settled:
            self._sources.remember(source, stamp, file.get("sha256"))
        return file

    def _own(
        self,
        path: str,
        source: str,
        inside: dict[str, str],
        name: str,
        ext: str,
        *,
        member: str | None = None,
        strict: bool,
    ) -> None:
        """Take hold of a large file or a folder, record that, and leave the rest to the thread."""
        token = secrets.token_hex(8)
        folder = "" not in inside
        key = (source, Stamp.of(os.stat(source)))
        with self._worker.lock:
            for held in self._jobs:
                if (held.key, held.strict, held.done) == (key, strict, False) and held.targets:
                    self._record_own(held, path, token, name, ext, member)
                    return
        job = self._hold(inside, token, folder=folder, strict=strict)
        try:
            with self._worker.lock:
                self._record_own(job, path, token, name, ext, member)
                self._jobs.append(job)
        except BaseException:
            job.release()
            raise
        if not folder:
            self._sources.remember(source, job.holds[""].stamp, None)
        self._worker.submit(job)

    def _hold(self, inside: dict[str, str], token: str, *, folder: bool, strict: bool) -> StoreJob:
        place = self._staging(token) if folder else None
        job, patience = StoreJob(self, {}, [], place, strict), Patience()
        try:
            for name, each in inside.items():
                source = os.path.realpath(each)
                staged = self._staging(token) if place is None else place / name
                self._make_room(staged)
                job.holds[name] = self._take_hold(source, staged, job, patience)
        except BaseException:
            job.release()
            raise
        return job

    def _take_hold(self, source: str, staged: Path, job: StoreJob, patience: Patience) -> Hold:
        copy = self._sources.is_rewritten(source, Stamp.of(os.stat(source)))
        with self._worker.lock:
            holds = [hold for each in (*self._jobs, job) for hold in each.holds.values()]
        scarce = sum(hold.fd is not None for hold in holds) >= _MAX_OPEN
        try:
            return take(source, staged, patience, copy=copy, scarce=scarce)
        except ChangedError:  # while it was copied: another process is writing it
            return take(source, staged, patience)

    def _record_own(
        self, job: StoreJob, path: str, token: str, name: str, ext: str, member: str | None
    ) -> None:
        """Record that a job holds what belongs at a path."""
        holds = job.holds
        stamps = [hold.stamp for hold in holds.values()]
        only = holds.get("")
        staged = job.place if job.place is not None else only.staged if only is not None else None
        file = file_record(
            name,
            ext,
            sum(stamp.size for stamp in stamps),
            mtime_ns=max((stamp.mtime_ns for stamp in stamps), default=None),
            inode=only.stamp.inode if only is not None else None,
            staged=staged.name if staged is not None else None,
            source=only.source if only is not None and only.fd is not None else None,
            dir=True if job.place is not None else None,
            members={key: [hold.stamp.size, None] for key, hold in holds.items()}
            if job.place is not None
            else None,
        )
        target = Target(path, token, member, file)
        self._record(target.taken())
        job.targets.append(target)

    def _record_file(self, path: str, file: dict[str, Any], token: str | None = None) -> None:
        op = {"op": "file", "path": path, "file": file}
        with self._worker.lock:
            if self._refused.missing(digests_of(file)):
                self._record_late(path, None, file)
                return
            self._record(op if token is None else op | {"token": token})
            if "ref" not in file:
                self.contents.put(path, file)

    def _record_late(self, path: str, name: str | None, file: dict[str, Any]) -> None:
        """Record that a file is taken, and its digest once the disk takes the bytes."""
        taken = {key: value for key, value in file.items() if key != "sha256"}
        target = Target(path, secrets.token_hex(8), name, taken)

        def tell(stored: bool) -> None:  # noqa: FBT001
            if stored and name is None:
                self.contents.put(path, file)
            self._record(target.op(file if stored else _lost(file)))

        self._record(target.taken())
        missing = self._refused.missing(digests_of(file))
        self._refused.add(Late(path, name, missing, tell, taken=True))

    def _end(self, job: StoreJob) -> None:
        job.done = True
        if job in self._jobs:
            self._jobs.remove(job)

    def _put_content(self, content: bytes, name: str, ext: str) -> dict[str, Any]:
        file = file_record(name, ext, len(content), sha256=self._put_bytes(content))
        with self._worker.lock:
            return _lost(file) if self._refused.is_lost(digests_of(file)) else file

    def _put_bytes(self, content: bytes) -> str:
        """Store bytes now, or later if the disk refuses."""
        try:
            sha256 = put_bytes(self.folder, content)
        except OSError as error:
            sha256 = hashlib.sha256(content).hexdigest()
            self._hold_in_memory(sha256, content, error)
            return sha256
        with self._worker.lock:
            self._unsynced.digests.append(sha256)
            if len(self._unsynced.digests) == 1:
                self._worker.submit(self._unsynced)
            if self._refused:
                self._refused.was_unwanted(sha256)  # it is wanted again
                self.stored(sha256)
        return sha256

    def _hold_in_memory(self, sha256: str, content: bytes, error: OSError) -> None:
        with self._worker.lock:
            if self._refused.hold(sha256, len(content)):
                self._worker.postpone(BytesJob(self, content, sha256))
            lost = self._refused.is_lost([sha256])
        self._trouble("not stored" if lost else "not stored yet", error)

    def _store_now(self, source: str, name: str, ext: str) -> dict[str, Any]:
        """Store a file on disk before returning, whatever its size."""
        record = self._at_once(source, name, ext)
        if record is not None:
            return record
        fd = open_source(source)
        try:
            before = os.fstat(fd)
            sha256, size = copy_blob(self.folder, fd)
            same = Stamp.of(os.fstat(fd)) == Stamp.of(before)
        except OSError as error:
            self._trouble("not stored", error)
            return file_record(name, ext, before.st_size, lost="not stored")
        finally:
            os.close(fd)
        return file_record(name, ext, size, sha256=sha256, changed=None if same else True)

    def _staging(self, token: str) -> Path:
        return self.folder.staging_dir / token

    @staticmethod
    def _make_room(staged: Path) -> None:
        """Make the folder of a staged file; without one, files are held by descriptors."""
        with contextlib.suppress(OSError):
            staged.parent.mkdir(parents=True, exist_ok=True)


def _lost(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return a FILE record without its bytes."""
    return {key: each for key, each in file.items() if key != "sha256"} | {"lost": "not stored"}
