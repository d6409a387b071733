"""The name of a run that arrives in a project where another may have the same one.

A sender asks before it sends anything, and the answer reserves the name at once: of two senders the
first gets it. A reservation lasts an hour; then the recorded runs decide alone. An artifact becomes
another version of one with the same name if both share a version or the conflict is ``"new"``.
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
        t_ns: Time of the reservation, ns since the Unix epoch by the clock of the place, and later
            than those before; None if nothing was reserved.
    """

    outcome: str
    name: str | None = None
    others: tuple[str, ...] = ()
    t_ns: int | None = None


def check_conflict(given: Any, what: str = "conflict") -> Conflict:
    """Return a way to settle a conflict; raise `ArgumentError` if it is none."""
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
    """Return the outcome for a run, and reserve its name if it goes.

    A run that asks again is at its end: of two that replace each other, the later end wins.
    ``held`` has the reserved names, to be kept with the project (run id, time and whether it is at
    its end, by name), and loses expired ones. ``known`` are the runs of the project; ``now_ns`` is
    nanoseconds since the Unix epoch.
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
    """Return the outcome for a version of an artifact, ``PROJECT/.artifacts/NAME``; see `settle`.

    ``versions`` are the digests of all versions at the origin, its own first; ``known`` are the
    versions of all artifacts of the project.
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
    # Somebody may have edited it.
    return [one for one in told if isinstance(one, list) and one] if isinstance(told, list) else []


def _is_held(told: list[Any], name: str, shown: dict[str, str | None], now_ns: int) -> bool:
    try:
        run, since, _ = told
        fresh = abs(now_ns - since) < _HELD_NS  # it may be by the clock of another machine
    except (TypeError, ValueError):
        return False
    return fresh and isinstance(run, str) and shown.get(run, name) == name


def _free(name: str, held: dict[str, Any], run: str, rivals: Any) -> str:
    mine = re.compile(re.escape(name) + r"-[1-9]\d*")
    for one, told in held.items():
        if any(each[0] == run for each in told) and mine.fullmatch(one) and not rivals(one):
            return one
    number = 2
    while rivals(f"{name}-{number}"):
        number += 1
    return f"{name}-{number}"
