"""Default columns of a table of runs, and the columns that a ``*`` leaves out."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from seamark.reading.attributes import aside, holds_parameters, is_counter, metric_order

if TYPE_CHECKING:
    from seamark.reading.catalog import SharedPath

__all__ = ["PLAIN", "PLAIN_OF", "distinguishing_columns", "importance", "is_named", "left_out"]

PLAIN: Final = (
    "sys/name",
    "sys/state",
    "sys/creation_time",
    "sys/running_time",
    "sys/tags",
)
"""What is shown of every run."""
PLAIN_OF: Final = {
    "run": PLAIN,
    "model": ("sys/name", "sys/description", "sys/creation_time", "sys/tags"),
    "model_version": (
        *("sys/model_id", "sys/version", "sys/stage"),
        *("sys/name", "sys/creation_time", "sys/tags"),
    ),
    "artifact": (
        *("sys/name", "sys/version", "sys/aliases", "objects"),
        *("sys/description", "sys/creation_time", "sys/tags"),
    ),
}
"""What is shown of every run, model, version of one, or artifact."""

_RATES: Final = frozenset({"lr", "learning_rate"})
_METRICS: Final = 4
_DIFFERING: Final = 4
"""At most so many of each are shown unasked."""
_LONG_TEXT: Final = 24


def distinguishing_columns(shared: Sequence[SharedPath]) -> tuple[list[str], list[str]]:
    """Return the metrics and the parameters that tell runs apart, the most telling ones first.

    Of those that at least half of the runs have: metrics of validation before those of training,
    losses and scores before others, single numbers too if the runs differ in them; parameters in
    which the runs differ.

    Args:
        shared: What the runs have.
    """
    runs = max((one.runs for one in shared), default=0)
    known = [
        one
        for one in shared
        if 2 * one.runs >= runs and aside(one.path) is None and not one.path.startswith("sys/")
    ]
    metrics = sorted((one.path for one in known if _is_metric(one)), key=metric_order)
    parameters = sorted((one.path for one in known if _distinguishes(one)), key=_rates_first)
    return metrics[:_METRICS], parameters[:_DIFFERING]


def _is_metric(one: SharedPath) -> bool:
    is_result = one.differs and not one.longest and not holds_parameters(one.path)
    return (one.series or is_result) and not is_counter(one.path)


def _rates_first(path: str) -> tuple[bool, str]:
    return path.rpartition("/")[2] not in _RATES, path


def importance(path: str) -> tuple[int, tuple[bool, bool, int, int, str]]:
    """Return what sorts columns: losses and scores (0) first, then parameters (1), others (2).

    Args:
        path: Of the column, perhaps with an aggregate.
    """
    order = metric_order(path)
    if not order[1]:
        return 0, order
    return 1 if holds_parameters(path) else 2, (False, False, 0, 0, path)


def _distinguishes(one: SharedPath) -> bool:
    if one.series or not one.differs or one.longest > _LONG_TEXT:
        return False
    return holds_parameters(one.path)


def is_named(path: str, space: str, wanted: Sequence[str]) -> bool:
    """Return whether one of the columns asked for names a path, or its namespace, itself.

    Args:
        path: Of the column, perhaps with an aggregate.
        space: The namespace, as `seamark.reading.attributes.aside` returns it.
        wanted: Paths and patterns.
    """
    named = (one for one in wanted if re.split(r"[*?]", one)[0].startswith(space))
    return path in wanted or any(fnmatchcase(path, one) for one in named)


def left_out(columns: Sequence[str], shown: Collection[str]) -> str:
    """Return what to say of columns that a pattern matched and that are not shown, if any."""
    missing = [name for name in columns if name not in shown]
    spaces = sorted({space for name in missing if (space := aside(name)) is not None})
    if not spaces:
        return ""
    listed = ", ".join(f"{space}/" for space in spaces)
    count = f"{len(missing):,} column" + "s" * (len(missing) != 1)
    return f"left out: {count} below {listed}; to see them: --columns '{spaces[0]}/*'"
