"""Completing what a process that died left in ``.staging/``.

A file that was taken is named in the journal before it is stored. If the process dies in between,
its staged clone or link still has the bytes, and whoever comes next makes the blob and records the
digest in a journal of their own. Nothing is touched while the process may still live.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.content._hold import ChangedError, Hold
from seamark.content._jobs import Target, store_hold, tree_bytes
from seamark.content._ops import op_payloads
from seamark.errors import JournalError
from seamark.journal.blobs import Stamp, open_source, put_bytes, remove_leftovers, remove_staged
from seamark.journal.process import process_facts
from seamark.journal.reader import JournalReader, decode_json
from seamark.journal.writer import JournalWriter
from seamark.paths import is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seamark.journal.folder import RunFolder

__all__ = ["finish_staged"]

_ABOUT_FILES: Final = re.compile(rb'"op":"(?:own|digest|files|unfiles|delete)"')
_TOKEN: Final = frozenset("0123456789abcdef")


def finish_staged(folder: RunFolder, record: Callable[[dict[str, Any]], None] | None = None) -> int:
    """Store what processes that died had taken but not stored.

    Args:
        folder: The run.
        record: Appends an OP record; None opens a journal of this process's own, which decides
            nothing about the state of the run, and only if there is something to record.

    Returns:
        How many files were completed.

    Raises:
        OSError: If the folder cannot be written.
    """
    if not folder.staging_dir.is_dir():  # a lane removes it when it is done
        return 0
    known = _pending(folder)
    found = {each: _store(folder, each) for each, settled in known if settled}
    if any("lost" in more for more in found.values()):
        # Somebody else may have completed them just now, and removed what was staged.
        still = {each.token for each, _ in _pending(folder)}
        found = {each: more for each, more in found.items() if each.token in still}
    if found:
        ops = [target.op(_completed(target.file, more)) for target, more in found.items()]
        _write(folder, ops, record)
        for staged in filter(None, (_staged(folder, each.file) for each in found)):
            remove_staged(folder, staged.name)
    remove_leftovers(folder, {str(each.file.get("staged")) for each, _ in known})
    return sum("sha256" in more for more in found.values())


def _write(
    folder: RunFolder,
    ops: list[dict[str, Any]],
    record: Callable[[dict[str, Any]], None] | None,
) -> None:
    """Append ops, to a journal of this process's own if there is nowhere else."""
    if record is not None:
        for op in ops:
            record(op)
        return
    writer = JournalWriter(folder, _header)
    try:
        for op in ops:
            writer.append_op(op)
    finally:
        writer.close()


def _header() -> dict[str, Any]:
    return {"attempt": None, "owner": False, **process_facts()}


def _pending(folder: RunFolder) -> list[tuple[Target, bool]]:
    """Return what was taken and is neither stored nor deleted, and whether its process is gone."""
    ops: list[tuple[int, dict[str, Any], str]] = []
    settled: dict[str, bool] = {}
    follows: dict[str, str] = {}
    for journal in folder.journals():
        try:
            with JournalReader(journal.path) as reader:
                settled[journal.writer] = reader.settled()
                follows[journal.writer] = str(reader.header().get("continues"))
                ops += [(t, op, journal.writer) for t, op in _file_ops(reader)]
        except JournalError:  # a damaged journal is fsck's to tell
            continue
    for writer in [writer for writer, done in settled.items() if not done]:
        while settled.get(writer := follows[writer]):  # its process goes on in another journal
            settled[writer] = False
    found: dict[str, tuple[Target, bool]] = {}
    for _, op, writer in sorted(ops, key=lambda each: each[0]):
        _follow(found, op, settled=settled[writer])
    return list(found.values())


def _file_ops(reader: JournalReader) -> Iterator[tuple[int, dict[str, Any]]]:
    for t, payload in op_payloads(reader):
        if _ABOUT_FILES.search(payload):
            try:
                op = decode_json(payload)
            except ValueError:
                continue
            if isinstance(op, dict):
                yield t, op


