"""What is known about one run or one attribute, in words."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from seamark.cli._checks import COPY
from seamark.cli._json import dumps
from seamark.cli._ranks import rank_facts, rank_troubles
from seamark.cli._screen import STATE_STYLES, Screen, note
from seamark.cli._text import (
    clean,
    csv_safe,
    human_age,
    human_bytes,
    human_duration,
    human_number,
    human_time,
    int_text,
    plural,
    shorten,
    step_text,
)
from seamark.reading.names import generated_name
from seamark.reading.points import time_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seamark.cli._runs import RunRef
    from seamark.journal.folder import RunFolder
    from seamark.local.view import RunView
    from seamark.reading.attributes import Attribute

__all__ = [
    "details",
    "exact_text",
    "extreme_text",
    "file_place",
    "file_words",
    "full_text",
    "indented",
    "last_text",
    "print_facts",
    "short_text",
    "span_text",
    "sparkline",
    "text_or_record",
    "time_text",
    "value_mapping",
    "value_text",
    "whereabouts",
    "whole_text",
]

_SETS: Final = ("sys/tags", "sys/group_tags", "sys/masked")
_BARS: Final = "▁▂▃▄▅▆▇█"
_LABEL: Final = 12
_LISTED: Final = 8
_LONGEST_REASON: Final = 300
_LOST: Final = {
    "atom": ("value", "values"),
    "capture": ("captured fact", "captured facts"),
    "checkpoints": ("checkpoint", "checkpoints"),
    "disk": ("value that the disk did not take", "values that the disk did not take"),
    "file": ("file", "files"),
    "histogram": ("histogram", "histograms"),
    "metrics": ("call of log_metrics", "calls of log_metrics"),
    "path": ("value at a path that cannot hold it", "values at paths that cannot hold them"),
    "record": ("record", "records"),
    "series": ("series", "series"),
    "step": ("value without a legal step", "values without a legal step"),
    "value": ("value that is no number", "values that are no numbers"),
    "source_files": ("source file", "source files"),
}
"""What was lost, in a person's words, by the reason under which a writer counts it."""


def value_mapping(value: Any) -> Any:
    """Return an attribute's value for JSON: summaries of series as mappings, the rest as it is."""
    return (
        dataclasses.asdict(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type)
        else value
    )


def value_text(value: Any, *, exact: bool) -> str:
    """Return a value in one line, safe to print.

    Args:
        value: A decoded atom, or a set of strings.
        exact: Numbers with all their digits, times as ISO 8601, instead of what is quickly read.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if exact else human_number(value, 6)
    if isinstance(value, int):
        return int_text(value) if exact else human_number(value)
    if isinstance(value, datetime):
        return value.isoformat() if exact else human_time(value)
    if isinstance(value, set | frozenset):
        return ", ".join(clean(str(item)) for item in sorted(value))
    if isinstance(value, str):
        return clean(value)
    return clean(json.dumps(value, ensure_ascii=False, default=str))


def exact_text(value: Any) -> str:
    """Return a value for a CSV file: texts `csv_safe`, numbers with all digits, "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return csv_safe(value)
    if isinstance(value, list | tuple | Mapping):
        return dumps(value, indent=None)
    text = value_text(value, exact=True)
    return csv_safe(text) if isinstance(value, set | frozenset) else text


def short_text(attribute: Attribute, *, exact: bool) -> str:
    """Return the value of an atom or a string set in one line."""
    if attribute.type == "text" and isinstance(attribute.value, Mapping):
        return f"text of {human_bytes(attribute.value.get('size', 0))}"
    return value_text(attribute.value, exact=exact)


def full_text(view: RunView, attribute: Attribute) -> str:
    """Return the value of an atom as lines: JSON indented, texts with their line feeds."""
    value = attribute.value
    if isinstance(value, str) or attribute.type == "text":
        return whole_text(view, value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str, indent=2)
    return short_text(attribute, exact=True)


def time_text(time_ns: int) -> str:
    """Return a time, given in nanoseconds since the Unix epoch, in this computer's time zone."""
    return human_time(datetime.fromtimestamp(time_ns / 1e9, tz=timezone.utc))


