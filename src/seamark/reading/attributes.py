"""Attributes of a run: their types, and which of them are of interest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "CHANGES",
    "DETAIL",
    "FORKED_AT",
    "FORKED_FROM",
    "INHERITED",
    "PARENT",
    "Attribute",
    "JournalInfo",
    "SeriesSummary",
    "SeriesTail",
    "TrackedFile",
    "TrackedFiles",
    "aside",
    "holds_parameters",
    "is_background",
    "is_counter",
    "metric_order",
    "rises",
]


CHANGES: Final = "monitoring/seamark/changes"
"""Path of changes to parameters after they were recorded; derived by readers."""
DETAIL: Final = "sys/state_detail"
"""Path of the detail that a user gave with a run's state; derived by readers."""
FORKED_AT: Final = "sys/forking/step"
"""Path of the last step that a fork shares with the run that it was forked from."""
FORKED_FROM: Final = "sys/forking/parent"
"""Path of the id or custom id of the run that a fork was forked from, in the same project."""
INHERITED: Final = "sys/inherited_tags"
"""Path of the keyed tags inherited from projects above, and their projects; derived by readers."""
PARENT: Final = "sys/parent"
"""Path of a run's parent: its id, or ``PROJECT/ID`` in another project."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute of a run: a path, and the value that is visible there.

    ``type`` is that of an atom (``"float"``, ...), else the family. ``value`` is a decoded atom, a
    `SeriesSummary` of a float series, a `SeriesTail` of other series, a set of strings, a record of
    a file or an artifact, records by name of a file set, a `seamark.values.aggregates.Keep` of a
    statistic.
    """

    path: str
    family: str
    type: str
    value: Any


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """Summary, in a runs table, of the points of a float series in the latest attempt.

    ``last`` is the value of the point with the greatest (step, order of writing). ``min``, ``max``
    and ``mean``, which is correctly rounded, are of the finite values; ``count`` is of all points.
    A number that does not exist is NaN.
    """

    last: float
    min: float
    max: float
    mean: float
    count: int
    nan_count: int
    inf_count: int
    first_step: float
    last_step: float


@dataclass(frozen=True, slots=True)
class SeriesTail:
    """Summary, in a runs table, of a series of texts, files or histograms.

    ``last`` is a text, a file record or ``[edges, counts]``; None if there are no points. Steps are
    NaN then.
    """

    last: Any
    count: int
    first_step: float
    last_step: float


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """State of one journal of a run: how far it was read, and which problems were found.

    Attributes:
        header: The HEADER record; empty if it is damaged.
        offset: Number of bytes that are folded.
        last_t: Time of the last frame, nanoseconds since the Unix epoch; 0 if there is none.
        gaps: (offset, length) of the bytes that hold no valid frame.
        dropped: Counts of what the writer lost, by reason.
        errors: Number of records that could not be applied.
        notes: (offset, message) of the first of them.
        stopped: Reason why reading stopped before the end: None, ``"incomplete"``, ``"bad"``,
            ``"newer"`` (written by a newer Seamark, and not to be skipped) or ``"unreadable"``.
        unknown: Number of skipped records of unknown kinds, by kind.
    """

    writer: str
    file: str
    header: dict[str, Any]
    offset: int
    last_t: int
    closed: bool
    gaps: list[tuple[int, int]]
    dropped: dict[str, int]
    errors: int
    notes: list[tuple[int, str]]
    stopped: str | None
    unknown: dict[str, int]


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
"""Words in the names of metrics for which greater is better."""
_TELLING: Final[Mapping[str, int]] = {**dict.fromkeys(_RISING, 1), "loss": 0}
_LESS_TELLING: Final = 2
_WORD: Final = re.compile(r"[^/_.:\- ]+")


def aside(path: str) -> str | None:
    """Return the namespace of machine, packages or processes that a path is in; else None."""
    parts = path.split("/")
    for at, part in enumerate(parts[:-1][:2]):
        if part in _ASIDE:
            return "/".join(parts[: at + 1])
    return None


def is_background(path: str) -> bool:
    """Return whether a path holds facts that are recorded without being asked for."""
    return path.startswith("sys/") or aside(path) is not None


def holds_parameters(path: str) -> bool:
    """Return whether a path lies where hyperparameters are kept."""
    return not _PARAMETERS.isdisjoint(path.split("/")[:-1])


def is_counter(path: str) -> bool:
    """Return whether a series only counts progress, such as ``training/epoch``."""
    return path.rpartition("/")[2] in _COUNTERS


def rises(path: str) -> bool:
    """Return whether the greatest value of a metric is the best, by its name."""
    words = set(_WORD.findall(path.lower()))
    return not words.isdisjoint(_RISING) and "loss" not in words


def metric_order(path: str) -> tuple[bool, bool, int, int, str]:
    """Return a sort key of metrics: losses and scores first, of validation before training.

    Its second item is False for a loss or a score such as accuracy or F1.
    """
    words = _WORD.findall(path.lower())
    split = min((_SPLITS[word] for word in words if word in _SPLITS), default=_NO_SPLIT)
    telling = min((_TELLING[word] for word in words if word in _TELLING), default=_LESS_TELLING)
    return "step" in words, telling == _LESS_TELLING, split, telling, path


_LOCAL: Final = "Local"


class TrackedFiles(dict[str, Any]):
    """An artifact: its ``kind``, ``files``, ``references`` and ``hash``, as they were recorded."""

    @property
    def hash(self) -> str:
        """Digest of names and contents, 64 hexadecimal digits."""
        return str(self.get("hash", ""))


class TrackedFile(dict[str, Any]):
    """A file of an artifact: ``path``, ``size`` (bytes), ``sha256``, ``mtime_ns`` and ``ref``."""

    @property
    def file_path(self) -> str:
        """Its name within the artifact."""
        return str(self.get("path", ""))

    @property
    def file_hash(self) -> str:
        """SHA-256 of its content, hexadecimal; empty if it is not known."""
        return str(self.get("sha256", ""))

    @property
    def size(self) -> int | None:
        """Bytes; None if it is not known."""
        return self.get("size")

    @property
    def type(self) -> str:
        """``"Local"``; remote files are among the references of the artifact."""
        return _LOCAL

    @property
    def metadata(self) -> dict[str, str]:
        """Location of the file when it was tracked, as ``file_path``; empty if not recorded."""
        return {"file_path": str(self["ref"])} if self.get("ref") else {}
