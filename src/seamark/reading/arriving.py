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
_APART_NS: Final = 1000
"""Between two who take one name, so that what one records at its end is before what the other does,
whatever their clocks say."""
_MOST_HELD: Final = 10_000
_MOST_COMING: Final = 100


@dataclass(frozen=True, slots=True)
class Arrival:
    """Outcome of asking under which name a run may come.

    Attributes:
        outcome: ``"go"``, ``"skip"``, ``"taken"`` or ``"no project"``.
        name: Its name there, where it goes; None if it has none.
        others: Ids of the runs that have its name.
        t_ns: When that was settled, nanoseconds since the Unix epoch by the clock of the place, and
            later than for those before; None if nothing was taken.
    """

    outcome: str
    name: str | None = None
    others: tuple[str, ...] = ()
    t_ns: int | None = None


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

    Who is asked about a run once more is at its end: of two that replace each other, the one whose
    end is later replaces the other.

    Args:
        held: Names that were taken: run id, time, and whether it is at its end, of each that comes
            under a name; to be kept with the project. What is too old is removed.
        known: The runs of the project.
        run: Its id.
        name: Its name.
        conflict: What to do if another has it.
        now_ns: Nanoseconds since the Unix epoch.
    """
    seen: dict[str, list[str]] = {}
    shown: dict[str, str | None] = {}
    for one in known:
        if _is_shown(one) and one.run != run:
            seen.setdefault(one.name or "", []).append(one.run)
            shown[one.run] = one.name
    for key, told in list(held.items()):
        coming = [one for one in _listed(told) if _is_held(one, key, shown, now_ns)]
        if coming and len(held) <= _MOST_HELD:
            held[key] = coming
        else:
            del held[key]

    def competing_runs(called: str, *, ends: bool = False) -> tuple[str, ...]:
        coming = (one for one, _, at_end in held.get(called, ()) if at_end or not ends)
        found = dict.fromkeys((*seen.get(called, ()), *coming))
        return tuple(one for one in found if one != run)

    if name is None:
        return Arrival("go")
    again = any(one == run for one, *_ in held.get(name, ()))
    others = competing_runs(name, ends=again and conflict == "replace")
    if others and conflict in ("skip", "error"):
        return Arrival("skip" if conflict == "skip" else "taken", name, others)
    if others and conflict == "new":
        name, others = _free(name, held, run, competing_runs), ()
    again = again or any(one == run for one, *_ in held.get(name, ()))
    t_ns = max([now_ns, *(int(since) + _APART_NS for _, since, _ in held.get(name, ()))])
    behind = [one for one in held.get(name, ()) if one[0] != run]
    held[name] = [*behind[-_MOST_COMING:], [run, t_ns, again]]
    return Arrival("go", name, others, t_ns)


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
    there = [one._replace(name=name) for one in known if one.project == place and _is_shown(one)]
    if conflict == "new" or any(one.run in own for one in there):
        return Arrival("go", name)
    told = (one[0] for one in _listed(held.get(name)) if isinstance(one[0], str) and one[0] in own)
    coming = next(told, next(iter(versions)))
    return settle(held, there, coming, name, conflict, now_ns)


def _is_shown(one: RunName) -> bool:
    # A folder is there a moment before the journal that hides its run is.
    return bool(one.created_ns) and not one.trashed


def _listed(told: Any) -> list[list[Any]]:
    """Return what is said of those that come under one name, which somebody may have edited."""
    return [one for one in told if isinstance(one, list) and one] if isinstance(told, list) else []


def _is_held(told: list[Any], name: str, shown: dict[str, str | None], now_ns: int) -> bool:
    """Return whether a name is still that of a run that is to come."""
    try:
        run, since, _ = told
        fresh = abs(now_ns - since) < _HELD_NS  # it may be by the clock of another machine
    except (TypeError, ValueError):
        return False
    return fresh and isinstance(run, str) and shown.get(run, name) == name


def _free(name: str, held: dict[str, Any], run: str, rivals: Any) -> str:
    """Return the first ``<name>-<n>`` that nobody has; the one that the run took before, if any."""
    mine = re.compile(re.escape(name) + r"-[1-9]\d*")
    for one, told in held.items():
        if any(each[0] == run for each in told) and mine.fullmatch(one) and not rivals(one):
            return one
    number = 2
    while rivals(f"{name}-{number}"):
        number += 1
    return f"{name}-{number}"
