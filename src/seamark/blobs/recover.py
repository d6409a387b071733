"""Completing what a process that died left in ``.staging/``.

A file that was taken is named in the journal before it is stored. If the process dies in between,
its staged clone or link still has the bytes, and the next process makes the blob and records the
digest in a journal of its own. Nothing is touched while the process may still live.

What a journal says is data. Only what lies in the run's own ``.staging/``, and is not a link,
becomes a blob. A file that was held open where it lay (``source``) may be any file: it is only
taken if the same user recorded it on this host since it was started, else it stays pending. An
archive whose maker guessed name and place of a private file cannot have it copied into a run,
which may be published.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.blobs.pending import Target, op_payloads, tree_bytes
from seamark.blobs.store import Stamp, open_source, put_bytes, remove_leftovers, remove_staged
from seamark.blobs.take import ChangedError, HeldFile
from seamark.errors import ArgumentError, JournalError
from seamark.journal.format import file_of
from seamark.journal.headers import is_local_journal, may_grow
from seamark.journal.reader import JournalReader, decode_json
from seamark.journal.safe import is_folder, open_file, parts_of
from seamark.journal.writer import JournalWriter
from seamark.paths import is_inside
from seamark.process.liveness import process_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from seamark.journal.folder import RunFolder

    Record = Callable[[dict[str, Any]], bool | None]

__all__ = ["finish_staged"]

_ABOUT_FILES: Final = re.compile(rb'"op":"(?:own|digest|files|unfiles|delete)"')
_TOKEN: Final = frozenset("0123456789abcdef")


class _IngestedFile(NamedTuple):
    """A file that was taken and is neither stored nor deleted.

    Attributes:
        target: Where it is recorded.
        settled: Whether the process that took it is gone.
        ours: Whether this user recorded it on this host since that was started.
    """

    target: Target
    settled: bool
    ours: bool

    @property
    def can_be_finished(self) -> bool:
        """Whether it is ours to finish: nobody else will, and it lies where we may take it."""
        elsewhere = "source" in self.target.file and _staged(self.target.file) is None
        return self.settled and (self.ours or not elsewhere)


def finish_staged(folder: RunFolder, record: Record | None = None) -> int:
    """Store what dead processes had taken but not stored.

    Args:
        folder: The run.
        record: Appends an OP record, and answers False if its bytes are not in the journal. None
            opens a journal of this process's own, which decides nothing about the state of the
            run, and only if there is something to record.

    Returns:
        How many files were completed.

    Raises:
        OSError: If the folder cannot be written.
    """
    # Its writer removes the folder when it is done.
    if not (is_folder(folder.staging_dir) and is_folder(folder.path)):
        return 0
    known, alone = _pending(folder)
    found = {each.target: _store(folder, each.target) for each in known if each.can_be_finished}
    if any("lost" in more for more in found.values()):
        # Somebody else may have completed them just now, and removed what was staged.
        still = {each.target.token for each in _pending(folder)[0]}
        found = {each: more for each, more in found.items() if each.token in still}
    written = _write(folder, found, record) if found else []
    for staged in filter(None, (_staged(target.file) for target in written)):
        remove_staged(folder, staged)
    if alone:  # else a process that rests may be about to record what it staged
        remove_leftovers(folder, {str(each.target.file.get("staged")) for each in known})
    return sum("sha256" in found[target] for target in written)


def _write(
    folder: RunFolder, found: dict[Target, dict[str, Any]], record: Record | None
) -> list[Target]:
    """Append what is known now, to a journal of this process's own if there is nowhere else.

    Returns:
        Those of whom it is in the journal; of others what is staged has to stay.
    """
    ops = {target: target.op(target.completed(more)) for target, more in found.items()}
    if record is not None:
        return [target for target, op in ops.items() if record(op) is not False]
    writer = JournalWriter(folder, _header)
    try:
        return _write(folder, found, writer.append_op)
    finally:
        writer.close()


def _header() -> dict[str, Any]:
    return {"attempt": None, "owner": False, **process_facts()}


def _pending(folder: RunFolder) -> tuple[list[_IngestedFile], bool]:
    """Return what was taken and is neither stored nor deleted.

    Also returns whether all other processes that recorded the run are gone.
    """
    me, alone = process_facts(), True
    ops: list[tuple[int, dict[str, Any], str]] = []
    settled: dict[str, bool] = {}
    follows: dict[str, str] = {}
    paths = {journal.writer: journal.path for journal in folder.journals()}
    for writer, path in paths.items():
        try:
            with JournalReader(path) as reader:
                header = reader.header()
                settled[writer] = not may_grow(reader)
                alone = alone and (settled[writer] or me.items() <= header.items())
                follows[writer] = str(header.get("continues"))
                ops += [(t, op, writer) for t, op in _file_ops(reader)]
        except JournalError:  # a damaged journal is fsck's to tell
            continue
    for writer in [writer for writer, done in settled.items() if not done]:
        while settled.get(writer := follows[writer]):  # its process goes on in another journal
            settled[writer] = False
    ours = {writer for _, _, writer in ops if is_local_journal(paths[writer], boot=True)}
    found: dict[str, _IngestedFile] = {}
    for _, op, writer in sorted(ops, key=lambda each: each[0]):
        _follow(found, op, settled=settled[writer], ours=writer in ours)
    return list(found.values()), alone


def _file_ops(reader: JournalReader) -> Iterator[tuple[int, dict[str, Any]]]:
    for t, payload in op_payloads(reader):
        if _ABOUT_FILES.search(payload):
            try:
                op = decode_json(payload)
            except ValueError:
                continue
            if isinstance(op, dict):
                yield t, op


def _follow(
    found: dict[str, _IngestedFile], op: dict[str, Any], *, settled: bool, ours: bool
) -> None:
    """Apply one op to what is pending."""
    kind, path, token = op.get("op"), op.get("path"), op.get("token")
    if kind == "own" and isinstance(token, str):
        _take(found, Target(str(path), token, None, op.get("file") or {}), settled, ours)
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
                _take(found, Target(str(path), more, name, file), settled, ours)
    elif kind == "unfiles":
        _drop(found, lambda each: each.path == path and each.name in _texts(op.get("names")))
    elif kind == "delete":
        gone = _texts(op.get("paths"))
        _drop(found, lambda each: any(is_inside(each.path, one) for one in gone))


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _take(found: dict[str, _IngestedFile], target: Target, *flags: bool) -> None:
    """Remember what was taken, if its record is one."""
    with contextlib.suppress(ValueError, TypeError):  # whoever folds it will say so
        found[target.token] = _IngestedFile(
            dataclasses.replace(target, file=file_of(target.file)), *flags
        )


def _drop(found: dict[str, _IngestedFile], gone: Callable[[Target], bool]) -> None:
    for token in [token for token, taken in found.items() if gone(taken.target)]:
        del found[token]


def _store(folder: RunFolder, target: Target) -> dict[str, Any]:
    """Return what is now known of a file: its digest, or why there is none."""
    file, staged = target.file, _staged(target.file)
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


def _staged(file: dict[str, Any]) -> str | None:
    """Return the name of a file in ``.staging/``; a journal is data, so it must be one of ours."""
    name = file.get("staged")
    return name if name and _TOKEN.issuperset(name) else None


def _store_one(folder: RunFolder, file: dict[str, Any], staged: Sequence[str]) -> tuple[str, int]:
    """Store a staged file, or a source that is still what it was.

    A staged file that shares its inode with the source must not have been written since; one that
    does not (a clone, or what a copy of the run folder made of it) needs only its size.

    Raises:
        ChangedError: If it is not what was taken.
        FileNotFoundError: If there is nothing.
        KeyError: If the record does not say where it is, or how large.
    """
    if staged:
        place = folder.staging_dir.joinpath(*staged)
        fd = open_file(place, above=1 + len(staged))
    else:
        place = Path(file["source"])
        fd = open_source(place)
    try:
        now = os.fstat(fd)
        shared = not staged or now.st_nlink > 1 or now.st_ino == file.get("inode")
        moved = shared and now.st_mtime_ns != file.get("mtime_ns", now.st_mtime_ns)
        if file.get("inode") is None:  # a member of a folder, of which the newest time is known
            moved = shared and now.st_mtime_ns > (file.get("mtime_ns") or now.st_mtime_ns)
        replaced = not staged and now.st_ino != file.get("inode")
        if moved or replaced or now.st_size != file["size"]:
            raise ChangedError(str(place))
        return HeldFile(str(place), Stamp.of(now), fd=fd).store(folder)
    finally:
        os.close(fd)
