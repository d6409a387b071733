"""Storage of file contents by project and digest."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.errors import ArgumentError, FileMissingError
from seamark.server.blobs import tables as sql
from seamark.server.blobs.tables import ONE, WHOLE, BlobObject, is_digest, new_object
from seamark.server.database import BoundedDict
from seamark.server.failures import GapError, Refusal
from seamark.server.objects import ObjectStore
from seamark.server.quota import Quota
from seamark.store.database import Database

RESERVED_NS: Final = 24 * 3600 * 10**9
"""Minimum lifetime of a content after a client was informed that it exists, in nanoseconds."""
ABANDONED_NS: Final = 24 * 3600 * 10**9
"""Time without a new part after which an upload counts as abandoned, in nanoseconds."""
_GARBAGE_NS: Final = 3600 * 10**9
"""Lifetime of released objects, for concurrent readers, in nanoseconds."""
_BLOCK_BYTES: Final = 1 << 20
_MAX_HASHES: Final = 256
_MANIFEST_OFFSET: Final = -1
"""Offset that marks the object with the list of parts."""


@dataclass(frozen=True, slots=True)
class BlobLimits:
    """Limits of accepted contents; `digests` is the maximum number of digests in a query."""

    part_bytes: int = 8 << 20
    blob_bytes: int = 1 << 40
    digests: int = 10_000


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of an upload: number of stored bytes, and whether it is complete and verified."""

    offset: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Blob:
    """Stored content; `parts` has offset, length and object of each part, in order."""

    digest: str
    size: int
    parts: Sequence[tuple[int, int, str]]
    objects: ObjectStore

    def read(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the bytes between two offsets in parts of at most a megabyte."""
        end = self.size if end is None else min(end, self.size)
        for offset, length, name in self.parts:
            at, last = max(start, offset), min(end, offset + length)
            while at < last:
                block = self.objects.get(name, at - offset, min(_BLOCK_BYTES, last - at))
                if not block:
                    raise FileMissingError(f"object {name} has fewer than {length:,} bytes")
                at += len(block)
                yield block


class _Upload(NamedTuple):
    project: str
    digest: str
    size: int
    upload: str
    offset: int


class Blobs:
    """Contents of files on the server; safe to use from several threads and processes."""

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        limits: BlobLimits | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        quota: Quota | None = None,
    ) -> None:
        self.limits = BlobLimits() if limits is None else limits
        self._database = database
        self._objects = objects
        self._now_ns = now_ns
        self._hashes = _Hashes()
        self._quota = quota or Quota(database)
        database.create_tables(sql.metadata)

    # ------------------------------------------------------------------ queries

    def missing(self, project: str, run: str, digests: Collection[str]) -> list[str]:
        """Return the contents that a project lacks; keep the others for a day, for the run."""
        if len(digests) > self.limits.digests:
            raise Refusal(
                413,
                "too-large",
                f"expected at most {self.limits.digests:,} digests, got {len(digests):,}",
            )
        wanted = sorted({_checked_digest(each) for each in digests})
        until = self._now_ns() + RESERVED_NS
        with self._database.writing() as connection:
            absent = [
                digest
                for digest in wanted
                if not self._database.run(
                    connection,
                    sql.RESERVE,
                    at_project=project,
                    at_digest=digest,
                    until=until,
                )
            ]
            self._add_uses(connection, project, run, wanted)
        return absent

    def find(self, project: str, digest: str) -> Blob | None:
        """Return a content of a project; None if the project does not have it."""
        with self._database.reading() as connection:
            rows = self._database.rows(
                connection, sql.FIND, at_project=project, at_digest=_checked_digest(digest)
            )
            if not rows:
                return None
            size, upload = rows[0]
            parts = self._parts(connection, upload)
        return Blob(digest, size, parts, self._objects)

    def missing_contents(self, project: str, digests: Collection[str]) -> list[str]:
        """Return the contents that a project lacks, sorted, without changing anything."""
        wanted = {_checked_digest(each) for each in digests}
        if not wanted:
            return []
        with self._database.reading() as connection:
            asked = {"at_project": project, "digests": sorted(wanted)}
            there = set(connection.execute(sql.EXISTING, asked).scalars())
        return sorted(wanted - there)

    def progress(self, project: str, digest: str, size: int | None = None) -> Progress:
        """Return the progress of a content; without a size, that of the most advanced upload."""
        with self._database.reading() as connection:
            rows = self._database.rows(
                connection, sql.FIND, at_project=project, at_digest=_checked_digest(digest)
            )
            if rows:
                return Progress(rows[0][0], complete=True)
            known = self._database.rows(
                connection, sql.UPLOADS, at_project=project, at_digest=digest
            )
        offsets = [row[2] for row in known if size in (None, row[0])]
        return Progress(max(offsets, default=0), complete=False)

    # ------------------------------------------------------------------ uploads

    def put(
        self, project: str, run: str, digest: str, size: int, offset: int, data: bytes
    ) -> Progress:
        """Store a part of a content; bytes that are already stored stay unchanged.

        On return the part is durable. The last part triggers the comparison of the digest. A sender
        that lost the last response sends an empty part at the end.

        Raises:
            GapError: If bytes before the part are missing.
            Refusal: If the content or the part exceeds a limit or the quota of the workspace, or
                the complete content does not match the digest.
        """
        _checked_digest(digest)
        self._expect_fit(size, offset, data)
        known = self.progress(project, digest, size)
        if known.complete:
            if self._mark_used(project, run, digest):
                return known
            known = self.progress(project, digest, size)
        if offset > known.offset:
            raise GapError(
                f"bytes {known.offset:,} to {offset:,} of {digest} are missing: send them first",
                known=known.offset,
            )
        data = data[known.offset - offset :]
        if known.offset == 0 and len(data) == size:
            return self._put_whole(project, run, digest, data)
        upload = self._upload(project, run, digest, size)
        if data and upload.offset == known.offset:
            upload = self._append(upload, data)
        if upload.offset < size:
            return Progress(upload.offset, complete=False)
        return self._complete(run, upload)

    def _expect_fit(self, size: int, offset: int, data: bytes) -> None:
        limits = self.limits
        if size > limits.blob_bytes:
            raise Refusal(
                413,
                "too-large",
                f"expected a file of at most {limits.blob_bytes:,} bytes, got {size:,}",
            )
        if len(data) > limits.part_bytes:
            raise Refusal(
                413,
                "too-large",
                f"expected a part of at most {limits.part_bytes:,} bytes, got {len(data):,}",
            )
        if not 0 <= offset <= offset + len(data) <= size:
            raise ArgumentError(
                f"expected a part of {size:,} bytes, got bytes {offset:,} to {offset + len(data):,}"
            )

    def _check_quota(self, project: str, size: int) -> None:
        self._quota.expect(project, size)
        self._quota.added(project, size)

    def _put_whole(self, project: str, run: str, digest: str, data: bytes) -> Progress:
        if hashlib.sha256(data).hexdigest() != digest:
            raise _mismatch(digest)
        self._check_quota(project, len(data))
        made = new_object(project, digest, len(data), secrets.token_hex(8), ONE)
        self._objects.put(made.name, data)
        self._insert_content(run, made, [(0, len(data), made.name)])
        return Progress(len(data), complete=True)

    def _upload(self, project: str, run: str, digest: str, size: int) -> _Upload:
        at = {"at_project": project, "at_digest": digest, "at_size": size}
        rows = self._database.fetch(sql.UPLOAD, **at)
        if not rows:
            self._check_quota(project, size)
            with self._database.writing() as connection:
                given = {"project": project, "digest": digest, "size": size, "offset": 0}
                new = {"upload": secrets.token_hex(8), "touched": self._now_ns()}
                self._database.run(connection, sql.ADD_UPLOAD, **given, **new)
                self._add_uses(connection, project, run, [digest])
                rows = self._database.rows(connection, sql.UPLOAD, **at)
        return _Upload(project, digest, size, *rows[0])

    def _append(self, upload: _Upload, data: bytes) -> _Upload:
        made = new_object(*upload)
        self._objects.put(made.name, data)
        end = upload.offset + len(data)
        with self._database.writing() as connection:
            moved = self._database.run(
                connection,
                sql.ADVANCE_UPLOAD,
                at_upload=upload.upload,
                at_offset=upload.offset,
                to_offset=end,
                now=self._now_ns(),
            )
            if moved:
                row = (upload.upload, upload.offset, len(data), made.name)
                self._database.run_many(connection, sql.ADD_PART, [row])
        if not moved:
            self._delete([made.name])
            now = self.progress(upload.project, upload.digest, upload.size)
            return upload._replace(offset=now.offset)
        self._hashes.add(upload.upload, upload.offset, data)
        return upload._replace(offset=end)

    def _complete(self, run: str, upload: _Upload) -> Progress:
        known = self.progress(upload.project, upload.digest, upload.size)
        if known.complete and self._mark_used(upload.project, run, upload.digest):
            return known  # completed by another sender
        with self._database.reading() as connection:
            parts = self._parts(connection, upload.upload)
        blob = Blob(upload.digest, upload.size, parts, self._objects)
        try:
            right = self._hashes.digest(upload.upload, blob) == upload.digest
        except (FileMissingError, FileNotFoundError):
            right = False  # the upload was abandoned meanwhile, or the storage lost a part
        if not right:
            self._drop_upload(upload.upload)
            if self.progress(upload.project, upload.digest, upload.size).complete:
                return Progress(upload.size, complete=True)
            raise _mismatch(upload.digest)
        made = new_object(*upload[:4], WHOLE)
        self._objects.put(made.name, _manifest(parts))
        self._insert_content(run, made, [*parts, (_MANIFEST_OFFSET, 0, made.name)])
        return Progress(upload.size, complete=True)

    def _insert_content(
        self, run: str, made: BlobObject, parts: Iterable[tuple[int, int, str]]
    ) -> None:
        # If another upload completed the content meanwhile, this one is not needed.
        now = self._now_ns()
        given = {"project": made.project, "digest": made.digest, "size": made.size}
        with self._database.writing() as connection:
            new = self._database.run(
                connection,
                sql.ADD_BLOB,
                **given,
                upload=made.upload,
                arrived=now,
                reserved=now + RESERVED_NS,
            )
            self._add_uses(connection, made.project, run, [made.digest])
            if new:
                self._database.run(connection, sql.DELETE_UPLOAD, at_upload=made.upload)
                self._database.run(connection, sql.DELETE_PARTS, at_upload=made.upload)
                rows = [(made.upload, *part) for part in parts]
                self._database.run_many(connection, sql.ADD_PART, rows)
        if not new:
            self._delete([made.name])
            self._hashes.forget(made.upload)

    def _mark_used(self, project: str, run: str, digest: str) -> bool:
        # The result is False if the content was just removed.
        until = self._now_ns() + RESERVED_NS
        with self._database.writing() as connection:
            self._add_uses(connection, project, run, [digest])
            at = {"at_project": project, "at_digest": digest}
            return bool(self._database.run(connection, sql.RESERVE, **at, until=until))

    def _add_uses(
        self, connection: sa.Connection, project: str, run: str, digests: Iterable[str]
    ) -> None:
        rows = [(project, digest, run) for digest in digests]
        self._database.run_many(connection, sql.ADD_USE, rows)

    # ------------------------------------------------------------------ removal

    def forget_run(self, project: str, run: str) -> None:
        """Release the contents of a purged run; `collect` removes those that no other run uses."""
        with self._database.writing() as connection:
            self._database.run(connection, sql.DELETE_USES_OF_RUN, at_project=project, at_run=run)

    def collect(self) -> int:
        """Remove unused contents, abandoned uploads and orphaned objects; return their number."""
        now = self._now_ns()
        with self._database.reading() as connection:
            unused = self._database.rows(connection, sql.UNUSED, now=now)
            given_up = self._database.rows(connection, sql.ABANDONED, before=now - ABANDONED_NS)
        count = sum(self._remove_unused(row[0], row[1], row[2], now) for row in unused)
        for (upload,) in given_up:
            count += self._drop_upload(upload)
        done = [row[0] for row in self._database.fetch(sql.GARBAGE, now=now)]
        self._delete(done)
        with self._database.writing() as connection:
            for name in done:
                self._database.run(connection, sql.DELETE_GARBAGE, at_object=name)
        return count

    def _remove_unused(self, project: str, digest: str, upload: str, now: int) -> bool:
        with self._database.writing() as connection:
            gone = self._database.run(
                connection, sql.DELETE_BLOB, at_project=project, at_digest=digest, now=now
            )
            if gone:
                self._discard(connection, upload)
        return bool(gone)

    def _drop_upload(self, upload: str) -> bool:
        with self._database.writing() as connection:
            gone = self._database.run(connection, sql.DELETE_UPLOAD, at_upload=upload)
            if gone:
                self._discard(connection, upload)
        self._hashes.forget(upload)
        return bool(gone)

    def _discard(self, connection: sa.Connection, upload: str) -> None:
        after = self._now_ns() + _GARBAGE_NS
        rows = self._database.rows(connection, sql.OBJECTS, at_upload=upload)
        self._database.run_many(connection, sql.ADD_GARBAGE, [(row[0], after) for row in rows])
        self._database.run(connection, sql.DELETE_PARTS, at_upload=upload)

    def _delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._objects.delete(name)

    def _parts(self, connection: sa.Connection, upload: str) -> list[tuple[int, int, str]]:
        return [
            (row[0], row[1], row[2])
            for row in self._database.rows(connection, sql.PARTS, at_upload=upload)
        ]


class _Hashes:
    """Digests of parts that this process received in order; others are read again at the end."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known = BoundedDict[str, tuple[int, Any]](_MAX_HASHES)

    def add(self, upload: str, offset: int, data: bytes) -> None:
        with self._lock:
            at, digest = self._known.get(upload, (0, None))
            if at != offset:
                return
            digest = hashlib.sha256() if digest is None else digest.copy()
        digest.update(data)
        with self._lock:
            self._known[upload] = offset + len(data), digest

    def digest(self, upload: str, blob: Blob) -> str:
        with self._lock:
            at, digest = self._known.pop(upload, (0, None))
        digest = hashlib.sha256() if digest is None else digest
        for block in blob.read(at):
            digest.update(block)
        found: str = digest.hexdigest()
        return found

    def forget(self, upload: str) -> None:
        with self._lock:
            self._known.pop(upload, None)


def _checked_digest(digest: str) -> str:
    if not is_digest(digest):
        raise ArgumentError(
            f"expected a SHA-256 of 64 lower-case hexadecimal digits, got {digest!r:.80}"
        )
    return digest


def _mismatch(digest: str) -> Refusal:
    msg = (
        f"the received bytes do not match the content {digest}: they changed during the"
        " transfer or while the file was read; nothing was stored, send the content again"
    )
    return Refusal(422, "digest", msg)


def _manifest(parts: Iterable[tuple[int, int, str]]) -> bytes:
    return json.dumps({"parts": [list(part) for part in parts]}).encode()