def whole_text(view: RunView, text: str | Mapping[str, Any]) -> str:
    """Return a text in full; a very long one is kept as a file of the run.

    Raises:
        FileMissingError: If that file is not there.
    """
    if isinstance(text, str):
        return text
    from seamark.blobs import read_text

    return read_text(view.folder, text)


def text_or_record(view: RunView, text: str | Mapping[str, Any], path: str) -> Any:
    """Return a text in full; where it is not there, what stands for it, and say so."""
    try:
        return whole_text(view, text)
    except OSError as error:
        note(f"{view.folder.run}: {path}: {error}; its record is used instead", style="warning")
        return dict(text) if isinstance(text, Mapping) else text


def extreme_text(value: float, number: Callable[[float], str]) -> str:
    """Return the smallest or largest finite value of a series; a dash where none is finite."""
    return "—" if math.isnan(value) else number(value)


def span_text(summary: Any) -> str:
    """Return the first and last step of a series: ``"0…1,874"``."""
    if not summary.count:
        return ""
    first, last = step_text(summary.first_step), step_text(summary.last_step)
    return first if first == last else f"{first}…{last}"


def last_text(attribute: Attribute) -> str:
    """Return the last point of a series of texts, files or histograms in one line."""
    last = attribute.value.last
    if isinstance(last, str):
        return clean(last)
    if isinstance(last, Mapping):
        return clean(str(last.get("name") or last.get("ext") or "file"))
    if isinstance(last, Sequence) and last:
        return f"{len(last[-1])} bins"
    return ""


def sparkline(values: NDArray[np.float64], width: int) -> str:
    """Return a curve as one line of up to ``width`` cells; ``·`` where nothing is finite."""
    import numpy as np

    if not len(values):
        return ""
    parts = np.array_split(values, min(width, len(values)))
    finite = [part[np.isfinite(part)] for part in parts]
    heights = [float((part / len(part)).sum()) if len(part) else math.nan for part in finite]
    known = [height for height in heights if math.isfinite(height)]
    if not known:
        return "·" * len(heights)
    low, span = min(known), (max(known) / 2 - min(known) / 2)
    top = len(_BARS) - 1
    return "".join(
        "·"
        if math.isnan(height)
        else _BARS[round((height / 2 - low / 2) / span * top) if span > 0 else 0]
        for height in heights
    )


# Files


def file_words(view: RunView, attribute: Attribute) -> tuple[str, str, str]:
    """Return size, whereabouts and name of a file, a file set or an artifact.

    The whereabouts are ``kept`` (in the run folder), ``reference`` (where it was recorded),
    ``gone`` or ``changed`` (a reference into the run folder, or one that you recorded on this host,
    to something that is no longer the same; of others nothing is looked at), ``pending``
    (bytes taken, digest not written yet), or ``missing`` (should be kept and is not).
    The name of a reference is where it leads: into the run folder as it is now, if it was recorded
    there, wherever the folder has been moved or copied since.
    """
    value = attribute.value
    if attribute.family == "file_set":
        size = sum(member.get("size", 0) for member in value.values())
        return human_bytes(size), "kept", plural(len(value), "file")
    if attribute.family == "artifact":
        files = value.get("files", [])
        size = sum(member.get("size") or 0 for member in files)
        words = plural(len(files) + len(value.get("references", [])), "file")
        return human_bytes(size), value.get("kind", "tracked"), words
    size = human_bytes(value["size"]) if isinstance(value.get("size"), int) else ""
    return size, whereabouts(view, value), _referred(view, value) or _file_name(value)


def file_place(view: RunView, name: str) -> str:
    """Return where a file is, relative to the run's folder if it lies in there."""
    return name.removeprefix(f"{view.folder.path.absolute()}/")


def _file_name(record: Mapping[str, Any]) -> str:
    name, ending = str(record.get("name") or "file"), record.get("ext")
    return name if not ending or name.endswith(f".{ending}") else f"{name}.{ending}"


def whereabouts(view: RunView, record: Mapping[str, Any]) -> str:
    """Return where the content of one FILE record is; see `file_words`."""
    from seamark.blobs.inside import find_inside, is_below
    from seamark.blobs.store import has_blob

    if reference := record.get("ref"):
        if (found := find_inside(view.folder, record)) is not None:
            moved = not is_below(view.folder, str(reference))
            return "reference" if _is_same(found.status, record, moved=moved) else "changed"
        return _reference_state(str(reference), record) if _ours(view.folder) else "reference"
    if record.get("pending"):
        return "pending"
    if digest := record.get("sha256"):
        return "kept" if has_blob(view.folder, str(digest)) else "missing"
    return "kept"


