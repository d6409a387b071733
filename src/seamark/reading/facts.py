"""Facts about a run: health, attempts, code, progress, checkpoints and machine."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeGuard

from seamark.paths import is_inside
from seamark.reading.attributes import aside, holds_parameters, is_counter, metric_order
from seamark.reading.points import time_of
from seamark.reading.ranks import owning_processes, process_of
from seamark.reading.text import duration_words, human_number, plural, shorten

if TYPE_CHECKING:
    from seamark.reading.attributes import Attribute, JournalInfo, SeriesSummary
    from seamark.reading.ranks import RankStatus
    from seamark.reading.reader import Reader


FORWARD: Final = "monitoring/seamark/forward"
"""Namespace of counts of data that the destinations of a forwarded run could not hold."""
_OUTPUT: Final = {"stdout_left_out": "stdout", "stderr_left_out": "stderr"}
"""Streams by the name of the counter of their omitted bytes."""
_ENVIRONMENT_PART: Final = "/environment/"
"""Separator between the namespace of a process, named by its writer id, and its environment."""
_TEXTS_OF_CODE: Final = {
    "entrypoint": "entrypoint",
    "commit": "git/commit",
    "branch": "git/branch",
    "version": "version",
}


def health_of(view: Reader) -> dict[str, Any]:
    """Return the problems of a run by kind; kinds without problems are left out.

    The kinds are those of `seamark.reading.reader.Reader.problems`, ``output`` (omitted bytes, by
    stream) and ``forward`` (counts below `FORWARD`, by destination).
    """
    found = dict(view.problems())  # not from the attributes, which any client may write
    paths = [
        path
        for path in view.families()
        if path.rpartition("/")[2] in _OUTPUT or is_inside(path, FORWARD)
    ]
    for one in view.some(paths) if paths else ():
        if is_inside(one.path, FORWARD):
            place, _, kind = one.path.removeprefix(f"{FORWARD}/").partition("/")
            found.setdefault("forward", {}).setdefault(place, {})[kind] = one.value
        elif type(one.value) is int and one.value > 0:
            sizes, stream = found.setdefault("output", {}), _OUTPUT[one.path.rpartition("/")[2]]
            sizes[stream] = sizes.get(stream, 0) + one.value
    return found


def last_record_of(journals: Iterable[JournalInfo], modified: Any) -> Any:
    """Return the time of the last record of the run's own processes, else ``modified``."""
    own = [
        one.last_t
        for one in journals
        if one.last_t and (one.header.get("owner", True) or one.header.get("rank"))
    ]
    return time_of(max(own)) if own else modified


def attempts_of(
    view: Reader, journals: Iterable[JournalInfo], attributes: Iterable[Attribute]
) -> dict[str, Any]:
    """Return the number of attempts of a training and the step after which the last one resumed.

    Empty if there is one attempt. Otherwise ``count``; ``anew`` if the last attempt started from
    scratch; and ``resumed_after``, the last step kept from earlier attempts, if there is one.
    """
    headers = [one.header for one in journals]
    numbers = {
        one for header in headers if isinstance(one := header.get("attempt"), int) and one >= 0
    }
    if len(numbers) < 2:  # noqa: PLR2004 - once
        return {}
    last = max(numbers)
    found: dict[str, Any] = {"count": len(numbers)}
    if not any(one.get("positions") for one in headers if one.get("attempt") == last):
        return {**found, "anew": True}
    series = [one for one in attributes if one.family == "float_series" and one.value.count]
    longest = max(series, key=lambda one: (one.value.last_step, one.value.count), default=None)
    if longest is None:
        return found
    points = view.points(longest.path)
    before = points.step[(points.attempt >= 0) & (points.attempt < last)]
    return {**found, "resumed_after": float(before.max())} if len(before) else found


def code_of(attributes: Iterable[Attribute]) -> dict[str, Any]:
    """Return facts about the executed code and its changes since the commit.

    The keys are ``entrypoint``, ``commit``, ``branch``, ``version``; ``files_changed``, or
    ``dirty`` if their number is unknown; ``diff``: ``"kept"`` or ``"partly"``.
    """
    found = {one.path: one for one in attributes if is_inside(one.path, "source_code")}
    values = {path: one.value for path, one in found.items() if one.family == "atom"}
    code: dict[str, Any] = {}
    for name, path in _TEXTS_OF_CODE.items():
        one = found.get(f"source_code/{path}")
        if one is not None and isinstance(one.value, str) and one.value:
            code[name] = one.value
    files = values.get("source_code/git/files_changed")
    if isinstance(files, int) and files > 0:
        code["files_changed"] = files
        diff = found.get("source_code/diff")
        if diff is not None and diff.family == "file":
            code["diff"] = "partly" if "source_code/diff_left_out" in values else "kept"
    elif values.get("source_code/git/dirty") is True:
        code["dirty"] = True
    return code


