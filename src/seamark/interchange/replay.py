"""Replay of the operations of the Neptune client into a journal, in their order.

Points without a step are numbered as Neptune's server did, 1 after the last one of the series, so a
log has to be read from its start even if its first part was imported before.
"""

from __future__ import annotations

import base64
import contextlib
import glob
import math
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from seamark.blobs.store import digest_of
from seamark.errors import ArgumentError
from seamark.interchange.found import (
    DERIVED,
    MISSING,
    REFUSED,
    Notes,
    extension_of,
    legal_path,
    open_below,
    walk_below,
)
from seamark.journal.format import digest_of_text
from seamark.journal.safe import is_folder
from seamark.paths import is_inside
from seamark.values import Atom, encode_atom, escape

if TYPE_CHECKING:
    from seamark.interchange.draft import Draft, GivenJournal
    from seamark.interchange.found import Places

__all__ = ["Memory", "Replay"]

_POINTS: Final = 200_000
"""So many points wait at most, to be written by series."""
_CHARACTERS: Final = 8 << 20
_LONG_TEXT: Final = 1 << 20
_MEMBERS: Final = 1000
_UPLOADS: Final = "upload_path"
_DAMAGED: Final = "operations that are damaged"
_ASSIGNED: Final = ("AssignFloat", "AssignInt", "AssignBool", "AssignString")
_LAST_STEP: Final = 1e300


class Memory:
    """State of a run by path, of which later operations depend."""

    def __init__(self) -> None:
        self.atoms: dict[str, Atom] = {}
        self.steps: dict[str, float] = {}
        self.members: dict[str, set[str]] = {}

    def forget(self, path: str) -> None:
        """Forget the state of a path and of everything below it."""
        held: dict[str, Any]
        for held in (self.atoms, self.steps, self.members):
            for each in [one for one in held if is_inside(one, path)]:
                del held[each]


