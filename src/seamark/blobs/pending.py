"""Records about files, files that are not stored yet, and recovery after a crash.

A file is recorded in the journal before it is stored. If the process dies in between, its staged
clone or link still has the bytes. The next process stores the file and records the digest in a
journal of its own, but not while the first process may still be alive.

A journal may come from an untrusted source. Only regular files in the run's own ``.staging/`` are
stored. A file that was kept open in its original location (``source``) can be any file of the
machine. It is stored only if the same user recorded it on this host since the last boot, and stays
pending otherwise. So an archive cannot copy a private file into a run that may be published.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from seamark.blobs.names import FileRecord
from seamark.blobs.staging import ChangedError, HeldFile
from seamark.blobs.store import (
    Stamp,
    open_source,
    put_bytes,
    remove_blob,
    remove_leftovers,
    remove_staged,
)
from seamark.blobs.worker import Worker
from seamark.errors import ArgumentError, JournalError
from seamark.journal.folder import RunFolder
from seamark.journal.format import Kind, file_of
from seamark.journal.headers import is_local_journal, may_grow
from seamark.journal.reader import JournalReader, decode_json, payload_of
from seamark.journal.safe import closing_fd, is_folder, open_file, parts_of
from seamark.journal.writer import JournalWriter
from seamark.paths import is_inside
from seamark.process.interrupts import quietly
from seamark.process.liveness import host_name, process_facts
from seamark.values import escape


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """Attribute or file set member to which a content belongs; ``token`` links its two records."""

    path: str
    token: str
    name: str | None
    file: dict[str, Any]

    def ingested_op(self) -> dict[str, Any]:
        """Return the op for a file whose bytes are accepted but not stored."""
        if self.name is None:
            return {"op": "own", "path": self.path, "token": self.token, "file": self.file}
        return self.op(self.file)

    def op(self, file: dict[str, Any]) -> dict[str, Any]:
        """Return the op that completes this target."""
        if self.name is None:
            return {"op": "digest", "path": self.path, "token": self.token, "file": file}
        members = {self.name: file | {"token": self.token}}
        return {"op": "files", "path": self.path, "members": members}

    def completed(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the completed FILE record; the file is no longer staged."""
        return {key: each for key, each in self.file.items() if key != "staged"} | dict(found)


def file_record(name: str, ext: str, size: int | None, **more: Any) -> dict[str, Any]:
    """Return a FILE record without None values; names are converted to valid UTF-8."""
    found = {"name": escape(name), "ext": escape(ext), "size": size, **more}
    return {key: value for key, value in found.items() if value is not None}


def without_bytes(file: FileRecord) -> dict[str, Any]:
    """Return the FILE record of a file whose bytes could not be stored."""
    return {key: each for key, each in file.items() if key != "sha256"} | {"lost": "not stored"}


def tree_bytes(members: dict[str, list[Any]]) -> bytes:
    """Return a folder's ``{relative name: [size in bytes, SHA-256]}`` as bytes to hash."""
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def digests_of(file: FileRecord) -> Iterable[str]:
    """Return the digests in a FILE record: its own and those of files in a folder."""
    inside = [sha256 for _, sha256 in file.get("members", {}).values()]
    return filter(None, [*inside, file.get("sha256")])


def contents_of(record: Mapping[str, Any]) -> set[str]:
    """Return the digests of all contents in a record: of its file, values or texts."""
    if "file" in record:
        return set(digests_of(record["file"]))
    atoms = [atom.value for atom in record.get("atoms", {}).values() if atom.type == "text"]
    texts = [point[1] for point in record.get("points", ()) if isinstance(point[1], dict)]
    return {each["sha256"] for each in (*atoms, *texts)}


