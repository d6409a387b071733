"""Text that describes lost or damaged data of a run; empty if there is none."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from seamark.cli._screen import Screen, listed
from seamark.cli.fsck import COPY
from seamark.reading.text import clean, human_bytes, plural
from seamark.remote.protocol import WORDS

_LOSS_NAMES: Final = {
    "atom": ("value", "values"),
    "capture": ("captured fact", "captured facts"),
    "checkpoints": ("checkpoint", "checkpoints"),
    "disk": ("value not written to disk", "values not written to disk"),
    "facts": ("fact about the training", "facts about the training"),
    "file": ("file", "files"),
    "histogram": ("histogram", "histograms"),
    "input": ("input", "inputs"),
    "mark": ("mark of a checkpoint", "marks of checkpoints"),
    "metrics": ("call of log_metrics", "calls of log_metrics"),
    "path": ("value of a wrong kind for its path", "values of a wrong kind for their paths"),
    "profiling": ("time of a profiler", "times of profilers"),
    "record": ("record", "records"),
    "series": ("series", "series"),
    "source_files": ("source file", "source files"),
    "state": ("change of the run's state", "changes of the run's state"),
    "step": ("value without a valid step", "values without a valid step"),
    "step_time": ("step time", "step times"),
    "sync": ("failed sync of data to disk", "failed syncs of data to disk"),
    "timestamp": ("invalid timestamp", "invalid timestamps"),
    "value": ("value that is not a number", "values that are not numbers"),
}
"""Singular and plural names of lost data, by the reason that the writer counts."""
_DISK_ADVICE: Final = (
    "the disk was full, over quota or failing: check it (df -h, quota) before the next run"
)
_LOG_ADVICE: Final = "the log of the training has a warning about the first one"
_ADVICE: Final = {
    "capture": _LOG_ADVICE,
    "checkpoints": "they may have been removed while being stored; " + _LOG_ADVICE,
    "disk": _DISK_ADVICE,
    "file": "they were missing or not readable when being stored; " + _LOG_ADVICE,
    "metrics": _LOG_ADVICE,
    "path": "a path holds only one kind of value; " + _LOG_ADVICE,
    "removed": "the run folder was removed while recording; earlier records may be lost",
    "step": "a step must be a finite number; " + _LOG_ADVICE,
    "sync": _DISK_ADVICE,
    "value": "log_metrics accepts numbers and tensors with one element; " + _LOG_ADVICE,
}
"""Advice for the user, by reason."""


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """Problem with the recorded data of a run; ``what`` is its data for programs.

    ``kind`` is ``"dropped"``, ``"output"``, ``"gaps"``, ``"fold_errors"``, ``"newer"``,
    ``"forward"``, ``"conflicts"``, ``"copies"``, ``"fork"`` or ``"tags"``.
    """

    kind: str
    text: str
    advice: tuple[str, ...]
    what: Any


def health_problems(found: Mapping[str, Any]) -> Iterator[HealthProblem]:
    """Yield lost, damaged and contradictory data from `seamark.reading.facts.health_of`."""
    if dropped := found.get("dropped"):
        words = {reason: _LOSS_NAMES.get(reason, (reason, reason)) for reason in dropped}
        text = ", ".join(plural(count, *words[reason]) for reason, count in dropped.items())
        advice = tuple(dict.fromkeys(_ADVICE[one] for one in dropped if one in _ADVICE))
        yield HealthProblem("dropped", f"lost while recording: {text}", advice, dropped)
    for stream, size in found.get("output", {}).items():
        text = f"left out: {human_bytes(size)} of {stream}, above the limit for output"
        advice = ("to keep more output: init_run(capture={'limit': ...})",)
        yield HealthProblem("output", text, advice, {stream: size})
    if gaps := found.get("gaps"):
        size = sum(length for spans in gaps.values() for _, length in spans)
        where = plural(len(gaps), "journal")
        text = f"damaged: {human_bytes(size)} in {where} cannot be read (see: seamark fsck)"
        advice = ("all other data is shown; if another copy of the run exists, copy it again",)
        yield HealthProblem("gaps", text, advice, gaps)
    if errors := found.get("fold_errors"):
        count = plural(sum(errors.values()), "record")
        text = f"damaged: {count} cannot be applied (see: seamark fsck)"
        yield HealthProblem("fold_errors", text, (), errors)
    if newer := found.get("newer"):
        count = plural(len(newer), "journal")
        text = f"incomplete: {count} written by a newer Seamark; upgrade to see the rest"
        yield HealthProblem("newer", text, (), newer)
    yield from _forwarded(found.get("forward", {}))
    yield from _contradictions(found.get("conflicts", {}))
    if fork := found.get("fork"):
        parent = clean(f"{fork.get('lacking')!r:.200}")
        text = f"incomplete: forked from a run that is not here, {parent}"
        advice = ("its series begin at the fork; put that run into the same project",)
        yield HealthProblem("fork", text, advice, fork)
    if tags := found.get("tags"):
        texts = [
            clean(
                f"{key} ({one.get('own')!r:.40} here, "
                f"{one.get('value')!r:.40} in {one.get('project')})"
            )
            for key, one in tags.items()
        ]
        text = (
            f"tags with another value in a parent project, which takes precedence: {listed(texts)}"
        )
        advice = ("delete the tags of the run, or change those of the project",)
        yield HealthProblem("tags", text, advice, tags)


def _forwarded(places: Mapping[str, Mapping[str, Any]]) -> Iterator[HealthProblem]:
    for place, losses in places.items():
        counts = {
            kind: losses[kind] for kind in WORDS if type(losses.get(kind)) is int and losses[kind]
        }
        if counts:
            text = (
                f"some data cannot be represented at {losses.get('to', place)}; it is complete here"
            )
            lines = tuple(f"{count:>7,}  {WORDS[kind]}" for kind, count in counts.items())
            yield HealthProblem("forward", text, lines, {place: counts})


def _contradictions(conflicts: Mapping[str, Any]) -> Iterator[HealthProblem]:
    copies = [name for name in conflicts if name.startswith(COPY)]
    if kinds := {path: families for path, families in conflicts.items() if path not in copies}:
        text = f"recorded as two kinds of value, the later one is shown: {listed(kinds)}"
        advice = ("let each process record to paths of its own",)
        yield HealthProblem("conflicts", text, advice, kinds)
    if copies:
        names = [name.removeprefix(COPY) for name in copies]
        text = (
            f"not read: {', '.join(names)} (a copy that differs from its journal; see: "
            "seamark fsck)"
        )
        yield HealthProblem("copies", text, (), names)


def print_health(screen: Screen, found: Iterable[HealthProblem]) -> None:
    found = list(found)
    if not found:
        return
    screen.heading("Health")
    for one in found:
        screen.line(f"! {one.text}", style="bold red")
        for advice in one.advice:
            for line in textwrap.wrap(clean(advice), max(20, screen.width - 2)):
                screen.line(f"  {line}")


def loss_summary(losses: Mapping[str, int]) -> str:
    """Return the losses of a run (`losses_of`) for a table: ``"1 gap, 12 lost"``."""
    words = (("gaps", "gap"), ("errors", "damaged record"))
    found = [plural(losses[name], noun) for name, noun in words if losses.get(name)]
    if count := losses.get("dropped"):
        found.append(f"{count:,} lost")
    return ", ".join(found)