class Replay:
    """Takes operations of one process to a journal; None as long as they are known already.

    Files may be taken from ``places`` that are only named; ``memory`` goes from process to process.
    """

    def __init__(
        self, draft: Draft, folder: Path, container: str, places: Places, memory: Memory
    ) -> None:
        self.journal: GivenJournal | None = None
        self._container = container
        self._draft, self._folder, self._places, self._memory = draft, folder, places, memory
        self._notes = Notes()
        self._floats: dict[str, tuple[list[float], list[float], list[int]]] = {}
        self._texts: dict[str, list[list[Any]]] = {}
        self._waiting = self._characters = 0
        self._do: Mapping[str, Callable[[str, Mapping[str, Any]], None]] = {
            **dict.fromkeys(_ASSIGNED, self._assign),
            "AssignDatetime": self._assign_time,
            "LogFloats": self._log_floats,
            "LogStrings": self._log_texts,
            "LogImages": self._log_images,
            "AddStrings": self._add,
            "RemoveStrings": self._remove,
            "ClearStringSet": self._clear,
            "ClearFloatLog": self._clear,
            "ClearStringLog": self._clear,
            "ClearImageLog": self._clear,
            "DeleteAttribute": self._delete,
            "UploadFile": self._upload,
            "UploadFileContent": self._upload_content,
            "UploadFileSet": self._upload_set,
            "DeleteFiles": self._delete_files,
            "CopyAttribute": self._copy,
            "AssignArtifact": self._assign_artifact,
            "TrackFilesToArtifact": self._track,
            "ClearArtifact": self._clear_artifact,
            "ConfigFloatSeries": self._configure,
        }

    def begin(self, journal: GivenJournal, notes: Notes) -> None:
        """Write the following operations."""
        self.journal, self._notes = journal, notes

    def take(self, operation: Mapping[str, Any], time_ns: int) -> None:
        """Take one operation that was made at a time, in nanoseconds since the Unix epoch."""
        kind = operation["type"]
        if (do := self._do.get(kind)) is None:
            self._notes.add("operations of an unknown kind", f"{kind!r:.80}")
            return
        parts = operation.get("path")
        if not isinstance(parts, list) or not all(isinstance(each, str) for each in parts):
            self._notes.add(_DAMAGED, f"{kind:.80}")
            return
        path = legal_path("/".join(parts), self._notes)
        if path is None or path in DERIVED:
            return
        if self.journal is not None:
            self.journal.at(time_ns)
        try:
            do(path, operation)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            self._notes.add(_DAMAGED, f"{kind:.80} of {path!r:.120}")

    def finish(self) -> None:
        """Write the points that wait."""
        for path, (values, steps, times) in self._floats.items():
            if self.journal is not None:
                self.journal.column(path, values, steps, times)
        for path, points in self._texts.items():
            if self.journal is not None:
                self.journal.texts(path, points)
        self._floats, self._texts = {}, {}
        self._waiting = self._characters = 0

    def _op(self, op: Mapping[str, Any], *, after: str | None = None) -> None:
        if after is not None and (self._floats or self._texts):
            self.finish()
        if self.journal is not None:
            self.journal.op(op)

    # ---------------------------------------------------------------- values

    def _assign(self, path: str, operation: Mapping[str, Any]) -> None:
        value = operation["value"]
        if isinstance(value, str) and len(value) > _LONG_TEXT:
            self._value(path, Atom("text", digest_of_text(self._draft.text(value))))
        elif value is None or isinstance(value, (bool, int, float, str)):
            if operation["type"] == "AssignFloat" and value is not None:
                value = float(value)
            self._value(path, encode_atom(value))
        else:
            raise TypeError

    def _assign_time(self, path: str, operation: Mapping[str, Any]) -> None:
        moment = datetime.fromtimestamp(operation["value"] / 1000, timezone.utc)
        self._value(path, encode_atom(moment))

    def _value(self, path: str, atom: Atom) -> None:
        self._memory.atoms[path] = atom
        if path in self._memory.steps:  # a series was there, and is not any more
            self.finish()
            self._memory.steps.pop(path)
        if self.journal is not None:
            self.journal.assign({path: atom})

    def _copy(self, path: str, operation: Mapping[str, Any]) -> None:
        source = "/".join(operation["source_path"])
        mine = operation["container_id"] == self._container
        atom = self._memory.atoms.get(source) if mine else None
        if atom is None:
            self._notes.add("copies of what another run holds", f"{path!r:.120}")
        else:
            self._value(path, atom)

    def _add(self, path: str, operation: Mapping[str, Any]) -> None:
        self._op({"op": "add", "path": path, "values": _texts_of(operation["values"])})

    def _remove(self, path: str, operation: Mapping[str, Any]) -> None:
        self._op({"op": "remove", "path": path, "values": _texts_of(operation["values"])})

    def _clear(self, path: str, _: Mapping[str, Any]) -> None:
        self._memory.steps.pop(path, None)
        self._op({"op": "clear", "path": path}, after=path)

    def _delete(self, path: str, _: Mapping[str, Any]) -> None:
        self._memory.forget(path)
        self._op({"op": "delete", "paths": [path]}, after=path)

    def _configure(self, path: str, operation: Mapping[str, Any]) -> None:
        if any(operation.get(each) is not None for each in ("min", "max", "unit")):
            self._notes.add("limits and units of charts", f"{path!r:.120}")

    # ---------------------------------------------------------------- series

    def _points(self, path: str, operation: Mapping[str, Any]) -> Iterator[tuple[float, Any, int]]:
        """Yield step, value and time (ns since the Unix epoch) of the points of an operation."""
        for one in operation["values"]:
            step, seconds = one.get("step"), one["ts"]
            if step is None:
                last = self._memory.steps.get(path)
                step = 0.0 if last is None else last + 1
            step = float(step)
            if not -_LAST_STEP < step < _LAST_STEP or not math.isfinite(seconds):
                raise ValueError
            self._memory.steps[path] = max(step, self._memory.steps.get(path, step))
            yield step, one["value"], round(seconds * 1e6) * 1000

    def _log_floats(self, path: str, operation: Mapping[str, Any]) -> None:
        values, steps, times = self._floats.setdefault(path, ([], [], []))
        for step, value, time_ns in self._points(path, operation):
            values.append(float(value))
            steps.append(step)
            times.append(time_ns)
            self._waits()

    def _log_texts(self, path: str, operation: Mapping[str, Any]) -> None:
        for step, value, time_ns in self._points(path, operation):
            text = self._draft.text(str(value))
            self._texts.setdefault(path, []).append([step, text, time_ns])
            self._waits(len(text))

    def _waits(self, characters: int = 0) -> None:
        self._waiting += 1
        self._characters += characters
        if self.journal is None:
            self._floats, self._texts = {}, {}
        elif self._waiting >= _POINTS or self._characters >= _CHARACTERS:
            self.finish()

    def _log_images(self, path: str, operation: Mapping[str, Any]) -> None:
        for step, value, time_ns in self._points(path, operation):
            image = {"data": value} if isinstance(value, str) or value is None else value
            if not (data := image.get("data")):
                self._notes.add("pictures that the client had left out as too large", path)
                continue
            content = base64.b64decode(data)
            ext = extension_of("", content[:64]) or "png"
            op = {"op": "file_point", "path": path, "step": step, "time": time_ns}
            op["file"] = self._draft.keep_bytes(content, f"{os.path.basename(path)}.{ext}", ext)
            told = {"name": image.get("name"), "description": image.get("description")}
            self._op(op | {key: escape(str(text)) for key, text in told.items() if text})

    # ---------------------------------------------------------------- files

    def _upload(self, path: str, operation: Mapping[str, Any]) -> None:
        ext, named = str(operation.get("ext") or ""), operation.get("file_path")
        stored = operation.get("tmp_file_name")
        shown = f"{path.rpartition('/')[2]}.{ext}" if ext else path.rpartition("/")[2]
        with self._refusing(path, named or stored):
            if named:
                base, name = self._place(named)
                shown = os.path.basename(name)
            else:
                base, name = self._folder, f"{_UPLOADS}/{stored}"
            with open_below(base, name) as file:
                record = self._draft.keep(file, shown, ext or extension_of(shown))
            self._op({"op": "file", "path": path, "file": record})

    def _upload_content(self, path: str, operation: Mapping[str, Any]) -> None:
        ext, content = str(operation.get("ext") or ""), operation["file_content"]
        name = path.rpartition("/")[2]
        shown = f"{name}.{ext}" if ext else name
        record = self._draft.keep_bytes(base64.b64decode(content), shown, ext)
        self._op({"op": "file", "path": path, "file": record})

    def _place(self, path: Any) -> tuple[Path, str]:
        if not isinstance(path, str) or "\0" in path or (found := self._places.below(path)) is None:
            msg = f"{path!r:.120} is outside of the folders that may be read"
            raise ArgumentError(msg)
        return found

    @contextlib.contextmanager
    def _refusing(self, path: str, name: Any) -> Iterator[None]:
        try:
            yield
        except ArgumentError:
            self._notes.add(REFUSED, f"{path}: {name!r:.120}")
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            kind = REFUSED if "link" in str(error) else MISSING
            self._notes.add(kind, f"{path}: {name!r:.120}")

    def _upload_set(self, path: str, operation: Mapping[str, Any]) -> None:
        if operation.get("reset") in (True, "True"):
            self._memory.members.pop(path, None)
            self._op({"op": "delete", "paths": [path]}, after=path)
        known = self._memory.members.setdefault(path, set())
        if self.journal is None:
            return
        members = {}
        for base, name, shown in self._matches(path, operation["file_globs"]):
            with self._refusing(path, name), open_below(base, name) as file:
                last = shown.rpartition("/")[2]
                members[escape(shown)] = self._draft.keep(file, last, extension_of(last))
            if len(members) >= _MEMBERS:
                self._op({"op": "files", "path": path, "members": members})
                known.update(members)
                members = {}
        if members:
            self._op({"op": "files", "path": path, "members": members})
            known.update(members)

    def _matches(self, path: str, patterns: Any) -> Iterator[tuple[Path, str, str]]:
        tops: list[str] = []
        for pattern in patterns:
            fixed = pattern
            while glob.has_magic(fixed):
                fixed = os.path.dirname(fixed)
            if not isinstance(pattern, str) or not self._places.is_around(os.path.abspath(fixed)):
                self._notes.add(REFUSED, f"{path}: {pattern!r:.120}")
                continue
            matched = sorted(glob.iglob(pattern, recursive=True))
            if not matched:
                self._notes.add(MISSING, f"{path}: {pattern!r:.120}")
            tops += map(os.path.abspath, matched)
        if not tops:
            return
        above = os.path.commonpath([os.path.dirname(top) for top in tops])
        for top in tops:
            with self._refusing(path, top):
                if top in map(str, self._places.folders):
                    base, name = Path(top).parent, os.path.basename(top)
                else:
                    base, name = self._place(top)
                is_file = os.path.isfile(base / name)
                if not is_file and not is_folder(base / name):
                    is_link = os.path.islink(base / name)
                    self._notes.add(REFUSED if is_link else MISSING, f"{path}: {top!r:.120}")
                for each in [name] if is_file else walk_below(base, name):
                    yield base, each, os.path.relpath(base / each, above).replace(os.sep, "/")

    def _delete_files(self, path: str, operation: Mapping[str, Any]) -> None:
        known = self._memory.members.get(path, set())
        given = [each.rstrip("/") for each in operation["file_paths"]]
        names = sorted(one for one in known if any(is_inside(one, each) for each in given))
        known.difference_update(names)
        if names:
            self._op({"op": "unfiles", "path": path, "names": names})

    # ---------------------------------------------------------------- artifacts

    def _assign_artifact(self, path: str, operation: Mapping[str, Any]) -> None:
        self._artifact(path, [], [], escape(str(operation["hash"])))

    def _clear_artifact(self, path: str, _: Mapping[str, Any]) -> None:
        self._artifact(path, [], [], "")

    def _artifact(
        self, path: str, files: list[dict[str, Any]], references: list[str], digest: str
    ) -> None:
        known = {"kind": "tracked", "files": files, "references": references, "hash": digest}
        self._op({"op": "artifact", "path": path, **known})

    def _track(self, path: str, operation: Mapping[str, Any]) -> None:
        """Take down tracked files, whose contents are not kept: names, sizes and digests."""
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
            with self._refusing(path, target):
                base, name = self._place(wanted)
                is_file = os.path.isfile(base / name)
                for each in [name] if is_file else walk_below(base, name):
                    shown = os.path.basename(each) if is_file else os.path.relpath(each, name)
                    with open_below(base, each) as file:
                        sha256, size = digest_of(file.fileno())
                    files.append({"path": escape(before + shown), "size": size, "sha256": sha256})
        self._artifact(path, files, references, "")


def _texts_of(values: Any) -> list[str]:
    return [escape(str(each)) for each in sorted(values)]
