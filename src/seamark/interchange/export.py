"""Import of runs from neptune-exporter: Parquet files with a row for each value and point.

The files of a run have a common prefix and a part number; part 0 is written last. Rows are not
sorted, and a run may have hundreds of millions of them, so they are copied to the journal batch by
batch. Only the few rows below ``sys/``, with times, owner and ids, are read first. Readers sort
points by step, so nothing needs to be sorted here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.errors import MissingExtraError, PathError
from seamark.interchange.draft import NotImportedError, limited_time
from seamark.interchange.source import (
    RunSummary,
    extension_of,
    has_journal,
    keep_zip,
    legal_path,
    open_below,
    run_id_of,
    uid_of,
    walk_below,
)
from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.journal.safe import open_file
from seamark.paths import check_project
from seamark.values import Atom, encode_atom, escape

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from seamark.interchange.draft import Draft, ImportedJournal
    from seamark.interchange.source import Notes, Progress


_INVALID: Final = re.compile(r"[^A-Za-z0-9._-]")
_MAX_PART_CHARACTERS: Final = 80


def project_of(name: str) -> str:
    """Return the project path for a name such as ``workspace/project``.

    A valid path is returned unchanged. In other names, invalid characters are replaced by a dash,
    and eight digits of a digest are appended to distinguish similar names.
    """
    try:
        return check_project(name)
    except PathError:
        parts = [
            _INVALID.sub("-", part).strip("-._")[:_MAX_PART_CHARACTERS] for part in name.split("/")
        ]
        clean = "/".join(part or "project" for part in parts[:4])
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        try:
            return check_project(f"{clean}-{digest}")
        except PathError:
            return f"imported/project-{digest}"


_BATCH_ROWS: Final = 1 << 16
_PART: Final = re.compile(r"(.+)_part_([0-9]{1,9})\.parquet", re.DOTALL)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EARLY_NS: Final = 60 * 10**9
_VALUES: Final = {
    "float": "float_value",
    "int": "int_value",
    "string": "string_value",
    "bool": "bool_value",
    "datetime": "datetime_value",
}
_SERIES: Final = ("float_series", "string_series", "histogram_series", "file_series")
_COLUMN_OF: Final = {
    **_VALUES,
    "float_series": "float_value",
    "string_series": "string_value",
    "histogram_series": "histogram_value",
    "string_set": "string_set_value",
    **dict.fromkeys(("file", "file_set", "artifact", "file_series"), "file_value"),
}
"""Column that holds the value, by kind of attribute."""
_KINDS: Final = {
    **dict.fromkeys(("project_id", "run_id", "attribute_path", "attribute_type"), "string"),
    "step": "decimal128(18, 6)",
    "timestamp": "timestamp[ms, tz=UTC]",
    "int_value": "int64",
    "float_value": "double",
    "string_value": "string",
    "bool_value": "bool",
    "datetime_value": "timestamp[ms, tz=UTC]",
    "string_set_value": "list<string>",
    "file_value": "struct<path: string>",
    "histogram_value": "struct<type: string, edges: list<double>, values: list<double>>",
}
"""Columns of an export and their types in pyarrow's notation, without names of list elements."""
_ELEMENT: Final = re.compile(r"list<\w+: ")


