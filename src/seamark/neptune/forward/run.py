"""Forwarding of one run to a server of Neptune's protocol.

The journals are sent from the position that is stored on the server, in the same request as the
data before it. After an error, the run is opened again with the state on the server. A request is
repeated if its answer was lost or only a part of it was accepted; points that the server already
has are then left out.

The destination is recorded in small journals that do not own the run. Their headers have the id on
the server, so that a run that was deleted there is not created again, and the counts of unsupported
values.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from seamark.blobs import open_blob
from seamark.errors import FileMissingError
from seamark.journal.folder import RunFolder, cache_folder
from seamark.journal.headers import headers
from seamark.journal.writer import JournalWriter
from seamark.neptune.forward.client import Client, RemoteAttribute
from seamark.neptune.forward.journal import START, Item, Journal, SharedState, assigned
from seamark.process.interrupts import quietly
from seamark.process.liveness import process_facts
from seamark.reading.facts import FORWARD
from seamark.remote.protocol import Busy, Missing, Purged, Refused, Unreachable

_LOCK_RETRY_S: Final = 5.0
_FILE_RETRY_S: Final = 600.0
"""Delay before a refused file is tried again, in seconds."""
_PING_INTERVAL_S: Final = 10.0
_ALIVE_NS: Final = 60 * 10**9
_MAX_BEHIND_BYTES: Final = 4 << 20
"""Number of unsent journal bytes above which files are delayed."""
_MAX_OTHER_POINTS: Final = 200
"""Maximum number of points of other processes after those of this process."""
_MAX_ID_CHARACTERS: Final = 36
"""Maximum length of a custom id in the package ``neptune``, in characters."""
_COUNT_PREFIX: Final = "lacking_"
_EXT: Final = re.compile(r"[A-Za-z0-9_.+-]{1,40}")


class Locks:
    """Locks of journals that are sent to one place, held until the last remote of a run is closed.

    The locks are byte ranges of one file in the user's cache; the kernel releases them when the
    process ends. If the file cannot be created, the locks work only inside this process.
    """

    def __init__(self, place: str) -> None:
        self._fd = -1
        self._taken: dict[str, object] = {}
        name = f"forward-{hashlib.sha256(place.encode()).hexdigest()[:32]}.lock"
        with quietly(only=(OSError, RuntimeError)):
            folder = cache_folder()
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            self._fd = os.open(folder / name, flags, 0o600)

    def take(self, journal: str, owner: object = None) -> bool:
        """Lock a journal; return whether another process may have sent it before."""
        if journal in self._taken:
            if self._taken[journal] is not owner:
                raise Busy("another remote of this process is sending it", _LOCK_RETRY_S)
            return False
        if self._fd >= 0:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _lock_offset(journal))
            except OSError as error:  # otherwise the file system has no locks
                if isinstance(error, BlockingIOError | PermissionError):
                    raise Busy(
                        "another process of this machine is sending it", _LOCK_RETRY_S
                    ) from error
        self._taken[journal] = owner
        return True

    def release(self, owner: object) -> None:
        """Release the journals of an owner."""
        for journal in [name for name, one in self._taken.items() if one is owner]:
            del self._taken[journal]
            if self._fd >= 0:
                with quietly(only=OSError):
                    fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _lock_offset(journal))


def _lock_offset(journal: str) -> int:
    return int(hashlib.sha256(journal.encode()).hexdigest()[:14], 16)


class ForwardedRun:
    """A run in a `folder` on this disk and its copy on the server; for one thread at a time.

    Attributes:
        held: Reason of the last refusal of a file that is tried again later; empty if none.
    """

    def __init__(self, client: Client, place: str, folder: RunFolder, locks: Locks) -> None:
        self._client, self._place, self.folder, self._locks = client, place, folder, locks
        self.held = ""
        self._is_open = False
        self._id = self._refusal = ""
        self._seen: dict[str, RemoteAttribute] = {}
        self._journals: dict[str, Journal] = {}
        self._noted: Counter[str] = Counter()
        self._pinged = 0.0
        self._held_until: dict[Any, float] = {}

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        # After an error, the run is opened again next time.
        if not self._is_open:
            self._open()
        self._is_open = False
        yield
        self._is_open = True

    def _open(self) -> None:
        self._id, noted = _read_record(self.folder, self._place)
        if self._id:
            self._client.ask("getExperiment", self._id)
        else:
            self._id = self._client.create(_custom_id(self.folder))
            self._record({})
        # If the last request is not visible yet, earlier ones may not be either.
        mark, path = secrets.token_hex(8), f"{FORWARD}/opened"
        self._client.execute(self._id, [assigned(path, "string", mark)])
        self._seen = self._client.attributes(self._id)
        if path not in self._seen or self._seen[path].value != mark:
            raise Unreachable("the last request is not visible on the server yet")
        shared, names = SharedState(), [file.path.name for file in self.folder.journals()]
        self._journals = {name: Journal(self.folder, name, self._seen, shared) for name in names}
        shared.see(self._seen)
        self._noted = noted

    # ---------------------------------------------------------------- journals

    def known(self) -> dict[str, int]:
        """Return the number of sent bytes by journal file name; create nothing on the server."""
        if not _read_record(self.folder, self._place)[0]:
            return {}
        about = (header for header in headers(self.folder) if "forwarded_to" in header)
        records = {header.get("writer") for header in about}
        with self._opened():
            found = {name: one.done for name, one in self._journals.items() if one.sent > START}
        files = [file.path for file in self.folder.journals() if file.writer in records]
        return found | {path.name: path.stat().st_size for path in files}

    def send(self, name: str, end: int) -> int:
        """Send a journal up to an offset, and its files; return the new position."""
        with self._opened():
            journal = self._lock_journal(name)
            for operations in journal.requests(end) if end > journal.sent[0] else ():
                new = self._drop_known_points(operations) if journal.doubt else operations
                self._execute(journal, list(new))
            # Far behind the end, later records may replace files.
            is_far = journal.path.stat().st_size > end + _MAX_BEHIND_BYTES
            for task in [] if is_far else list(journal.files.values()):
                self._send_file(journal, task)
            self.note(last=journal.is_closed)
            return journal.sent[0]

    def _lock_journal(self, name: str) -> Journal:
        # If another process has sent it, the server may have more of it.
        if self._locks.take(name, self) or name not in self._journals:
            self._open()
        return self._journals[name]

    def release(self) -> None:
        """Release the journals, so that another process can send them."""
        self._locks.release(self)
        self._is_open = False

    def _execute(self, journal: Journal, operations: list[dict[str, Any]]) -> None:
        if operations:
            journal.unsupported.update(
                self._note_refusals(self._client.execute(self._id, operations))
            )
        lives = journal.last_t > time.time_ns() - _ALIVE_NS
        if lives and time.monotonic() > self._pinged + _PING_INTERVAL_S:
            self._pinged = time.monotonic()
            self._client.ask("ping", self._id)

    def _note_refusals(self, errors: list[str]) -> list[str]:
        self._refusal = self._refusal or "".join(errors[:1])[:300]
        return ["refused"] * len(errors)

    def _drop_known_points(self, operations: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for each in operations:
            path, verb = each["path"], next(key for key in each if key != "path")
            if verb.startswith(("clear", "delete")):
                self._seen.pop(path, None)  # and all later points are sent again
            there = self._seen.get(path)
            if verb in ("logFloats", "logStrings") and there and there.last_step is not None:
                entries, known = each[verb]["entries"], Counter[Any]()
                if there.last_step >= min(one["step"] for one in entries):
                    count = len(entries) + _MAX_OTHER_POINTS
                    known.update(self._client.tail(self._id, path, there.kind, count))
                each[verb]["entries"] = []
                for one in entries:
                    point = (one["step"], one["timestampMilliseconds"], one["value"])
                    known[point] -= 1
                    if known[point] < 0:
                        each[verb]["entries"].append(one)
            if each[verb].get("entries") != []:
                yield each

    # ---------------------------------------------------------------- files

    def _send_file(self, journal: Journal, task: Item) -> None:
        key = journal.name, task.place, task.path, task.what
        if self._held_until.get(key, 0.0) > time.monotonic():
            return
        if not journal.is_replaced(task):
            target, operations = journal.begin_file(task)
            self._execute(journal, operations)
            try:
                journal.unsupported.update(self._upload(task, target))
            except (Missing, Purged):
                raise
            except Refused as error:  # try again later, without delaying anything else
                self._held_until[key] = time.monotonic() + _FILE_RETRY_S
                self.held = str(error)[:300]
                return
        self._execute(journal, journal.end_file(task))

    def _upload(self, task: Item, target: str) -> list[str]:
        # Return the kinds under which a missing or refused file is counted.
        ext = str(task.value.get("ext", ""))
        ext = ext if _EXT.fullmatch(ext) else ""
        try:
            with open_blob(self.folder, task.value["sha256"], task.value.get("size")) as file:
                errors = self._client.upload(self._id, target, task.what, ext, file)
        except FileMissingError:
            return ["files_gone"]
        return self._note_refusals(errors)

    # ---------------------------------------------------------------- unsupported values

    def unsupported(self) -> tuple[dict[str, int], str]:
        """Return the counts of unsupported values by kind, and the reason of a refusal."""
        total: Counter[str] = Counter()
        for one in list(self._journals.values()):
            total.update(one.unsupported)
        return dict(sorted(total.items())), self._refusal

    def note(self, *, last: bool = False) -> None:
        """Record the counts of unsupported values in the local run: new, doubled and last ones."""
        found, _ = self.unsupported()
        doubled = any(count >= 2 * self._noted[kind] for kind, count in found.items())
        if doubled or (last and found != self._noted):
            self._noted = Counter(found)
            self._record(found)

    def _record(self, counts: Mapping[str, int]) -> None:
        # Sending continues even if the folder cannot be written.
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self._place.partition("://")[2])
        atoms: dict[str, Any] = {f"{FORWARD}/{name}/to": ["string", self._place]}
        atoms |= {f"{FORWARD}/{name}/{kind}": ["int", count] for kind, count in counts.items()}
        header = {
            **process_facts(),
            "owner": False,
            "attempt": None,
            "forwarded_to": self._place,
            "forwarded_id": self._id,
            **{f"{_COUNT_PREFIX}{kind}": count for kind, count in counts.items()},
        }
        with quietly():
            if not self.folder.is_purged:
                with contextlib.closing(JournalWriter(self.folder, lambda: header)) as writer:
                    writer.append_op({"op": "assign", "atoms": atoms})


def _read_record(folder: RunFolder, place: str) -> tuple[str, Counter[str]]:
    # Return the id of the run at a place, empty if unknown, and the last recorded counts.
    found, counts = "", Counter[str]()
    with quietly(only=OSError):
        for header in headers(folder):
            if header.get("forwarded_to") == place:
                found = found or str(header.get("forwarded_id", ""))
                counts |= Counter(
                    {
                        key.removeprefix(_COUNT_PREFIX): count
                        for key, count in header.items()
                        if key.startswith(_COUNT_PREFIX) and type(count) is int
                    }
                )
    return found, counts


def _custom_id(folder: RunFolder) -> str:
    digest = hashlib.sha256(json.dumps([folder.project, folder.run]).encode()).hexdigest()
    is_short = len(folder.run) <= _MAX_ID_CHARACTERS
    return folder.run if is_short else f"{folder.run[:19]}-{digest[:16]}"
