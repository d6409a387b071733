"""Earlier runs of the same job, which are continued, or of the same experiment.

Runs of the same job are found by the headers of the journals in the project's folder; no other
state is needed. A header contains the job (see `seamark.process.rank.job_key`), its number of
restarts, and the position of the run within the job.

Experiments are compared by their inputs at the start: parameters, with secrets masked, and the
version of the code. Later changes affect ``sys/content_hash``, but not the revision.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from seamark.journal import reservations
from seamark.journal.folder import RunFolder
from seamark.journal.format import is_long
from seamark.journal.headers import first_record_ns, header_of, headers, writer_lives
from seamark.opening.place import open_catalog, remote_to_read
from seamark.process import fork
from seamark.process.interrupts import logged, quietly
from seamark.process.liveness import process_facts
from seamark.process.rank import current_rank, restart_count, same_job
from seamark.remote.arrival import call_within
from seamark.values._numbers import argument_error
from seamark.values._parameters import VERSION, content_hash, is_parameter

if TYPE_CHECKING:
    from pathlib import Path

    from seamark.capture.code.executed import CodeVersion
    from seamark.options.settings import Settings


class Attempt(NamedTuple):
    """Attempt of the next journal of a process, 0-based.

    ``positions`` are {writer id: bytes} of the checkpoint from which it resumes; None if there is
    no checkpoint, so that nothing is hidden.
    """

    number: int
    positions: dict[str, int] | None


class JobRun(NamedTuple):
    """Identity of a run within its job, which is the same after a restart of the job.

    ``argv`` is a digest of the command line, which may contain secrets; ``ordinal`` is the number
    of earlier runs of this process without a given id.
    """

    argv: str
    process: str
    ordinal: int

    @classmethod
    def next(cls) -> JobRun:
        """Return the identity of a new run, and count it."""
        words = "\0".join(map(str, sys.argv)).encode("utf-8", "surrogatepass")
        loaded = sys.modules.get("multiprocessing.process")
        process = loaded.current_process().name if loaded else "MainProcess"
        return cls(hashlib.sha256(words).hexdigest()[:16], process, next(_ordinals))


_ordinals = itertools.count()


def newest_attempt(folder: RunFolder) -> int:
    """Return the number of a run's newest attempt, which opening by id continues."""
    return max((number for one in headers(folder) if (number := _attempt_of(one))), default=0)


def attempt_of_peers(folder: RunFolder, lineage: str) -> int | None:
    """Return the attempt that other ranks of this training have just begun, or None.

    It is the newest one, if the process that records it is alive and this rank has not joined it
    yet.
    """
    number, rank, peers = newest_attempt(folder), current_rank().rank, 0
    for journal in folder.journals():
        with contextlib.suppress(OSError):
            header = header_of(journal.path)
            if _attempt_of(header) != number:
                continue
            if header.get("rank") != rank:
                if not writer_lives(journal.path):
                    return None
                peers += 1
            elif header.get("lineage") != lineage:
                return None
    return number if number and peers else None


def _attempt_of(header: Mapping[str, Any]) -> int | None:
    number = header.get("attempt")
    return number if type(number) is int and number >= 0 else None


Restart = tuple[RunFolder | None, Attempt | None]
"""Run that a restarted job continues, and its attempt; None if the job did not record the run."""


def restart_of(folder: RunFolder, job_run: JobRun | None) -> Restart:
    """Return the restart of a job: of the run that was named, or of one that it recorded before.

    Of a job whose run was not named, it is the newest run of the project that the same process of
    the job recorded with the same command line, and that no other process has continued since.
    """
    if job_run is None:
        return folder, attempt_after(headers(folder))
    names: list[str] = []
    with quietly(only=OSError):
        names = os.listdir(folder.root / folder.project)  # noqa: PTH208
    runs = [RunFolder(folder.root, folder.project, name) for name in names if name[0] != "."]
    known = [one for one in runs if job_run in _recorded_before_restart(one)]
    newest = max(known, key=lambda one: (first_record_ns(one), one.run), default=None)
    return (None, None) if newest is None else restart_of(newest, None)


def _recorded_before_restart(folder: RunFolder) -> list[tuple[Any, ...]]:
    """Return the processes of this job that recorded a run; empty if another one continues it."""
    found = []
    rank, restarts, me = current_rank().rank, restart_count(), process_facts()
    for header in headers(folder):
        if not same_job(header.get("job")):
            continue
        by_me = all(header.get(fact) == me[fact] for fact in ("host", "pid", "start"))
        if header.get("restarts") == restarts and header.get("rank") == rank and not by_me:
            return []
        found.append(tuple(map(header.get, JobRun._fields)))
    return found


