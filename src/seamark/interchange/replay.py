"""Replay of the operations of the Neptune client into a journal, in their order.

Points without a step are numbered as by Neptune's server, one after the last step of the series, so
a log must be read from its start even if its first part was imported before.
"""

from __future__ import annotations

import base64
import glob
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from seamark.blobs.store import digest_of
from seamark.errors import ArgumentError
from seamark.interchange.draft import Draft, Fields, ImportedJournal
from seamark.interchange.operations import (
    OPERATION_ERRORS,
    Operations,
    State,
    checked_time,
)
from seamark.interchange.source import (
    Notes,
    Places,
    extension_of,
    legal_path,
    open_below,
    walk_below,
)
from seamark.journal.format import Kind
from seamark.journal.safe import is_folder
from seamark.values import Atom, escape

_UPLOAD_FOLDER: Final = "upload_path"
_DAMAGED: Final = "damaged operations, or operations that Neptune refuses"
_VERBS: Final = {
    "AddStrings": "insertStrings",
    "ClearFloatLog": "clearFloatSeries",
    "ClearStringLog": "clearStringSeries",
    "ClearImageLog": "clearImageSeries",
}
"""Names of operations in the client's requests that differ from those in its folders."""


class Memory(State):
    """State of a run over all of its processes, and the journal of the current process.

    `journal` is None during operations that were imported before.
    """

    def __init__(self) -> None:
        super().__init__()
        self.journal: ImportedJournal | None = None
        self.atoms: dict[str, Atom] = {}
        self.members: dict[str, set[str]] = {}

    def op(self, record: Fields, kind: int = Kind.OP) -> None:
        """See `Records.op`."""
        if self.journal is not None:
            self.journal.op(record, kind)

    def column(
        self,
        path: str,
        values: Sequence[float],
        steps: Sequence[float],
        times_ns: Sequence[int] | None,
    ) -> None:
        """See `Records.column`."""
        if self.journal is not None:
            self.journal.column(path, values, steps, times_ns)

    def removed(self, path: str) -> None:
        """See `State.removed`."""
        super().removed(path)
        self.members.pop(path, None)


