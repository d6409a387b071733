"""Import of runs from the folders of the Neptune client: logged offline, or not sent yet.

A log is a sequence of JSON objects whose version increases by one: ``{"obj": ..., "version": ...,
"at": ...}``. The client begins a new file every 64 MB; the last object may be incomplete if the
process was killed.

``.neptune/offline`` and ``.neptune/async`` have a folder for each process and run, with the
numbered operations of the process in files that only grow. A run that several processes resumed has
several folders; each becomes a journal of the same run. The id of the run is derived from its id in
the client. If a log has grown since its import, the rest becomes a further journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from seamark.interchange.draft import Draft
from seamark.interchange.replay import Memory, Replay
from seamark.interchange.source import Notes, Places, Progress, RunSummary, run_id_of, uid_of
from seamark.journal.folder import RunFolder
from seamark.journal.headers import headers
from seamark.journal.safe import is_folder, open_file
from seamark.values import Atom, escape

_LOG: Final = re.compile(r"data-([0-9]{1,18})\.log")
_MAX_LOG_BYTES: Final = 1 << 28
"""Number of bytes that are read of a log; the client's logs are much smaller."""
_OBJECT: Final = re.compile(r"\S")
_NEXT_OBJECT: Final = re.compile(r"\n\s*\{")


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in a folder, sorted by number."""
    found = []
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        match = _LOG.fullmatch(name)
        if match and not (folder / name).is_symlink():
            found.append((int(match[1]), folder / name))
    return [path for _, path in sorted(found)]


def operations(
    logs: Sequence[Path], notes: Notes, progress: Progress
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield number, time (ns since the Unix epoch; 0: none) and operation; note damaged ones."""
    for log in logs:
        for found in _objects(log, notes, progress):
            version: Any = found.get("version")
            operation: Any = found.get("obj")
            known = type(version) is int and isinstance(operation, dict)
            if known and isinstance(operation.get("type"), str):
                yield version, _ns(found.get("at")), operation
            else:
                notes.add("damaged operations", log.name)


def _ns(seconds: Any) -> int:
    good = isinstance(seconds, (int, float)) and 0 < seconds < 4e9  # noqa: PLR2004 - year 2096
    return round(seconds * 1e6) * 1000 if good else 0


def _objects(log: Path, notes: Notes, progress: Progress) -> Iterator[dict[str, Any]]:
    decode = json.JSONDecoder().raw_decode
    with os.fdopen(open_file(log, 1), "rb") as file:
        text = file.read(_MAX_LOG_BYTES).decode("utf-8", "replace")
    start = 0
    while (found := _OBJECT.search(text, start)) is not None:
        try:
            operation, end = decode(text, found.start())
        except (ValueError, RecursionError):  # incomplete at the end, or damaged
            notes.add("incomplete or damaged operations", log.name)
            match = _NEXT_OBJECT.search(text, found.end())
            end = len(text) if match is None else match.start()
        else:
            yield operation if isinstance(operation, dict) else {}
        progress(end - start)
        start = end


_NAME: Final = re.compile(r"([a-z_]+)__([0-9A-Za-z-]{1,64})(?:__.*)?", re.DOTALL)
_METADATA_BYTES: Final = 1 << 20


class ClientFolder(NamedTuple):
    """Folder of the Neptune client with the operations that one process logged to one container.

    ``kind`` is ``run``, ``project``, ``model`` or ``model_version``; ``created_ns`` is nanoseconds
    since the Unix epoch, 0 if unknown.
    """

    path: Path
    kind: str
    container: str
    created_ns: int


def folders_below(path: Path) -> list[ClientFolder]:
    """Return the folders of the client at or below a path, without following links.

    The path may be ``.neptune``, its parent folder, ``offline`` or ``async`` in it, or the folder
    of one process.
    """
    tops = [path, *(path / name for name in (".neptune", "offline", "async"))]
    tops += [path / ".neptune" / name for name in ("offline", "async")]
    places = [path]
    for top in tops:
        if is_folder(top) or top == path:
            with contextlib.suppress(OSError):
                places += [top / name for name in sorted(os.listdir(top))]
    found = (
        _client_folder(place)
        for place in dict.fromkeys(places)
        if place == path or is_folder(place)
    )
    return [one for one in found if one is not None]


def _client_folder(place: Path) -> ClientFolder | None:
    logs = logs_in(place)
    if not logs:
        return None
    metadata: Any = None
    with (
        contextlib.suppress(OSError, ValueError, RecursionError),
        os.fdopen(open_file(place / "metadata.json", 1), "rb") as file,
    ):
        metadata = json.loads(file.read(_METADATA_BYTES))
    if not isinstance(metadata, dict):
        metadata = {}
    kind, container = metadata.get("containerType"), metadata.get("containerId")
    if not isinstance(kind, str) or not isinstance(container, str) or not container:
        match = _NAME.fullmatch(place.name)
        if match is None:
            return None
        kind, container = match[1], match[2]
    return ClientFolder(place, kind, container[:200], _moment(metadata.get("createdAt")))


