"""Claims of runs on a server, and permanent removal of runs.

Claim n of a run or a group is its row 2n - 1, and row 2n marks its release. Processes that saw the
same newest row try to insert the same next row; the database accepts only one of them.

A tombstone of a removed run remains, so that no sender can restore the run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from pydantic import BaseModel

from seamark.journal.reservations import has_lapsed, is_same_process
from seamark.paths import PROJECT_LOG
from seamark.server.accounts import tables
from seamark.server.folding.turns import forget
from seamark.server.kept.journals import IntakeJournals
from seamark.store import schema
from seamark.store.database import Conflict, Database, Upsert, among, retry
from seamark.store.runs import Store

Ref = tuple[str, str]
"""Project and run id, or name of a group."""
_journal: Final = schema.journal.c
_row: Final = tables.reservation.c
_SELECTED: Final = (
    _row.project == sa.bindparam("at"),
    _row.kind == sa.bindparam("of"),
    among(_row.name, name="names"),
)
_last: Final = (
    sa.select(_row.name, sa.func.max(_row.number).label("number"))
    .where(*_SELECTED)
    .group_by(_row.name)
    .subquery()
)
_NEWEST: Final = (
    sa.select(_row.name, _row.number, _row.holder, _row.t_ns)
    .join(_last, sa.and_(_last.c.name == _row.name, _last.c.number == _row.number))
    .where(*_SELECTED)
)
_KEYS: Final = ("project", "kind", "name", "number")
_RESERVE: Final = Upsert(tables.reservation, (*_KEYS, "holder", "t_ns"), _KEYS)
_DELETE_CLAIMS: Final = sa.delete(tables.reservation).where(
    _row.project == sa.bindparam("at"), _row.kind == "run", _row.name == sa.bindparam("who")
)
_LAST_ACTIVITY: Final = (
    sa.select(sa.func.coalesce(_journal.heard, _journal.last_t), _journal.header)
    .join(schema.run, schema.run.c.id == _journal.run)
    .where(schema.run.c.project == sa.bindparam("at"), schema.run.c.name == sa.bindparam("log"))
)


class Claim(BaseModel):
    """Claim of a run or group; `number` counts the claims of the same run or group, 1-based.

    `position` is the number of stored bytes of the run, or of the project's log, at the time of the
    claim: the data of earlier claimants, which must be read. All are null if nothing was claimed.
    """

    ref: Ref | None = None
    number: int | None = None
    position: int | None = None


class _Newest(NamedTuple):
    row: int
    holder: str
    t_ns: int

    @property
    def claim(self) -> int:
        return (self.row + 1) // 2

    @property
    def is_released(self) -> bool:
        return self.row % 2 == 0

    def matches(self, number: int, key: str) -> bool:
        return self.claim == number and json.loads(self.holder)["key"] == key


class ServerClaims:
    """The claims of all runs and groups of a server."""

    def __init__(
        self,
        account: Database,
        store: Callable[[], Store],
        position: Callable[[str, str], int],
        now_ns: Callable[[], int],
    ) -> None:
        self._account, self._store = account, store
        self._position, self._now_ns = position, now_ns

    def take(self, refs: Iterable[Ref], kind: str, claimant: Mapping[str, Any]) -> Claim:
        """Claim the first free run or group of some; an empty claim means that there is none.

        Args:
            refs: In order of preference.
            kind: ``"run"`` or ``"group"``.
            claimant: Description of the process by `seamark.journal.reservations.claimant`.
        """
        wanted, now = list(dict.fromkeys(refs)), self._now_ns()
        newest = self._newest(wanted, kind)
        for ref in wanted:
            log = ref[1] if kind == "run" else PROJECT_LOG
            last = newest.get(ref)
            if last is not None and not self._is_free(ref[0], log, last, now):
                continue
            if kind == "run" and not self._position(*ref):
                continue  # purged, or never received
            number = 1 if last is None else last.claim + 1
            holder = json.dumps(claimant, separators=(",", ":"))
            with contextlib.suppress(Conflict):  # another process was faster
                if self._reserve(ref, kind, 2 * number - 1, holder):
                    position = self._position(ref[0], log)
                    return Claim(ref=ref, number=number, position=position)
        return Claim()

    def _newest(self, refs: Iterable[Ref], kind: str) -> dict[Ref, _Newest]:
        by_project: dict[str, list[str]] = {}
        for project, name in refs:
            by_project.setdefault(project, []).append(name)
        found: dict[Ref, _Newest] = {}
        with self._account.reading() as connection:
            for project, names in by_project.items():
                asked = {"at": project, "of": kind, "names": names}
                for name, *row in self._account.rows(connection, _NEWEST, **asked):
                    found[project, name] = _Newest(*row)
        return found

    def _reserve(self, ref: Ref, kind: str, row: int, holder: str) -> bool:
        # A row is never changed; the result is False if another process inserted it.
        with self._account.writing() as connection:
            made = self._account.run(
                connection,
                _RESERVE,
                project=ref[0],
                kind=kind,
                name=ref[1],
                number=row,
                holder=holder,
                t_ns=self._now_ns(),
            )
        return bool(made)

    def _is_free(self, project: str, log: str, claim: _Newest, now: int) -> bool:
        # It was released, or the claimant sent nothing for a long time.
        if claim.is_released:
            return True
        facts = json.loads(claim.holder)
        if not has_lapsed(facts, claim.t_ns, now, here=False):
            return False
        rows = self._store().database.fetch(_LAST_ACTIVITY, at=project, log=log)
        received = [at for at, header in rows if is_same_process(_decoded(header), facts)]
        return has_lapsed(facts, max((claim.t_ns, *received)), now, here=False)

    def holds(self, ref: Ref, kind: str, number: int, key: str) -> bool:
        """Return whether a claim is the newest one and was not released."""
        last = self._newest([ref], kind).get(ref)
        return last is not None and last.matches(number, key) and not last.is_released

    def release(self, ref: Ref, kind: str, number: int, key: str) -> bool:
        """Release a claim; return whether it was the newest one and belonged to the caller."""
        last = self._newest([ref], kind).get(ref)
        if last is None or not last.matches(number, key):
            return False
        if not last.is_released:
            retry(lambda: self._reserve(ref, kind, 2 * number, last.holder))
        return True


def _decoded(header: str) -> Mapping[str, Any]:
    found = json.loads(header) if header else {}
    return found if isinstance(found, dict) else {}


_tombstone: Final = tables.tombstone.c
_INSERT_TOMBSTONE: Final = Upsert(
    tables.tombstone, ("project", "run", "t_ns", "who"), ("project", "run")
)
_ALL_TOMBSTONES: Final = sa.select(_tombstone.project, _tombstone.run)
_TOMBSTONE: Final = sa.select(_tombstone.t_ns).where(
    _tombstone.project == sa.bindparam("project"), _tombstone.run == sa.bindparam("run")
)


def purge(
    account: Database,
    kept: IntakeJournals,
    store: Store,
    project: str,
    run: str,
    *,
    who: str,
    now_ns: int,
) -> None:
    """Remove a run permanently; may be repeated after an interruption.

    The tombstone is written first. From then on no data of the run is accepted, so data that is
    removed afterwards stays removed. The bytes of the run disappear from the objects within days.
    Raises `Conflict` if other processes keep writing the same rows.
    """
    with account.writing() as connection:
        account.run(connection, _INSERT_TOMBSTONE, project=project, run=run, t_ns=now_ns, who=who)
        account.run(connection, _DELETE_CLAIMS, at=project, who=run)
    retry(lambda: kept.forget(project, run))
    retry(lambda: forget(store, project, run))


def purged(account: Database) -> list[tuple[str, str]]:
    """Return project and run id of all purged runs."""
    return [(row[0], row[1]) for row in account.fetch(_ALL_TOMBSTONES)]


def is_purged(account: Database, project: str, run: str) -> bool:
    """Return whether a run was purged."""
    return bool(account.fetch(_TOMBSTONE, project=project, run=run))