def check_parquet() -> None:
    """Raise MissingExtraError if the extra ``parquet`` is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401 - only a check
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f'Parquet needs the package {error.name}: pip install "seamark[parquet]"',
            name=error.name,
        ) from error


def parts_below(folder: Path) -> dict[str, list[Path]]:
    """Return the sorted parts of each complete run in a folder, by prefix; prefixes are sorted."""
    found: dict[str, dict[int, Path]] = {}
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _PART.fullmatch(entry.name)
            if match and entry.is_file(follow_symlinks=False):
                found.setdefault(match[1], {})[int(match[2])] = Path(entry.path)
    return {
        prefix: [parts[number] for number in sorted(parts)]
        for prefix, parts in sorted(found.items())
        if 0 in parts
    }


class ExportedRun:
    """Run of an export; see `seamark.interchange.source.FoundRun`.

    ``project`` None means the project of the export; ``zone`` is the name of the exporter's time
    zone, None for UTC. All methods may raise any error of an unreadable file.
    """

    def __init__(
        self,
        root: Path,
        parts: Sequence[Path],
        files: Path,
        project: str | None,
        zone: str | None,
    ) -> None:
        self._parts, self._zone = list(parts), zone
        self._base = files / parts[0].parent.name
        self.size = sum(path.stat().st_size for path in self._parts)
        self._source, self.called, self._system, self._rows = _read_summary(self._parts)
        to = project or project_of(self._source)
        custom = self._text("sys/custom_run_id")
        identity = ("neptune", self._source, self.called)
        self.folder = RunFolder(root, to, run_id_of(to, identity, custom))
        self._uids = (uid_of(*identity, to), uid_of(*identity, to, "edited"))

    def missing(self) -> list[bytes]:
        """See `FoundRun.missing`."""
        if has_journal(self.folder, self._uids[0]):
            return []
        if self.folder.path.exists():
            raise NotImportedError(
                f"{self.folder.words} has the same custom id, but is another run"
            )
        return [self._uids[0]]

    def note(self) -> str:
        """See `FoundRun.note`."""
        rows = [header.get("imported_to") for header in headers(self.folder)]
        known = [each for each in rows if type(each) is int]
        changed = known and known[0] != self._rows
        return "runs that were exported again since their import: not changed" if changed else ""

    def summary(self) -> RunSummary:
        """See `FoundRun.summary`."""
        return RunSummary(self._text("sys/name") or "", self._created(), self._rows)

    def _text(self, path: str) -> str | None:
        found = self._system.get(path)
        return found if isinstance(found, str) and found else None

    def _time(self, path: str) -> int:
        found = self._system.get(path)
        return limited_time(_ns(found)) if isinstance(found, datetime) else 0

    def _created(self) -> int:
        return self._time("sys/creation_time")

    # ---------------------------------------------------------------- writing

    def write(self, draft: Draft, notes: Notes, progress: Progress) -> None:
        """See `FoundRun.write`."""
        created, modified = self._created(), self._time("sys/modification_time")
        header = {
            "attempt": 0,
            "owner": True,
            "user": escape(self._text("sys/owner") or "")[:1000],
            "sys_id": escape(self._text("sys/id") or self.called)[:1000],
            "imported": "neptune-exporter",
            "imported_project": escape(self._source)[:1000],
            "imported_run": escape(self.called)[:1000],
            "imported_to": self._rows,
        }
        journal = draft.journal(self._uids[0], header, created)
        rows = _Rows(journal, draft, notes, self._base, self._zone)
        for path in self._parts:
            self._part(path, rows, progress)
        if self._system.get("sys/archived") is True:
            journal.assign({"sys/trashed": Atom("bool", value=True)})
        failed = self._system.get("sys/failed") is True
        journal.op({"op": "state", "state": "failed" if failed else "completed"})
        journal.close(self._end_ns(created, modified, rows.last_ns))
        if modified > journal.last_t:
            # For changes after the training, such as a tag: this journal does not own the run.
            edited = draft.journal(self._uids[1], {**header, "owner": False}, modified - 1)
            edited.close(modified)
        if created and rows.first_ns < created - _EARLY_NS:
            notes.add(
                "series that begin before their run was created: the exporter may have run in a "
                "time zone other than UTC (see --tz)",
                self.called,
            )

    def _end_ns(self, created: int, modified: int, last: int) -> int:
        running = self._system.get("sys/running_time")
        if isinstance(running, (int, float)) and 0 <= running < 1e9:  # noqa: PLR2004 - seconds
            return created + int(running * 1e9)
        return modified or max(created, last)

    def _part(self, path: Path, rows: _Rows, progress: Progress) -> None:
        with _opened(path) as file:
            total = max(1, file.metadata.num_rows)
            size, done, reported = path.stat().st_size, 0, 0
            for batch in file.iter_batches(_BATCH_ROWS):
                if batch.num_rows:
                    self._expect_one_run(batch)
                    rows.add(batch)
                done += batch.num_rows
                read = size * done // total
                progress(read - reported)
                reported = read

    def _expect_one_run(self, batch: pa.RecordBatch) -> None:
        for column, wanted in (("project_id", self._source), ("run_id", self.called)):
            if batch.column(column).unique().to_pylist() != [wanted]:
                raise NotImportedError(
                    f"{self.called}: expected the rows of one run, found rows of others"
                )


class _Rows:
    """Writer of the rows of a run to its journal; ``first_ns``, ``last_ns`` are times of points."""

    def __init__(
        self, journal: ImportedJournal, draft: Draft, notes: Notes, base: Path, zone: str | None
    ) -> None:
        self._journal, self._draft, self._notes = journal, draft, notes
        self._base, self._zone = base, zone
        self._paths: dict[str | None, str | None] = {None: None}
        self.first_ns, self.last_ns = 1 << 63, 0

    def add(self, batch: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        kinds = batch.column("attribute_type")
        for kind in kinds.unique().to_pylist():
            if (column := _COLUMN_OF.get(kind)) is None:
                self._notes.add(f"values of an unknown kind: {kind!r:.60}")
                continue
            wanted = batch.select(["attribute_path", "step", "timestamp", column])
            part = wanted.filter(pc.equal(kinds, kind))
            if kind in _SERIES:
                self._series(kind, part)
            elif kind in _VALUES:
                atoms = self._values(kind, part)
                self._journal.assign(
                    {path: self._draft.atom(encode_atom(value)) for path, value in atoms}
                )
            else:
                self._add_other_values(kind, part)

    def _path(self, text: str | None) -> str | None:
        if text not in self._paths:
            self._paths[text] = legal_path(text, self._notes)
        return self._paths[text]

    # ---------------------------------------------------------------- values

    def _values(self, kind: str, part: pa.RecordBatch) -> Iterator[tuple[str, Any]]:
        values = part.column(_COLUMN_OF[kind]).to_pylist()
        for text, value in zip(part.column("attribute_path").to_pylist(), values, strict=True):
            path = None if value is None else self._path(text)
            if path is not None:
                yield path, value

    def _add_other_values(self, kind: str, part: pa.RecordBatch) -> None:
        for path, value in self._values(kind, part):
            if kind == "string_set":
                values = sorted({escape(each) for each in value if each is not None})
                self._journal.op({"op": "assign_set", "path": path, "values": values})
            elif (name := value.get("path")) is not None:
                with self._notes.failures(path, name):
                    self._add_file(kind, path, name)

    def _add_file(self, kind: str, path: str, name: str) -> None:
        if kind == "file":
            self._journal.op({"op": "file", "path": path, "file": self._file(name, path)})
        elif kind == "file_set":
            self._file_set(name, path)
        else:
            self._artifact(name, path)

    def _file(self, name: str, path: str) -> dict[str, Any]:
        with open_below(self._base, name) as file:
            head = file.read(64)
            shown = name.rpartition("/")[2]
            ext = extension_of(shown, head)
            if ext and not os.path.splitext(shown)[1]:
                shown = f"{shown}.{ext}"
            return self._draft.keep(file, shown or path.rpartition("/")[2], ext)

    def _file_set(self, name: str, path: str) -> None:
        archives = [each for each in walk_below(self._base, name) if each.endswith(".zip")]
        if not archives:
            raise FileNotFoundError(name)
        with open_below(self._base, archives[0]) as file:
            members = keep_zip(file, self._draft, path, self._notes)
            self._journal.files(path, {escape(name): record for name, record in members})

    def _artifact(self, name: str, path: str) -> None:
        """Record a list of tracked files, whose contents were never stored."""
        with open_below(self._base, name) as file:
            content = file.read(1 << 26)
        try:
            files, references = _tracked(json.loads(content))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._notes.add("damaged lists of tracked files", path)
            return
        known = {"kind": "tracked", "files": files, "references": references, "hash": ""}
        self._journal.op({"op": "artifact", "path": path, **known})

    # ---------------------------------------------------------------- series

    def _series(self, kind: str, part: pa.RecordBatch) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        column = _COLUMN_OF[kind]
        known = pc.and_(pc.is_valid(part.column(column)), pc.is_valid(part.column("step")))
        part = part.filter(known)
        if not part.num_rows:
            return
        paths = part.column("attribute_path").dictionary_encode()
        codes = paths.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        part = part.take(pa.array(order))
        steps = pc.cast(part.column("step"), pa.float64()).to_numpy(zero_copy_only=False)
        times, timed = self._times(part.column("timestamp"))
        ends = [*starts[1:].tolist(), part.num_rows]
        for start, end in zip(starts.tolist(), ends, strict=True):
            path = self._path(paths.dictionary[int(codes[order[start]])].as_py())
            if path is None:
                continue
            here = slice(start, end)
            values = part.column(column).slice(start, end - start)
            self._points(
                kind, path, values, steps[here], times[here] if timed[here].all() else None
            )

    def _times(self, column: Any) -> tuple[Any, Any]:
        """Return times in ns since the Unix epoch, and a mask of the rows that have a time."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        timed = pc.is_valid(column).to_numpy(zero_copy_only=False)
        if self._zone is not None:
            local = pc.local_timestamp(column)
            column = pc.assume_timezone(
                local, self._zone, ambiguous="earliest", nonexistent="earliest"
            )
        whole = pc.fill_null(pc.cast(pc.cast(column, pa.timestamp("ms", "UTC")), pa.int64()), 0)
        times = np.clip(whole.to_numpy(zero_copy_only=False), -(1 << 42), 1 << 42) * 1_000_000
        if timed.any():
            self.first_ns = min(self.first_ns, int(times[timed].min()))
            self.last_ns = max(self.last_ns, int(times[timed].max()))
        return times, timed

    def _points(self, kind: str, path: str, values: Any, steps: Any, times: Any) -> None:
        if kind == "float_series":
            self._journal.column(path, values.to_numpy(zero_copy_only=False), steps, times)
            return
        moments = [None] * len(steps) if times is None else times.tolist()
        rows = zip(steps.tolist(), values.to_pylist(), moments, strict=True)
        convert = {"string_series": self._texts, "histogram_series": self._histograms}
        points = convert.get(kind, self._files)(path, rows)
        self._journal.points(kind, path, points)

    def _texts(self, _: str, rows: Any) -> Iterator[tuple[float, Any, Any]]:
        for step, text, time in rows:
            yield step, self._draft.text(text), time

    def _files(self, path: str, rows: Any) -> Iterator[tuple[float, Any, Any]]:
        for step, value, time in rows:
            if (name := value.get("path")) is not None:
                with self._notes.failures(path, name):
                    yield step, (self._file(name, path), {}), time

    def _histograms(self, path: str, rows: Any) -> Iterator[tuple[float, Any, Any]]:
        for step, value, time in rows:
            edges, counts = value.get("edges") or [], value.get("values") or []
            if len(edges) != len(counts) + 1 or None in edges or None in counts:
                self._notes.add("damaged histograms", path)
                continue
            if not all(map(_is_finite, (*edges, *counts))):
                self._notes.add("histograms with numbers that are not finite", path)
                continue
            if "count" not in str(value.get("type") or "count").lower():
                kind = value.get("type")
                self._notes.add(f"histograms of {kind!r:.40}, stored as if they were counts", path)
            yield step, (edges, counts), time


