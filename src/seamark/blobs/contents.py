"""Contents of recorded files: opening, verification and download.

A run from an untrusted source can name ``~/.ssh/id_ed25519`` as its checkpoint, and a download
would copy that file to a public place. Therefore a reference is opened in two cases only: the file
is in the run's own folder, or this user recorded the reference. The second is assumed if every
journal of the run was recorded on this host and the file is unchanged. An archive can contain any
host name, but its author cannot know size, time and inode of another user's file.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from seamark.blobs.names import FileRecord, find_inside, is_below, local_path
from seamark.blobs.pending import finish_staged
from seamark.blobs.store import blob_path, has_blob, open_blob
from seamark.blobs.store import digest_of as digest_of_bytes
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder
from seamark.journal.headers import is_local_journal
from seamark.journal.safe import MAX_TEXT_BYTES, folder_below, open_file, parts_of


class FolderContents:
    """Files of a run below a root; see `seamark.reading.contents.Contents`."""

    kind = "folder"

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        """Path of the run folder."""
        return str(self._folder.path)

    def text(self, record: Mapping[str, Any]) -> str:
        """Return a long text that is stored as a blob; FileMissingError if lost or too large."""
        sha256, size = record["sha256"], record["size"]
        if size > MAX_TEXT_BYTES:
            raise FileMissingError(
                f"the text {sha256} has {size:,} bytes, too many to read at once"
            )
        with open_blob(self._folder, sha256, size) as blob:
            return blob.read(size).decode("utf-8", "backslashreplace")

    def read(self, file: FileRecord, path: str, *, references: bool = False) -> bytes:
        """Return the bytes of a recorded file, also of a reference; FileMissingError if missing."""
        with _open_content(self._folder, file, path, references=references) as source:
            # Not to the end: a file that grows meanwhile might have no end.
            return source.read(os.fstat(source.fileno()).st_size)

    def write(
        self,
        file: FileRecord,
        target: Path,
        path: str,
        *,
        name: str | None = None,
        references: bool = False,
        verify: bool = False,
    ) -> Path:
        """Write a recorded file or folder to disk and return its path; see `write_parts`."""

        @contextlib.contextmanager
        def opened(where: str, inner: Sequence[str]) -> Iterator[Copy]:
            with _open_content(self._folder, file, where, inner, references=references) as source:
                yield lambda out: _copy(source, out)

        return write_parts(opened, file, target, path, name=name, verify=verify)

    def begin_of(self, sha256: str, size: int, most: int) -> bytes:
        """Return the first ``most`` bytes of a content stored in the run."""
        with open_blob(self._folder, sha256, size) as blob:
            return blob.read(most)

    def finish(self, files: Collection[FileRecord]) -> bool:
        """Store files staged by a dead process, if the folder belongs to this user."""
        if not any(map(is_pending, files)) or not _is_own(self._folder.path):
            return False
        with contextlib.suppress(OSError):  # a read-only root stays as it is
            finish_staged(self._folder)
        return True

    def whereabouts(self, record: FileRecord) -> str:
        """Return the storage state of a FILE record's content; see `Contents.whereabouts`.

        The target of a reference is examined only if it is in the run folder, or if this user
        recorded it on this host.
        """
        if reference := record.get("ref"):
            if (found := find_inside(self._folder, record)) is not None:
                moved = not is_below(self._folder, str(reference))
                return "reference" if _is_same(found.status, record, moved=moved) else "changed"
            is_recorded_here = _is_recorded_by_user(self._folder)
            return _reference_state(str(reference), record) if is_recorded_here else "reference"
        if record.get("pending"):
            return "pending"
        if digest := record.get("sha256"):
            return "kept" if has_blob(self._folder, str(digest)) else "missing"
        return "kept"

    def referred(self, record: FileRecord) -> str:
        """Return the current target of a reference, also in a moved run folder; "" for others."""
        reference = str(record.get("ref") or "")
        if reference and not is_below(self._folder, reference):
            found = find_inside(self._folder, record)
            return reference if found is None else str(found.path)
        return reference

    def stored_at(self, sha256: str) -> str:
        """Return the path of the file that stores a content."""
        return str(blob_path(self._folder, sha256))

    def shorter(self, name: str) -> str:
        """Return a file name, relative to the run folder if the file is in it."""
        return name.removeprefix(f"{self._folder.path.absolute()}/")


def _reference_state(reference: str, record: FileRecord) -> str:
    if "://" in reference:
        return "reference"
    try:
        found = Path(reference).stat()
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except (OSError, ValueError):
        return "reference"
    return "reference" if _is_same(found, record, moved=False) else "changed"


def _is_same(found: os.stat_result, record: FileRecord, *, moved: bool) -> bool:
    # A moved run folder may be a copy, and copies have other modification times.
    return bool(record.get("dir")) or (
        found.st_size == record.get("size", found.st_size)
        and (moved or found.st_mtime_ns == record.get("mtime_ns", found.st_mtime_ns))
    )


def _is_own(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.geteuid()
    except OSError:
        return False


_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK


def are_recorded_by_user(folder: RunFolder) -> bool:
    """Return whether this user recorded all references of a run on this host.

    The result is False if one journal is not theirs, because it may complete records of others.
    """
    journals = folder.journals()
    return bool(journals) and all(is_local_journal(journal.path) for journal in journals)


_is_recorded_by_user = functools.lru_cache(maxsize=16)(are_recorded_by_user)


def open_reference(
    folder: RunFolder,
    file: FileRecord,
    path: str,
    inner: Sequence[str] = (),
    *,
    wanted: bool = False,
) -> BinaryIO:
    """Open the file that a FILE record with ``ref`` refers to, or a file inside (``inner``).

    With ``wanted``, the user asked to open it wherever it is. Raises FileMissingError, with advice,
    if the file is missing or must not be opened.
    """
    here = local_path(file["ref"])
    if here is None or "\0" in here:
        raise _missing_file_error(path, file)
    place = os.path.join(here, *inner)
    try:
        fd = _open_inside(folder, file, inner)
        if fd is None and is_below(folder, here) and not os.path.lexists(here):
            raise _missing_file_error(path, file)
        if fd is None:
            fd = _open_outside(folder, file, path, place, inner=inner, wanted=wanted)
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
        if isinstance(error, FileMissingError):
            raise
        raise _missing_file_error(path, file) from error
    return os.fdopen(fd, "rb")


def _missing_file_error(path: str, file: FileRecord) -> FileMissingError:
    return FileMissingError(f"{path}: the referenced file does not exist: {file['ref']}")


def _open_inside(folder: RunFolder, file: FileRecord, inner: Sequence[str]) -> int | None:
    """Return a descriptor of a file in the run's own folder; None if outside or a link."""
    found = find_inside(folder, file)
    if found is None:
        return None
    try:
        return open_file(found.path.joinpath(*inner), above=len(found.parts) + len(inner))
    except FileMissingError:
        return None