def op_payloads(reader: JournalReader, offset: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield (time in nanoseconds since the Unix epoch, payload) of the ops from a byte offset."""
    for block in reader.blocks(offset):
        for frame in block.frames:
            if frame[1] == Kind.OP:
                try:
                    yield frame[4], payload_of(block.data, frame)
                except ValueError:  # does not decompress; readers report it
                    continue


@dataclass(eq=False)
class Pending:
    """File or folder that is not stored yet.

    Attributes:
        place: Folder in ``.staging/`` for a folder, None for a file.
        strict: Whether bytes that changed since they were staged are useless (a checkpoint).
            Otherwise they are stored as they are, and marked (a log that grows).
        files: Staged files by name within the folder; a single file has the name ``""``.
        targets: Targets of the content; empty if all were deleted meanwhile.
        closed: Whether it is stored or left to other processes; no target can be added then.
    """

    place: Path | None
    strict: bool
    files: dict[str, HeldFile] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    closed: bool = False
    _members: dict[str, list[Any]] = field(default_factory=dict)
    _changed: bool = False

    @property
    def only(self) -> HeldFile | None:
        """The single file, None for a folder."""
        return self.files.get("") if self.place is None else None

    @property
    def key(self) -> tuple[str, Stamp] | None:
        """Key that identifies a single file when it is staged again; None if not available."""
        only = self.only
        return None if only is None or not only.settled else (only.source, only.stamp)

    @property
    def is_stored(self) -> bool:
        """Whether each file is either stored or lost."""
        return self.files.keys() == self._members.keys()

    def record(self, name: str, ext: str) -> dict[str, Any]:
        """Return the FILE record of the staged but not yet stored bytes."""
        stamps = [file.stamp for file in self.files.values()]
        newest = max((stamp.mtime_ns for stamp in stamps), default=None)
        size, only = sum(stamp.size for stamp in stamps), self.only
        if only is None:
            staged = self.place.name if self.place is not None else None
            members = {key: [file.stamp.size, None] for key, file in self.files.items()}
            return file_record(
                name, ext, size, mtime_ns=newest, staged=staged, dir=True, members=members
            )
        return file_record(
            name,
            ext,
            size,
            mtime_ns=newest,
            inode=only.stamp.inode,
            staged=only.staged.name if only.staged is not None else None,
            source=only.source if only.fd is not None else None,
        )

    def store(self, folder: RunFolder, changed: Callable[[HeldFile], None]) -> dict[str, Any]:
        """Store the new contents; return the values to add to the FILE record."""
        for name, file in self.files.items():
            if name not in self._members:
                self._members[name] = self._store_one(folder, file, changed)
        found: dict[str, Any] = {"changed": True} if self._changed else {}
        if self.place is None:
            found["size"], sha256 = self._members[""]
        else:
            members = dict(self._members)
            found["members"], found["size"] = members, sum(size for size, _ in members.values())
            whole = all(sha256 for _, sha256 in members.values())
            sha256 = put_bytes(folder, tree_bytes(members)) if whole else None
        return found | ({"sha256": sha256} if sha256 else {"lost": "changed"})

    def _store_one(
        self, folder: RunFolder, file: HeldFile, changed: Callable[[HeldFile], None]
    ) -> list[Any]:
        """Return size and digest of a file; the digest is None if the bytes are lost."""
        try:
            sha256, size = file.store(folder)
        except ChangedError:
            self._changed = True
            try:
                if not self.strict:
                    sha256, size = file.store(folder, changed=True)
                    return [size, sha256]
            except ChangedError:  # removed
                pass
            changed(file)
            return [file.stamp.size, None]
        return [size, sha256]

    def release(self) -> None:
        """Release all staged bytes."""
        for file in self.files.values():
            file.release()
        if self.place is not None:
            shutil.rmtree(self.place, ignore_errors=True)

    def close(self) -> None:
        """Close the descriptors; staged files remain, to be completed later."""
        self.closed = True
        for file in self.files.values():
            file.close()


_DIGEST: Final = re.compile(rb'"([0-9a-f]{64})"')


class UsedBlobs:
    """Index of the blobs used by a run, in this process and in others; usable from any thread.

    The worker's lock is held while a blob is removed, and between storing and recording one.
    ``writers`` returns the ids of the journals whose records are all made here.
    """

    def __init__(
        self, folder: RunFolder, worker: Worker, writers: Callable[[], Iterable[str]]
    ) -> None:
        self._folder = folder
        self._worker = worker
        self._writers = writers
        self._digests: dict[str, frozenset[str]] = {}
        self._handed_out: set[int] = set()
        self._offsets: dict[Path, int] = {}
        self._used_by_others: set[bytes] = set()

    def put(self, path: str, file: FileRecord) -> None:
        """Remember the record of the file at a path."""
        with self._worker.lock:
            self._digests[path] = frozenset(digests_of(file))

    def pop(self, path: str) -> frozenset[str]:
        """Remove and return the record of the file at a path."""
        with self._worker.lock:
            return self._digests.pop(path, frozenset())

    def hand_out(self, file: FileRecord) -> None:
        """Remember contents that are recorded in other ways: as points of a series or members."""
        with self._worker.lock:
            self._handed_out.update(map(_short, digests_of(file)))

    def remove_unused(self, digests: Iterable[str]) -> None:
        """Remove those of these blobs that the run does not use; OSError if that is unknown."""
        for sha256 in digests:
            if self._is_used_here(sha256) or self._is_used_by_others(sha256):
                continue
            with self._worker.lock:  # it may have been recorded again meanwhile
                if not self._is_used_here(sha256):
                    remove_blob(self._folder, sha256)

    def _is_used_here(self, sha256: str) -> bool:
        with self._worker.lock:
            is_handed_out = _short(sha256) in self._handed_out
            return is_handed_out or any(sha256 in at for at in self._digests.values())

    def _is_used_by_others(self, sha256: str) -> bool:
        # Only the new part of other journals is read. A forked child knows those of its parent.
        own = f"{host_name()}-{os.getpid()}-"
        mine = {writer for writer in self._writers() if writer.startswith(own)}
        for journal in self._folder.journals():
            if journal.writer not in mine:
                self._read(journal.path)
        return bytes.fromhex(sha256) in self._used_by_others

    def _read(self, path: Path) -> None:
        with JournalReader(path) as reader:
            for _, payload in op_payloads(reader, self._offsets.get(path, 0)):
                found = _DIGEST.findall(payload)
                self._used_by_others.update(bytes.fromhex(each.decode()) for each in found)
            self._offsets[path] = reader.offset


def _short(sha256: str) -> int:
    # 64 bits are enough to keep a blob, and there may be millions of points.
    return int(sha256[:16], 16)


_FILE_OPS: Final = re.compile(rb'"op":"(?:own|digest|files|unfiles|delete)"')
_TOKEN_CHARACTERS: Final = frozenset("0123456789abcdef")


class _IngestedFile(NamedTuple):
    """Staged file, neither stored nor deleted; ``ours``: recorded by this user, on this boot."""

    target: Target
    settled: bool
    ours: bool

    @property
    def can_be_finished(self) -> bool:
        """Whether no other process will finish it, and its location is permitted."""
        elsewhere = "source" in self.target.file and _staged_name(self.target.file) is None
        return self.settled and (self.ours or not elsewhere)


def finish_staged(folder: RunFolder) -> int:
    """Store files that dead processes had staged; return the number of completed files.

    If there are any, a journal of this process is opened; it does not affect the state of the run.
    """
    # The writer removes the staging folder when it is done.
    if not (is_folder(folder.staging_dir) and is_folder(folder.path)):
        return 0
    known, alone = _find_pending(folder)
    found = {
        each.target: _store_target(folder, each.target) for each in known if each.can_be_finished
    }
    if any("lost" in more for more in found.values()):
        # Another process may have completed them just now, and removed the staged files.
        still = {each.target.token for each in _find_pending(folder)[0]}
        found = {each: more for each, more in found.items() if each.token in still}
    written = _record_all(folder, found) if found else []
    for staged in filter(None, (_staged_name(target.file) for target in written)):
        remove_staged(folder, staged)
    if alone:  # otherwise, an idle process may be about to record staged files
        remove_leftovers(folder, {str(each.target.file.get("staged")) for each in known})
    return sum("sha256" in found[target] for target in written)


def _record_all(folder: RunFolder, found: dict[Target, dict[str, Any]]) -> list[Target]:
    """Append the records; return the written targets. Files of other targets stay staged."""
    ops = {target: target.op(target.completed(more)) for target, more in found.items()}
    with contextlib.closing(JournalWriter(folder, _header)) as writer:
        return [target for target, op in ops.items() if writer.append_op(op)]


def _header() -> dict[str, Any]:
    return {"attempt": None, "owner": False, **process_facts()}


def _find_pending(folder: RunFolder) -> tuple[list[_IngestedFile], bool]:
    me, alone = process_facts(), True
    ops: list[tuple[int, dict[str, Any], str]] = []
    settled: dict[str, bool] = {}
    follows: dict[str, str] = {}
    paths = {journal.writer: journal.path for journal in folder.journals()}
    for writer, path in paths.items():
        # Damaged journals are reported by fsck.
        with quietly(only=JournalError), JournalReader(path) as reader:
            header = reader.header()
            settled[writer] = not may_grow(reader)
            alone = alone and (settled[writer] or me.items() <= header.items())
            follows[writer] = str(header.get("continues"))
            ops += [(t, op, writer) for t, op in _file_ops(reader)]
    for writer in [writer for writer, done in settled.items() if not done]:
        while settled.get(writer := follows[writer]):  # its process continues in another journal
            settled[writer] = False
    ours = {writer for _, _, writer in ops if is_local_journal(paths[writer], boot=True)}
    found: dict[str, _IngestedFile] = {}
    for _, op, writer in sorted(ops, key=lambda each: each[0]):
        _apply_op(found, op, settled=settled[writer], ours=writer in ours)
    return list(found.values()), alone


def _file_ops(reader: JournalReader) -> Iterator[tuple[int, dict[str, Any]]]:
    for t, payload in op_payloads(reader):
        if _FILE_OPS.search(payload):
            try:
                op = decode_json(payload)
            except ValueError:
                continue
            if isinstance(op, dict):
                yield t, op


def _apply_op(
    found: dict[str, _IngestedFile], op: dict[str, Any], *, settled: bool, ours: bool
) -> None:
    kind, path, token = op.get("op"), op.get("path"), op.get("token")
    if kind == "own" and isinstance(token, str):
        _add_target(found, Target(str(path), token, None, op.get("file") or {}), settled, ours)
    elif kind == "digest":
        found.pop(str(token), None)
    elif kind == "files" and isinstance(op.get("members"), dict):
        for name, file in op["members"].items():
            more = file.get("token") if isinstance(file, dict) else None
            if not isinstance(more, str):
                continue
            if "sha256" in file or "lost" in file:
                found.pop(more, None)
            else:
                _add_target(found, Target(str(path), more, name, file), settled, ours)
    elif kind == "unfiles":
        _remove_targets(
            found, lambda each: each.path == path and each.name in _only_texts(op.get("names"))
        )
    elif kind == "delete":
        gone = _only_texts(op.get("paths"))
        _remove_targets(found, lambda each: any(is_inside(each.path, one) for one in gone))


def _only_texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _add_target(found: dict[str, _IngestedFile], target: Target, *flags: bool) -> None:
    # only if its record is valid
    with contextlib.suppress(ValueError, TypeError):  # readers report it
        found[target.token] = _IngestedFile(
            dataclasses.replace(target, file=file_of(target.file)), *flags
        )


def _remove_targets(found: dict[str, _IngestedFile], gone: Callable[[Target], bool]) -> None:
    for token in [token for token, taken in found.items() if gone(taken.target)]:
        del found[token]


def _store_target(folder: RunFolder, target: Target) -> dict[str, Any]:
    file, staged = target.file, _staged_name(target.file)
    members: dict[str, list[Any]] = {}
    try:
        if not file.get("dir"):
            sha256, size = _store_one(folder, file, () if staged is None else (staged,))
            return {"sha256": sha256, "size": size}
        for name, (size, _) in file["members"].items():
            part = {"size": size, "mtime_ns": file.get("mtime_ns")}
            place = () if staged is None else (staged, *parts_of(name, target.path))
            sha256, _ = _store_one(folder, part, place)
            members[name] = [size, sha256]
    except ChangedError:
        return {"lost": "changed"}
    except (FileNotFoundError, NotADirectoryError, KeyError, ArgumentError):
        return {"lost": "gone"}
    return {"sha256": put_bytes(folder, tree_bytes(members)), "members": members}


def _staged_name(file: dict[str, Any]) -> str | None:
    """Return the name of a file in ``.staging/``, checked because journals may be untrusted."""
    name = file.get("staged")
    return name if name and _TOKEN_CHARACTERS.issuperset(name) else None


def _store_one(folder: RunFolder, file: dict[str, Any], staged: Sequence[str]) -> tuple[str, int]:
    # A staged file that shares its inode with the source must be unchanged since then. Otherwise it
    # is a clone, or a copy made with the run folder, and only its size is compared.
    if staged:
        place = folder.staging_dir.joinpath(*staged)
        fd = open_file(place, above=1 + len(staged))
    else:
        place = Path(file["source"])
        fd = open_source(place)
    with closing_fd(fd):
        now = os.fstat(fd)
        shared = not staged or now.st_nlink > 1 or now.st_ino == file.get("inode")
        moved = shared and now.st_mtime_ns != file.get("mtime_ns", now.st_mtime_ns)
        if file.get("inode") is None:  # a member of a folder; only the newest time is known
            moved = shared and now.st_mtime_ns > (file.get("mtime_ns") or now.st_mtime_ns)
        replaced = not staged and now.st_ino != file.get("inode")
        if moved or replaced or now.st_size != file["size"]:
            raise ChangedError(str(place))
        return HeldFile(str(place), Stamp.of(now), fd=fd).store(folder)
