"""Forwarding of one run to a server of Neptune's protocol.

The journals of the run are read from the start and sent from the stored position. The position in
each journal is stored on the server in the same request as the data before it. After any error the
run is opened again, with the state on the server.

A request is repeated if its answer was lost or if only a part of it was accepted; points that the
server already has are then removed (`without_known`).

The destination is recorded in small journals that do not own the run. Their headers have the id on
the server, so that a run that was deleted there is not created again.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from seamark.blobs import open_blob
from seamark.errors import FileMissingError, JournalError
from seamark.journal.folder import cache_folder
from seamark.journal.format import FILE_HEADER_BYTES, Kind
from seamark.journal.headers import header_of, headers, may_grow
from seamark.journal.reader import JournalReader, decode_json
from seamark.journal.walk import walk
from seamark.journal.writer import JournalWriter
from seamark.neptune.forward.translation import START, Journal, Place, assigned
from seamark.neptune.forward.work import NUMERIC, OWN, Batch, Held, entry_of
from seamark.process.interrupts import let_pass, quietly
from seamark.process.liveness import process_facts
from seamark.remote.files import files_of
from seamark.remote.protocol import Refused, Unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.journal.folder import RunFolder
    from seamark.neptune.forward.client import Client, Seen
    from seamark.neptune.forward.work import Task

__all__ = ["ForwardedRun", "Locks"]


_PATIENCE_S: Final = 5.0
_PAUSE_S: Final = 0.1


class Locks:
    """Locks of journals on their way to one place, held until the process ends.

    They are ranges of one file in the user's cache; the kernel lets go of those of a dead process.
    Where no such file can be, nothing is locked.
    """

    def __init__(self, place: str) -> None:
        self._fd = -1
        self._taken: set[str] = set()
        name = f"forward-{hashlib.sha256(place.encode()).hexdigest()[:32]}.lock"
        with quietly(only=(OSError, RuntimeError)):
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(folder / name, flags, 0o600)

    def take(self, journal: str) -> None:
        """Lock a journal, or raise `Refused` if another process sends it."""
        if self._fd < 0 or journal in self._taken:
            return
        start = int(hashlib.sha256(journal.encode()).hexdigest()[:14], 16)
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, start)
            except (BlockingIOError, PermissionError) as error:
                let_pass(error)
                if time.monotonic() > until:
                    msg = "another process of this machine is sending it"
                    raise Refused(msg) from error
                time.sleep(_PAUSE_S)
            except OSError as error:  # a file system without locks
                let_pass(error)
                return
            else:
                self._taken.add(journal)
                return


def recorded_id(folder: RunFolder, place: str) -> str | None:
    """Return the id that the run has at a place; None if it is not known."""
    with quietly(only=OSError):
        for header in headers(folder):
            found = header.get("forwarded_id")
            if header.get("forwarded_to") == place and isinstance(found, str):
                return found
    return None


def recorded_counts(folder: RunFolder, place: str) -> dict[str, int]:
    """Return the last recorded counts of items that a place could not represent."""
    found: dict[str, int] = {}
    for journal in folder.journals():
        with quietly(only=(OSError, ValueError, AttributeError, TypeError)):
            if header_of(journal.path).get("forwarded_to") != place:
                continue
            with JournalReader(journal.path) as reader:
                for frame in reader.frames():
                    if frame.kind == Kind.OP:
                        atoms = decode_json(frame.payload).get("atoms", {})
                        found |= {
                            path.rpartition("/")[2]: max(
                                value, found.get(path.rpartition("/")[2], 0)
                            )
                            for path, (kind, value) in atoms.items()
                            if kind == "int"
                        }
    return found


def write_record(folder: RunFolder, place: str, container: str, lacking: Mapping[str, int]) -> None:
    """Record the destination of a run, and the counts of items it cannot represent, by kind.

    A folder that cannot be written keeps nobody from sending.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", place.partition("://")[2])
    atoms: dict[str, Any] = {f"{OWN}/{name}/to": ["string", place]}
    atoms |= {f"{OWN}/{name}/{kind}": ["int", count] for kind, count in lacking.items()}
    header = {
        **process_facts(),
        "owner": False,
        "attempt": None,
        "forwarded_to": place,
        "forwarded_id": container,
    }
    with quietly():
        if folder.is_purged:
            return
        writer = JournalWriter(folder, lambda: header)
        try:
            writer.append_op({"op": "assign", "atoms": atoms})
        finally:
            writer.close()


