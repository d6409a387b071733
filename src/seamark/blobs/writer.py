"""Uploads of files into a run: bytes are staged immediately and stored as blobs by a thread."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.blobs.names import extension_of, inside_of, local_path, reference, walk_files
from seamark.blobs.pending import (
    Pending,
    Target,
    UsedBlobs,
    contents_of,
    digests_of,
    file_record,
    tree_bytes,
    without_bytes,
)
from seamark.blobs.staging import (
    ChangedError,
    HeldFile,
    Sources,
    TickWait,
    read_small,
    resolve_source,
    take,
)
from seamark.blobs.store import (
    ANY_MODE,
    Stamp,
    copy_blob,
    digest_of,
    has_blob,
    open_source,
)
from seamark.blobs.worker import BytesWriter, Job, WaitingRecord, Worker
from seamark.errors import FileMissingError
from seamark.journal.format import Kind
from seamark.journal.safe import closing_fd
from seamark.paths import is_inside
from seamark.process.interrupts import let_pass, quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from seamark.journal.folder import RunFolder
    from seamark.types import File


_MAX_OPEN_FILES: Final = 64
"""Maximum number of files on other file systems held open; further ones are copied at once."""

_MEMBERS_PER_OPERATION: Final = 100
"""Maximum number of members of a file set in one operation; the journal compresses long ones."""


class _Place(NamedTuple):
    """Attribute path, file name, extension and file set member under which a file is recorded."""

    path: str
    name: str
    ext: str
    member: str | None = None


class BlobWriter:
    """Writer of the files of one run.

    When a method that accepts a file returns, the bytes of the file are preserved. All methods may
    be called from any thread and after a fork. They never raise errors of the disk, but a missing
    file is an error of the caller and raises FileMissingError.

    Args:
        folder: Folder of the run.
        record: Appends one record to the journal: an OP, unless its kind is also given. Returns
            False if its bytes are not in the journal; staged data is then kept so that the record
            can be repeated.
        report_failure: Called with a reason and the error for each file that is not stored; warns
            once and counts.
        takes: Returns whether this process records files at an attribute path; default: always.
        hide: Removes secrets from the URL to record at an attribute path.
        writers: Returns the ids of the journals to which ``record`` appends. Blobs that the records
            of other journals name are not pruned.
    """

    def __init__(
        self,
        folder: RunFolder,
        record: Callable[..., bool | None],
        report_failure: Callable[[str, BaseException | None], None],
        takes: Callable[[str], bool] = lambda _: True,
        hide: Callable[[str, str], str] = lambda _, url: url,
        writers: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.folder = folder
        self._record = record
        self._report_failure = report_failure
        self._takes = takes
        self._hide = hide
        self._worker = Worker(report_failure)
        self._pending: list[Pending] = []
        self._sources = Sources()
        self._used = UsedBlobs(folder, self._worker, writers)
        self._bytes = BytesWriter(
            folder, self._worker, report_failure, lambda one: self._remove_unused([one])
        )

    # ---------------------------------------------------------------- uploading

    def put(self, file: File) -> dict[str, Any]:
        """Store a file immediately, and return its FILE record.

        A file that changes meanwhile is marked as ``"changed"``. A file that could not be stored
        has ``"lost"`` instead of a digest.
        """
        record = self._put(file)
        self._used.hand_out(record)
        return record

    def put_text(self, text: str) -> dict[str, Any]:
        """Store a text as `put` does; return its digest and size for a record."""
        content = text.encode("utf-8", "backslashreplace")
        record = {"sha256": self._bytes.put(content), "size": len(content)}
        self._used.hand_out(record)
        return record

    def _put(self, file: File) -> dict[str, Any]:
        if file.content is not None:
            return self._put_content(file.content, file.name, file.extension)
        source = resolve_source(str(file.path))[0]
        if not os.path.isdir(source):
            return self._store_now(source, file.name, file.extension)
        members: dict[str, list[Any]] = {}
        for name, path in walk_files(source).items():
            part = self._store_now(os.path.realpath(path), name, "")
            members[name] = [part["size"], part.get("sha256")]
        size = sum(size for size, _ in members.values())
        sha256 = self._bytes.put(tree_bytes(members))
        return file_record(
            file.name, file.extension, size, dir=True, sha256=sha256, members=members
        )

    def upload(self, path: str, file: File, *, wait: bool = False) -> None:
        """Upload a file or folder to an attribute path; ``wait`` until it is stored."""
        if not self._takes(path):
            return
        if file.content is not None:
            name = f"{path.rpartition('/')[2]}.{file.extension}".rstrip(".")
            with self._worker.lock:  # nothing is pruned between storing and recording
                self._record_file(path, self._put_content(file.content, name, file.extension))
        else:
            self._upload(path, str(file.path), file.extension, strict=False)
        if wait:
            self.flush()

    def keep(self, path: str, target: str | os.PathLike[str]) -> bool:
        """Upload a checkpoint, which may be a folder; return whether it was recorded."""
        return self._takes(path) and self._upload(path, os.path.abspath(target), None, strict=True)

    def upload_members(
        self, path: str, members: Mapping[str, str | os.PathLike[str] | bytes]
    ) -> None:
        """Upload members of a file set; on FileMissingError, none is uploaded."""
        if not self._takes(path):
            return
        found = {
            name: target if isinstance(target, bytes) else resolve_source(os.fspath(target))[0]
            for name, target in members.items()
        }
        for name, source in found.items():
            if isinstance(source, str) and os.path.isdir(source):
                raise FileMissingError(
                    f"expected files as members of a file set, got the folder {name!r}"
                )
        complete: dict[str, dict[str, Any]] = {}
        for name, source in found.items():
            place = _Place(path, name.rpartition("/")[2], extension_of(name), name)
            record = (
                self._put_content(source, place.name, place.ext)
                if isinstance(source, bytes)
                else self._store_if_small(source, place.name, place.ext)
            )
            if record is None:
                assert isinstance(source, str)  # noqa: S101 - contents are never large files
                self._stage(place, source, {"": source}, strict=False)
                continue
            self._used.hand_out(record)
            with self._worker.lock:
                if self._bytes.missing(digests_of(record)):
                    self._record_later(path, name, record)
                    continue
            complete[name] = record
            if len(complete) == _MEMBERS_PER_OPERATION:
                self._record({"op": "files", "path": path, "members": complete})
                complete = {}
        if complete:
            self._record({"op": "files", "path": path, "members": complete})

    def refer(self, path: str, target: str | os.PathLike[str]) -> bool:
        """Record a reference to a file or folder without its bytes; return whether that succeeded.

        The digest of a local file is recorded later. A URL such as ``s3://bucket/last.ckpt`` is not
        accessed; user, password and secrets are removed from it. Raises FileMissingError if a local
        file or folder is missing.
        """
        if not self._takes(path):
            return False
        here = local_path(target)
        if here is None:
            url = self._hide(path, reference(str(target)))
            name = url.partition("?")[0].rstrip("/").rpartition("/")[2]
            return self._record_file(path, file_record(name, extension_of(name), None, ref=url))
        source, found = resolve_source(here)
        name, token = os.path.basename(here), secrets.token_hex(8)
        folder = os.path.isdir(source)
        parts = walk_files(source) if folder else {"": source}
        sources = {each: (at, Stamp.of(os.stat(at))) for each, at in parts.items()}
        stamps = [stamp for _, stamp in sources.values()]
        file = file_record(
            name,
            extension_of(name),
            sum(stamp.size for stamp in stamps),
            ref=here,
            inside=inside_of(self.folder, source),
            mtime_ns=max((stamp.mtime_ns for stamp in stamps), default=found.st_mtime_ns),
            inode=found.st_ino,
            dir=folder or None,
            members={each: [at[1].size, None] for each, at in sources.items()} if folder else None,
        )
        sha256 = None if folder else self._sources.digest_of(source, stamps[0])
        if sha256 is not None:
            return self._record_file(path, file | {"sha256": sha256})
        recorded = self._record_file(path, file, token)
        target_ = Target(path, token, None, file)
        self._worker.submit(Job(partial(self._record_digest, target_, sources, {})))
        return recorded

    # ---------------------------------------------------------------- removing

    def forget(self, path: str, names: Iterable[str] | None = None) -> None:
        """Cancel uploads for a deleted path and paths below it, or for members of its set."""
        gone = None if names is None else set(names)
        with self._worker.lock:
            for pending in self._pending:
                pending.targets = [
                    each
                    for each in pending.targets
                    if not (is_inside(each.path, path) and (gone is None or each.name in gone))
                ]
            self._bytes.forget(path, gone)

    def prune(self, path: str) -> None:
        """Remove the bytes uploaded to a deleted path, unless they are used elsewhere.

        Bytes that another process also recorded stay, and so do files not uploaded by this object.
        """
        self.forget(path)
        self._remove_unused(self._used.pop(path))

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all files are stored, retrying failed ones; return whether all are."""
        return self._worker.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Wait as `flush` does, then stop recording; `finish_staged` handles remaining files."""
        if self._worker.stop(timeout_s):
            with quietly(only=OSError):  # not empty: used by another process
                self.folder.staging_dir.rmdir()

    # ---------------------------------------------------------------- records with contents

    @property
    def refuses(self) -> bool:
        """Whether some content could not be stored yet, so that records may have to wait."""
        return bool(self._bytes)

    def postpones(self, record: Mapping[str, Any], path: str, kind: int = Kind.OP) -> bool:
        """Queue a record whose content could not be stored; return False if this is not needed.

        The record is appended once the content is stored. If that never happens, it is appended
        without the content, or not at all if nothing remains.
        """

        def append_without() -> None:
            if "file" in record:
                self._record({**record, "file": without_bytes(record["file"])}, kind)

        needs = contents_of(record)
        with self._worker.lock:
            if missing := self._bytes.missing(needs):
                append = partial(self._record, record, kind)
                self._bytes.wait(WaitingRecord(path, None, missing, append, append_without))
            return bool(missing) or self._bytes.is_lost(needs)

    def replace(self, paths: Iterable[str]) -> None:
        """Cancel waiting texts at paths to which another value was assigned."""
        self._bytes.replace(paths)

    # ---------------------------------------------------------------- on the thread

    def _store_pending(self, pending: Pending) -> None:
        if pending.targets or pending.is_stored:
            found = pending.store(self.folder, self._note_changed)
            if not self._record_stored(pending, found):
                return
        with self._worker.lock:
            pending.closed = True
            self._pending.remove(pending)
        pending.release()

    def _record_stored(self, pending: Pending, found: dict[str, Any]) -> bool:
        # OSError: staged files are needed until the journal accepts the record.
        with self._worker.lock:
            if self._worker.stopped:
                return False
            pending.closed = True
            only = pending.only
            if only is not None and only.settled and not found.keys() & {"lost", "changed"}:
                self._sources.remember(only.source, only.stamp, found["sha256"])
            if not pending.targets:  # deleted while it was stored
                self._remove_unused(digests_of(found))
            for target in list(pending.targets):
                file = target.completed(found)
                if target.name is not None:
                    self._used.hand_out(file)
                elif "lost" not in file:
                    self._used.put(target.path, file)
                if self._record(target.op(file)) is not False:
                    pending.targets.remove(target)
            if pending.targets:
                raise OSError(errno.EAGAIN, "the record of a file could not be written")
        return True

    def _note_changed(self, file: HeldFile) -> None:
        """Remember that a file is rewritten in place, and report a lost version."""
        self._sources.note_rewritten(file.source)
        self._report_failure("rewritten before it was copied", ChangedError(file.source))

    def _record_digest(
        self,
        target: Target,
        sources: Mapping[str, tuple[str, Stamp]],
        found: dict[str, list[Any]],
    ) -> None:
        # Nothing is recorded if a file was removed or rewritten; readers detect that too.
        for name, (source, stamp) in sources.items():
            if name not in found:
                sha256 = _digest_of_same(source, stamp)
                if sha256 is None:
                    return
                found[name] = [stamp.size, sha256]
        more: dict[str, Any] = {"sha256": found[""][1]} if "" in found else {"members": found}
        if "" not in found:
            more["sha256"] = hashlib.sha256(tree_bytes(found)).hexdigest()
        with self._worker.lock:
            if not self._worker.stopped:
                self._record(target.op(target.file | more))
                if "" in sources:
                    self._sources.remember(*sources[""], more["sha256"])

    def _remove_unused(self, digests: Iterable[str]) -> None:
        if gone := frozenset(digests):
            self._worker.submit(Job(partial(self._used.remove_unused, gone)))

    # ---------------------------------------------------------------- internals

    def _upload(self, path: str, target: str, ext: str | None, *, strict: bool) -> bool:
        source, _ = resolve_source(target)
        name = os.path.basename(target)
        place = _Place(path, name, extension_of(name) if ext is None else ext)
        if os.path.isdir(source):
            return self._stage(place, source, walk_files(source), strict=strict)
        with self._worker.lock:  # nothing is pruned between storing and recording
            file = self._store_if_small(source, place.name, place.ext)
            if file is not None:
                return self._record_file(path, file)
        return self._stage(place, source, {"": source}, strict=strict)

    def _store_if_small(self, source: str, name: str, ext: str) -> dict[str, Any] | None:
        """Return the FILE record of a known or small file; None for others."""
        stamp = Stamp.of(os.stat(source))
        sha256 = self._sources.digest_of(source, stamp)
        if sha256 is not None and has_blob(self.folder, sha256, stamp.size):
            return file_record(name, ext, stamp.size, sha256=sha256)
        small = read_small(source)
        if small is None:
            return None
        content, now, settled = small
        file = self._put_content(content, name, ext, now.st_mode)
        if settled:
            self._sources.remember(source, Stamp.of(now), file.get("sha256"))
        return file

    def _stage(self, place: _Place, source: str, inside: dict[str, str], *, strict: bool) -> bool:
        token = secrets.token_hex(8)
        folder = "" not in inside
        key = (source, Stamp.of(os.stat(source)))
        with self._worker.lock:
            for held in self._pending:
                if (held.key, held.strict, held.closed) == (key, strict, False) and held.targets:
                    return self._record_pending(held, place, token)
        staged = self.folder.staging_dir / token
        pending = Pending(staged if folder else None, strict)
        try:
            self._stage_all(pending, inside, staged)
            with self._worker.lock:
                recorded = self._record_pending(pending, place, token)
                self._pending.append(pending)
        except BaseException:
            pending.release()
            raise
        if not folder:
            self._sources.remember(source, pending.files[""].stamp, None)
        self._worker.submit(
            Job(partial(self._store_pending, pending), pending.close, pending.close)
        )
        return recorded

    def _stage_all(self, pending: Pending, inside: Mapping[str, str], staged: Path) -> None:
        ticks = TickWait()
        for name, each in inside.items():
            source, target = os.path.realpath(each), staged / name
            with quietly(only=OSError):  # without the folder, descriptors preserve the files
                target.parent.mkdir(parents=True, exist_ok=True)
            copy = self._sources.is_rewritten(source, Stamp.of(os.stat(source)))
            with self._worker.lock:
                held = [*self._pending, pending]
                opened = sum(file.fd is not None for one in held for file in one.files.values())
            try:
                taken = take(source, target, ticks, copy=copy, scarce=opened >= _MAX_OPEN_FILES)
            except ChangedError:  # another process is writing the file
                taken = take(source, target, ticks)
            pending.files[name] = taken

    def _record_pending(self, pending: Pending, place: _Place, token: str) -> bool:
        file = pending.record(place.name, place.ext)
        target = Target(place.path, token, place.member, file)
        recorded = self._record(target.ingested_op())
        pending.targets.append(target)
        return recorded is not False

    def _record_file(self, path: str, file: dict[str, Any], token: str | None = None) -> bool:
        op = {"op": "file", "path": path, "file": file}
        with self._worker.lock:
            if self._bytes.missing(digests_of(file)):
                return self._record_later(path, None, file)
            recorded = self._record(op if token is None else op | {"token": token})
            if "ref" not in file:
                self._used.put(path, file)
            return recorded is not False

    def _record_later(self, path: str, name: str | None, file: dict[str, Any]) -> bool:
        """Record a file now, and its digest once its bytes are stored."""
        taken = {key: value for key, value in file.items() if key != "sha256"}
        target = Target(path, secrets.token_hex(8), name, taken)

        def append() -> None:
            if name is None:
                self._used.put(path, file)
            self._record(target.op(file))

        recorded = self._record(target.ingested_op())
        missing = self._bytes.missing(digests_of(file))
        without = partial(self._record, target.op(without_bytes(file)))
        self._bytes.wait(WaitingRecord(path, name, missing, append, without, taken=True))
        return recorded is not False

    def _put_content(
        self, content: bytes, name: str, ext: str, mode: int = ANY_MODE
    ) -> dict[str, Any]:
        file = file_record(name, ext, len(content), sha256=self._bytes.put(content, mode))
        with self._worker.lock:
            return without_bytes(file) if self._bytes.is_lost(digests_of(file)) else file

    def _store_now(self, source: str, name: str, ext: str) -> dict[str, Any]:
        record = self._store_if_small(source, name, ext)
        if record is not None:
            return record
        with closing_fd(open_source(source)) as fd:
            before = os.fstat(fd)
            try:
                sha256, size = copy_blob(self.folder, fd)
                same = Stamp.of(os.fstat(fd)) == Stamp.of(before)
            except OSError as error:
                let_pass(error)
                self._report_failure("not stored", error)
                return file_record(name, ext, before.st_size, lost="not stored")
        return file_record(name, ext, size, sha256=sha256, changed=None if same else True)


def _digest_of_same(source: str, stamp: Stamp) -> str | None:
    with contextlib.suppress(FileNotFoundError), closing_fd(open_source(source)) as fd:
        if Stamp.of(os.fstat(fd)) == stamp:
            sha256, _ = digest_of(fd)
            return sha256 if Stamp.of(os.fstat(fd)) == stamp else None
    return None
