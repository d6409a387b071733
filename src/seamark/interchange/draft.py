"""Run that is being imported into a root, and the writer of its journals.

`seamark.journal.writer` takes the time of each record from the clock, and never waits for a disk.
Here the times come from the source, a failure ends the import of the run, and the same source
always gives the same bytes, so a repeated import changes nothing.

The run is written to a hidden folder beside its final place, which no reader opens, and renamed at
the end. Files of an import that was killed are removed by the next one, which starts that run
again. If the run exists already, as when a second process of a resumed run is imported, first the
contents and then the journals are moved to it, each with one rename.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from seamark import __version__
from seamark.blobs.store import ANY_MODE, copy_blob, put_bytes, sync_blob, write_all
from seamark.errors import RunExistsError, SeamarkError
from seamark.journal.folder import RunFolder, journal_name
from seamark.journal.format import (
    Kind,
    dump_json,
    file_header,
    frame_bytes,
    is_long,
    packed_json,
    salt_of,
)
from seamark.journal.rows import Column, RowTable
from seamark.journal.safe import (
    closing_fd,
    is_folder,
    make_folder,
    names_in,
    open_folder,
    remove_entry,
    sync_folder,
)
from seamark.process.interrupts import quietly
from seamark.values import Atom, Escaped, escape

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "Draft",
    "GivenJournal",
    "NotImportedError",
    "Records",
    "run_exists_error",
    "sound_time",
    "writer_of",
]


_BUFFER_BYTES: Final = 1 << 20
_FRAME_CHARACTERS: Final = 1 << 20
_COLUMN_POINTS: Final = 500_000
_LATEST_NS: Final = 1 << 62
"""Latest time of a record (the year 2116), so that times fit into 64 bits."""
_Part = TypeVar("_Part", bound=Sequence[Any])
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)


def writer_of(uid: bytes) -> str:
    """Return the writer id of an imported journal."""
    return f"import-{uid.hex()[:8]}"


def sound_time(time_ns: int | None) -> int:
    """Return a time as a record may have it, nanoseconds since the Unix epoch; 0 for no time."""
    return min(max(0, time_ns or 0), _LATEST_NS)


def _parts(points: Iterable[_Part], weigh: Callable[[_Part], int]) -> Iterator[list[_Part]]:
    part: list[_Part] = []
    size = 0
    for point in points:
        weight = 64 + weigh(point)
        if part and size + weight > _FRAME_CHARACTERS:
            yield part
            part, size = [], 0
        part.append(point)
        size += weight
    if part:
        yield part


def _size_of(pair: tuple[str, Atom]) -> int:
    path, atom = pair
    return len(path) + (len(atom.value) if isinstance(atom.value, str) else 0)


class Records:
    """Records of a journal, of which each has a size that readers like."""

    def op(self, record: Mapping[str, Any], kind: int = Kind.OP) -> None:
        """Append a JSON record; ArgumentError if it is too long, ValueError if it is no JSON."""
        raise NotImplementedError

    def column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float],
        times_ns: Sequence[int] | None,
    ) -> None:
        """Append points of a series of numbers; times (ns since the Unix epoch) or none."""
        raise NotImplementedError

    def assign(self, atoms: Mapping[str, Atom]) -> None:
        """Append values, in as few records as their size allows."""
        for part in _parts(atoms.items(), _size_of):
            op: dict[str, Any] = {"op": "assign", "atoms": dict(part)}
            if escaped := [path for path, atom in part if isinstance(atom.value, Escaped)]:
                op["escaped"] = escaped
            self.op(op)

    def files(self, path: str, members: Mapping[str, Mapping[str, Any]]) -> None:
        """Append members of a set of files, in as few records as their size allows."""
        for part in _parts(members.items(), lambda one: 200 + len(one[0])):
            self.op({"op": "files", "path": path, "members": dict(part)})

    def texts(self, path: str, points: Iterable[Sequence[Any]]) -> None:
        """Append points of a series of texts: step, text (or its blob), time in ns or None."""
        self._points(path, points, Kind.TEXT, lambda point: len(point[1]))

    def histograms(self, path: str, points: Iterable[Sequence[Any]]) -> None:
        """Append points of a series of histograms: step, edges, counts, time in ns or None."""
        self._points(path, points, Kind.HISTOGRAM, lambda point: 40 * len(point[1]))

    def _points(self, path: str, points: Iterable[Sequence[Any]], kind: int, weigh: Any) -> None:
        for part in _parts(points, weigh):
            record: dict[str, Any] = {"path": path, "points": part}
            if any(isinstance(point[1], Escaped) for point in part):
                record["escaped"] = True
            self.op(record, kind)


class GivenJournal(Records):
    """A journal that is written once, from its first byte to its last.

    ``uid`` is 16 bytes that follow from what is imported; ``begun_ns`` and ``last_t``, the time of
    the last record, are nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: tuple[str, str],
        uid: bytes,
        header: Mapping[str, Any],
        begun_ns: int,
    ) -> None:
        self.uid, self.last_t = uid, sound_time(begun_ns) - 1
        self._at = self.last_t
        self._salt = salt_of(uid)
        self._table = RowTable(self._frame)
        self._waiting = bytearray(file_header(uid))
        make_folder(folder.journal_dir)
        with closing_fd(open_folder(folder.journal_dir)) as above:
            name = journal_name(writer_of(uid), uid)
            self._fd = os.open(name, _CREATE, 0o666, dir_fd=above)
        project, name = run
        told = {"format": 1, "seamark": __version__, "run": name, "project": project}
        told |= {"writer": writer_of(uid), "continues": None, "prior_t": 0, **header}
        self._add(self._frame(Kind.HEADER, dump_json(told)))

    def at(self, time_ns: int) -> None:
        """Set the time of the following records, or the next one; ns since the Unix epoch."""
        self._at = sound_time(time_ns)

    def op(self, record: Mapping[str, Any], kind: int = Kind.OP) -> None:
        """See `Records.op`."""
        payload, flags = packed_json(record)
        self._add(self._frame(kind, payload, flags=flags))

    def column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float],
        times_ns: Sequence[int] | None,
    ) -> None:
        """See `Records.column`."""
        for start in range(0, len(values), _COLUMN_POINTS):
            part = slice(start, start + _COLUMN_POINTS)
            times = None if times_ns is None else times_ns[part]
            column = Column(self._table, path, values[part], steps[part], times)
            frames = column.frames()
            column.mark_written(len(frames), self.last_t)
            self._add(*frames)

    def close(self, time_ns: int) -> None:
        """Append the end at a time, ns since the Unix epoch, and force all to disk."""
        self.at(time_ns)
        self._add(self._frame(Kind.CLOSE, dump_json({"reason": "stop", "dropped": {}})))
        self._flush()
        os.fsync(self._fd)
        self.release()

    def release(self) -> None:
        """Close the file, whole or not; harmless when called twice."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _frame(self, kind: int, payload: bytes, *, flags: int = 0, aux: int = 0) -> bytes:
        self.last_t = max(self.last_t + 1, self._at)
        return frame_bytes(self._salt, kind, self.last_t, payload, flags=flags, aux=aux)

    def _add(self, *frames: bytes) -> None:
        for frame in frames:
            self._waiting += frame
        if len(self._waiting) > _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        content = bytes(self._waiting)
        self._waiting.clear()
        write_all(self._fd, memoryview(content))


_LOCK: Final = ".lock"
_FLAGS: Final = os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)


def run_exists_error(folder: RunFolder) -> RunExistsError:
    """Return the error that says that a run is there already."""
    msg = f"{folder.words} exists below {folder.root}: nothing is written over"
    return RunExistsError(msg)


class NotImportedError(SeamarkError):
    """A run cannot be imported; the others are."""


class Draft:
    """Run that is being written to a temporary folder; ``folder`` is its final one.

    Raises:
        NotImportedError: If the run was purged, or another import is writing it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._place = RunFolder(folder.root, folder.project, f".import-{folder.run}")
        self._journals: list[GivenJournal] = []
        self._unsynced: set[str] = set()
        self._placed = False
        if folder.purged_mark.exists():
            msg = f"{folder.words} was purged here"
            raise NotImportedError(msg)
        folder.refuse_links()
        self._place.refuse_links()
        make_folder(self._place.path)
        self._lock = self._locked()
        try:
            self._empty()
        except BaseException:
            os.close(self._lock)
            raise

    def _locked(self) -> int:
        with closing_fd(open_folder(self._place.path)) as above:
            fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600, dir_fd=above)
        if not self._try_lock(fd):
            os.close(fd)
            msg = f"{self.folder.words} is being imported by another process"
            raise NotImportedError(msg)
        return fd

    def _try_lock(self, fd: int) -> bool:
        with quietly(only=OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have finished meanwhile, and taken the folder with it.
            return os.fstat(fd).st_ino == (self._place.path / _LOCK).stat().st_ino
        return False

    def _empty(self, *, lock: bool = False) -> None:
        with closing_fd(open_folder(self._place.path)) as above:
            for name in os.listdir(above):
                if lock or name != _LOCK:
                    remove_entry(above, name)

    # ---------------------------------------------------------------- what is written

    def journal(self, uid: bytes, header: Mapping[str, Any], begun_ns: int) -> GivenJournal:
        """Begin a journal; see `GivenJournal`."""
        run = (self.folder.project, self.folder.run)
        made = GivenJournal(self._place, run, uid, header, begun_ns)
        self._journals.append(made)
        return made

    def keep(self, file: IO[bytes], name: str, ext: str) -> dict[str, Any]:
        """Keep the bytes of an open file, and return its FILE record."""
        sha256, size = copy_blob(self._place, file.fileno())
        return {"name": escape(name), "ext": escape(ext), "size": size, "sha256": sha256}

    def keep_bytes(self, content: bytes, name: str, ext: str) -> dict[str, Any]:
        """Keep bytes, and return their FILE record."""
        sha256 = put_bytes(self._place, content, ANY_MODE)
        self._unsynced.add(sha256)
        return {"name": escape(name), "ext": escape(ext), "size": len(content), "sha256": sha256}

    def text(self, text: str) -> Any:
        """Return a text as a point holds it: a very long one is kept as a blob."""
        kept = escape(text)
        return self._blob(kept) if is_long(kept) else kept

    def atom(self, atom: Atom) -> Atom:
        """Return a value as a record holds it: a very long string is kept as a blob."""
        is_short = atom.type != "string" or not is_long(atom.value)
        return atom if is_short else Atom("text", self._blob(atom.value))

    def _blob(self, text: str) -> dict[str, Any]:
        record = self.keep_bytes(text.encode(), "", "txt")
        return {"sha256": record["sha256"], "size": record["size"]}

    @contextlib.contextmanager
    def scratch(self) -> Iterator[IO[bytes]]:
        """Give an open file without a name, on the disk of the run."""
        with tempfile.TemporaryFile(dir=self._place.path) as file:
            yield file

    # ---------------------------------------------------------------- the end

    def finish(self, *, alone: bool = False) -> None:
        """Put the run, all of whose journals are closed, in its place.

        With ``alone``, nothing may be there yet: RunExistsError if something is.
        """
        for sha256 in self._unsynced:
            sync_blob(self._place, sha256)
        for path in (self._place.blobs_dir, self._place.journal_dir, self._place.path):
            sync_folder(path)
        self.folder.refuse_links()
        if is_folder(self._place.staging_dir):
            os.rmdir(self._place.staging_dir)
        if not self._take_place():
            if alone:
                raise run_exists_error(self.folder)
            self._join()
        sync_folder(self._place.path.parent)

    def _take_place(self) -> bool:
        if self.folder.path.exists():
            return False
        with closing_fd(open_folder(self._place.path)) as above:
            os.unlink(_LOCK, dir_fd=above)
        try:
            os.rename(self._place.path, self.folder.path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            return False
        self._placed = True
        return True

    def _join(self) -> None:
        for mine, theirs in (
            (self._place.blobs_dir, self.folder.blobs_dir),
            (self._place.journal_dir, self.folder.journal_dir),
        ):
            if names := names_in(mine):
                make_folder(theirs)
                _move(mine, theirs, names)

    def close(self) -> None:
        """Leave nothing behind but a run that is whole; harmless when called twice."""
        fd, self._lock = self._lock, -1
        if fd < 0:
            return
        for journal in self._journals:
            journal.release()
        with contextlib.suppress(OSError):
            if not self._placed:  # else there may be somebody else's by now
                self._empty(lock=True)
                os.rmdir(self._place.path)
        os.close(fd)


def _move(source: Path, target: Path, names: list[str]) -> None:
    with closing_fd(open_folder(source)) as above, closing_fd(open_folder(target)) as below:
        for name in names:
            os.rename(name, name, src_dir_fd=above, dst_dir_fd=below)
        os.fsync(below)
