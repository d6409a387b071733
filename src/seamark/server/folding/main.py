"""Process that folds received journals into the store.

Any number of these processes share the work. If one dies, another one repeats its work once the
lease has lapsed. Nothing is counted twice, because the position up to which a run is folded is
committed together with the folded data.

A run counts as crashed if no data was received from it for a while. The time of the last batch is
stored with the folded data and, as folding may be minutes behind, also in advance.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import sqlalchemy as sa

from seamark.server.changes import Positions, note_changes
from seamark.server.database import BoundedDict, DatabaseUnreachable, is_undefined
from seamark.server.databases import Databases, SchemaNewer, open_databases
from seamark.server.folding.refold import is_whole, mark_whole
from seamark.server.folding.tables import Leases
from seamark.server.folding.turns import fold_turn, forget
from seamark.server.kept.journals import IntakeJournals, IntakeRun
from seamark.server.objects import ObjectsUnreachable
from seamark.server.settings import Settings
from seamark.store import schema
from seamark.store.database import Conflict
from seamark.store.runs import RUNS_AT_ONCE, Store, places_of

Ref = tuple[str, str]
_run, _journal = schema.run.c, schema.journal.c
_LOCK_RUNS: Final = (
    sa.select(_run.id)
    .where(_run.id.in_(sa.bindparam("numbers", expanding=True)))
    .order_by(_run.id)
    .with_for_update()
)
_UPDATE_ACTIVITY: Final = (
    sa.update(schema.journal)
    .values(heard=sa.bindparam("at"))
    .where(
        _journal.run == sa.bindparam("of_run"),
        _journal.file == sa.bindparam("of_file"),
        _journal.heard < sa.bindparam("at"),
        _journal.header.not_like('%"ended_how":%'),
    )
)
_newest_activity: Final = (
    sa.select(sa.func.max(sa.func.coalesce(_journal.heard, _journal.last_t)))
    .where(_journal.run == _run.id, _journal.owner == 1)
    .scalar_subquery()
)
_UPDATE_BEAT: Final = (
    sa.update(schema.run)
    .values(beat=sa.func.coalesce(_newest_activity, _run.beat))
    .where(_run.id == sa.bindparam("of_run"))
)


def note_activity(store: Store, kept: IntakeJournals, refs: Collection[Ref]) -> int:
    """Store the times of the last received data of runs; return the number of changed runs.

    Runs that are not in the store yet are skipped. A concurrent fold may overwrite a time with an
    older one, which the next call corrects. If another transaction causes a `Conflict`, the changes
    made so far stay.
    """
    changed, wanted = 0, list(refs)
    for start in range(0, len(wanted), RUNS_AT_ONCE):
        part = wanted[start : start + RUNS_AT_ONCE]
        journals = {ref: kept.journals(*ref) for ref in part}
        with store.database.writing() as connection:
            changed += _note_activity(store, connection, journals)
    return changed


def _note_activity(store: Store, connection: sa.Connection, journals: dict[Ref, Any]) -> int:
    numbers = {one.number: ref for ref, one in places_of(store, connection, list(journals)).items()}
    if not numbers:
        return 0
    # Same order as saving a run: first its own row, then those of its journals.
    connection.execute(_LOCK_RUNS, {"numbers": sorted(numbers)}).all()
    changed = []
    for number, ref in sorted(numbers.items()):
        found = 0
        for name, one in journals[ref].items():
            values = {"of_run": number, "of_file": name, "at": one.heard_ns}
            found += connection.execute(_UPDATE_ACTIVITY, values).rowcount
        if found:
            connection.execute(_UPDATE_BEAT, {"of_run": number})
            changed.append(ref)
    if changed:
        note_changes(store.database, connection, changed)
    return len(changed)


_random: Final = random.Random()  # noqa: S311 - leaves the global generator unchanged
_log: Final = logging.getLogger("seamark.server")
_POLL_S: Final = 0.03
"""Interval of polls for unfolded runs, in seconds; most of the delay of a reader. It also limits
how often the run of a slow sender is folded, as a turn costs as much as the intake."""
_IDLE_POLL_S: Final = 0.08
_IDLE_AFTER_S: Final = 5.0
_RUNS_AT_ONCE: Final = 64
"""Number of runs fetched at a time, each for one turn."""
_MIN_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 60.0
_MAX_FAILING: Final = 10_000
"""Maximum number of failing runs whose next attempt is remembered; others are retried earlier."""
_RECONNECT_S: Final = 2.0
"""Maximum interval between attempts to reach the database, in seconds."""
_MAINTENANCE_S: Final = 10.0
_COMPACTION_LEASE: Final = ("", ".tend")
"""Name of the lease for compaction; no run has this name."""
_ACTIVITY_S: Final = 10.0
"""Interval for storing the activity of waiting runs in advance, in seconds."""
_OVERDUE_S: Final = 20.0
"""Waiting time from which a run's activity is stored in advance, in seconds."""
_ACTIVITY_LEASE: Final = ("", ".heard")
"""Name of the lease for storing the activity; no run has this name."""
_OVERDUE_AT_ONCE: Final = 1000