def _moment(text: Any) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1e6) * 1000
    except (TypeError, ValueError, OverflowError, OSError):
        return 0


class ClientRun:
    """Run of the client; ``places`` are the permitted folders of referenced files."""

    def __init__(
        self, root: Path, folders: Sequence[ClientFolder], project: str, places: Places
    ) -> None:
        self._folders = sorted(folders, key=lambda one: (one.created_ns, one.path.name))
        self._places = places
        self.called = folders[0].container
        run = run_id_of(project, ("neptune client", self.called), None)
        self.folder = RunFolder(root, project, run)
        self._logs = {one.path: logs_in(one.path) for one in self._folders}
        self.size = sum(log.stat().st_size for logs in self._logs.values() for log in logs)

    def missing(self) -> list[bytes]:
        """See `FoundRun.missing`."""
        done = self._imported()
        return [
            self._uid(folder, done.get(folder.path.name, 0))
            for folder in self._folders
            if _last_version(self._logs[folder.path]) > done.get(folder.path.name, 0)
        ]

    def _uid(self, folder: ClientFolder, after: int) -> bytes:
        return uid_of(
            "neptune client", self.folder.project, self.called, folder.path.name, str(after)
        )

    def _imported(self) -> dict[str, int]:
        """Return the last operation that was imported, by the name of the folder of its process."""
        done: dict[str, int] = {}
        for header in headers(self.folder):
            name, last = header.get("imported_folder"), header.get("imported_to")
            if isinstance(name, str) and type(last) is int:
                done[name] = max(last, done.get(name, 0))
        return done

    def note(self) -> str:
        """See `FoundRun.note`."""
        return ""

    def summary(self) -> RunSummary:
        """See `FoundRun.summary`."""
        name, rows = "", 0
        first = self._folders[0]
        for _, _, operation in operations(self._logs[first.path], Notes(), lambda _: None):
            if operation.get("path") == ["sys", "name"]:
                name = str(operation.get("value") or "")
            rows += 1
        for other in self._folders[1:]:
            rows += _last_version(self._logs[other.path])
        return RunSummary(name, first.created_ns, rows)

    def write(self, draft: Draft, notes: Notes, progress: Progress) -> None:
        """See `FoundRun.write`."""
        done = self._imported()
        memory = Memory()
        for folder in self._folders:
            self._write(folder, done.get(folder.path.name, 0), memory, (draft, notes, progress))

    def _write(
        self,
        folder: ClientFolder,
        after: int,
        memory: Memory,
        to: tuple[Draft, Notes, Progress],
    ) -> None:
        draft, notes, progress = to
        logs = self._logs[folder.path]
        last = _last_version(logs)
        if not last:
            return
        memory.journal = None
        replay = Replay(draft, folder.path, self.called, self._places, memory)
        t = folder.created_ns
        for version, at, operation in operations(logs, notes, progress):
            if version > last:  # a process is adding operations, left to the next import
                break
            t = max(t, at)
            if version > after and memory.journal is None:
                if version > after + 1:
                    notes.add(
                        "logs without their beginning, which the client had sent and removed",
                        self.called,
                    )
                begun = folder.created_ns if not after and folder.created_ns else t
                header = self._header(folder, last)
                replay.begin(draft.journal(self._uid(folder, after), header, begun), notes)
            replay.take(operation, t)
        if (journal := memory.journal) is not None:
            replay.flush()
            failed = memory.atoms.get("sys/failed") == Atom("bool", value=True)
            journal.op({"op": "state", "state": "failed" if failed else "completed"})
            journal.close(t)

    def _header(self, folder: ClientFolder, last: int) -> dict[str, Any]:
        return {
            "attempt": 0,
            "owner": True,
            "user": None,
            "imported": "neptune client",
            "imported_run": self.called,
            "imported_folder": escape(folder.path.name)[:1000],
            "imported_to": last,
        }


_TAIL_BYTES: Final = 1 << 16
_VERSION: Final = re.compile(rb'"version": ?([0-9]{1,18})[,}]')


def _last_version(logs: Sequence[Path]) -> int:
    # The end of the last log contains it, unless its last operation is very long.
    for log in reversed(logs):
        with os.fdopen(open_file(log, 1), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES).rstrip()
        if tail.endswith(b"}") and (found := _VERSION.findall(tail[-200:])):
            return int(found[-1])
        last = 0
        for version, _, _ in operations([log], Notes(), lambda _: None):
            last = version
        if last:
            return last
    return 0