_OTHERS: Final = 200
"""Points of other processes that may have come behind ours."""
Tail = Callable[[str, str, int], list[tuple[float, int, Any]]]


def without_known(
    operations: list[dict[str, Any]], seen: Mapping[str, Seen], tail: Tail
) -> list[dict[str, Any]]:
    """Return operations without the points that the server has already, as `tail` tells."""
    found: list[dict[str, Any]] = []
    emptied: set[str] = set()
    for each in operations:
        path = each["path"]
        verb = next((one for one in ("logFloats", "logStrings") if one in each), None)
        if any(one.startswith(("clear", "delete")) for one in each):
            emptied.add(path)  # and all that follows comes again
        there = None if path in emptied else seen.get(path)
        if verb is None or there is None or there.last_step is None:
            found.append(each)
            continue
        entries = each[verb]["entries"]
        if there.last_step >= min(one["step"] for one in entries):
            points = Counter(tail(path, there.kind, len(entries) + _OTHERS))
            entries = [one for one in entries if not _take(points, one)]
        if entries:
            found.append({"path": path, verb: {"entries": entries}})
    return found


def _take(there: Counter[Any], entry: Mapping[str, Any]) -> bool:
    point = (entry["step"], entry["timestampMilliseconds"], entry["value"])
    if not there[point]:
        return False
    there[point] -= 1
    return True


_LONGEST_ID: Final = 36
_TURN_S: Final = 2.0
"""How long one call sends at most before it says how far it is, seconds."""
_PING_S: Final = 10.0
_ALIVE_NS: Final = 60 * 10**9