def main(settings: Settings, stop: threading.Event) -> None:
    """Fold until `stop` is set; the current turn is completed.

    Raises:
        DatabaseUnreachable: If the database is not available at the start.
    """
    from seamark.server.checks import open_matching_objects
    from seamark.server.kept import layout
    from seamark.server.kept.journals import IntakeJournals

    databases = open_databases(settings.store, statement_s=0)
    try:
        databases.kept.create_tables(layout.metadata)
        kept = IntakeJournals(databases.kept, open_matching_objects(databases, settings.blobs))
        FoldWorker(databases, kept, stop).run()
    finally:
        databases.close()


class FoldWorker:
    """Worker that folds stored bytes; several workers may use the same store."""

    def __init__(
        self,
        databases: Databases,
        kept: IntakeJournals,
        stop: threading.Event,
        now_ns: Callable[[], int] = time.time_ns,
        store: Callable[[], Store] | None = None,
    ) -> None:
        self._databases, self._kept, self._stop = databases, kept, stop
        self._now_ns = now_ns
        self._store = store or databases.store
        self._owner = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._failing = BoundedDict[Ref, tuple[float, float]](_MAX_FAILING)
        self._unreachable = False
        self._more = False
        self._complete_store: object = None

    def run(self) -> None:
        """Fold until the stop event is set.

        Raises:
            SchemaNewer: If a newer Seamark has taken over.
            DatabaseUnreachable: If tables were removed; a restarted process creates them.
        """
        threads = [
            threading.Thread(target=self._repeat, args=what, name=name, daemon=True)
            for name, *what in (
                ("seamark-tend", "maintenance", _MAINTENANCE_S, _COMPACTION_LEASE, self.tend),
                (
                    "seamark-hear",
                    "recording of activity",
                    _ACTIVITY_S,
                    _ACTIVITY_LEASE,
                    self.note_overdue_activity,
                ),
            )
        ]
        for thread in threads:
            thread.start()
        worked = time.monotonic()
        while not self._stop.is_set():
            started_s = time.monotonic()
            try:
                busy = self.round()
            except SchemaNewer:
                raise
            except (DatabaseUnreachable, ObjectsUnreachable) as error:
                self._wait_for_database(error)
                continue
            except Exception as error:
                if is_undefined(error):
                    _log.error("tables were removed: %s", str(error).splitlines()[0])
                    self._stop.set()
                    raise DatabaseUnreachable(
                        "tables of the server were removed; folding restarts"
                    ) from error
                _log.exception("folding failed; it continues")
                self._stop.wait(_RECONNECT_S)
                continue
            if self._unreachable:
                self._unreachable = False
                _log.info("databases and objects are available again; folding continues")
            now = time.monotonic()
            if busy:
                worked = now
            self._stop.wait(self._pause_s(started_s, now, worked))
        for thread in threads:
            thread.join()

    def _pause_s(self, started_s: float, now: float, worked: float) -> float:
        if worked < now:
            return _POLL_S if now - worked < _IDLE_AFTER_S else _IDLE_POLL_S
        return 0.0 if self._more else max(0.0, started_s + _POLL_S - now)

    def round(self) -> bool:
        """Fold one turn of each run with unfolded bytes; return whether there was one."""
        self._kept.check()
        store = self._store()
        leases = Leases(store.database, self._owner)
        if self._complete_store is not store.database and not self._fold_everything(store, leases):
            return False
        return self._fold_waiting(store, leases)

    def _fold_waiting(self, store: Store, leases: Leases) -> bool:
        waiting = self._kept.unfolded(_RUNS_AT_ONCE + len(self._failing))
        # Runs that do not wait any more, such as purged ones, are not failing either.
        refs = {(run.project, run.run) for run in waiting}
        for ref in self._failing.keys() - refs:
            del self._failing[ref]
        if not waiting:
            return False
        worked, self._more = False, len(waiting) >= _RUNS_AT_ONCE
        for run in waiting:
            if self._stop.is_set():
                break
            ref = (run.project, run.run)
            if not self._is_paused(ref) and self._fold(store, leases, run):
                worked = True
        return worked

    def _fold(self, store: Store, leases: Leases, run: IntakeRun) -> bool:
        ref = (run.project, run.run)
        if not leases.claim(*ref):
            return False
        try:
            turn = fold_turn(
                store,
                self._kept,
                *ref,
                self._now_ns,
                more=lambda connection: leases.release(connection, *ref),
            )
            self._more = self._more or turn.more
            if not turn.more and self._store() is store:  # not valid for another store
                self._kept.note(*ref, turn.position)
            self._failing.pop(ref, None)
        except DatabaseUnreachable:
            raise
        except Conflict:  # another process folded it meanwhile; try again
            leases.drop(*ref)
        except Exception as error:  # noqa: BLE001 - must not block other runs
            self._note_failure(ref, error)
            leases.drop(*ref)
        return True

    def _fold_everything(self, store: Store, leases: Leases) -> bool:
        # Data that arrives meanwhile is folded in between.
        if not is_whole(store):
            positions, last = Positions(lambda: store), time.monotonic()
            for run in self._kept.runs():
                if self._stop.is_set():
                    return False
                ref = (run.project, run.run)
                # A run that is purged meanwhile never reaches its position.
                while positions.folded(*ref) < run.position and self._kept.journals(*ref):
                    done = self._fold(store, leases, run)
                    if self._stop.is_set() or self._is_paused(ref):
                        break
                    if not done:
                        self._stop.wait(_POLL_S)  # another process folds it
                if time.monotonic() - last > _POLL_S:
                    self._fold_waiting(store, leases)
                    last = time.monotonic()
            mark_whole(store)
            self._databases.take_over(store)
        else:
            self._requeue_incomplete(store)
        self._complete_store = store.database
        return True

    def _requeue_incomplete(self, store: Store) -> None:
        # Noted positions and folded runs are in different sets of tables. After a power loss, or
        # the loss of one set, each may lack the latest changes of the other.
        folded = Positions(lambda: store).all()
        less = [
            (run.project, run.run)
            for run in self._kept.runs()
            if folded.get((run.project, run.run), 0) < run.position
        ]
        self._kept.requeue(less)

    # ------------------------------------------------------------------ failures

    def _is_paused(self, ref: Ref) -> bool:
        again_at, _ = self._failing.get(ref, (0.0, 0.0))
        return time.monotonic() < again_at

    def _note_failure(self, ref: Ref, error: Exception) -> None:
        _, before = self._failing.get(ref, (0.0, 0.0))
        if not before:
            cause = None if isinstance(error, OSError) else error
            _log.error("cannot fold %s/%s, trying again later: %s", *ref, error, exc_info=cause)
        pause = min(2 * before, _MAX_PAUSE_S) or _MIN_PAUSE_S
        self._failing[ref] = (time.monotonic() + pause, pause)

    def _wait_for_database(self, error: DatabaseUnreachable | ObjectsUnreachable) -> None:
        if not self._unreachable:
            _log.warning("folding is paused: %s", error)
        self._unreachable = True
        self._stop.wait(_RECONNECT_S * _random.uniform(0.2, 1))

    # ------------------------------------------------------------------ background work

    def tend(self, store: Store) -> None:
        """Run due maintenance, and complete interrupted removals."""
        self._kept.tend(self._stop.is_set)
        self._forget_purged(store)

    def note_overdue_activity(self, store: Store) -> None:
        """Store the activity of runs that have waited for a long time."""
        before = self._now_ns() - int(_OVERDUE_S * 10**9)
        late = self._kept.overdue(before, _OVERDUE_AT_ONCE)
        note_activity(store, self._kept, [(run.project, run.run) for run in late])

    def _repeat(self, what: str, every_s: float, leased: Ref, do: Callable[[Store], None]) -> None:
        while not self._stop.wait(every_s * _random.uniform(0.5, 1.5)):
            try:
                store = self._store()
                leases = Leases(store.database, self._owner)
                if leases.claim(*leased):
                    do(store)
                    leases.drop(*leased)
            except (DatabaseUnreachable, ObjectsUnreachable, SchemaNewer, Conflict) as error:
                _log.debug("%s is delayed: %s", what, error)
            except Exception:  # noqa: BLE001 - it is retried
                _log.exception("%s failed; trying again later", what)

    def _forget_purged(self, store: Store) -> None:
        from seamark.server.purging import purged

        with store.database.reading() as connection:
            found = places_of(store, connection, purged(self._databases.account))
        for ref in found:
            self._kept.forget(*ref)
            forget(store, *ref)