def attempt_after(found: Iterable[Mapping[str, Any]]) -> Attempt | None:
    """Return the attempt of this restart; None if the run is not that of the job."""
    newest, mine, joined = 0, False, []
    for header in found:
        if (number := _attempt_of(header)) is None:
            continue
        newest = max(newest, number)
        if same_job(header.get("job")):
            mine = True
            if header.get("restarts") == restart_count():
                joined.append(number)
    if not mine:
        return None
    return Attempt(max(joined) if joined else newest + 1, None)


log = logging.getLogger("seamark")
HASH: Final = "sys/start_hash"
"""Path of the hash of the start-up inputs (``sys/content_hash``)."""
REVISION: Final = "sys/revision"
"""Path of the 1-based number of a run among those with the same hash."""
_HASH: Final = re.compile("[0-9a-f]{32}")
_PATIENCE_S: Final = 2.0
"""Time limit for the disk to report earlier runs while a run starts, in seconds."""


@dataclass(frozen=True, slots=True)
class StartVersion:
    """Version of the code at a run's start, empty if unknown; a given one has no `executed`."""

    text: str
    executed: CodeVersion | None = None

    @classmethod
    def of(cls, options: Settings) -> StartVersion:
        """Return the version of the code given by the user, else that of the executed code.

        Waits up to two seconds for it, because runs are found by its hash.
        """
        if options.code_version is not None or not options.captures["script"]:
            return cls(options.code_version or "")
        with quietly():
            from seamark.capture.code import Script
            from seamark.capture.code.executed import CodeVersion

            script = Script.running()
            found = call_within(
                lambda: CodeVersion.at_start(script), "seamark-version", _PATIENCE_S
            )
            return cls(found.recorded, found)
        return cls("")


def start_hash(options: Settings, version: StartVersion) -> str | None:
    """Return the hash of a run's initial inputs; None without parameters."""
    secrets = options.hidden()
    atoms: dict[str, tuple[str, Any]] = {}
    for path, (kind, value) in secrets.atoms(options.params).items():
        atoms[path] = _stored_form(value) if kind == "string" and is_long(value) else (kind, value)
    if version.text:
        atoms[VERSION] = ("string", secrets.text(version.text))
    return content_hash(atoms)


def _stored_form(text: str) -> tuple[str, dict[str, Any]]:
    data = text.encode()
    return "text", {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}


def find_duplicate(options: Settings, folder: RunFolder) -> str | None:
    """Return the id of the newest run of the project with the same inputs, or None.

    Runs on this disk are examined first, then those of the remote. If the remote does not answer, a
    warning is logged, and this disk decides alone. A run that another process is about to start is
    not visible: to get exactly one run, claim it.
    """
    text = start_hash(options, StartVersion.of(options))
    assert text is not None  # noqa: S101 - there are parameters
    places = (folder.root, remote_to_read(options.remotes))
    found = (_find_in(place, options, folder, text) for place in places if place is not None)
    return next(filter(None, found), None)


def _find_in(place: Path | str, options: Settings, folder: RunFolder, text: str) -> str | None:
    from seamark.store.query import selection

    def ask() -> str | None:
        with fork.delay_forks():  # modules are imported
            catalog = open_catalog(place, options.api_token)
        with closing(catalog):
            catalog.refresh(folder.project)
            return selection.find_duplicate(catalog, folder.project, text)

    with logged(f"{place} was not searched for the same run"):
        return ask() if place == folder.root else call_within(ask, "seamark-same-run")
    return None


def take_revision(options: Settings, folder: RunFolder, version: StartVersion) -> dict[str, Any]:
    """Reserve the next revision of a run's inputs; None if impossible. Never raises."""
    if options.names_a_run or current_rank().rank or not any(map(is_parameter, options.params)):
        return {}
    with logged("the revision of this run could not be recorded"):
        text = start_hash(options, version)
        assert text is not None  # noqa: S101 - there are parameters
        number = reservations.take_revision(folder.path.parent, text, folder.run)
        return {HASH: text, REVISION: number}
    return {}


def check_hash(text: object, revision: object) -> None:
    """Raise `ArgumentError` for an invalid hash or revision."""
    if not isinstance(text, str) or not _HASH.fullmatch(text):
        raise argument_error(text, "content_hash", "32 hexadecimal digits")
    is_number = isinstance(revision, int) and not isinstance(revision, bool) and revision > 0
    if revision is not None and not is_number:
        raise argument_error(revision, "revision", "a number of at least 1, or None")