def distribution_of(attributes: Iterable[Attribute]) -> dict[str, int | str]:
    """Return the values below ``distributed/``, by the last part of the path."""
    return {
        one.path.rpartition("/")[2]: one.value
        for one in attributes
        if is_inside(one.path, "distributed")
        and one.family == "atom"
        and isinstance(one.value, int | str)
    }


def environment_of(
    journals: Sequence[JournalInfo], attributes: Sequence[Attribute]
) -> dict[str, str]:
    """Return the environment recorded by the latest process that owned the run."""
    writers = {one.writer: one for one in journals}
    owners = owning_processes(one.header for one in writers.values())
    paths = {one.path for one in attributes}
    found: dict[str, dict[str, str]] = {}
    for one in attributes:
        space, _, name = one.path.partition(_ENVIRONMENT_PART)
        if name and f"{space}/pid" in paths and isinstance(one.value, str):
            found.setdefault(space, {})[name] = one.value

    def order(space: str) -> tuple[bool, int, int]:
        one = writers.get(space.rpartition("/")[2])
        owner = one is not None and process_of(one.header) in owners
        rank = one.header.get("rank") if one is not None else 0
        return owner, -rank if isinstance(rank, int) else 0, one.last_t if one is not None else 0

    return found[max(found, key=order)] if found else {}


PROGRESS: Final = "sys/progress"
"""Path of the progress: JSON with an object per loop, outer loops first."""
_MAX_LOOPS: Final = 20
"""Maximum number of loops shown; any client may write the record."""
_LONGEST: Final = 200
"""Maximum length of the name of a loop, in characters."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Progress of one loop.

    ``done`` includes iterations before a resume. ``total`` and ``remaining_s``, estimated from the
    current pace, may be unknown. ``elapsed_s`` is measured from the start in this process.
    """

    name: str
    done: int
    total: int | None
    elapsed_s: float
    remaining_s: float | None


def loops_of(value: Any) -> list[Loop]:
    """Return the loops in a value at `PROGRESS`; invalid ones are left out."""
    given = value[:_MAX_LOOPS] if isinstance(value, list) else []
    return [loop for each in given if (loop := _loop_of(each)) is not None]


def _loop_of(record: Any) -> Loop | None:
    if not isinstance(record, Mapping) or not isinstance(record.get("name"), str):
        return None
    done, total = record.get("done"), record.get("total")
    if type(done) is not int or not (total is None or type(total) is int):
        return None
    left = _seconds(record.get("remaining_s"))
    return Loop(
        record["name"][:_LONGEST], done, total, _seconds(record.get("elapsed_s")) or 0.0, left
    )


def _seconds(value: Any) -> float | None:
    is_number = type(value) in (int, float) and math.isfinite(value) and value >= 0
    return float(value) if is_number else None


def progress_words(loops: Sequence[Loop]) -> str:
    """Return a text such as ``"epoch 3/10, batch 120/500, about 2 h 3 min left"``."""
    words = [
        f"{one.name} {one.done:,}" + ("" if one.total is None else f"/{one.total:,}")
        for one in loops
    ]
    # Of the outermost loop with a known end.
    left = next((one.remaining_s for one in loops if one.remaining_s is not None), None)
    if left:
        words.append(f"about {duration_words(left)} left")
    return ", ".join(words)


_SETTINGS: Final = "trainer"
"""Namespace in which the Lightning adapter records the arguments of the Trainer."""
_RANKS: Final = re.compile(r"(?:^|/)ranks(?=/\d+/)")
_BEST_PATH: Final = "best_model_path"
_BEST_SCORE: Final = "best_model_score"


class CheckpointNote(NamedTuple):
    """Note on a checkpoint, derived from the run's values at the paths ``told_by``.

    ``mark`` is ``"best"``, or ``"newest"`` for a callback that monitors no score; ``score`` is a
    text such as ``"val/loss 0.026759"``. Both may be empty.
    """

    mark: str
    score: str
    told_by: tuple[str, ...]

    @property
    def words(self) -> str:
        """Text of the note in a table."""
        return ": ".join(filter(None, (self.mark, self.score)))


def is_checkpoint(attribute: Attribute) -> bool:
    """Return whether an attribute is a checkpoint file, judged by its path or extension."""
    return attribute.family == "file" and (
        "/checkpoints/" in f"/{attribute.path}/"
        or attribute.value.get("ext") in {"ckpt", "pt", "pth"}
    )


