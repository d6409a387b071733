"""Which columns a table of runs shows when nobody chose any, and which a ``*`` leaves out."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from seamark.store.read.shared import SharedPath

__all__ = ["PLAIN", "aside", "asked_aside", "importance", "left_out", "telling_columns"]

PLAIN: Final = (
    "sys/name",
    "sys/state",
    "sys/creation_time",
    "sys/running_time",
    "sys/tags",
)
"""What is shown of every run."""

_ASIDE: Final = frozenset({"monitoring", "source_code", "profiling", "ranks", "distributed"})
"""Namespaces that say how a run ran: on which machine, with which packages, for each process."""
_PARAMETERS: Final = frozenset(
    {"parameters", "params", "hyperparameters", "hyperparams", "hparams", "config"}
)
_RATES: Final = frozenset({"lr", "learning_rate"})
_METRICS: Final = 4
_DIFFERING: Final = 4
"""At most so many of each are shown unasked."""
_LONG_TEXT: Final = 24
_SPLITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("val", "valid", "validation", "eval", "dev"), 0),
    "test": 1,
    **dict.fromkeys(("train", "training"), 3),
}
_NO_SPLIT: Final = 2
_TELLING: Final[Mapping[str, int]] = {"loss": 0, "acc": 1, "accuracy": 1}
_LESS_TELLING: Final = 2
_COUNTERS: Final = frozenset({"epoch", "step", "global_step", "iteration"})
_WORD: Final = re.compile(r"[^/_.:\- ]+")


def telling_columns(shared: Sequence[SharedPath]) -> tuple[list[str], list[str]]:
    """Return the metrics and the parameters that tell runs apart, the most telling ones first.

    Of those that at least half of the runs have: metrics of validation before those of training,
    losses and accuracies before others; parameters in which the runs differ.

    Args:
        shared: What the runs have.
    """
    runs = max((one.runs for one in shared), default=0)
    known = [
        one
        for one in shared
        if 2 * one.runs >= runs and aside(one.path) is None and not one.path.startswith("sys/")
    ]
    metrics = sorted((one.path for one in known if _is_metric(one)), key=_metric_order)
    parameters = sorted((one.path for one in known if _tells_apart(one)), key=_rates_first)
    return metrics[:_METRICS], parameters[:_DIFFERING]


def _is_metric(one: SharedPath) -> bool:
    return one.series and one.path.rpartition("/")[2] not in _COUNTERS


def _metric_order(path: str) -> tuple[bool, bool, int, int, str]:
    words = _WORD.findall(path.lower())
    split = min((_SPLITS[word] for word in words if word in _SPLITS), default=_NO_SPLIT)
    telling = min((_TELLING[word] for word in words if word in _TELLING), default=_LESS_TELLING)
    return "step" in words, telling == _LESS_TELLING, split, telling, path


def _rates_first(path: str) -> tuple[bool, str]:
    return path.rpartition("/")[2] not in _RATES, path


def importance(path: str) -> tuple[int, tuple[bool, bool, int, int, str]]:
    """Return what sorts columns: losses and accuracies (0) first, then parameters (1), others (2).

    Args:
        path: Of the column, perhaps with an aggregate.
    """
    order = _metric_order(path)
    if not order[1]:
        return 0, order
    group = 2 if _PARAMETERS.isdisjoint(path.split("/")[:-1]) else 1
    return group, (False, False, 0, 0, path)


def _tells_apart(one: SharedPath) -> bool:
    if one.series or not one.differs or one.longest > _LONG_TEXT:
        return False
    return not _PARAMETERS.isdisjoint(one.path.split("/")[:-1])


def aside(path: str) -> str | None:
    """Return the namespace of a path that says how a run ran, such as ``training/ranks``."""
    parts = path.split("/")
    for at, part in enumerate(parts[:-1][:2]):
        if part in _ASIDE:
            return "/".join(parts[: at + 1])
    return None


def asked_aside(path: str, space: str, wanted: Sequence[str]) -> bool:
    """Return whether one of the columns asked for names a path, or its namespace, itself.

    Args:
        path: Of the column, perhaps with an aggregate.
        space: The namespace, as `aside` returns it.
        wanted: Paths and patterns.
    """
    for one in wanted:
        head = re.split(r"[*?]", one, maxsplit=1)[0]
        if path == one or (head.startswith(space) and fnmatchcase(path, one)):
            return True
    return False


def left_out(columns: Sequence[str], shown: Collection[str]) -> str:
    """Return what to say of columns that a pattern matched and that are not shown, if any."""
    missing = [name for name in columns if name not in shown]
    spaces = sorted({space for name in missing if (space := aside(name)) is not None})
    if not spaces:
        return ""
    listed = ", ".join(f"{space}/" for space in spaces)
    count = f"{len(missing):,} column" + "s" * (len(missing) != 1)
    return f"left out: {count} below {listed}; to see them: --columns '{spaces[0]}/*'"
