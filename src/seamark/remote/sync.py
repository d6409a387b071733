"""Transfer of whole runs: push unsent journals and files, and pull the journals of a run.

A push sends the data in the folder that the remote does not store yet. A pull appends whole frames
to the files on this disk. Both can be interrupted and repeated at any time. A push may run while a
process records and sends the run; several processes may pull at once.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from seamark.errors import JournalError
from seamark.journal.folder import JournalFile, RunFolder
from seamark.journal.headers import writer_lives
from seamark.journal.reader import JournalReader
from seamark.journal.safe import locked, open_file
from seamark.journal.shipping import check_frames, check_gap, next_batch
from seamark.paths import home_of, in_project
from seamark.process.interrupts import let_pass, quietly
from seamark.process.liveness import process_facts
from seamark.remote.file import FileRemote
from seamark.remote.files import files_of, send_file
from seamark.remote.protocol import (
    Busy,
    Diverged,
    Gap,
    KeepsByName,
    KeepsJournals,
    Purged,
    Remote,
    RemoteError,
    RunKey,
    Settles,
    Unfit,
    Unreachable,
)
from seamark.remote.shipment import Tail
from seamark.remote.unrecorded_ends import observations_of

_MAX_PULL_TRIES: Final = 2
"""Maximum number of attempts per request; the start of a training waits for them."""


def pull_journals(
    remote: KeepsJournals, folder: RunFolder, progress: Callable[[int, int], None]
) -> None:
    """Append the journal bytes of a run that are missing on this disk.

    `progress` is called with the number of bytes on this disk and the total to pull.

    Raises:
        RemoteError: If the remote does not answer, or its bytes differ from those on this disk.
        BatchError: If its answer is not a part of the journal.
        JournalError: If a journal on this disk cannot be read.
    """
    from seamark.journal.frames import walk  # NumPy is imported only for pulls

    key, here, patience = (
        RunKey.of(folder),
        FileRemote(folder.root),
        Patience(_MAX_PULL_TRIES),
    )
    there = patience.ask(partial(remote.journals, key))
    known = here.journals(key) if folder.exists() else {}
    left = {name: size for name, size in there.items() if known.get(name, 0) < size}
    done, total = 0, sum(left.values())
    for name in sorted(left):
        offset = _truncate_to_frames(folder, name) if name in known else 0
        done += offset
        while (batch := patience.ask(partial(remote.read, key, name, offset))) is not None:
            if batch.offset != offset:
                raise RemoteError(
                    f"{name}: expected bytes from offset {offset} on, got {batch.offset}"
                )
            if batch.is_gap:
                check_gap(name, offset, batch.length)
                sent = here.send_gap(key, name, offset, batch.length)
            else:
                check_frames(folder.run, name, offset, batch.data, walk)
                sent = here.send(key, name, offset, batch.data)
            done += sent.offset - offset
            offset = sent.offset
            progress(done, total)


def _truncate_to_frames(folder: RunFolder, name: str) -> int:
    # A power cut may leave a partial frame or zeros; the remote has the whole frame. Never cut a
    # journal that a process is writing. Other pulls hold the lock while they append.
    path, end = folder.journal_dir / name, 0
    with (
        os.fdopen(open_file(path), "rb") as file,
        locked(file.fileno()),
        JournalReader(path) as reader,
    ):
        for block in reader.blocks(unknown=True):
            end = block.end
        if 0 < end < reader.size and not writer_lives(path):
            os.truncate(path, end)
    return end


T = TypeVar("T")
_random: Final = random.Random()  # noqa: S311 - the numbers of `random` are the training's
_MAX_TRIES: Final = 5
_FIRST_WAIT_S: Final = 0.5
_MAX_WAIT_S: Final = 30.0


@dataclass(slots=True)
class Left:
    """Data of a run that a remote does not store yet.

    Attributes:
        key: Key of the run on the remote.
        known: Number of bytes of each journal that the remote stores, by file name.
        journals: Number of bytes to send of each journal, by file name, without complete journals.
        observed: Journals about ended processes of this host, by file name.
        files: Contents to send: SHA-256 and size in bytes.
        purged: Whether the run was purged on the remote, which then accepts no data of it.
        problems: Error messages, one line each.
    """

    folder: RunFolder
    key: RunKey
    known: dict[str, int] = field(default_factory=dict)
    journals: dict[str, int] = field(default_factory=dict)
    observed: dict[str, bytes] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    purged: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Total number of bytes to send."""
        observed = sum(map(len, self.observed.values()))
        return sum(self.journals.values()) + observed + sum(self.files.values())


@dataclass(slots=True)
class Synced:
    """Result of sending a run to a remote.

    `files` counts contents. A remote accepts no data of a run that was `purged` there. `problems`
    has error messages, one line each.
    """

    folder: RunFolder
    journal_bytes: int = 0
    files: int = 0
    file_bytes: int = 0
    purged: bool = False
    problems: list[str] = field(default_factory=list)


class Patience:
    """Retry policy for a remote that does not answer, shared by all callers of that remote.

    After all `tries` of one request have failed, all further requests fail at once.
    """

    def __init__(self, tries: int = _MAX_TRIES, wait: Callable[[float], None] = time.sleep) -> None:
        self._tries, self._wait = tries, wait
        self._unreachable: Unreachable | None = None

    def ask(self, call: Callable[[], T]) -> T:
        """Call a function; retry while the remote is unreachable or busy."""
        pause = _FIRST_WAIT_S
        for last in range(self._tries, 0, -1):
            if self._unreachable is not None:
                raise self._unreachable
            try:
                return call()
            except Unreachable as error:
                if last == 1:
                    self._unreachable = error
                    raise
                asked = error.wait_s if isinstance(error, Busy) else 0.0
                pause *= _random.uniform(1.0, 2.0)
                self._wait(min(_MAX_WAIT_S, max(asked, pause)))
        raise AssertionError  # the last try returns or raises