def is_parameter(attribute: Attribute) -> bool:
    """Return whether an attribute is a hyperparameter."""
    return attribute.family == "atom" and holds_parameters(attribute.path)


def space_of(path: str) -> str | None:
    """Return the namespace of paths that listings only count by default, else None."""
    if found := _RANKS.search(path):
        return path[: found.end()]
    parts = path.split("/")
    if _SETTINGS in parts[:-1][:2]:
        return "/".join(parts[: parts.index(_SETTINGS) + 1])
    space = aside(path)
    return None if space == "source_code" else space


def by_importance(series: Iterable[Attribute], best: Mapping[str, str]) -> list[Attribute]:
    """Return series by importance: monitored ones, losses and scores, others, counters."""
    return sorted(
        series,
        key=lambda one: (is_counter(one.path), one.path not in best, metric_order(one.path)),
    )


def best_extremes(attributes: Sequence[Attribute]) -> dict[str, Literal["min", "max"]]:
    """Return the best extreme of each series that checkpoint callbacks monitored.

    The recorded score of the best checkpoint is an extreme of the monitored series. Ambiguous
    scores are ignored.
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
            elif value in (one.value.min, -one.value.min):  # Ignite maximizes -loss
                fits[one.path] = "min"
        if len(fits) == 1:
            found.update(fits)
    return found


def _scores(attributes: Sequence[Attribute]) -> Iterable[tuple[str, float]]:
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    for path, value in atoms.items():
        if path.rpartition("/")[2] == _BEST_SCORE and _is_number(value):
            yield "", float(value)
    for (_, _, name), scores in _scores_by_group(attributes).items():
        yield name, max(scores.values())


def _scores_by_group(
    attributes: Sequence[Attribute],
) -> dict[tuple[str, str, str], dict[str, float]]:
    # The keys are folder, file name and name of the score.
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
    """Return the notes on the checkpoints, by path."""
    files = {one.path: one for one in attributes if is_checkpoint(one)}
    atoms = {one.path: one.value for one in attributes if one.family == "atom"}
    below: dict[str, list[str]] = {path: [] for path in files}
    for path in atoms:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if (above := "/".join(parts[:depth])) in below:
                below[above].append(path)
    notes = {path: CheckpointNote("", "", tuple(paths)) for path, paths in below.items()}
    for (_, _, name), scores in _scores_by_group(attributes).items():
        for path, score in scores.items():
            mark = "best" if score == max(scores.values()) else ""
            notes[path] = notes[path]._replace(mark=mark, score=f"{name} {human_number(score)}")
    for path, value in atoms.items():
        space, _, name = path.rpartition("/")
        if name != _BEST_PATH or not isinstance(value, str):
            continue
        for file in files.values():
            if is_inside(file.path, f"{space}/checkpoints") and _is_located_at(file, space, value):
                score_path = f"{space}/{_BEST_SCORE}"
                paths = tuple(one for one in (path, score_path) if one in atoms)
                words = _score_words(atoms.get(score_path), space, attributes, best)
                paths = (*notes[file.path].told_by, *paths)
                notes[file.path] = CheckpointNote("best" if words else "newest", words, paths)
    return notes


def _is_located_at(file: Attribute, space: str, location: str) -> bool:
    # The file may have been moved since.
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


_SPACE: Final = "monitoring"
_FACTS: Final = "environment"
_LONGEST_NAME: Final = 60
_TIMES: Final = "\N{MULTIPLICATION SIGN}"
_NUMBERS: Final = ("cpu", "memory", "process_memory", "gpu", "gpu_memory")
_AMOUNTS: Final = frozenset({"memory", "memory_limit", "process_memory", "gpu_memory"})
_MIN_PLAUSIBLE: Final = 0.001
_MAX_GIB: Final = 2.0**20
_MAX_DEVICES: Final = 100_000
_MAX_PERCENT: Final = 100.5
"""Maximum plausible utilization, in percent (rounded)."""
_DIGITS: Final = 4


@dataclass(slots=True)
class _Machine:
    facts: dict[str, object] = field(default_factory=dict)
    series: dict[str, dict[str, SeriesSummary]] = field(default_factory=dict)

    def number(self, name: str) -> float | None:
        value = self.facts.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        most = _MAX_GIB if name in _AMOUNTS else _MAX_DEVICES
        return float(value) if _MIN_PLAUSIBLE <= value <= most else None

    def text(self, name: str) -> str:
        return shorten(" ".join(str(self.facts.get(name) or "").split()), _LONGEST_NAME)

    @property
    def memory(self) -> float | None:
        """Memory that the process may use, in GiB; None if unknown."""
        return self.number("memory_limit") or self.number("memory")


def machine_lines(
    attributes: Iterable[Attribute], ranks: Sequence[RankStatus]
) -> Iterator[tuple[str, str]]:
    """Yield labels and texts of the machine of rank 0 and its load."""
    machines = _machines(attributes)
    machine = _machine_of_rank_zero(machines, ranks)
    if what := _describe_hardware(machine):
        yield "machine", what
    if load := _load(machine, now=False):
        measured = sum(bool(one.series) for one in machines.values())
        more = f"; {plural(measured - 1, 'more process', 'more processes')}" if measured > 1 else ""
        yield "load", load + more


def machine_now(attributes: Iterable[Attribute], ranks: Sequence[RankStatus]) -> str:
    """Return the current load of the machine of rank 0; empty if it is not recorded."""
    return _load(_machine_of_rank_zero(_machines(attributes), ranks), now=True)


def _machines(attributes: Iterable[Attribute]) -> Mapping[str, _Machine]:
    found: dict[str, _Machine] = {}
    for one in attributes:
        parts = one.path.split("/")
        if parts[0] != _SPACE:
            continue
        if one.family == "atom" and len(parts) == 4 and parts[2] == _FACTS:  # noqa: PLR2004
            found.setdefault(parts[1], _Machine()).facts[parts[3]] = one.value
        elif one.family == "float_series" and len(parts) == 3 and one.value.count:  # noqa: PLR2004
            name, _, number = parts[2].rpartition("_")
            if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS):
                name, number = parts[2], ""
            if name in _NUMBERS:
                series = found.setdefault(parts[1], _Machine()).series
                series.setdefault(name, {})[number] = one.value
    return found


def _machine_of_rank_zero(
    machines: Mapping[str, _Machine], ranks: Sequence[RankStatus]
) -> _Machine:
    writers = [writer for one in ranks if not one.rank for writer in one.writers]
    known = {writer for one in ranks for writer in one.writers}
    order = [*writers, *(name for name in machines if name not in known)]
    return next((machines[name] for name in order if name in machines), _Machine())


def _describe_hardware(machine: _Machine) -> str:
    """Return a text such as ``"8 of 64 CPUs (AMD EPYC), 16 of 64 GiB, NVIDIA H100"``."""
    words = []
    count, usable = machine.number("cpu_count"), machine.number("cpu_usable")
    if count is not None:
        part = f"{human_number(usable, 3)} of " if usable is not None and usable < count else ""
        name = machine.text("cpu")
        words.append(f"{part}{plural(int(count), 'CPU')}" + (f" ({name})" if name else ""))
    whole, limit = machine.number("memory"), machine.number("memory_limit")
    if whole is not None:
        words.append(_memory_text(limit, whole) if limit is not None else f"{_gib_text(whole)} GiB")
    gpus = machine.number("gpu_count")
    if gpus is not None and machine.text("gpu"):
        words.append((f"{gpus:.0f} {_TIMES} " if gpus > 1 else "") + machine.text("gpu"))
    return ", ".join(words)


def _load(machine: _Machine, *, now: bool) -> str:
    mean, most = ("last", "last") if now else ("mean", "max")
    average, up_to = ("", "") if now else (" on average", "up to ")
    words = []
    if cpu := _plausible_values(machine, "cpu", mean):
        words.append(f"CPU {_percent_text(cpu)}{average}")
    if memory := _plausible_values(machine, "memory", most):
        words.append(f"memory {up_to}{_memory_text(memory[0], machine.memory)}")
    elif own := _plausible_values(machine, "process_memory", most):
        words.append(f"memory of its processes {up_to}{_gib_text(own[0])} GiB")
    busy, used = (
        _plausible_values(machine, "gpu", mean),
        _plausible_values(machine, "gpu_memory", most),
    )
    count = len(busy or used)
    name = f"{count} GPUs " if count > 1 else "GPU "
    if busy:  # lowest to highest utilization
        words.append(f"{name}{_percent_text(busy)}{average}")
        name = ""
    if used:
        words.append(f"{name}{up_to}{_memory_text(max(used), machine.number('gpu_memory'))}")
    return ", ".join(words)


def _plausible_values(machine: _Machine, name: str, what: str) -> list[float]:
    found = [getattr(one, what) for one in machine.series.get(name, {}).values()]
    most = _MAX_GIB if name in _AMOUNTS else _MAX_PERCENT
    return [value for value in found if 0 <= value <= most]


def _percent_text(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _memory_text(used: float, whole: float | None) -> str:
    return (
        f"{_gib_text(used)} of {_gib_text(whole)} GiB"
        if whole is not None
        else f"{_gib_text(used)} GiB"
    )


def _gib_text(gib: float) -> str:
    return human_number(round(gib, 2 if gib < 100 else 0), 3)  # noqa: PLR2004
