"""Under which name a run arrives in a project where another may have the same one.

Who brings a run asks before anything of it is sent, and takes the name in the same breath: of two
who come at once, one is first. What was taken counts for an hour, in which the run has to come;
then what is recorded of the runs there decides alone.

An artifact that comes is one more version where it has a name in common with what is there: that is
what versions are for. So ``"new"`` asks nobody; the others ask whether another artifact has the
name, which is one of whose versions none is here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from seamark.errors import ArgumentError

if TYPE_CHECKING:
    from seamark.reading.names import RunName

__all__ = ["CONFLICTS", "Arrival", "Conflict", "check_conflict", "settle", "settle_artifact"]

Conflict = Literal["new", "skip", "error", "replace"]
"""What becomes of a run whose name another run of the project has."""
CONFLICTS: Final = get_args(Conflict)

_HELD_NS: Final = 3600 * 10**9
_MOST_HELD: Final = 10_000


@dataclass(frozen=True, slots=True)
class Arrival:
    """What becomes of a run that is to come.

    Attributes:
        outcome: ``"go"``, ``"skip"``, ``"taken"`` or ``"no project"``.
        name: Its name there, where it goes; None if it has none.
        others: Ids of the runs that have its name.
    """

    outcome: str
    name: str | None = None
    others: tuple[str, ...] = ()


def check_conflict(given: Any, what: str = "conflict") -> Conflict:
    """Return a way to settle a conflict.

    Raises:
        ArgumentError: If it is none.
    """
    if given not in CONFLICTS:
        msg = f"{what}: expected one of {', '.join(map(repr, CONFLICTS))}, got {given!r:.80}"
        raise ArgumentError(msg)
    return given  # type: ignore[no-any-return]


def settle(
    held: dict[str, Any],
    known: Iterable[RunName],
    run: str,
    name: str | None,
    conflict: Conflict,
    now_ns: int,
) -> Arrival:
    """Return what becomes of a run, whose name is taken if it goes.

    Args:
        held: Names that were taken: run id and time by name, to be kept with the project. What is
            too old is removed.
        known: The runs of the project.
        run: Its id.
        name: Its name.
        conflict: What to do if another has it.
        now_ns: Nanoseconds since the Unix epoch.
    """
    seen: dict[str, list[str]] = {}
    shown: dict[str, str | None] = {}
    for one in known:
        if not one.trashed and one.run != run:
            seen.setdefault(one.name or "", []).append(one.run)
            shown[one.run] = one.name
    for key, told in list(held.items()):
        if not _is_held(told, key, shown, now_ns) or len(held) > _MOST_HELD:
            del held[key]

    def rivals(called: str) -> tuple[str, ...]:
        coming = [held[called][0]] if called in held and held[called][0] != run else []
        return tuple(dict.fromkeys((*seen.get(called, ()), *coming)))

    if name is None:
        return Arrival("go")
    others = rivals(name)
    if others and conflict in ("skip", "error"):
        return Arrival("skip" if conflict == "skip" else "taken", name, others)
    if others and conflict == "new":
        name, others = _free(name, held, run, rivals), ()
    held[name] = [run, now_ns]
    return Arrival("go", name, others)


def settle_artifact(
    held: dict[str, Any],
    known: Iterable[RunName],
    versions: Collection[str],
    place: str,
    conflict: Conflict,
    now_ns: int,
) -> Arrival:
    """Return what becomes of a version of an artifact; see `settle` for what is not said here.

    Args:
        held: Names of artifacts that were taken.
        known: The versions of all artifacts of the project.
        versions: The digests of those that are where it comes from, its own first.
        place: Of the artifact: ``PROJECT/.artifacts/NAME``.
        conflict: What to do if another artifact has its name.
        now_ns: Nanoseconds since the Unix epoch.
    """
    name, own = place.rpartition("/")[2], set(versions)
    there = [one._replace(name=name) for one in known if one.project == place and not one.trashed]
    if conflict == "new" or any(one.run in own for one in there):
        return Arrival("go", name)
    told = held.get(name)
    coming = told[0] if isinstance(told, list) and told and told[0] in own else next(iter(versions))
    return settle(held, there, coming, name, conflict, now_ns)


def _is_held(told: Any, name: str, shown: dict[str, str | None], now_ns: int) -> bool:
    """Return whether a name is still that of a run that is to come."""
    try:
        run, since = told
        fresh = 0 <= now_ns - since < _HELD_NS
    except (TypeError, ValueError):
        return False
    return fresh and isinstance(run, str) and shown.get(run, name) == name


def _free(name: str, held: dict[str, Any], run: str, rivals: Any) -> str:
    """Return the first ``<name>-<n>`` that nobody has; the one that the run took before, if any."""
    mine = re.compile(re.escape(name) + r"-[1-9]\d*")
    for one, told in held.items():
        if told[0] == run and mine.fullmatch(one) and not rivals(one):
            return one
    number = 2
    while rivals(f"{name}-{number}"):
        number += 1
    return f"{name}-{number}"