def _follow(found: dict[str, tuple[Target, bool]], op: dict[str, Any], *, settled: bool) -> None:
    """Apply one op to what is pending."""
    kind, path, token = op.get("op"), op.get("path"), op.get("token")
    if kind == "own" and isinstance(token, str) and isinstance(op.get("file"), dict):
        found[token] = (Target(str(path), token, None, op["file"]), settled)
    elif kind == "digest":
        found.pop(str(token), None)
    elif kind == "files" and isinstance(op.get("members"), dict):
        for name, file in op["members"].items():
            _follow_member(found, str(path), name, file, settled=settled)
    elif kind == "unfiles":
        _drop(found, lambda each: each.path == path and each.name in op.get("names", ()))
    elif kind == "delete":
        gone = [each for each in op.get("paths", ()) if isinstance(each, str)]
        _drop(found, lambda each: any(is_inside(each.path, one) for one in gone))


def _follow_member(
    found: dict[str, tuple[Target, bool]], path: str, name: str, file: Any, *, settled: bool
) -> None:
    token = file.get("token") if isinstance(file, dict) else None
    if not isinstance(token, str):
        return
    if "sha256" not in file and "lost" not in file:
        found[token] = (Target(path, token, name, file), settled)
    else:
        found.pop(token, None)


def _drop(found: dict[str, tuple[Target, bool]], gone: Callable[[Target], bool]) -> None:
    for token in [token for token, (target, _) in found.items() if gone(target)]:
        del found[token]


def _store(folder: RunFolder, target: Target) -> dict[str, Any]:
    """Return what is now known of a file: its digest, or why there is none."""
    file, place = target.file, _staged(folder, target.file)
    members: dict[str, list[Any]] = {}
    try:
        if not file.get("dir"):
            sha256, size = _store_one(folder, file, place)
            return {"sha256": sha256, "size": size}
        for name, (size, _) in file["members"].items():
            part = {"size": size, "mtime_ns": file.get("mtime_ns")}
            sha256, _ = _store_one(folder, part, place / name if place else None)
            members[name] = [size, sha256]
    except ChangedError:
        return {"lost": "changed"}
    except (FileNotFoundError, NotADirectoryError, KeyError, TypeError, ValueError):
        return {"lost": "gone"}
    return {"sha256": put_bytes(folder, tree_bytes(members)), "members": members}


def _staged(folder: RunFolder, file: dict[str, Any]) -> Path | None:
    """Return where a file is staged; a journal is data, so its name must be one of ours."""
    name = file.get("staged")
    if isinstance(name, str) and name and _TOKEN.issuperset(name):
        return folder.staging_dir / name
    return None


def _store_one(folder: RunFolder, file: dict[str, Any], staged: Path | None) -> tuple[str, int]:
    """Store a staged file, or a source that is still what it was.

    A staged file that shares its inode with the source must not have been written since; one that
    does not (a clone, or what a copy of the run folder made of it) needs only its size.

    Raises:
        ChangedError: If it is not what was taken.
        FileNotFoundError: If there is nothing.
    """
    place = staged if staged is not None else Path(file["source"])
    fd = open_source(place)
    try:
        now = os.fstat(fd)
        shared = staged is None or now.st_nlink > 1 or now.st_ino == file.get("inode")
        moved = shared and now.st_mtime_ns != file.get("mtime_ns", now.st_mtime_ns)
        if file.get("inode") is None:  # a member of a folder, of which the newest time is known
            moved = shared and now.st_mtime_ns > (file.get("mtime_ns") or now.st_mtime_ns)
        replaced = staged is None and now.st_ino != file.get("inode")
        if moved or replaced or now.st_size != file["size"]:
            raise ChangedError(str(place))
        return store_hold(folder, Hold(str(place), Stamp.of(now), fd=fd))
    finally:
        os.close(fd)


def _completed(file: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in file.items() if key != "staged"} | found
