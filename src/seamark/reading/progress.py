"""Progress of the loops of a training, as the training reports it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seamark.reading.ages import duration_words

__all__ = ["PROGRESS", "Loop", "loops_of", "progress_words"]

PROGRESS: Final = "sys/progress"
"""The path that says it: JSON, one object for each loop, the outer ones first."""
_MOST: Final = 20
"""Loops that are shown of what anybody may have written."""
_LONGEST: Final = 200
"""Characters of a name."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Progress of one loop.

    Attributes:
        name: Name of the loop.
        done: Number of finished rounds, including those before a resume.
        total: Number of all rounds; None if it is not known.
        elapsed_s: Time since the loop began in its process, in seconds.
        remaining_s: Time left at this pace, in seconds; None if it is not known.
    """

    name: str
    done: int
    total: int | None
    elapsed_s: float
    remaining_s: float | None


def loops_of(value: Any) -> list[Loop]:
    """Return the loops that a value at `PROGRESS` tells of; what is no loop is left out."""
    given = value[:_MOST] if isinstance(value, list) else []
    return [loop for each in given if (loop := _loop_of(each)) is not None]


def _loop_of(told: Any) -> Loop | None:
    if not isinstance(told, Mapping) or not isinstance(told.get("name"), str):
        return None
    done, total = told.get("done"), told.get("total")
    if type(done) is not int or not (total is None or type(total) is int):
        return None
    left = _seconds(told.get("remaining_s"))
    return Loop(told["name"][:_LONGEST], done, total, _seconds(told.get("elapsed_s")) or 0.0, left)


def _seconds(value: Any) -> float | None:
    is_number = type(value) in (int, float) and math.isfinite(value) and value >= 0
    return float(value) if is_number else None


def progress_words(loops: Sequence[Loop]) -> str:
    """Return how far loops are: ``"epoch 3/10, batch 120/500, about 2 h 3 min left"``."""
    words = [
        f"{one.name} {one.done:,}" + ("" if one.total is None else f"/{one.total:,}")
        for one in loops
    ]
    # Of the whole if that is known, else of the loop that is known to end.
    left = next((one.remaining_s for one in loops if one.remaining_s is not None), None)
    if left:
        words.append(f"about {duration_words(left)} left")
    return ", ".join(words)
