"""Draft of an imported run, and the writer of its journals.

`seamark.journal.writer` takes the time of each record from the clock and never waits for a disk.
Here, times come from the source, a failure ends the import of the run, and the same source always
gives the same bytes, so that a repeated import changes nothing.

The run is written to a hidden folder next to its final one, which no reader opens, and renamed at
the end. The next import removes the files of a killed import and starts the run again. If the run
already exists, for example when a second process of a resumed run is imported, first its stored
files and then its journals are moved there, each with one rename.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from seamark import __version__
from seamark.blobs.store import ANY_MODE, copy_blob, put_bytes, sync_blob
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

_BUFFER_BYTES: Final = 1 << 20
_FRAME_CHARACTERS: Final = 1 << 20
_COLUMN_POINTS: Final = 500_000
_LATEST_NS: Final = 1 << 62
"""Latest time of a record (the year 2116), so that times fit into 64 bits."""
_Part = TypeVar("_Part", bound=Sequence[Any])
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


Fields = Mapping[str, Any]
"""Fields of a JSON object, such as a document, an operation, a point or a record."""


def writer_of(uid: bytes) -> str:
    """Return the writer id of an imported journal."""
    return f"import-{uid.hex()[:8]}"


def limited_time(time_ns: int | None) -> int:
    """Return a time limited to the range of records, in ns since the Unix epoch; 0 for no time."""
    return min(max(0, time_ns or 0), _LATEST_NS)


def _split(points: Iterable[_Part], weigh: Callable[[_Part], int]) -> Iterator[list[_Part]]:
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
    """Interface to append records of limited size to a journal."""

    def op(self, record: Fields, kind: int = Kind.OP) -> None:
        """Append a JSON record; ArgumentError if it is too long, ValueError if it is not JSON."""
        raise NotImplementedError

    def column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float],
        times_ns: Sequence[int] | None,
    ) -> None:
        """Append points of a series of numbers, with times (ns since the Unix epoch) or without."""
        raise NotImplementedError

    def assign(self, atoms: Mapping[str, Atom]) -> None:
        """Append values, in as few records as their size allows."""
        for part in _split(atoms.items(), _size_of):
            op: dict[str, Any] = {"op": "assign", "atoms": dict(part)}
            if escaped := [path for path, atom in part if isinstance(atom.value, Escaped)]:
                op["escaped"] = escaped
            self.op(op)

    def files(self, path: str, members: Mapping[str, Fields]) -> None:
        """Append members of a set of files, in as few records as their size allows."""
        for part in _split(members.items(), lambda one: 200 + len(one[0])):
            self.op({"op": "files", "path": path, "members": dict(part)})

    def points(self, family: str, path: str, points: Iterable[tuple[float, Any, Any]]) -> None:
        """Append points of a series: step, value, time in ns or None.

        The value of a text series is a text or its blob, that of a histogram series has edges and
        counts, and that of a file series has a FILE record and texts about it.
        """
        if family == "string_series":
            self._append(path, points, Kind.TEXT, lambda point: len(point[1]))
        elif family == "histogram_series":
            rows = ([step, *value, time] for step, value, time in points)
            self._append(path, rows, Kind.HISTOGRAM, lambda point: 40 * len(point[1]))
        else:
            for step, (file, texts), time in points:
                op = {"op": "file_point", "path": path, "step": step, "file": file, **texts}
                self.op({**op, "time": time})

    def _append(self, path: str, points: Iterable[Sequence[Any]], kind: int, weigh: Any) -> None:
        for part in _split(points, weigh):
            record: dict[str, Any] = {"path": path, "points": part}
            if any(isinstance(point[1], Escaped) for point in part):
                record["escaped"] = True
            self.op(record, kind)


class ImportedJournal(Records):
    """Journal that is written once, from the first byte to the last.

    ``uid`` is 16 bytes derived from the source. ``begun_ns`` is the time of the start and
    ``last_t`` that of the last record, in nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        folder: RunFolder,
        run: tuple[str, str],
        uid: bytes,
        header: Fields,
        begun_ns: int,
    ) -> None:
        self.uid, self.last_t = uid, limited_time(begun_ns) - 1
        self._at = self.last_t
        self._salt = salt_of(uid)
        self._table = RowTable(self._frame)
        make_folder(folder.journal_dir)
        with closing_fd(open_folder(folder.journal_dir)) as above:
            name = journal_name(writer_of(uid), uid)
            fd = os.open(name, _CREATE, 0o666, dir_fd=above)
        self._file = os.fdopen(fd, "wb", _BUFFER_BYTES)
        self._file.write(file_header(uid))
        project, name = run
        fields = {"format": 1, "seamark": __version__, "run": name, "project": project}
        fields |= {"writer": writer_of(uid), "continues": None, "prior_t": 0, **header}
        self._file.write(self._frame(Kind.HEADER, dump_json(fields)))

    def at(self, time_ns: int) -> None:
        """Set the time of the next record, in ns since the Unix epoch; later ones follow it."""
        self._at = limited_time(time_ns)

    def op(self, record: Fields, kind: int = Kind.OP) -> None:
        """See `Records.op`."""
        payload, flags = packed_json(record)
        self._file.write(self._frame(kind, payload, flags=flags))

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
            self._file.writelines(frames)

    def close(self, time_ns: int) -> None:
        """Append the last record, with a time in ns since the Unix epoch; sync the file to disk."""
        self.at(time_ns)
        self._file.write(self._frame(Kind.CLOSE, dump_json({"reason": "stop", "dropped": {}})))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.release()

    def release(self) -> None:
        """Close the file, complete or not; further calls do nothing."""
        with contextlib.suppress(OSError):  # of an incomplete journal, which is removed
            self._file.close()

    def _frame(self, kind: int, payload: bytes, *, flags: int = 0, aux: int = 0) -> bytes:
        self.last_t = max(self.last_t + 1, self._at)
        return frame_bytes(self._salt, kind, self.last_t, payload, flags=flags, aux=aux)


