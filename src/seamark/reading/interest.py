"""Rules that decide, by the names of paths, which values of a run are shown first.

Tables, `seamark show`, comparisons, the live view and notebooks all use them, so that they show the
same values first and leave the same ones to the end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["aside", "holds_parameters", "is_background", "is_counter", "metric_order", "rises"]

_ASIDE: Final = frozenset({"monitoring", "source_code", "profiling", "ranks", "distributed"})
_PARAMETERS: Final = frozenset(
    {"parameters", "params", "hyperparameters", "hyperparams", "hparams", "config"}
)
_COUNTERS: Final = frozenset({"epoch", "step", "global_step", "iteration"})
_SPLITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("val", "valid", "validation", "eval", "dev"), 0),
    "test": 1,
    **dict.fromkeys(("train", "training"), 3),
}
_NO_SPLIT: Final = 2
_RISING: Final = frozenset(
    {"acc", "accuracy", "auc", "auroc", "bleu", "dice", "f1", "iou", "map", "precision", "psnr"}
    | {"r2", "recall", "reward", "score", "ssim", "top1", "top5"}
)
"""Words in the names of metrics that are the better the greater they are."""
_TELLING: Final[Mapping[str, int]] = {**dict.fromkeys(_RISING, 1), "loss": 0}
_LESS_TELLING: Final = 2
_WORD: Final = re.compile(r"[^/_.:\- ]+")


def aside(path: str) -> str | None:
    """Return the namespace of a path that says how a run ran, such as ``training/ranks``.

    That is on which machine, with which packages, for each process; None for everything else.
    """
    parts = path.split("/")
    for at, part in enumerate(parts[:-1][:2]):
        if part in _ASIDE:
            return "/".join(parts[: at + 1])
    return None


def is_background(path: str) -> bool:
    """Return whether a path holds facts about a run or how it ran, which come unasked."""
    return path.startswith("sys/") or aside(path) is not None


def holds_parameters(path: str) -> bool:
    """Return whether a path lies where hyperparameters are kept."""
    return not _PARAMETERS.isdisjoint(path.split("/")[:-1])


def is_counter(path: str) -> bool:
    """Return whether a series only says how far a training is, such as ``training/epoch``."""
    return path.rpartition("/")[2] in _COUNTERS


def rises(path: str) -> bool:
    """Return whether a metric is one of which people look for the greatest value."""
    words = set(_WORD.findall(path.lower()))
    return not words.isdisjoint(_RISING) and "loss" not in words


def metric_order(path: str) -> tuple[bool, bool, int, int, str]:
    """Return what sorts metrics: losses and scores first, of validation before training.

    Args:
        path: Of a series, perhaps with an aggregate. Its second item is False for a loss or a
            score such as accuracy or F1.
    """
    words = _WORD.findall(path.lower())
    split = min((_SPLITS[word] for word in words if word in _SPLITS), default=_NO_SPLIT)
    telling = min((_TELLING[word] for word in words if word in _TELLING), default=_LESS_TELLING)
    return "step" in words, telling == _LESS_TELLING, split, telling, path
