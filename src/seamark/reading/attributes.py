"""Attributes of a run: types, and classification of paths by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

CHANGES: Final = "monitoring/seamark/changes"
"""Path of later changes to recorded parameters; derived by readers."""
DETAIL: Final = "sys/state_detail"
"""Path of the detail that a user gave with a run's state; derived by readers."""
FORKED_AT: Final = "sys/forking/step"
"""Path of the last step that a fork shares with its parent run."""
FORKED_FROM: Final = "sys/forking/parent"
"""Path of the id or custom id of a fork's parent run, in the same project."""
INHERITED: Final = "sys/inherited_tags"
"""Path of keyed tags inherited from parent projects, with their projects; derived by readers."""
PARENT: Final = "sys/parent"
"""Path of a run's parent: its id, or ``PROJECT/ID`` in another project."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """Attribute of a run: a path and its visible value.

    ``type`` is the type of an atom (``"float"``, ...), otherwise the family. ``value`` is a decoded
    atom, a `SeriesSummary` (float series), a `SeriesTail` (other series), a string set, a record
    (file, artifact), records by name (file set) or a statistic's `seamark.values.aggregates.Keep`.
    """

    path: str
    family: str
    type: str
    value: Any


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """Summary of a float series in a runs table, over the points of the latest attempt.

    ``last`` is the value of the point with the greatest (step, order of writing). ``min``, ``max``
    and the correctly rounded ``mean`` cover the finite values; ``count`` covers all points. An
    undefined number is NaN.
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
    """Summary of a series of texts, files or histograms in a runs table.

    ``last`` is a text, a file record or ``[edges, counts]``; None without points, with NaN steps.
    """

    last: Any
    count: int
    first_step: float
    last_step: float


@dataclass(frozen=True, slots=True)
class Opening:
    """Facts needed to resume a run.

    Attributes:
        largest_t: Largest time of a record, nanoseconds since the Unix epoch.
        journals: Important header fields of each journal, and its stored size in bytes.
        trained: Float series recorded during training, not only during evaluation.
        failed: Whether a process that represented the run recorded a failure.
        resumable: Whether the run was started and not finished, and has no live owner.
    """

    largest_t: int
    journals: dict[str, dict[str, Any]]
    families: dict[str, str]
    last_steps: dict[str, float]
    trained: frozenset[str]
    failed: bool
    resumable: bool


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """State of one journal of a run: read position and problems found.

    Attributes:
        header: The HEADER record; empty if it is damaged.
        offset: Number of folded bytes.
        last_t: Time of the last frame, nanoseconds since the Unix epoch; 0 if there is none.
        gaps: (offset, length) of each byte range without a valid frame.
        dropped: Counts of records that the writer lost, by reason.
        errors: Number of records that could not be applied.
        notes: (offset, message) of the first of these errors.
        stopped: Reason why reading stopped before the end: None, ``"incomplete"``, ``"bad"``,
            ``"newer"`` (written by a newer Seamark, must not be skipped) or ``"unreadable"``.
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


_BACKGROUND: Final = frozenset({"monitoring", "source_code", "profiling", "ranks", "distributed"})
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
"""Words in the names of metrics whose greatest value is the best."""
_METRIC_RANKS: Final[Mapping[str, int]] = {**dict.fromkeys(_RISING, 1), "loss": 0}
_OTHER_METRIC: Final = 2
_WORD: Final = re.compile(r"[^/_.:\- ]+")


def aside(path: str) -> str | None:
    """Return the namespace of machine, package or process facts that holds a path, else None."""
    parts = path.split("/")
    for at, part in enumerate(parts[:-1][:2]):
        if part in _BACKGROUND:
            return "/".join(parts[: at + 1])
    return None


def is_background(path: str) -> bool:
    """Return whether a path holds automatically recorded facts."""
    return path.startswith("sys/") or aside(path) is not None


def holds_parameters(path: str) -> bool:
    """Return whether a path is in a namespace of hyperparameters."""
    return not _PARAMETERS.isdisjoint(path.split("/")[:-1])


def is_counter(path: str) -> bool:
    """Return whether a series only counts progress, such as ``training/epoch``."""
    return path.rpartition("/")[2] in _COUNTERS


def is_better_when_greater(path: str) -> bool:
    """Return whether the greatest value of a metric is the best, judged by its name."""
    words = set(_WORD.findall(path.lower()))
    return not words.isdisjoint(_RISING) and "loss" not in words


def metric_order(path: str) -> tuple[bool, bool, int, int, str]:
    """Return a sort key of metrics: losses and scores first, validation before training.

    The second item is False for a loss or a score such as accuracy or F1.
    """
    words = _WORD.findall(path.lower())
    split = min((_SPLITS[word] for word in words if word in _SPLITS), default=_NO_SPLIT)
    rank = min(
        (_METRIC_RANKS[word] for word in words if word in _METRIC_RANKS), default=_OTHER_METRIC
    )
    return "step" in words, rank == _OTHER_METRIC, split, rank, path


_LOCAL: Final = "Local"


class TrackedFiles(dict[str, Any]):
    """Recorded artifact: its ``kind``, ``files``, ``references`` and ``hash``."""

    @property
    def hash(self) -> str:
        """Digest of names and contents, 64 hexadecimal digits."""
        return str(self.get("hash", ""))


class TrackedFile(dict[str, Any]):
    """File of an artifact: ``path``, ``size`` (bytes), ``sha256``, ``mtime_ns`` and ``ref``."""

    @property
    def file_path(self) -> str:
        """Name of the file within the artifact."""
        return str(self.get("path", ""))

    @property
    def file_hash(self) -> str:
        """SHA-256 of the content, hexadecimal; empty if unknown."""
        return str(self.get("sha256", ""))

    @property
    def size(self) -> int | None:
        """Size in bytes; None if unknown."""
        return self.get("size")

    @property
    def type(self) -> str:
        """Always ``"Local"``; remote files are among the references of the artifact."""
        return _LOCAL

    @property
    def metadata(self) -> dict[str, str]:
        """Location of the file when it was tracked, as ``file_path``; empty if not recorded."""
        return {"file_path": str(self["ref"])} if self.get("ref") else {}