def unsent_data(
    folder: RunFolder,
    remote: Remote,
    patience: Patience | None = None,
    project: str | None = None,
) -> Left:
    """Return the unsent data of a run, without sending it; by default for the run's own project.

    Errors of the run or the remote are not raised, but added to the problems. Several threads may
    use the remote.
    """
    key = RunKey(in_project(folder.project, project or home_of(folder.project)), folder.run)
    found, patience = Left(folder, key), patience or Patience()
    if isinstance(remote, KeepsByName):
        remote.meet(key, folder)
    try:
        found.known = dict(patience.ask(lambda: remote.journals(key)))
        for file in folder.journals():
            _check_journal(found, file)
        if isinstance(remote, Settles) and folder.kind == "run":
            found.observed = observations_of(key.run, folder.journals(), found.known)
        sizes = files_of(folder)
        if sizes:
            missing = set(patience.ask(lambda: remote.missing_blobs(key, sorted(sizes))))
            found.files = {digest: sizes[digest] for digest in sorted(missing & sizes.keys())}
    except Purged:
        found.purged = True
    except (RemoteError, OSError) as error:
        let_pass(error)
        found.problems.append(str(error))
    return found


def _check_journal(found: Left, file: JournalFile) -> None:
    name, known = file.path.name, found.known.get(file.path.name, 0)
    try:
        with JournalReader(file.path) as reader:
            size = reader.size
            if known > size:
                if reader.header().get("host") != process_facts()["host"]:
                    return  # copied from that host, where its process continued
                found.problems.append(
                    f"{name}: the remote has {known - size:,} bytes more than this disk, which has"
                    " lost its last writes; they can be read from the remote"
                )
                return
            if known == size:
                return
            end = known
            while (batch := next_batch(reader, end)) is not None:
                end = batch.end
            if reader.stopped == "newer":
                found.problems.append(f"{name} needs a newer Seamark")
        if end > known:
            found.journals[name] = end - known
    except JournalError as error:
        let_pass(error)
        found.problems.append(str(error))


def sync_run(
    left: Left,
    remote: Remote,
    progress: Callable[[int], None] = lambda _: None,
    patience: Patience | None = None,
) -> Synced:
    """Send the data of a run that `unsent_data` found: its journals, then its files.

    Errors of the run or the remote are not raised, but added to the problems, and all other data is
    sent. `progress` is called after each part with the number of sent bytes.
    """
    folder = left.folder
    done = Synced(folder, purged=left.purged, problems=list(left.problems))
    if left.purged:
        return done
    patience = patience or Patience()
    try:
        for file in sorted(folder.journals(), key=_first_record_ns):  # later ones may undo earlier
            if file.path.name in left.journals:
                known = left.known.get(file.path.name, 0)
                _send_journal(done, left.key, file, known, remote, progress, patience)
        for name, data in left.observed.items():
            _send_observed(done, left.key, name, data, remote, progress, patience)
        for digest, size in sorted(left.files.items(), key=lambda each: each[1]):
            _send_content(done, left.key, digest, size, remote, progress, patience)
    except Purged:
        done.purged = True
    except (RemoteError, OSError) as error:
        let_pass(error)
        if str(error) not in done.problems:  # `unsent_data` may have failed with the same error
            done.problems.append(str(error))
    return done


def _first_record_ns(file: JournalFile) -> int:
    with quietly(only=OSError), JournalReader(file.path) as reader:
        return next((frame.t for frame in reader.frames()), 0)
    return 0


def _send_journal(
    done: Synced,
    key: RunKey,
    file: JournalFile,
    offset: int,
    remote: Remote,
    progress: Callable[[int], None],
    patience: Patience,
) -> None:
    tail, before = Tail(file.path, mine=False), offset
    tail.place(offset)
    while True:
        try:
            sent = patience.ask(lambda: tail.step(remote, key))
        except Gap as error:  # fewer bytes than reported are stored, or another sender was faster
            if tail.gaps <= _MAX_TRIES:
                continue
            done.problems.append(f"{tail.name} is set aside: {error}")
            return
        except (Diverged, Unfit) as error:
            done.problems.append(f"{tail.name} is set aside: {error}")
            return
        except JournalError as error:
            let_pass(error)
            done.problems.append(str(error))
            return
        if sent is None:
            return
        progress(sent.offset - before)
        done.journal_bytes += sent.offset - before
        before = sent.offset


def _send_observed(
    done: Synced,
    key: RunKey,
    name: str,
    data: bytes,
    remote: Remote,
    progress: Callable[[int], None],
    patience: Patience,
) -> None:
    try:
        patience.ask(lambda: remote.send(key, name, 0, data))
    except (Gap, Diverged, Unfit) as error:  # another sender was faster
        let_pass(error)
        return
    progress(len(data))
    done.journal_bytes += len(data)


def _send_content(
    done: Synced,
    key: RunKey,
    digest: str,
    size: int,
    remote: Remote,
    progress: Callable[[int], None],
    patience: Patience,
) -> None:
    try:
        sent = patience.ask(lambda: send_file(remote, done.folder, digest, size, key))
    except (Unreachable, Purged):
        raise
    except RemoteError as error:
        done.problems.append(f"the file {digest} is not sent: {error}")
        return
    if not sent:
        done.problems.append(f"the file {digest} is missing or damaged: see seamark fsck")
        return
    done.files += 1
    done.file_bytes += size
    progress(size)
