"""Writer of journals whose records have the times of an import source.

`seamark.journal.writer` gives each record the time at which it is made, and never waits for a disk.
Here the times come from the source, a failure ends the import of the run, and the same source
always results in the same bytes, so a repeated import changes nothing.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from seamark import __version__
from seamark.journal.folder import journal_name
from seamark.journal.format import (
    MAX_PAYLOAD_BYTES,
    ZLIB,
    Kind,
    dump_json,
    file_header,
    frame_bytes,
    salt_of,
)
from seamark.journal.rows import Column, RowTable
from seamark.journal.safe import make_folder, open_folder
from seamark.values import Atom, Escaped

if TYPE_CHECKING:
    from seamark.journal.folder import RunFolder

__all__ = ["GivenJournal", "sound_time", "writer_of"]

_BUFFER_BYTES: Final = 1 << 20
_COMPRESS_BYTES: Final = 1 << 16
_FRAME_CHARACTERS: Final = 1 << 20
_COLUMN_POINTS: Final = 500_000
_LATEST_NS: Final = 1 << 62
"""Times of records have to stay below what 64 bits hold; this is the year 2116."""
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | getattr(os, "O_CLOEXEC", 0)


def writer_of(uid: bytes) -> str:
    """Return the writer id of an imported journal."""
    return f"import-{uid.hex()[:8]}"


def sound_time(time_ns: int | None) -> int:
    """Return a time as a record may have it, nanoseconds since the Unix epoch; 0 for no time."""
    return min(max(0, time_ns or 0), _LATEST_NS)


class GivenJournal:
    """A journal that is written once, from its first byte to its last.

    Args:
        folder: Of the run in which it is written.
        run: Project and id of the run that it belongs to.
        uid: 16 bytes that follow from what is imported.
        header: The HEADER record's own part.
        begun_ns: When it begins, nanoseconds since the Unix epoch.

    Attributes:
        last_t: Time of the last record, nanoseconds since the Unix epoch.

    Raises:
        OSError: If it cannot be made.
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
        above = open_folder(folder.journal_dir)
        try:
            name = journal_name(writer_of(uid), uid)
            self._fd = os.open(name, _CREATE, 0o666, dir_fd=above)
        finally:
            os.close(above)
        project, name = run
        told = {"format": 1, "seamark": __version__, "run": name, "project": project}
        told |= {"writer": writer_of(uid), "continues": None, "prior_t": 0, **header}
        self._add(self._frame(Kind.HEADER, dump_json(told)))

    def at(self, time_ns: int) -> None:
        """Give what follows this time, in nanoseconds since the Unix epoch, or the next one."""
        self._at = sound_time(time_ns)

    def op(self, record: Mapping[str, Any], kind: int = Kind.OP) -> None:
        """Append a JSON record.

        Raises:
            ValueError: If it is longer than a record may be, or holds what JSON has no form for.
            OSError: If it cannot be written.
        """
        payload, flags = dump_json(record), 0
        if len(payload) > MAX_PAYLOAD_BYTES:
            msg = f"a record of {len(payload):,} bytes is longer than {MAX_PAYLOAD_BYTES:,}"
            raise ValueError(msg)
        if len(payload) > _COMPRESS_BYTES:
            payload, flags = zlib.compress(payload, 1), ZLIB
        self._add(self._frame(kind, payload, flags=flags))

    def assign(self, atoms: Mapping[str, Atom]) -> None:
        """Append values, in as few records as their size allows."""
        part: dict[str, Atom] = {}
        size = 0
        for path, atom in atoms.items():
            weight = len(path) + (len(atom.value) if isinstance(atom.value, str) else 32)
            if part and size + weight > _FRAME_CHARACTERS:
                self._assign(part)
                part, size = {}, 0
            part[path] = atom
            size += weight
        if part:
            self._assign(part)

    def _assign(self, atoms: Mapping[str, Atom]) -> None:
        op: dict[str, Any] = {"op": "assign", "atoms": atoms}
        if escaped := [path for path, atom in atoms.items() if isinstance(atom.value, Escaped)]:
            op["escaped"] = escaped
        self.op(op)

    def column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float],
        times_ns: Sequence[int] | None,
    ) -> None:
        """Append points of a series of numbers: as many finite steps, and times or none.

        Times are in nanoseconds since the Unix epoch.
        """
        for start in range(0, len(values), _COLUMN_POINTS):
            part = slice(start, start + _COLUMN_POINTS)
            times = None if times_ns is None else times_ns[part]
            column = Column(self._table, path, values[part], steps[part], times)
            frames = column.frames()
            column.mark_written(len(frames), self.last_t)
            self._add(*frames)

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

    def close(self, time_ns: int) -> None:
        """Append the end at a time, nanoseconds since the Unix epoch, and force all to disk.

        Raises:
            OSError: If it cannot be written.
        """
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
        view = memoryview(bytes(self._waiting))
        self._waiting.clear()
        while view:
            view = view[os.write(self._fd, view) :]


def _parts(points: Iterable[Sequence[Any]], weigh: Any) -> Iterator[list[Sequence[Any]]]:
    part: list[Sequence[Any]] = []
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