def _open_outside(
    folder: RunFolder,
    file: FileRecord,
    path: str,
    place: str,
    *,
    inner: Sequence[str],
    wanted: bool,
) -> int:
    if not (wanted or are_recorded_by_user(folder)):
        raise FileMissingError(
            f"{path}: it refers to {file['ref']}, which is not opened, because parts of this run "
            "were not recorded by you on this host; if you trust the reference, copy the file "
            "yourself, or call download(references=True)"
        )
    fd = os.open(place, _READ_FLAGS)
    now = os.fstat(fd)
    if stat.S_ISREG(now.st_mode) and (wanted or _is_recorded_file(file, now, inner)):
        return fd
    os.close(fd)
    raise FileMissingError(
        f"{path}: the referenced file has changed since it was recorded: {place} (to get its "
        "current content, call download(references=True))"
    )


def _is_recorded_file(file: FileRecord, now: os.stat_result, inner: Sequence[str]) -> bool:
    """Return whether a file is still the recorded one."""
    if not inner:
        seen = (now.st_size, now.st_mtime_ns, now.st_ino)
        return seen == (file.get("size"), file.get("mtime_ns"), file.get("inode"))
    size = file.get("members", {}).get("/".join(inner), [None])[0]
    folder = os.stat(local_path(file["ref"]) or "")
    newest = file.get("mtime_ns")
    same = folder.st_ino == file.get("inode") and now.st_size == size
    return same and newest is not None and now.st_mtime_ns <= newest


