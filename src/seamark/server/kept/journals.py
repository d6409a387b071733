"""Journals stored by a server, for folding and reading."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import sqlalchemy as sa

from seamark.errors import FileMissingError
from seamark.journal.safe import Source
from seamark.server.blobs.blobs import Blobs
from seamark.server.blobs.tables import use
from seamark.server.kept import layout
from seamark.server.kept.caretaker import Caretaker
from seamark.server.kept.layout import REMOVE_NS, release
from seamark.server.kept.plan import Segment, StoredSource, key_of, segments_of
from seamark.server.objects import ObjectStore
from seamark.store.database import Database, Upsert

_ROWS_AT_ONCE: Final = 1000
_log: Final = logging.getLogger("seamark.server")

_run, _journal, _object, _segment = layout.runs, layout.journals, layout.objects, layout.segments
_REF: Final = (_run.c.project, _run.c.run, _run.c.position)
_UNFOLDED: Final = (
    sa.select(*_REF)
    .where(_run.c.waiting_ns.isnot(None))
    .order_by(_run.c.waiting_ns)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_OVERDUE: Final = _UNFOLDED.where(_run.c.waiting_ns < sa.bindparam("before", type_=sa.BigInteger))
_REQUEUE: Final = (
    sa.update(_run)
    .values(waiting_ns=_run.c.heard_ns)
    .where(_run.c.key.in_(sa.bindparam("keys", expanding=True)))
    .where(_run.c.waiting_ns.is_(None), _run.c.purged_ns.is_(None))
)
_FOLDED: Final = (
    sa.update(_run)
    .values(waiting_ns=None)
    .where(_run.c.key == sa.bindparam("run_key"), _run.c.position <= sa.bindparam("folded"))
)
_NEXT_RUNS: Final = (
    sa.select(*_REF)
    .where(_run.c.purged_ns.is_(None), _run.c.project >= sa.bindparam("project"))
    .where(
        sa.or_(
            _run.c.project > sa.bindparam("project"),
            _run.c.run > sa.bindparam("run_id"),
        )
    )
    .order_by(_run.c.project, _run.c.run)
    .limit(_ROWS_AT_ONCE)
)
_JOURNALS_OF_RUN: Final = (
    sa.select(_journal.c.name, _journal.c.size, _journal.c.heard_ns, _journal.c.number)
    .join_from(_run, _journal, _journal.c.run == _run.c.number)
    .where(_run.c.key == sa.bindparam("run_key"), _run.c.purged_ns.is_(None))
)
_ONE_JOURNAL: Final = _JOURNALS_OF_RUN.where(_journal.c.name == sa.bindparam("file"))
_INSERT_PURGED: Final = Upsert(
    _run,
    ("key", "project", "run", "position", "loose", "heard_ns", "purged_ns"),
    ("key",),
)
_MARK_PURGED: Final = (
    sa.update(_run)
    .values(purged_ns=sa.bindparam("now"), waiting_ns=None, loose=0)
    .where(_run.c.key == sa.bindparam("run_key"), _run.c.purged_ns.is_(None))
)
_numbers: Final = (
    sa.select(_journal.c.number)
    .join(_run, _run.c.number == _journal.c.run)
    .where(_run.c.key == sa.bindparam("run_key"))
)

_RELEASE_CONTENTS: Final = sa.delete(use).where(
    sa.tuple_(use.c.project, use.c.run).in_(
        sa.select(_run.c.project, _run.c.run).where(_run.c.purged_ns.isnot(None))
    )
)
"""Statement that releases contents sent for a run while it was being purged."""

_COLLECT_NS: Final = 600 * 10**9
"""Interval of searches for unused contents, in nanoseconds."""


class IntakeRun(NamedTuple):
    """Run, or ``.project``, with the number of stored bytes of its journals, gaps included."""

    project: str
    run: str
    position: int


class IntakeJournal(NamedTuple):
    """Size of a stored journal, gaps included, and time of arrival of its last bytes."""

    size: int
    heard_ns: int


class IntakeJournals:
    """Journals stored by a server, for folding and reading; thread-safe."""

    def __init__(
        self,
        database: Database,
        objects: ObjectStore,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._database, self.objects, self._now_ns = database, objects, now_ns
        self._caretaker = Caretaker(database, objects, now_ns)
        self._collected_ns = 0

    # ------------------------------------------------------------------ runs

    def check(self) -> None:
        """Raise `ObjectsUnreachable` if stored journals cannot be read."""
        self.objects.check()

    def unfolded(self, most: int) -> list[IntakeRun]:
        """Return runs with more stored bytes than noted as folded, longest wait first.

        It is called several times a second, and needs one index lookup.
        """
        rows = self._database.fetch(_UNFOLDED, most=most)
        return [IntakeRun(*row) for row in rows]

    def note(self, project: str, run: str, position: int) -> None:
        """Note that a run is folded up to a position, unless more bytes are stored meanwhile.

        The note is only a hint for `unfolded`; the store has the folded position. Runs whose notes
        are lost in a power loss are folded again without effect.
        """
        with self._database.writing(lasting=False) as connection:
            self._database.run(connection, _FOLDED, run_key=key_of(project, run), folded=position)

    def overdue(self, before_ns: int, most: int) -> list[IntakeRun]:
        """Return the runs of `unfolded` that have waited since before a time, longest first."""
        rows = self._database.fetch(_OVERDUE, most=most, before=before_ns)
        return [IntakeRun(*row) for row in rows]

    def requeue(self, runs: Sequence[tuple[str, str]]) -> None:
        """Mark runs as `unfolded` again, because their noted positions are wrong."""
        keys = sorted(key_of(*run) for run in runs)
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            with self._database.writing() as connection:
                connection.execute(_REQUEUE, {"keys": keys[start : start + _ROWS_AT_ONCE]})

    def runs(self) -> Iterator[IntakeRun]:
        """Yield all runs, ordered by project and run id."""
        project = run = ""
        while True:
            rows = self._database.fetch(_NEXT_RUNS, project=project, run_id=run)
            yield from (IntakeRun(*row) for row in rows)
            if len(rows) < _ROWS_AT_ONCE:
                return
            project, run = rows[-1][:2]

    # ------------------------------------------------------------------ journals

    def journals(self, project: str, run: str) -> Mapping[str, IntakeJournal]:
        """Return the stored journals of a run by file name; empty for an unknown run."""
        rows = self._database.fetch(_JOURNALS_OF_RUN, run_key=key_of(project, run))
        return {name: IntakeJournal(size, heard_ns) for name, size, heard_ns, _ in rows}

    def source(self, project: str, run: str, journal: str) -> Source:
        """Open a journal; raise `FileMissingError` if no bytes of it are stored.

        Gaps read as bytes that are not frames. `Source.quiet_since_ns` is None: only whole frames
        and declared gaps are stored, so all bytes are final.
        """
        return StoredSource(self.objects, journal, self.segments(project, run, journal))

    def segments(self, project: str, run: str, journal: str) -> list[Segment]:
        """Return the segments of a journal; raise `FileMissingError` if no bytes are stored."""
        key = key_of(project, run)
        with self._database.reading() as connection:
            rows = self._database.rows(connection, _ONE_JOURNAL, run_key=key, file=journal)
            if not rows:
                raise FileMissingError(
                    f"journal {journal!r} of run {run!r} is not stored on this server"
                )
            return segments_of(self._database, connection, rows[0][3])

    # ------------------------------------------------------------------ removal

    def forget(self, project: str, run: str) -> None:
        """Remove all rows of a run, so that its bytes are collected; permanent after a tombstone.

        The row of the run itself stays and marks it as purged, so later batches are refused.
        """
        key, now = key_of(project, run), self._now_ns()
        with self._database.writing() as connection:
            self._database.run(
                connection,
                _INSERT_PURGED,
                key=key,
                project=project,
                run=run,
                position=0,
                loose=0,
                heard_ns=now,
                purged_ns=now,
            )
            self._database.run(connection, _MARK_PURGED, run_key=key, now=now)
            given = {"run_key": key}
            named = sa.select(_segment.c.object).where(_segment.c.journal.in_(_numbers)).distinct()
            touched = sorted(row[0] for row in connection.execute(named, given))
            connection.execute(sa.delete(_segment).where(_segment.c.journal.in_(_numbers)), given)
            connection.execute(sa.delete(_journal).where(_journal.c.number.in_(_numbers)), given)
            release(connection, touched, now + REMOVE_NS, stale=True)
        self._blobs().forget_run(project, run)

    def _blobs(self) -> Blobs:
        from seamark.server.blobs.blobs import Blobs

        return Blobs(self._database, self.objects, now_ns=self._now_ns)

    def tend(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Compact objects and collect unused ones, a limited amount each time."""
        self._caretaker.tend(stop)
        if self._now_ns() - self._collected_ns > _COLLECT_NS and not stop():
            self._collected_ns = self._now_ns()
            self._settle_contents(stop)
            with self._database.writing() as connection:
                connection.execute(_RELEASE_CONTENTS)
            self._blobs().collect()

    def _settle_contents(self, stop: Callable[[], bool]) -> None:
        from seamark.server.blobs.blobs import RESERVED_NS
        from seamark.server.blobs.tables import settle_blobs

        until = self._now_ns() + RESERVED_NS
        try:
            settle_blobs(self._database, self.objects, self.runs, self._opened, until, stop)
        except OSError as error:  # they stay for now
            _log.warning("cannot currently determine which uploaded files are in use: %s", error)

    def _opened(self, project: str, run: str) -> Iterator[tuple[str, Source]]:
        for name in self.journals(project, run):
            with contextlib.suppress(FileMissingError):  # purged at the same time
                yield name, self.source(project, run, name)