class ForwardedRun:
    """A run on this disk and its copy on the server; `parent` is the pid of the training.

    Two threads use it: one sends what journals say, one the files that they name.
    """

    def __init__(
        self, client: Client, place: str, folder: RunFolder, locks: Locks, parent: int
    ) -> None:
        self._client, self._place, self._folder, self._locks = client, place, folder, locks
        self._parent = parent
        self._lock = threading.Lock()
        self._is_open = False
        self._id = ""
        self._seen: dict[str, Seen] = {}
        self._held = Held({})
        self._journals: dict[str, Journal] = {}
        self._pinged = 0.0
        self._noted: dict[str, int] = {}
        self._said = ""

    @contextmanager
    def _opened(self) -> Iterator[None]:
        # After an error the run is opened again next time.
        with self._lock:
            if not self._is_open:
                self._open()
            self._is_open = False
            yield
            self._is_open = True

    def _open(self) -> None:
        known = recorded_id(self._folder, self._place)
        if known is not None:
            self._id = known
            self._client.expect(known)
        else:
            self._id = self._client.create(_custom_id(self._folder))
            write_record(self._folder, self._place, self._id, {})
        self._seen = self._look()
        self._held = Held(self._seen)
        self._journals = {}
        self._noted = recorded_counts(self._folder, self._place)

    def _look(self) -> dict[str, Seen]:
        # If what was just written is not seen, older things may not be either.
        mark, path = secrets.token_hex(8), f"{OWN}/opened"
        self._client.execute(self._id, [assigned(path, "String", mark)])
        found = self._client.attributes(self._id)
        if path not in found or found[path].value != mark:
            msg = "what was written is not to be read yet"
            raise Unreachable(msg)
        return found

    # ---------------------------------------------------------------- journals

    def known(self) -> dict[str, int]:
        """Return bytes of each journal there, by file name; nothing is made there."""
        if recorded_id(self._folder, self._place) is None:
            return {}
        with self._opened():
            found = {}
            for file in self._folder.journals():
                if self._is_record(file.path.name):
                    found[file.path.name] = file.path.stat().st_size
                    continue
                offset, _ = self._journal(file.path.name).sent
                if offset > FILE_HEADER_BYTES:
                    found[file.path.name] = offset
            return found

    def send(self, name: str, end: int) -> int:
        """Send a journal up to an offset, for a limited time; return the new position."""
        if self._is_record(name):
            return end
        with self._opened():
            journal = self._journal(name)
            if end > journal.sent[0]:
                self._locks.take(name)
                self._read_existing()
            if self._advance(journal, end) and time.monotonic() > self._pinged + _PING_S:
                self._pinged = time.monotonic()
                self._client.ping(self._id)
            self._note()
            return journal.pos

    def _read_existing(self) -> None:
        # What is there may be newer than what is added.
        for file in self._folder.journals():
            if not self._is_record(file.path.name):
                one = self._journal(file.path.name)
                if one.pos < one.sent[0]:
                    self._advance(one, one.sent[0])

    def _advance(self, journal: Journal, end: int) -> bool:
        until = time.monotonic() + _TURN_S
        batch, place, lives = Batch(), (journal.pos, 0), False
        with JournalReader(self._folder.journal_dir / journal.name, walk=walk) as reader:
            for frame in reader.frames(journal.pos):
                if frame.end > end:
                    journal.pos = max(journal.pos, end)
                    break
                if batch.full and time.monotonic() > until:
                    break
                lives = lives or frame.t > time.time_ns() - _ALIVE_NS
                if self._is_sent(journal, frame):
                    journal.items.learn(frame)
                    journal.pos = frame.end
                    continue
                for number, item in enumerate(journal.items.of(frame)):
                    place = (frame.offset, number)
                    if place < journal.sent:
                        journal.translation.take(None, item, place)
                        continue
                    if batch.full:
                        self._flush(journal, batch, place)
                        batch = Batch()
                    journal.translation.take(batch, item, place)
                journal.pos = frame.end
            else:
                journal.pos = max(journal.pos, end)  # what is no frame was declared so
        if journal.pos > journal.sent[0] or batch.operations:
            self._flush(journal, batch, (journal.pos, 0))
        return lives

    @staticmethod
    def _is_sent(journal: Journal, frame: Any) -> bool:
        return frame.end <= journal.sent[0] and frame.kind in (*NUMERIC, Kind.TEXT, Kind.HISTOGRAM)

    def _flush(self, journal: Journal, batch: Batch, place: Place) -> None:
        operations = batch.operations
        if journal.doubt:
            operations = without_known(operations, self._seen, self._tail)
        journal.lacking.update(batch.lacking)
        operations = [*operations, *journal.about("position", place)]
        self._execute(journal, operations)
        journal.sent, journal.doubt = place, False

    def _execute(self, journal: Journal, operations: list[dict[str, Any]]) -> None:
        self._refused(journal, self._client.execute(self._id, operations))

    def _refused(self, journal: Journal, wrong: list[str]) -> None:
        if wrong:
            journal.lacking["refused"] += len(wrong)
            self._said = self._said or wrong[0][:300]

    def _tail(self, path: str, kind: str, count: int) -> list[tuple[float, int, Any]]:
        return self._client.tail(self._id, path, kind, count)

    def _journal(self, name: str) -> Journal:
        if name not in self._journals:
            self._journals[name] = Journal(name, self._seen, self._held)
        return self._journals[name]

    def _is_record(self, name: str) -> bool:
        try:
            return "forwarded_to" in header_of(self._folder.journal_dir / name)
        except JournalError as error:
            let_pass(error)
            return False

    # ---------------------------------------------------------------- files

    def files_left(self) -> dict[str, int]:
        """Return the files in sent data that the server does not have yet: sizes by digest."""
        if recorded_id(self._folder, self._place) is None:
            return files_of(self._folder)
        with self._opened():
            found: dict[str, int] = {}
            for journal in self._with_files():
                found |= journal.work.left()
            return found

    def send_file(self) -> int:
        """Send the next file; return its size in bytes, -1 if there is none."""
        with self._opened():
            todo = ((one, one.work.next()) for one in self._with_files())
            journal, task = next((each for each in todo if each[1] is not None), (None, None))
            if journal is None or task is None:
                return -1
            self._locks.take(journal.name)
            batch = Batch()
            kind = {"image": "imageSeries", "member": "fileSet"}.get(task.what, "file")
            target = journal.translation.free_path(batch, task.path, kind)
            if task.item is not None:  # small, and a point: with how far the files are
                self._add_image(batch, target, task)
                self._note_sent(journal, task, batch)
                return task.size
            if batch.operations:
                self._execute(journal, batch.operations)
        wrong = self._upload(task, target)  # others send meanwhile: it may take long
        with self._opened():
            if self._journals.get(journal.name) is journal:  # else it is sent once more
                batch = Batch()
                if wrong is None:
                    batch.lacking["files_gone"] += 1
                self._refused(journal, wrong or [])
                self._note_sent(journal, task, batch)
        return task.size

    def _with_files(self) -> list[Journal]:
        # The files of other processes that live are theirs.
        self._read_existing()
        below = self._folder.journal_dir
        read = [one for one in self._journals.values() if one.sent > START]
        return [one for one in read if self._is_exclusive(below / one.name)]

    def _is_exclusive(self, path: Path) -> bool:
        with JournalReader(path) as reader:
            return reader.header().get("pid") == self._parent or not may_grow(reader)

    def _note_sent(self, journal: Journal, task: Task, batch: Batch) -> None:
        place = journal.work.after(task, (journal.pos, 0))
        journal.lacking.update(batch.lacking)
        self._execute(journal, [*batch.operations, *journal.about("files", place)])
        journal.work.sent(task)
        self._note()

    def _add_image(self, batch: Batch, target: str, task: Task) -> None:
        assert task.item is not None  # noqa: S101 - asked by who calls
        try:
            with open_blob(self._folder, task.digest, task.size) as file:
                value = {"data": base64.b64encode(file.read()).decode()}
        except FileMissingError as error:
            let_pass(error)
            batch.lacking["files_gone"] += 1
            return
        for name in ("name", "description"):
            value[name] = task.item.value.get(name)
        entry = entry_of(value, task.item.step, task.item.t)
        batch.operations.append({"path": target, "logImages": {"entries": [entry]}})

    def _upload(self, task: Task, target: str) -> list[str] | None:
        try:
            with open_blob(self._folder, task.digest, task.size) as file:
                source = f"/dev/fd/{file.fileno()}"
                if task.what == "member":
                    return self._client.upload_member(self._id, target, task.name, source)
                return self._client.upload(self._id, target, task.ext, source)
        except FileMissingError as error:
            let_pass(error)
            return None

    # ---------------------------------------------------------------- what could not be held

    def unsupported(self) -> tuple[dict[str, int], str]:
        """Return how often something could not be held, by kind, and why something was refused."""
        total: Counter[str] = Counter()
        for one in list(self._journals.values()):
            total.update(one.lacking)
        return {kind: count for kind, count in sorted(total.items()) if count}, self._said

    def end(self) -> None:
        """Record in the run on this disk the counts of lost items, once nothing more is sent."""
        with self._lock:
            self._note(last=self._id != "")

    def _note(self, *, last: bool = False) -> None:
        # Counts are noted at once, and each time that one has doubled.
        found, _ = self.unsupported()
        doubled = any(count >= 2 * self._noted.get(kind, 0) for kind, count in found.items())
        if doubled or (last and found != self._noted):
            self._noted = found
            write_record(self._folder, self._place, self._id, found)


def _custom_id(folder: RunFolder) -> str:
    # The package takes 36 characters.
    if len(folder.run) <= _LONGEST_ID:
        return folder.run
    digest = hashlib.sha256(json.dumps([folder.project, folder.run]).encode()).hexdigest()
    return f"{folder.run[:19]}-{digest[:16]}"
