"""Attributes that nobody recorded: they follow from several records, or from those of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from seamark.paths import kind_of
from seamark.reading.attributes import CHANGES, DETAIL, INHERITED
from seamark.reading.points import time_of
from seamark.store import schema
from seamark.store.cells import GOES_ON, UNKNOWN_NS, decoded, run_columns
from seamark.store.read.inherited import TAGS, Inherited, inherited_tags
from seamark.store.read.versions import ALIASES, VERSION, version_aliases, version_numbers

if TYPE_CHECKING:
    from seamark.process.crashes import Crash
    from seamark.store.fold.registers import Key
    from seamark.store.fold.run_state import JournalState, RunState
    from seamark.store.read.snapshot import Snapshot

__all__ = ["DERIVED_BELOW", "Derived", "gaps_of", "problems"]

_cells: Final = schema.attribute.c
_OWNER: Final = sa.select(schema.run.c.owner).where(schema.run.c.id == sa.bindparam("run"))
_HIDDEN: Final = (
    sa.select(_cells.path).distinct().where(_cells.run == sa.bindparam("run"), _cells.visible == 0)
)
_COPY: Final = "journal/"
"""Prefix of the name of a file among the conflicts."""
DERIVED_BELOW: Final = ("sys/", "monitoring/seamark/", TAGS)
"""What the paths of derived attributes begin with."""


class Derived:
    """Derived attributes of a run: path, type and value of each.

    Args:
        seen: The run.
        crash: How the process ended that trained it; None unless the run crashed.
    """

    def __init__(self, seen: Snapshot, crash: Crash | None) -> None:
        self._seen = seen
        self._crash = crash
        self._ref = (seen.run.project, seen.run.name)

    def __iter__(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the attributes."""
        seen, run, kind = self._seen, self._seen.state, kind_of(*self._ref)
        run.need(["sys/trashed"])
        facts = run_columns(run)
        ((owner,),) = seen.rows(_OWNER)
        yield "sys/id", "string", facts["sys_id"] or seen.run.name
        yield "sys/owner", "string", facts["owner"] or str(owner)
        if kind in ("run", "project"):
            stated = seen.stated()
            yield "sys/state", "string", stated
            yield "sys/running_time", "float", facts["running"] / 1e9
            if facts["detail"] is not None:
                yield DETAIL, "string", facts["detail"]
            if facts["started"] is not None:
                yield "sys/start_time", "datetime", time_of(facts["started"])
            if facts["ended"] is not None and stated not in GOES_ON:
                yield "sys/end_time", "datetime", time_of(facts["ended"])
        if self._crash is not None:
            yield "sys/crash_reason", "string", self._crash.reason
        yield from _known_times(facts)
        if not run.surviving("sys/trashed"):
            yield "sys/trashed", "bool", False
        if kind in ("model_version", "artifact"):
            if found := version_aliases(seen.store, seen.connection, [self._ref]).get(self._ref):
                yield ALIASES, "json", found
            if number := version_numbers(seen.store, seen.connection, [self._ref]).get(self._ref):
                yield VERSION, "int", number
        yield from self._concluded()

    def _concluded(self) -> Iterator[tuple[str, str, Any]]:
        """Yield what follows from several records, or from those of other containers."""
        run, tags = self._seen.state, self._tags()
        for path, one in tags.items():
            yield path, one.type, one.value
        if tags:
            yield INHERITED, "json", self._tag_edits(tags)
        for name, value in self._problems(tags).items():
            yield f"monitoring/seamark/{name}", "json", value
        if run.changed:
            run.need(run.changed)
            if changes := run.changes():
                yield CHANGES, "json", {path: _changes(told) for path, told in changes.items()}

    def problems(self) -> dict[str, Any]:
        """Return what went wrong with the run, by name; only what is not empty."""
        return self._problems(self._tags())

    def _tags(self) -> Mapping[str, Inherited]:
        """Return the keyed tags of the projects above, by path."""
        seen = self._seen
        return dict(inherited_tags(seen.store, seen.connection, [self._ref])).get(self._ref, {})

    def _tag_edits(self, tags: Mapping[str, Inherited]) -> dict[str, dict[str, Any]]:
        """Return the tags of projects by key, and what the container itself says of that key."""
        self._seen.state.need(tags)
        found: dict[str, dict[str, Any]] = {}
        for path, one in tags.items():
            told = {"value": one.value, "project": one.project}
            if (own := self._seen.own(path)) is not None:
                told["own"] = own.value if own.family == "atom" else f"<{own.family}>"
            found[path[len(TAGS) :]] = told
        return found

    def _problems(self, tags: Mapping[str, Inherited]) -> dict[str, Any]:
        found = problems(self._seen.state, self._conflicts())
        if self._seen.line.lacking is not None:
            found["fork"] = {"lacking": self._seen.line.lacking}
        other = {
            key: one
            for key, one in self._tag_edits(tags).items()
            if "own" in one and repr(one["own"]) != repr(one["value"])  # 1 is not True, NaN is NaN
        }
        return {**found, "tags": other} if other else found

    def _conflicts(self) -> dict[str, list[str]]:
        """Return the families that lost, by path."""
        seen = self._seen
        rows = seen.rows(_HIDDEN)
        if not rows:
            return {}
        paths = seen.store.numbers.paths(seen.connection, [number for (number,) in rows])
        seen.state.need(paths.values())
        return seen.state.conflicts()


def _known_times(facts: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield when a run was created and modified, if that is known."""
    for path, moment in (("creation", facts["created"]), ("modification", facts["modified"])):
        if moment != UNKNOWN_NS:
            yield f"sys/{path}_time", "datetime", time_of(moment)


def _changes(told: Iterable[tuple[Key, str, Any]]) -> list[dict[str, Any]]:
    """Return values and when each was recorded, ISO 8601 in UTC."""
    found = []
    for (t, _, _), kind, value in told:
        plain = value if kind == "datetime" else decoded(kind, value)
        found.append({"value": plain, "time": time_of(t).isoformat()})
    return found


def gaps_of(journal: JournalState) -> list[tuple[int, int]]:
    """Return the bytes of a journal that hold no valid frame, a settled end included."""
    found = [*journal.gaps, *([journal.tail] if journal.tail else [])]
    return [(offset, length) for offset, length in found]


def problems(run: RunState, conflicts: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return what went wrong with a run, by name; only what is not empty.

    Args:
        run: As folded.
        conflicts: The families that lost, by path.
    """
    journals = sorted(run.journals.values(), key=lambda journal: journal.writer)
    dropped: dict[str, int] = {}
    for journal in journals:
        for reason, count in journal.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + count
    copies = {f"{_COPY}{name}": [one.file] for one in journals for name in one.diverged}
    found = {
        "dropped": dropped,
        "conflicts": {**conflicts, **copies},
        "gaps": {
            journal.writer: gaps
            for journal in journals
            if (gaps := [list(gap) for gap in gaps_of(journal)])
        },
        "fold_errors": {journal.writer: journal.errors for journal in journals if journal.errors},
        "newer": [journal.writer for journal in journals if journal.stopped == "newer"],
    }
    return {name: value for name, value in found.items() if value}
