"""Records that the server itself adds to a run, for edits and the trash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.errors import ArgumentError, RunNotFoundError
from seamark.journal.folder import journal_name
from seamark.journal.format import (
    MAX_PAYLOAD_BYTES,
    Kind,
    dump_json,
    file_header,
    frame_bytes,
    salt_of,
)
from seamark.journal.reader import Frame, JournalReader
from seamark.remote.protocol import Sent
from seamark.server.failures import GapError
from seamark.server.kept.plan import DivergedError
from seamark.store import schema

if TYPE_CHECKING:
    from seamark.server.kept.journals import IntakeJournals
    from seamark.store.runs import Store


_HOST: Final = "server"
"""Prefix of journal names, used in place of a host name."""
NEPTUNE: Final = "neptune"
"""Prefix of journals with data sent by Neptune's client."""
_MAX_JOURNALS: Final = 16
_MAX_ATTEMPTS: Final = 20
AHEAD_NS: Final = 3600 * 10**9
"""Distance ahead of the clock beyond which a time of a frame is ignored, in nanoseconds."""
_READ_LAST_T: Final = (
    sa.select(sa.func.max(schema.journal.c.last_t))
    .join(schema.run, schema.run.c.id == schema.journal.c.run)
    .where(
        schema.run.c.project == sa.bindparam("project"),
        schema.run.c.name == sa.bindparam("name"),
    )
)


StoreFrames = Callable[[str, str, str, int, bytes], Sent]
"""Function that stores whole frames: project, run, journal, offset, frames.

It returns once they are durable. It raises `GapError` or `DivergedError` if the journal has another
size.
"""


class OwnJournal(NamedTuple):
    """Journal that the server writes in a run, with its size and last frame (None: it is new)."""

    uid: bytes
    writer: str
    name: str
    size: int = 0
    last: Frame | None = None


def own_journal(
    instance: str, project: str, run: str, number: int, host: str = _HOST
) -> tuple[bytes, str]:
    """Return uid and writer id of the server's journal with a number (0-based) in a run."""
    words: list[str | int] = [instance, project, run, number]
    if host != _HOST:
        words.append(host)
    uid = hashlib.sha256(json.dumps(words).encode()).digest()[:16]
    return uid, f"{host}-{number}-{uid.hex()[:8]}"


def is_own_journal(instance: str, project: str, run: str, journal: str) -> bool:
    """Return whether a journal (file name) of a run is written by the server itself."""
    host = journal.partition("-")[0]
    if host not in (_HOST, NEPTUNE):
        return False
    some = (own_journal(instance, project, run, number, host) for number in range(_MAX_JOURNALS))
    return any(journal == journal_name(writer, uid) for uid, writer in some)


def next_journal(
    kept: IntakeJournals,
    instance: str,
    ref: tuple[str, str],
    known: Collection[str],
    limit: int,
    host: str = _HOST,
) -> OwnJournal:
    """Return the server's journal of a run to which it can append; it must end before ``limit``.

    Other writers may not use these names (`is_own_journal`). ``known`` journals that cannot be
    continued, for example after a loss, are skipped.
    """
    for number in range(_MAX_JOURNALS):
        uid, writer = own_journal(instance, *ref, number, host)
        name = journal_name(writer, uid)
        if name not in known:
            return OwnJournal(uid, writer, name)
        with JournalReader(kept.source(*ref, name)) as reader:
            size, last = reader.size, reader.last_frame()
        if last is not None and last.end == size and last.t < limit:
            return OwnJournal(uid, writer, name, size, last)
    raise ArgumentError(f"run {ref[1]!r} of {ref[0]!r} has no free name for a new journal")


class Frames:
    """New frames for a server's journal, later than all others of the journal and the run.

    `last_t` is the time of the last frame of the journal, `floor` the last time in the run; the
    latter is ignored if it is far ahead of the clock.
    """

    def __init__(self, uid: bytes, last_t: int, floor: int, now_ns: int) -> None:
        self._uid, self._salt = uid, salt_of(uid)
        ahead = floor + 1 if floor < now_ns + AHEAD_NS else 0
        self._t = max(now_ns, last_t + 1, ahead)
        self._frames: list[bytes] = []

    def begin(self, header: Mapping[str, Any]) -> None:
        """Add the first frames of a journal."""
        self._frames.append(file_header(self._uid))
        self.frame(Kind.HEADER, dump_json(header))

    def op(self, record: Mapping[str, Any], kind: int = Kind.OP) -> None:
        """Add a record; see ``docs/reference/journal.md`` for the format."""
        self.frame(kind, dump_json(record))

    def frame(self, kind: int, payload: bytes, flags: int = 0) -> None:
        """Add a frame; raise `ArgumentError` if it is too long."""
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise ArgumentError(
                f"expected a record of at most {MAX_PAYLOAD_BYTES:,} bytes, got {len(payload):,}"
            )
        self._frames.append(frame_bytes(self._salt, kind, self._t, payload, flags=flags))
        self._t += 1

    @property
    def data(self) -> bytes:
        """Bytes of all frames."""
        return b"".join(self._frames)


class ServerWriter:
    """Writer of operations to a journal of the server in each run.

    The journal does not own the run: state, error and running time of the run do not change. The
    writer keeps no file, thread or memory of a run between calls. All workers append to one journal
    per run; a worker that finds it longer than expected reads it again.
    """

    def __init__(
        self,
        instance: str,
        kept: IntakeJournals,
        take: StoreFrames,
        store: Callable[[], Store],
        now_ns: Callable[[], int],
    ) -> None:
        self._instance, self._kept, self._take = instance, kept, take
        self._store, self._now_ns = store, now_ns

    def record(self, project: str, run: str, ops: Iterable[Mapping[str, Any]]) -> int:
        """Append operations after all data of a run; return the position at which they can be read.

        Raises:
            RunNotFoundError: If no journal of the run is stored.
            ArgumentError: If an operation is too long for a record.
            Refusal: If the run was purged, or data cannot be stored now.
        """
        wanted = list(ops)
        for last in range(_MAX_ATTEMPTS, 0, -1):
            journals = self._kept.journals(project, run)
            if not journals:
                raise RunNotFoundError(f"run {run!r} does not exist in project {project!r}")
            now = self._now_ns()
            at = next_journal(self._kept, self._instance, (project, run), journals, now + AHEAD_NS)
            known = self._last_t(project, run)
            frames = Frames(at.uid, 0 if at.last is None else at.last.t, known, now)
            if not at.size:
                frames.begin(header_of(project, run, at.writer, known, host=_HOST))
            for op in wanted:
                frames.op(op)
            try:
                return self._take(project, run, at.name, at.size, frames.data).position
            except (DivergedError, GapError):  # another worker was faster; read again
                if last == 1:
                    raise
        raise AssertionError  # pragma: no cover - the loop returns or raises

    def _last_t(self, project: str, run: str) -> int:
        return int(self._store().database.fetch(_READ_LAST_T, project=project, name=run)[0][0] or 0)


def header_of(
    project: str, run: str, writer: str, prior_t: int, host: str, *, owner: bool = False
) -> dict[str, Any]:
    """Return the header of a journal written by the server."""
    return {
        "format": 1,
        "run": run,
        "project": project,
        "writer": writer,
        "continues": None,
        "prior_t": prior_t,
        "owner": owner,
        "host": host,
    }