def _referred(view: RunView, record: Mapping[str, Any]) -> str:
    """Return where a FILE record leads now; empty if it is no reference."""
    from seamark.blobs.inside import find_inside, is_below

    reference = str(record.get("ref") or "")
    if reference and not is_below(view.folder, reference):
        found = find_inside(view.folder, record)
        return reference if found is None else str(found.path)
    return reference


@functools.lru_cache(maxsize=16)
def _ours(folder: RunFolder) -> bool:
    """Return whether what a run refers to may be looked at; see `seamark.blobs.are_ours`."""
    from seamark.blobs import are_ours

    return are_ours(folder)


def _reference_state(reference: str, record: Mapping[str, Any]) -> str:
    if "://" in reference:
        return "reference"
    try:
        found = Path(reference).stat()
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except (OSError, ValueError):
        return "reference"
    return "reference" if _is_same(found, record, moved=False) else "changed"


def _is_same(found: os.stat_result, record: Mapping[str, Any], *, moved: bool) -> bool:
    """Return whether what a reference leads to looks like what was recorded.

    Args:
        found: Its status.
        record: FILE record.
        moved: The run folder is a copy or was moved; copies have times of their own.
    """
    return bool(record.get("dir")) or (
        found.st_size == record.get("size", found.st_size)
        and (moved or found.st_mtime_ns == record.get("mtime_ns", found.st_mtime_ns))
    )


def details(view: RunView, attribute: Attribute) -> Iterator[tuple[str, str]]:
    """Yield what is known about an attribute other than an atom or a series of numbers or texts."""
    yield "path", attribute.path
    yield "family", attribute.family.replace("_", " ")
    value = attribute.value
    if attribute.family == "string_set":
        yield "members", ", ".join(sorted(value))
    elif attribute.family == "file":
        yield from _file_details(view, value)
    elif attribute.family == "file_set":
        for name, member in sorted(value.items()):
            yield human_bytes(member.get("size", 0)), name
    elif attribute.family == "artifact":
        yield "kind", str(value.get("kind", "tracked"))
        for reference in value.get("references", []):
            yield "reference", str(reference)
        for member in value.get("files", []):
            yield human_bytes(member.get("size") or 0), str(member["path"])
    elif attribute.family == "file_series":
        for point in view.files(attribute.path):
            size, where = human_bytes(point.file.get("size") or 0), whereabouts(view, point.file)
            yield f"step {step_text(point.step)}", f"{_file_name(point.file)}  {size}  {where}"
    else:
        yield "points", f"{attribute.value.count:,}"
        yield "steps", span_text(attribute.value)
        yield "last", last_text(attribute)


