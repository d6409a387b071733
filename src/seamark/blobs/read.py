"""Writing recorded files back to disk, for downloads."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from seamark.blobs.references import open_reference
from seamark.blobs.store import digest_of as digest_of_bytes
from seamark.blobs.store import open_blob
from seamark.errors import FileMissingError
from seamark.journal.safe import MAX_TEXT_BYTES, folder_below, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from seamark.journal.folder import RunFolder

__all__ = [
    "Copy",
    "Opened",
    "digest_of",
    "download_name",
    "is_pending",
    "read_file",
    "read_text",
    "write_file",
    "write_parts",
]

Copy = Callable[[BinaryIO], None]
"""Writes the bytes of a recorded file."""
Opened = Callable[[str, Sequence[str]], contextlib.AbstractContextManager[Copy]]
"""Opens a file: given where it is recorded, for messages, and its names within a folder."""

_BLOCK: Final = 1 << 20
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)


def is_pending(file: Mapping[str, Any]) -> bool:
    """Return whether the bytes of a recorded file were taken and are not stored yet."""
    return not file.keys() & {"sha256", "ref", "lost"}


def _open(
    folder: RunFolder,
    file: Mapping[str, Any],
    path: str,
    inner: Sequence[str] = (),
    *,
    references: bool,
) -> BinaryIO:
    """Open the bytes of a recorded file, or of a member of a recorded folder.

    Raises:
        FileMissingError: If there are no bytes: still pending, lost, removed, or not opened.
    """
    if "ref" in file:
        return open_reference(folder, file, path, inner, wanted=references)
    sha256, size = digest_of(file, path, inner)
    return open_blob(folder, sha256, size)


def digest_of(
    file: Mapping[str, Any], path: str, inner: Sequence[str] = ()
) -> tuple[str, int | None]:
    """Return SHA-256 (hex) and size of the content of a FILE record that is no reference.

    Args:
        file: The record.
        path: Attribute path, for messages.
        inner: Names of a member of a recorded folder.

    Raises:
        FileMissingError: If there are no bytes: still pending, or lost.
    """
    size, sha256 = file.get("size"), file.get("sha256")
    if inner:
        size, sha256 = file["members"]["/".join(inner)]
    if sha256 is None:
        why = {
            "changed": "was rewritten before it could be copied",
            "gone": "was removed before it could be copied",
            "not stored": "could not be stored",
        }.get(str(file.get("lost")), "is not stored yet")
        name = inner[-1] if inner else file.get("name", "")
        msg = f"{path}: the file {name!r} {why}"
        raise FileMissingError(msg)
    return sha256, size


def read_text(folder: RunFolder, record: Mapping[str, Any]) -> str:
    """Return a very long text, which is kept as a blob.

    Args:
        folder: The run.
        record: Its ``sha256`` and ``size``.

    Raises:
        FileMissingError: If it is not there, not what was recorded, or too large for memory.
    """
    if record["size"] > MAX_TEXT_BYTES:
        msg = f"the text {record['sha256']} has {record['size']:,} bytes, too many to read at once"
        raise FileMissingError(msg)
    with open_blob(folder, record["sha256"], record["size"]) as blob:
        return blob.read(record["size"]).decode("utf-8", "backslashreplace")


def read_file(
    folder: RunFolder, file: Mapping[str, Any], path: str, *, references: bool = False
) -> bytes:
    """Return the bytes of a recorded file.

    Args:
        folder: The run.
        file: FILE record, of no folder.
        path: Attribute path, for messages.
        references: Open what the record refers to, wherever that is.

    Raises:
        FileMissingError: If the bytes are not there, or a reference is not opened.
    """
    with _open(folder, file, path, references=references) as source:
        # Not to the end: a file that grows meanwhile would have none.
        return source.read(os.fstat(source.fileno()).st_size)


def write_file(
    folder: RunFolder,
    file: Mapping[str, Any],
    target: Path,
    path: str,
    *,
    name: str | None = None,
    references: bool = False,
    verify: bool = False,
) -> Path:
    """Write a recorded file, or folder, to disk and return where; see `write_parts`.

    Args:
        folder: The run.
        file: FILE record.
        target: An existing folder, to be called as `download_name` says, or a name.
        path: Attribute path, for messages.
        name: Of the file below ``target``, which is then a folder in any case; may contain ``/``.
        references: Open what the record refers to, wherever that is.
        verify: As in `write_parts`.

    Raises:
        FileMissingError: If the bytes are not there, or a link or another file is at the target.
        ArgumentError: If a name in the record leads out of the target, or is too long for a file.
    """

    @contextlib.contextmanager
    def opened(where: str, inner: Sequence[str]) -> Iterator[Copy]:
        with _open(folder, file, where, inner, references=references) as source:
            yield lambda out: _copy(source, out)

    return write_parts(opened, file, target, path, name=name, verify=verify)


def download_name(file: Mapping[str, Any], path: str) -> str:
    """Return the name of a file that is downloaded: the last part of its path, and its extension.

    Args:
        file: FILE record.
        path: Attribute path.
    """
    ext = str(file.get("ext") or "")
    return path.rpartition("/")[2] + (f".{ext}" if ext else "")


def write_parts(
    opened: Opened,
    file: Mapping[str, Any],
    target: Path,
    path: str,
    *,
    name: str | None = None,
    verify: bool = False,
) -> Path:
    """Write a recorded file, or folder, to disk and return where.

    Whatever the record says, everything that is written lies below the target, and no link that
    lies there is followed.

    Args:
        opened: Opens the file, or a member of it.
        file: FILE record.
        target: An existing folder, to be called as `download_name` says, or a name.
        path: Attribute path, for messages.
        name: Of the file below ``target``, which is then a folder in any case; may contain ``/``.
        verify: Compare the bytes with the digest of the record before they get their name.

    Raises:
        FileMissingError: If the bytes are not there or not what was recorded, or a link or another
            file is at the target.
        ArgumentError: If a name in the record leads out of the target, or is too long for a file.
    """
    if name is None and target.is_dir():
        name = os.path.basename(download_name(file, path))
        name = name if name not in {"", ".", ".."} else "file"
    base, parts = (
        (target.parent, (target.name,)) if name is None else (target, parts_of(name, path))
    )
    if not file.get("dir"):
        with opened(path, ()) as copy:
            _write(copy, base, parts, digest_of(file, path) if verify else None)
    for member in file.get("members", {}) if file.get("dir") else ():
        inner = parts_of(member, path)
        with opened(f"{path}: {member}", inner) as copy:
            wanted = digest_of(file, path, inner) if verify else None
            _write(copy, base, (*parts, *inner), wanted)
    return base.joinpath(*parts)


def _copy(source: BinaryIO, out: BinaryIO) -> None:
    left = os.fstat(source.fileno()).st_size  # a file that grows meanwhile would have no end
    while left > 0 and (block := source.read(min(left, _BLOCK))):
        out.write(block)
        left -= len(block)


def _write(
    copy: Copy, base: Path, parts: Sequence[str], wanted: tuple[str, int | None] | None
) -> None:
    """Copy to a temporary name first, so that nothing is half-written.

    Args:
        copy: Writes the bytes.
        base: Folder of the reader's.
        parts: Name below it.
        wanted: Their SHA-256 and size; None if nobody asks.

    Raises:
        FileMissingError: If they are others.
    """
    part = f".seamark-{secrets.token_hex(8)}"
    with folder_below(base, parts[:-1]) as fd:
        try:
            with os.fdopen(os.open(part, _NEW, 0o666, dir_fd=fd), "w+b") as out:
                copy(out)
                if wanted is not None:
                    out.flush()
                    _expect(wanted, out.fileno(), "/".join(parts))
            os.replace(part, parts[-1], src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            os.unlink(part, dir_fd=fd)
            raise


def _expect(wanted: tuple[str, int | None], fd: int, name: str) -> None:
    """Refuse bytes that are not what was recorded.

    Raises:
        FileMissingError: If they are not.
    """
    found, size = digest_of_bytes(fd)
    if (found, size) != (wanted[0], size if wanted[1] is None else wanted[1]):
        msg = (
            f"{name}: its bytes are not what was recorded: expected {wanted[1]} with the SHA-256 "
            f"{wanted[0]}, got {size} with {found}"
        )
        raise FileMissingError(msg)