_LOCK: Final = ".lock"


def run_exists_error(folder: RunFolder) -> RunExistsError:
    """Return the error for a run that already exists."""
    msg = f"{folder.words} exists below {folder.root}: nothing was overwritten"
    return RunExistsError(msg)


class NotImportedError(SeamarkError):
    """Failed import of one run; the import of other runs continues."""


class Draft:
    """Run that is being written to a temporary folder; ``folder`` is its final one.

    Raises:
        NotImportedError: If the run was purged, or another import is writing it.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._place = RunFolder(folder.root, folder.project, f".import-{folder.run}")
        self._journals: list[ImportedJournal] = []
        self._unsynced: set[str] = set()
        self._placed = False
        if folder.purged_mark.exists():
            raise NotImportedError(f"{folder.words} was purged here")
        folder.refuse_links()
        self._place.refuse_links()
        make_folder(self._place.path)
        self._lock = self._acquire_lock()
        try:
            self._clear()
        except BaseException:
            os.close(self._lock)
            raise

    def _acquire_lock(self) -> int:
        with closing_fd(open_folder(self._place.path)) as above:
            fd = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=above)
        with quietly(only=OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner may have finished meanwhile, and moved the folder away.
            if os.fstat(fd).st_ino == (self._place.path / _LOCK).stat().st_ino:
                return fd
        os.close(fd)
        raise NotImportedError(f"{self.folder.words} is being imported by another process")

    def _clear(self, *, lock: bool = False) -> None:
        with closing_fd(open_folder(self._place.path)) as above:
            for name in os.listdir(above):
                if lock or name != _LOCK:
                    remove_entry(above, name)

    # ---------------------------------------------------------------- contents

    def journal(self, uid: bytes, header: Fields, begun_ns: int) -> ImportedJournal:
        """Start a journal; see `ImportedJournal`."""
        run = (self.folder.project, self.folder.run)
        made = ImportedJournal(self._place, run, uid, header, begun_ns)
        self._journals.append(made)
        return made

    def keep(self, file: IO[bytes], name: str, ext: str) -> dict[str, Any]:
        """Store the bytes of an open file, and return its FILE record."""
        sha256, size = copy_blob(self._place, file.fileno())
        return {"name": escape(name), "ext": escape(ext), "size": size, "sha256": sha256}

    def keep_bytes(self, content: bytes, name: str, ext: str) -> dict[str, Any]:
        """Store bytes, and return their FILE record."""
        sha256 = put_bytes(self._place, content, ANY_MODE)
        self._unsynced.add(sha256)
        return {"name": escape(name), "ext": escape(ext), "size": len(content), "sha256": sha256}

    def text(self, text: str) -> Any:
        """Return a text for a point; a very long text is replaced by the reference to its blob."""
        kept = escape(text)
        return self._blob(kept) if is_long(kept) else kept

    def atom(self, atom: Atom) -> Atom:
        """Return a value for a record; a very long string is replaced by a reference to a blob."""
        is_short = atom.type != "string" or not is_long(atom.value)
        return atom if is_short else Atom("text", self._blob(atom.value))

    def _blob(self, text: str) -> dict[str, Any]:
        record = self.keep_bytes(text.encode(), "", "txt")
        return {"sha256": record["sha256"], "size": record["size"]}

    @contextlib.contextmanager
    def scratch(self) -> Iterator[IO[bytes]]:
        """Provide an open file without a name, on the disk of the run."""
        with tempfile.TemporaryFile(dir=self._place.path) as file:
            yield file

    # ---------------------------------------------------------------- completion

    def finish(self, *, alone: bool = False) -> None:
        """Move the run to its final folder; all of its journals must be closed.

        With ``alone``, raise RunExistsError if the run already exists.
        """
        for sha256 in self._unsynced:
            sync_blob(self._place, sha256)
        for path in (self._place.blobs_dir, self._place.journal_dir, self._place.path):
            sync_folder(path)
        self.folder.refuse_links()
        if is_folder(self._place.staging_dir):
            os.rmdir(self._place.staging_dir)
        if not self._move_into_place():
            if alone:
                raise run_exists_error(self.folder)
            self._merge()
        sync_folder(self._place.path.parent)

    def _move_into_place(self) -> bool:
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

    def _merge(self) -> None:
        for source, target in (
            (self._place.blobs_dir, self.folder.blobs_dir),
            (self._place.journal_dir, self.folder.journal_dir),
        ):
            if names := names_in(source):
                make_folder(target)
                _move(source, target, names)

    def close(self) -> None:
        """Remove the draft unless it was finished."""
        for journal in self._journals:
            journal.release()
        with contextlib.suppress(OSError):
            if not self._placed:  # otherwise the folder may belong to another process
                self._clear(lock=True)
                os.rmdir(self._place.path)
        os.close(self._lock)


def _move(source: Path, target: Path, names: list[str]) -> None:
    with closing_fd(open_folder(source)) as above, closing_fd(open_folder(target)) as below:
        for name in names:
            os.rename(name, name, src_dir_fd=above, dst_dir_fd=below)
        os.fsync(below)