def _is_finite(number: float) -> bool:
    return number - number == 0


def _tracked(listed: Any) -> tuple[list[dict[str, Any]], list[str]]:
    files, references = [], []
    for one in listed:
        name, size = escape(str(one["filePath"])), one.get("size")
        file: dict[str, Any] = {"path": name}
        if type(size) is int and 0 <= size < 1 << 63:
            file["size"] = size
        files.append(file)
        if one.get("type") != "Local":
            facts = {fact.get("key"): fact.get("value") for fact in one.get("metadata") or ()}
            address = facts.get("location") or facts.get("file_path")
            references += [escape(str(address))] if address else []
    return files, references


# -------------------------------------------------------------------- reading


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    import pyarrow.parquet as pq

    with os.fdopen(open_file(path, 1), "rb") as raw, pq.ParquetFile(raw) as file:
        found = {one.name: _ELEMENT.sub("list<", str(one.type)) for one in file.schema_arrow}
        for name, kind in _KINDS.items():
            if found.get(name) != kind:
                raise NotImportedError(
                    f"expected a column {name!r} of {kind}, got {found.get(name, 'none')}"
                )
        yield file


def _read_summary(parts: Sequence[Path]) -> tuple[str, str, dict[str, Any], int]:
    """Return project, run, values below ``sys/`` and number of rows of an export."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    names: tuple[str, str] | None = None
    system: dict[str, Any] = {}
    rows = 0
    path = pc.field("attribute_path")
    for part in parts:
        with _opened(part) as file:
            rows += file.metadata.num_rows
            if names is None:
                names = _names(file)
        with os.fdopen(open_file(part, 1), "rb") as raw:
            columns = ["attribute_path", "attribute_type", *_VALUES.values()]
            found = pq.read_table(raw, columns=columns, filters=(path >= "sys/") & (path < "sys0"))
        for row in found.to_pylist():
            column = _VALUES.get(row["attribute_type"])
            if column is not None and row[column] is not None:
                system[row["attribute_path"]] = row[column]
    if names is None:
        raise NotImportedError(f"{parts[0].name} holds no rows")
    return *names, system, rows


def _names(file: pq.ParquetFile) -> tuple[str, str] | None:
    columns = ["project_id", "run_id"]
    row = next((one for one in file.iter_batches(1, columns=columns) if one.num_rows), None)
    if row is None:
        return None
    project, run = (row.column(name)[0].as_py() for name in columns)
    if not project or not run:
        raise NotImportedError("its rows name no project or no run")
    return project, run


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