class Replay(Operations):
    """Replay of the operations of one process into the journal of a `Memory`.

    Referenced files may be read from ``places``.
    """

    def __init__(
        self, draft: Draft, folder: Path, container: str, places: Places, memory: Memory
    ) -> None:
        super().__init__(memory, lambda data: str(draft.keep_bytes(data, "", "")["sha256"]))
        self._container = container
        self._draft, self._folder, self._places, self._memory = draft, folder, places, memory
        self._notes = Notes()

    def begin(self, journal: ImportedJournal, notes: Notes) -> None:
        """Write the following operations to a journal."""
        self.flush()  # operations that were imported before
        self._memory.journal, self._notes = journal, notes

    def take(self, operation: Fields, time_ns: int) -> None:
        """Apply one operation with its time, in nanoseconds since the Unix epoch."""
        kind, parts = operation["type"], operation.get("path")
        if not isinstance(parts, list) or not all(isinstance(each, str) for each in parts):
            self._notes.add(_DAMAGED, f"{kind:.80}")
            return
        path = legal_path("/".join(parts), self._notes)
        if path is None:
            return
        if self._memory.journal is not None:
            self._memory.journal.at(time_ns)
        try:
            if (do := self._FOLDER_ACTIONS.get(kind)) is not None:
                self.flush()
                do(self, path, operation)
            else:
                verb = _VERBS.get(kind, kind[:1].lower() + kind[1:])
                self.apply(path, verb, self._requested(path, kind, operation))
        except OPERATION_ERRORS as error:
            self._notes.add(_DAMAGED, f"{kind:.80} of {path!r:.120}: {error!s:.200}")

    def _requested(self, path: str, kind: str, operation: Fields) -> dict[str, Any]:
        """Return an operation in the form of the client's requests."""
        if kind == "AssignDatetime":
            return {"valueMilliseconds": operation["value"]}
        if not kind.startswith("Log"):
            return {**operation, "filePaths": operation.get("file_paths")}
        entries = []
        for one in operation["values"]:
            value = one["value"]
            if kind == "LogImages":
                value = value if isinstance(value, dict) else {"data": value}
                if not value.get("data"):
                    self._notes.add("images that the client had omitted as too large", path)
                    continue
            entries.append({**one, "value": value})
        return {"entries": entries}

    def time_of(self, entry: Fields) -> int:
        """See `Operations.time_of`; times in the client's folders have a higher resolution."""
        if "ts" not in entry:  # the point of an empty series
            return super().time_of(entry)
        return checked_time(round(entry["ts"] * 1e6) * 1000)

    def assign(self, path: str, kind: str, atom: Atom) -> None:
        """See `Operations.assign`; each value is written with its own time."""
        super().assign(path, kind, atom)
        self._memory.atoms[path] = self._atoms.pop(path)
        self._to.assign({path: self._memory.atoms[path]})

    def _copy(self, path: str, operation: Fields) -> None:
        source = "/".join(operation["source_path"])
        kind = self._to.kinds.get(source) or ""
        if operation["container_id"] != self._container or not kind.startswith("atom:"):
            self._notes.add("copies of values from another run", f"{path!r:.120}")
        else:
            self.assign(path, kind, self._memory.atoms[source])

    def _remove(self, path: str, _: Fields) -> None:
        # Files of an earlier import may no longer exist, and are then unknown here.
        if self._to.kinds.get(path) is None and not path.startswith("sys/"):
            self._to.kinds[path] = "file_set"
        self._delete(path, {})

    # ---------------------------------------------------------------- files

    def _upload(self, path: str, operation: Fields) -> None:
        ext, named = str(operation.get("ext") or ""), operation.get("file_path")
        stored = operation.get("tmp_file_name")
        shown = f"{path.rpartition('/')[2]}.{ext}" if ext else path.rpartition("/")[2]
        with self._notes.failures(path, named or stored):
            if named:
                base, name = self._place(named)
                shown = os.path.basename(name)
            else:
                base, name = self._folder, f"{_UPLOAD_FOLDER}/{stored}"
            with open_below(base, name) as file:
                record = self._draft.keep(file, shown, ext or extension_of(shown))
            self.put(path, "file", {"op": "file", "file": record})

    def _upload_content(self, path: str, operation: Fields) -> None:
        ext, content = str(operation.get("ext") or ""), operation["file_content"]
        name = path.rpartition("/")[2]
        shown = f"{name}.{ext}" if ext else name
        record = self._draft.keep_bytes(base64.b64decode(content), shown, ext)
        self.put(path, "file", {"op": "file", "file": record})

    def _place(self, path: Any) -> tuple[Path, str]:
        if not isinstance(path, str) or "\0" in path or (found := self._places.below(path)) is None:
            raise ArgumentError(f"{path!r:.120} is outside the permitted folders")
        return found

    def _files(self, path: str, target: str) -> Iterator[tuple[Path, str, bool]]:
        """Yield folder and name of each file at or below a path, and whether it is that path."""
        with self._notes.failures(path, target):
            base, name = self._place(target)
            if os.path.islink(base / name):
                raise ArgumentError(f"{target!r:.120} is a link")
            if os.path.isfile(base / name):
                yield base, name, True
                return
            if not is_folder(base / name):
                raise FileNotFoundError(target)
            for each in walk_below(base, name):
                yield base, each, False

    def _upload_set(self, path: str, operation: Fields) -> None:
        members = {}
        if self._memory.journal is not None:
            for base, name, shown in self._matches(path, operation["file_globs"]):
                with self._notes.failures(path, name), open_below(base, name) as file:
                    last = shown.rpartition("/")[2]
                    members[escape(shown)] = self._draft.keep(file, last, extension_of(last))
        if operation.get("reset") in (True, "True"):
            self.expect(path, "file_set")
            self._remove(path, {})
        self.put_members(path, members)
        self._memory.members.setdefault(path, set()).update(members)

    def _matches(self, path: str, patterns: Sequence[str]) -> Iterator[tuple[Path, str, str]]:
        tops: list[str] = []
        for pattern in patterns:
            fixed = pattern
            while glob.has_magic(fixed):
                fixed = os.path.dirname(fixed)
            with self._notes.failures(path, pattern):
                self._place(os.path.abspath(fixed))
                matched = sorted(glob.iglob(pattern, recursive=True))
                if not matched:
                    raise FileNotFoundError(pattern)
                tops += map(os.path.abspath, matched)
        above = os.path.commonpath([os.path.dirname(top) for top in tops]) if tops else ""
        for top in tops:
            for base, name, _ in self._files(path, top):
                yield base, name, os.path.relpath(base / name, above).replace(os.sep, "/")

    def _members(self, path: str) -> Collection[str]:
        return sorted(self._memory.members.get(path, ()))

    # ---------------------------------------------------------------- artifacts

    def _tracked(self, digest: str) -> Fields:
        return {"kind": "tracked", "files": [], "references": [], "hash": escape(digest)}

    def _track(self, path: str, operation: Fields) -> None:
        """Record names, sizes and digests of tracked files, whose contents are not stored."""
        files: list[dict[str, Any]] = []
        references: list[str] = []
        for target, destination in operation["entries"]:
            if "://" in target and not target.startswith("file://"):
                references.append(escape(target))
                continue
            given = urlsplit(target).path if target.startswith("file://") else target
            first = self._places.folders[0] if self._places.folders else Path()
            wanted = os.path.normpath(os.path.join(first, given))
            before = f"{destination.strip('/')}/" if destination else ""
            for base, name, is_target in self._files(path, wanted):
                above = os.path.dirname(wanted) if is_target else wanted
                shown = os.path.relpath(base / name, above)
                with self._notes.failures(path, target), open_below(base, name) as file:
                    sha256, size = digest_of(file.fileno())
                    files.append({"path": escape(before + shown), "size": size, "sha256": sha256})
        known = {**self._tracked(""), "files": files, "references": references}
        self.put(path, "artifact", {"op": "artifact", **known})

    _FOLDER_ACTIONS: ClassVar[dict[str, Callable[[Replay, str, Fields], None]]] = {
        "CopyAttribute": _copy,
        "DeleteAttribute": _remove,
        "UploadFile": _upload,
        "UploadFileContent": _upload_content,
        "UploadFileSet": _upload_set,
        "TrackFilesToArtifact": _track,
    }