def _file_details(view: RunView, record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from seamark.blobs.store import blob_path

    where = whereabouts(view, record)
    yield "name", _file_name(record)
    if isinstance(record.get("size"), int):
        yield "size", f"{record['size']:,} bytes"
    yield "where", where
    if "ref" in record:
        yield "refers to", str(record["ref"])
        if (place := _referred(view, record)) != str(record["ref"]):
            yield "is at", place
    if digest := record.get("sha256"):
        yield "sha256", str(digest)
        if "ref" not in record:
            yield "stored at", str(blob_path(view.folder, str(digest)))
    for name, member in sorted((record.get("members") or {}).items()):
        yield human_bytes(member[0] or 0), name


# The run as a whole


def print_facts(
    screen: Screen, ref: RunRef, view: RunView, more: Iterable[tuple[str, str]] = ()
) -> None:
    """Print the facts of a run, and in bold what went wrong with it.

    Args:
        screen: Where to print.
        ref: The run.
        view: What reads it.
        more: Labels and texts of further facts; they are broken into lines, not cut short.
    """
    facts = {one.path: one.value for one in view.attributes("sys") if _is_fact(one)}
    now = datetime.now(timezone.utc)
    state = str(facts.get("sys/state", "unknown"))
    name = facts.get("sys/name")
    screen.styled(
        [
            (clean(str(name)), "bold") if name else (generated_name(ref.run), "dim"),
            ("  ", ""),
            (state, STATE_STYLES.get(state, "")),
            ("  trashed" if facts.get("sys/trashed") else "", "yellow"),
        ]
    )
    for trouble in troubles(view, facts):
        screen.line(f"! {indented(trouble, 2)}", style="bold red")
    for label, text in _fact_lines(screen, ref, view, facts, now):
        screen.styled([(f"{label:<{_LABEL}}", "dim"), (indented(text, _LABEL), "")])
    for label, text in more:
        lines = textwrap.wrap(clean(text), max(20, screen.width - _LABEL)) or [""]
        for at, line in enumerate(lines):
            screen.styled([(f"{'' if at else label:<{_LABEL}}", "dim"), (line, "")])


def indented(text: str, width: int) -> str:
    """Return a text whose further lines are indented, so that none looks like a line of ours."""
    return text.replace("\n", "\n" + " " * width)


def _is_fact(attribute: Attribute) -> bool:
    """Whether what is below ``sys`` is what belongs there; anybody may have written it."""
    wanted = "string_set" if attribute.path in _SETS else "atom"
    return attribute.family == wanted


def _fact_lines(
    screen: Screen, ref: RunRef, view: RunView, facts: Mapping[str, Any], now: datetime
) -> Iterator[tuple[str, str]]:
    yield "run", str(ref)
    yield from _given_lines(facts)
    moments = {"created": facts.get("sys/creation_time"), **_changes(view, facts)}
    for label, moment in moments.items():
        if isinstance(moment, datetime):
            yield (
                label,
                f"{human_time(moment)} ({human_age(moment, now)})"
                if screen.terminal
                else human_time(moment),
            )
    if isinstance(facts.get("sys/running_time"), int | float):
        yield "ran for", human_duration(float(facts["sys/running_time"]))
    if attempts := _attempts(view):
        yield "attempts", attempts
    if facts.get("sys/hostname"):
        on = _devices(view)
        yield "host", str(facts["sys/hostname"]) + (f" ({on})" if on else "")
    yield from rank_facts(view, str(facts.get("sys/state")))
    if hidden := sorted(facts.get("sys/masked") or ()):
        yield "masked", f"{plural(len(hidden), 'value')} ({_listed(hidden)})"
    yield "folder", str(view.folder.path)


def _changes(view: RunView, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return when the run itself last recorded something, and when others changed it after that.

    A tag that somebody adds to a dead run does not make it look alive.
    """
    modified = facts.get("sys/modification_time")
    headers = [(one.header, one.last_t) for one in view.journals()]
    own = [t_ns for head, t_ns in headers if head.get("owner", True) or head.get("rank")]
    last = time_of(max(own)) if own else modified
    edited = isinstance(modified, datetime) and modified != last
    return {"last record": last, **({"edited": modified} if edited else {})}


def _given_lines(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what people gave the run beside its name."""
    for label, path in (("custom id", "sys/custom_run_id"), ("description", "sys/description")):
        if facts.get(path):
            yield label, str(facts[path])
    for label, path in (("tags", "sys/tags"), ("groups", "sys/group_tags")):
        if facts.get(path):
            yield label, ", ".join(sorted(facts[path]))


def _attempts(view: RunView) -> str:
    """Return how often the training was begun, and where the last attempt went on; "" if once."""
    headers = [one.header for one in view.journals()]
    numbers = {
        one for header in headers if isinstance(one := header.get("attempt"), int) and one >= 0
    }
    if len(numbers) < 2:  # noqa: PLR2004 - once
        return ""
    last = max(numbers)
    if not any(one.get("positions") for one in headers if one.get("attempt") == last):
        return f"{len(numbers):,} (the last began anew)"
    series = [one for one in view.attributes() if one.family == "float_series" and one.value.count]
    longest = max(series, key=lambda one: (one.value.last_step, one.value.count), default=None)
    if longest is None:
        return f"{len(numbers):,}"
    points = view.points(longest.path)
    before = points.step[(points.attempt >= 0) & (points.attempt < last)]
    kept = f" (resumed after step {_step(before.max())})" if len(before) else ""
    return f"{len(numbers):,}{kept}"


def _step(step: float) -> str:
    """Return a step to be read: ``4,000``."""
    text = step_text(step)
    return f"{int(text):,}" if text.lstrip("-").isdecimal() else text


def _devices(view: RunView) -> str:
    """Return what a training ran on: ``"1 process, cpu"``; "" if that was not recorded."""
    found = {
        one.path.rpartition("/")[2]: one.value
        for one in view.attributes("distributed")
        if one.family == "atom" and isinstance(one.value, int | str)
    }
    size, nodes = found.get("world_size"), found.get("nodes")
    if not isinstance(size, int):
        return ""
    words = [plural(size, "process", "processes")]
    if isinstance(nodes, int) and nodes > 1:
        words[0] += f" on {nodes:,} nodes"
    words += [str(found[name]) for name in ("accelerator",) if name in found]
    if size > 1 and "strategy" in found:
        words.append(str(found["strategy"]))
    if not str(found.get("precision", "32")).startswith("32"):
        words.append(f"precision {found['precision']}")
    return ", ".join(words)


def troubles(view: RunView, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each thing that a reader must know: a bad end, losses, damage."""
    state = facts.get("sys/state")
    if state == "crashed":
        yield "crashed: its process ended without reporting why (killed, or its host went down)"
    if state in {"failed", "interrupted"}:
        yield _ending(view, state)
    yield from rank_troubles(view, str(state))
    found = view.troubles()  # not the attributes: anybody may write them
    if dropped := found.get("dropped"):
        listed = ", ".join(_lost(reason, count) for reason, count in dropped.items())
        yield f"lost while recording: {listed}"
    if gaps := found.get("gaps"):
        size = sum(length for spans in gaps.values() for _, length in spans)
        where = plural(len(gaps), "journal")
        yield f"damaged: {human_bytes(size)} in {where} cannot be read (see: seamark fsck)"
    if errors := found.get("fold_errors"):
        count = plural(sum(errors.values()), "record")
        yield f"damaged: {count} cannot be applied (see: seamark fsck)"
    if newer := found.get("newer"):
        count = plural(len(newer), "journal")
        yield f"incomplete: {count} written by a newer Seamark; upgrade to see the rest"
    conflicts = found.get("conflicts", {})
    copies = [name for name in conflicts if name.startswith(COPY)]
    if kinds := {path: families for path, families in conflicts.items() if path not in copies}:
        yield f"written as two kinds of value, the later one is shown: {_listed(kinds)}"
    if copies:
        listed = ", ".join(name.removeprefix(COPY) for name in copies)
        yield f"not read: {listed} (differs from the journal that it is a copy of)"


def _lost(reason: str, count: int) -> str:
    """Return what was lost: ``"3 files"``; for a reason without words ``"mark 1"``."""
    return plural(count, *_LOST[reason]) if reason in _LOST else f"{reason} {count:,}"


def _ending(view: RunView, state: str) -> str:
    """Return how a run ended, and where to read more."""
    record = view.state_of_fold.state[1]
    error, signal = record.get("error"), record.get("signal")
    why = ""
    if isinstance(error, Mapping):
        why = f": {error.get('type')}: {error.get('message')}"
    elif signal:
        why = f" by {signal}"
    path = _traceback(view)
    where = f" (seamark show {view.folder.run} {path})" if path else ""
    return shorten(f"{state}{why}".splitlines()[0], _LONGEST_REASON) + where


def _traceback(view: RunView) -> str | None:
    """Return the path of the traceback that belongs to the run's end; None if there is none.

    Other ranks have others, and so have older attempts.
    """
    run = view.state_of_fold
    journals = {f"monitoring/{one.writer}/traceback": one for one in run.journals.values()}
    speakers = [one for one in journals.values() if one.uid == run.state[0][1]]

    def order(path: str) -> float:
        """Return when its process began; -1 for a process that did not set the run's state."""
        one = journals.get(path)
        if one is None or not speakers:
            return 0  # a namespace that somebody chose
        same = (one.header.get("rank"), one.attempt) == (
            speakers[0].header.get("rank"),
            speakers[0].attempt,
        )
        return float(one.first_t or 0) if same else -1

    paths = [a.path for a in view.attributes("monitoring") if a.path.endswith("/traceback")]
    best = max(paths, key=order, default=None)
    return None if best is None or order(best) < 0 else best


def _listed(value: Any) -> str:
    """Return the names that a mapping or a list holds."""
    names = [str(name) for name in value]
    return ", ".join(names[:_LISTED]) + (
        f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    )
