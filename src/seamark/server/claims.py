"""Who of many workers has a run or a group: a row, which whoever claims it changes.

The row says which claim is the newest, so that of two that have seen the same one only one can
change it, on whichever worker of the server they ask and whatever the engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from seamark.journal.claims import has_lapsed, is_same_process
from seamark.paths import PROJECT_LOG
from seamark.server.accounts import tables
from seamark.store import schema
from seamark.store.database import Conflict, Upsert
from seamark.store.runs import filled

if TYPE_CHECKING:
    from seamark.store.database import Database
    from seamark.store.runs import Store

__all__ = ["ServerClaims", "Taken", "forget_claims"]

Ref = tuple[str, str]
"""Project and run id, or name of a group."""

_claim: Final = tables.claim.c
_journal: Final = schema.journal.c
_TRIES: Final = 20


def _of_one() -> Any:
    return sa.and_(
        _claim.project == sa.bindparam("at"),
        _claim.kind == sa.bindparam("of"),
        _claim.name == sa.bindparam("who"),
    )


_FIND: Final = sa.select(
    _claim.number, _claim.key, _claim.claimant, _claim.t_ns, _claim.released_ns
).where(_of_one())
_AT_ONCE: Final = 100
_FIND_SOME: Final = sa.select(
    _claim.name, _claim.number, _claim.key, _claim.claimant, _claim.t_ns, _claim.released_ns
).where(
    _claim.project == sa.bindparam("at"),
    _claim.kind == sa.bindparam("of"),
    _claim.name.in_([sa.bindparam(f"at{place}") for place in range(_AT_ONCE)]),
)
_FIRST: Final = Upsert(
    tables.claim,
    ("project", "kind", "name", "number", "key", "claimant", "t_ns"),
    ("project", "kind", "name"),
)
_NEXT: Final = (
    sa.update(tables.claim)
    .values(
        number=_claim.number + 1,
        key=sa.bindparam("new_key"),
        claimant=sa.bindparam("new_claimant"),
        t_ns=sa.bindparam("now_ns"),
        released_ns=None,
    )
    .where(_of_one(), _claim.number == sa.bindparam("before"))
)
_RELEASE: Final = (
    sa.update(tables.claim)
    .values(released_ns=sa.bindparam("now_ns"))
    .where(
        _of_one(), _claim.number == sa.bindparam("before"), _claim.key == sa.bindparam("own_key")
    )
)
_FORGET: Final = sa.delete(tables.claim).where(_of_one())
_HEARD: Final = (
    sa.select(sa.func.coalesce(_journal.heard, _journal.last_t), _journal.header)
    .join(schema.run, schema.run.c.id == _journal.run)
    .where(schema.run.c.project == sa.bindparam("at"), schema.run.c.name == sa.bindparam("log"))
)


class Taken(NamedTuple):
    """A claim that was made.

    Attributes:
        ref: Project and run id, or name of a group.
        number: Which claim of it, 1-based.
        position: How many bytes of the run, or of the project's log, were kept then: what earlier
            claimants sent.
    """

    ref: Ref
    number: int
    position: int


class ServerClaims:
    """The claims of all runs and groups of a server.

    Args:
        account: The set of tables that hold them.
        store: Returns the folded store that is live.
        position: Returns how many bytes are kept of a run; 0 of one that is not there.
        now_ns: Clock, nanoseconds since the Unix epoch.
    """

    def __init__(
        self,
        account: Database,
        store: Callable[[], Store],
        position: Callable[[str, str], int],
        now_ns: Callable[[], int],
    ) -> None:
        self._account, self._store = account, store
        self._position, self._now_ns = position, now_ns

    def take(self, refs: Iterable[Ref], kind: str, claimant: Mapping[str, Any]) -> Taken | None:
        """Claim the first of some that nobody has; None if there is none.

        Args:
            refs: In order of preference.
            kind: ``"run"`` or ``"group"``.
            claimant: What `seamark.journal.claims.claimant` says of the process.
        """
        wanted, now = list(dict.fromkeys(refs)), self._now_ns()
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            newest = self._newest(some, kind)
            for ref in some:
                log = ref[1] if kind == "run" else PROJECT_LOG
                if (row := newest.get(ref)) is not None:
                    _, _, before, t_ns, released_ns = row
                    if released_ns is None and not self._lapsed(ref[0], log, before, t_ns, now):
                        continue
                if kind == "run" and not self._position(*ref):
                    continue  # purged, or never there
                number = self._taken(ref, kind, row, claimant)
                if number is not None:
                    return Taken(ref, number, self._position(ref[0], log))
        return None

    def _newest(self, refs: Iterable[Ref], kind: str) -> dict[Ref, tuple[Any, ...]]:
        """Return the newest claims of some: number, key, claimant, and when made and released."""
        by_project: dict[str, list[str]] = {}
        for project, name in refs:
            by_project.setdefault(project, []).append(name)
        found: dict[Ref, tuple[Any, ...]] = {}
        with self._account.reading() as connection:
            for project, names in by_project.items():
                asked = {"at": project, "of": kind, **filled(names, _AT_ONCE)}
                for name, *row in self._account.rows(connection, _FIND_SOME, **asked):
                    found[project, name] = tuple(row)
        return found

    def _taken(
        self, ref: Ref, kind: str, row: tuple[Any, ...] | None, claimant: Mapping[str, Any]
    ) -> int | None:
        """Return the number of the claim that was made; None if somebody else was faster."""
        account, now = self._account, self._now_ns()
        at = {"at": ref[0], "of": kind, "who": ref[1]}
        told = json.dumps(claimant, separators=(",", ":"))
        try:
            if row is None:
                with account.writing() as connection:
                    made = account.run(
                        connection,
                        _FIRST,
                        project=ref[0],
                        kind=kind,
                        name=ref[1],
                        number=1,
                        key=claimant["key"],
                        claimant=told,
                        t_ns=now,
                    )
                return 1 if made else None
            number = row[0]
            with account.writing() as connection:
                made = account.run(
                    connection,
                    _NEXT,
                    **at,
                    before=number,
                    new_key=claimant["key"],
                    new_claimant=told,
                    now_ns=now,
                )
        except Conflict:  # somebody else was faster
            return None
        return int(number) + 1 if made else None

    def _lapsed(self, project: str, log: str, claimant: str, t_ns: int, now: int) -> bool:
        """Return whether nothing was heard of a claimant for so long that it counts as crashed."""
        facts = json.loads(claimant)
        if not has_lapsed(facts, t_ns, now, here=False):
            return False
        database = self._store().database
        with database.reading() as connection:
            rows = database.rows(connection, _HEARD, at=project, log=log)
        heard = [at for at, header in rows if is_same_process(_decoded(header), facts)]
        return has_lapsed(facts, max((t_ns, *heard)), now, here=False)

    def holds(self, ref: Ref, kind: str, number: int, key: str) -> bool:
        """Return whether a claim is the newest, and was not released."""
        account = self._account
        with account.reading() as connection:
            rows = account.rows(connection, _FIND, at=ref[0], of=kind, who=ref[1])
        return bool(rows) and rows[0][:2] == (number, key) and rows[0][4] is None

    def release(self, ref: Ref, kind: str, number: int, key: str) -> bool:
        """Give a claim back; return whether it was the newest, and the asker's.

        Raises:
            Conflict: If others write the same all the time.
        """
        account = self._account
        for last in range(_TRIES, 0, -1):
            try:
                with account.writing() as connection:
                    done = account.run(
                        connection,
                        _RELEASE,
                        at=ref[0],
                        of=kind,
                        who=ref[1],
                        before=number,
                        own_key=key,
                        now_ns=self._now_ns(),
                    )
            except Conflict:
                if last == 1:
                    raise
            else:
                return bool(done)
        raise AssertionError  # pragma: no cover - the loop returns or raises


def forget_claims(account: Database, connection: sa.Connection, project: str, run: str) -> None:
    """Remove what is known of claims of a run that is no more."""
    account.run(connection, _FORGET, at=project, of="run", who=run)


def _decoded(header: str) -> Mapping[str, Any]:
    found = json.loads(header) if header else {}
    return found if isinstance(found, dict) else {}
