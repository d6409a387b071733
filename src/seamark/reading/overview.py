"""Selection of the most important data of a run: series, parameters and the best checkpoint.

Everything is chosen from the recorded data; nothing is guessed.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeGuard

from seamark.paths import is_inside
from seamark.reading.interest import aside, holds_parameters, is_counter, metric_order
from seamark.reading.words import human_number

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute

__all__ = [
    "CheckpointNote",
    "best_extremes",
    "by_importance",
    "checkpoint_notes",
    "is_checkpoint",
    "is_parameter",
    "space_of",
]

_SETTINGS: Final = "trainer"
"""Below it, Lightning's adapter keeps what the Trainer was told."""
_RANKS: Final = re.compile(r"(?:^|/)ranks(?=/\d+/)")
_BEST_PATH: Final = "best_model_path"
_BEST_SCORE: Final = "best_model_score"


class CheckpointNote(NamedTuple):
    """Note on a checkpoint, derived from values of the run.

    Attributes:
        mark: ``"best"`` or, of a callback that watches no score, ``"newest"``; else empty.
        score: Such as ``"val/loss 0.026759"``; empty if none was recorded.
        told_by: Paths of these values.
    """

    mark: str
    score: str
    told_by: tuple[str, ...]

    @property
    def words(self) -> str:
        """Text of the note in a table."""
        return ": ".join(filter(None, (self.mark, self.score)))


def is_checkpoint(attribute: Attribute) -> bool:
    """Return whether a file is a checkpoint, by its place or its extension."""
    return attribute.family == "file" and (
        "/checkpoints/" in f"/{attribute.path}/"
        or attribute.value.get("ext") in {"ckpt", "pt", "pth"}
    )


def is_parameter(attribute: Attribute) -> bool:
    """Return whether a value lies where hyperparameters are kept."""
    return attribute.family == "atom" and holds_parameters(attribute.path)


def space_of(path: str) -> str | None:
    """Return the namespace of what is only counted unless asked for; None for everything else.

    These are times of profilers, what each process of a run told of itself, how the processes were
    spread, and the settings of a Trainer.
    """
    if found := _RANKS.search(path):
        return path[: found.end()]
    parts = path.split("/")
    if _SETTINGS in parts[:-1][:2]:
        return "/".join(parts[: parts.index(_SETTINGS) + 1])
    space = aside(path)
    return None if space == "source_code" else space


def by_importance(series: Iterable[Attribute], best: Mapping[str, str]) -> list[Attribute]:
    """Return series in the order of interest: what decides, losses and scores, the rest.

    What only counts, such as epochs, comes last.
    """
    return sorted(
        series,
        key=lambda one: (is_counter(one.path), one.path not in best, metric_order(one.path)),
    )


def best_extremes(attributes: Sequence[Attribute]) -> dict[str, Literal["min", "max"]]:
    """Return which extreme of a series is its best, for those series that decided on checkpoints.

    A checkpoint callback records the score of the best, and that is the smallest or the largest
    value of the series that it watched. Where several series could be meant, none is named.
    """
    found: dict[str, Literal["min", "max"]] = {}
    for wanted, value in sorted(set(_scores(attributes))):
        fits: dict[str, Literal["min", "max"]] = {}
        for one in attributes:
            if one.family != "float_series" or one.value.min == one.value.max:
                continue
            if wanted and one.path.rpartition("/")[2] != wanted:
                continue
            if one.value.max == value:
                fits[one.path] = "max"
            elif value in (one.value.min, -one.value.min):  # Ignite's scores rise: -loss
                fits[one.path] = "min"
        if len(fits) == 1:
            found.update(fits)
    return found


def _scores(attributes: Sequence[Attribute]) -> Iterable[tuple[str, float]]:
    """Yield the score of each best checkpoint, and the name of what it is the score of or ""."""
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    for path, value in atoms.items():
        if path.rpartition("/")[2] == _BEST_SCORE and _is_number(value):
            yield "", float(value)
    for (_, _, name), scores in _rated(attributes).items():
        yield name, max(scores.values())


def _rated(attributes: Sequence[Attribute]) -> dict[tuple[str, str, str], dict[str, float]]:
    """Return the scores of checkpoints that Ignite's ``Checkpoint`` kept, by path.

    They are those of one folder, name of files and name of the score each.
    """
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    groups: dict[tuple[str, str, str], dict[str, float]] = {}
    for one in attributes:
        if is_checkpoint(one):
            score, name = (atoms.get(f"{one.path}/{key}") for key in ("priority", "score_name"))
            if isinstance(name, str) and name and _is_number(score):
                group = (one.path.rpartition("/")[0], str(atoms.get(f"{one.path}/basename")), name)
                groups.setdefault(group, {})[one.path] = float(score)
    return groups


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, float) and math.isfinite(value)


def checkpoint_notes(
    attributes: Sequence[Attribute], best: Mapping[str, str]
) -> dict[str, CheckpointNote]:
    """Return what is known of each checkpoint, by its path.

    Args:
        attributes: All of the run.
        best: See `best_extremes`.
    """
    files = {one.path: one for one in attributes if is_checkpoint(one)}
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    below: dict[str, list[str]] = {path: [] for path in files}
    for path in atoms:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if (above := "/".join(parts[:depth])) in below:
                below[above].append(path)
    notes = {path: CheckpointNote("", "", tuple(told)) for path, told in below.items()}
    for (_, _, name), scores in _rated(attributes).items():
        for path, score in scores.items():
            mark = "best" if score == max(scores.values()) else ""
            notes[path] = notes[path]._replace(mark=mark, score=f"{name} {human_number(score)}")
    for path, value in atoms.items():
        space, _, name = path.rpartition("/")
        if name != _BEST_PATH or not isinstance(value, str):
            continue
        for file in files.values():
            if is_inside(file.path, f"{space}/checkpoints") and _is_at(file, space, value):
                score_path = f"{space}/{_BEST_SCORE}"
                told = tuple(one for one in (path, score_path) if one in atoms)
                words = _score_words(atoms.get(score_path), space, attributes, best)
                told = (*notes[file.path].told_by, *told)
                notes[file.path] = CheckpointNote("best" if words else "newest", words, told)
    return notes


def _is_at(file: Attribute, space: str, location: str) -> bool:
    """Return whether a checkpoint is the file at a location, which may have been moved since."""
    if file.value.get("ref") == location:
        return True
    name = file.path.removeprefix(f"{space}/checkpoints/")
    return f"/{os.path.splitext(location)[0]}".endswith(f"/{name}")  # noqa: PTH122 - maybe a URL


def _score_words(
    score: Any, space: str, attributes: Sequence[Attribute], best: Mapping[str, str]
) -> str:
    if not _is_number(score):
        return ""
    shown = human_number(float(score))
    for one in attributes:
        if one.path in best and score in (getattr(one.value, best[one.path]), -one.value.min):
            return f"{one.path.removeprefix(space.partition('/')[0] + '/')} {shown}"
    return shown