Copy = Callable[[BinaryIO], None]
"""Function that writes the bytes of a recorded file."""
Opened = Callable[[str, Sequence[str]], contextlib.AbstractContextManager[Copy]]
"""Function that opens a file, given its recorded path (for messages) and names within a folder."""
_BLOCK: Final = 1 << 20
_CREATE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def is_pending(file: FileRecord) -> bool:
    """Return whether the bytes of a recorded file were accepted but are not stored yet."""
    return not file.keys() & {"sha256", "ref", "lost"}


def _open_content(
    folder: RunFolder,
    file: FileRecord,
    path: str,
    inner: Sequence[str] = (),
    *,
    references: bool,
) -> BinaryIO:
    if "ref" in file:
        return open_reference(folder, file, path, inner, wanted=references)
    sha256, size = digest_of(file, path, inner)
    return open_blob(folder, sha256, size)


def digest_of(file: FileRecord, path: str, inner: Sequence[str] = ()) -> tuple[str, int | None]:
    """Return SHA-256 (hex) and size of a FILE record's content; FileMissingError if it has none."""
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
        raise FileMissingError(f"{path}: the file {name!r} {why}")
    return sha256, size


def download_name(file: FileRecord, path: str) -> str:
    """Return the name of a downloaded file: the last part of its path, and its extension."""
    ext = str(file.get("ext") or "")
    return path.rpartition("/")[2] + (f".{ext}" if ext else "")


def write_parts(
    opened: Opened,
    file: FileRecord,
    target: Path,
    path: str,
    *,
    name: str | None = None,
    verify: bool = False,
) -> Path:
    """Write a recorded file or folder to disk and return its path.

    Whatever the record contains, all files are written below the target, and links there are not
    followed.

    Args:
        opened: Opens the file or one of its members.
        file: FILE record.
        target: Existing folder, in which the name is that of `download_name`, or the new path.
        path: Attribute path, for messages.
        name: Name of the file below ``target``, which is then always a folder; may contain ``/``.
        verify: Whether to compare the bytes with the recorded digest before the file gets its name.

    Raises:
        FileMissingError: If the bytes are missing or differ from the record, or if the target is a
            link or another kind of file.
        ArgumentError: If a name in the record leads out of the target, or is too long.
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
    left = os.fstat(source.fileno()).st_size  # a file that grows meanwhile might have no end
    while left > 0 and (block := source.read(min(left, _BLOCK))):
        out.write(block)
        left -= len(block)


def _write(
    copy: Copy, base: Path, parts: Sequence[str], wanted: tuple[str, int | None] | None
) -> None:
    # to a temporary name first, so that no file is incomplete
    part = f".seamark-{secrets.token_hex(8)}"
    with folder_below(base, parts[:-1]) as fd:
        try:
            with os.fdopen(os.open(part, _CREATE_FLAGS, 0o666, dir_fd=fd), "w+b") as out:
                copy(out)
                if wanted is not None:
                    out.flush()
                    _check_digest(wanted, out.fileno(), "/".join(parts))
            os.replace(part, parts[-1], src_dir_fd=fd, dst_dir_fd=fd)
        except BaseException:
            os.unlink(part, dir_fd=fd)
            raise


def _check_digest(wanted: tuple[str, int | None], fd: int, name: str) -> None:
    found, size = digest_of_bytes(fd)
    if (found, size) != (wanted[0], size if wanted[1] is None else wanted[1]):
        raise FileMissingError(
            f"{name}: its bytes differ from the record: expected {wanted[1]} bytes with SHA-256 "
            f"{wanted[0]}, got {size} with {found}"
        )
