"""Which run of those that are the same goes on, where several machines begin them at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["COMING_S", "Same", "entry", "settle"]

COMING_S: Final = 30.0
"""How long a run is waited for that another process is just about to make, in seconds."""
_MOST_HELD: Final = 10_000
_MOST_NUMBER: Final = 10**9 - 1


@dataclass(frozen=True, slots=True)
class Same:
    """The run of a hash that a place knows, which may be the one that asked.

    Attributes:
        run: Its id; None if there is none, and none was to be begun.
        number: Which it is of those that were given the same, 1-based; None where that is not said.
        is_there: Whether it can be gone on with; else it is about to be made.
    """

    run: str | None
    number: int | None = None
    is_there: bool = False

    @classmethod
    def of(cls, told: dict[str, Any]) -> Same:
        """Return what an answer says."""
        run, number = told.get("run"), told.get("number")
        is_number = type(number) is int and 0 < number <= _MOST_NUMBER
        return cls(
            run if isinstance(run, str) else None,
            number if is_number else None,
            told.get("is_there") is True,
        )


def settle(
    held: dict[str, Any],
    text: str,
    run: str,
    known: tuple[str, int] | None,
    now_ns: int,
    *,
    is_there: bool | None,
) -> Same:
    """Return the run of a hash, which is the one that asks if there is no other.

    Args:
        held: Which run began last with each hash: its id, number and time, to be kept with the
            project.
        text: The hash.
        run: Id of the run that is to begin.
        known: The newest other run that recorded the hash, and the largest number of any; None if
            there is none.
        now_ns: Nanoseconds since the Unix epoch.
        is_there: Whether the run that ``held`` names can be read; None if it is to come no more.
    """
    other, number, since = entry(held, text)
    if other == run:
        return Same(run, number)
    if other and is_there:
        return Same(other, number, is_there=True)
    if other and is_there is not None and 0 <= now_ns - since < COMING_S * 1e9:
        return Same(other, number)
    if known is not None and known[0]:
        return Same(known[0], known[1], is_there=True)
    number = max(number, 0 if known is None else known[1]) + 1
    held.pop(text, None)  # the newest last
    held[text] = [run, number, now_ns]
    while len(held) > _MOST_HELD:
        del held[next(iter(held))]
    return Same(run, number)


def entry(held: dict[str, Any], text: str) -> tuple[str, int, int]:
    """Return the run id, the number and the time that are kept of a hash; nothing: none."""
    told = held.get(text)
    if isinstance(told, list) and [type(one) for one in told] == [str, int, int]:
        return told[0], told[1], told[2]
    return "", 0, 0
